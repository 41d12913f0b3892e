"""The route table: clusters, brokers, their liveness and their topics; pure.

A broker's connection is an opaque handle here, the time comes in as milliseconds of any clock that
never goes back, and what has to be sent comes out as Notices.

| table    | key                | value                                                    |
|----------|--------------------|----------------------------------------------------------|
| clusters | cluster            | broker names                                             |
| brokers  | broker name        | BrokerData: cluster, addresses by id (0 is the master)   |
| live     | (cluster, address) | last sign of life, timeout, DataVersion, connection      |
| filters  | (cluster, address) | filter servers                                           |
| topics   | topic, broker name | QueueData and queue mapping (topics.py)                  |
"""

import logging
from dataclasses import dataclass

from msgspec.structs import replace

from roketto.namesrv.config import NamesrvConfig
from roketto.namesrv.topics import PERM_WRITE, TopicTable
from roketto.protocol.bodies.registration import RegisterBrokerBody
from roketto.protocol.bodies.route import (
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicRouteData,
)
from roketto.protocol.bodies.topics import DataVersion, TopicConfig
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.namesrv import (
    NotifyMinBrokerIdChangeRequest,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from roketto.protocol.limits import BROKERS_MAX, ROUTE_ENTRIES_MAX

log = logging.getLogger(__name__)

MASTER_ID = 0
EXPIRY_MS = 120_000
"""How long a broker that names no timeout may be silent."""

_SYNC_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
_Member = tuple[str, str]  # cluster, address


@dataclass(frozen=True, slots=True)
class Registration:
    """One REGISTER_BROKER: what it says, over which connection, when."""

    header: RegisterBrokerRequest
    body: RegisterBrokerBody
    connection: object
    now_ms: int

    @property
    def member(self) -> _Member:
        return (self.header.cluster_name, self.header.broker_addr)

    @property
    def version(self) -> DataVersion:
        return self.body.topic_config_serialize_wrapper.data_version


@dataclass(slots=True)
class Live:
    """The last sign of life of a broker address, and the broker names it registered under."""

    updated_ms: int
    timeout_ms: int
    version: DataVersion
    connection: object
    ha_server_addr: str
    names: set[str]


@dataclass(frozen=True, slots=True)
class Notice:
    """Tell these brokers that the smallest id of their group changed (905)."""

    addresses: list[str]
    header: NotifyMinBrokerIdChangeRequest


class RouteTable:
    """All that a name server knows of its brokers."""

    def __init__(self, config: NamesrvConfig) -> None:
        self._config = config
        self._clusters: dict[str, set[str]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._live: dict[_Member, Live] = {}
        self._filters: dict[_Member, list[str]] = {}
        self.topics = TopicTable()

    # --- registration -----------------------------------------------------------------------------

    def register(self, said: Registration) -> tuple[RegisterBrokerResponse, list[Notice]]:
        """Take a broker's registration, or raise RequestError and leave everything as it was."""
        header = said.header
        name, broker_id, address = header.broker_name, header.broker_id, header.broker_addr
        topic_count = len(said.body.topic_config_serialize_wrapper.topic_config_table)
        self._check_room(said)
        broker = self._brokers.get(name) or BrokerData(broker_name=name, cluster=said.member[0])
        # An address has one id: a slave that became the master leaves its old one.
        members = {i: a for i, a in broker.broker_addrs.items() if a != address or i == broker_id}
        holder = members.get(broker_id)
        if self._is_outdated(said, holder):
            log.warning(
                "ignored %.255r of %.255r: %.255r has a newer state", said.member, name, holder
            )
            self._set_members(broker, members)
            self._live.pop(said.member, None)
            return RegisterBrokerResponse(), []
        if holder is None and topic_count == 1:
            # One topic is what a broker sends after a change; it has to announce itself first.
            raise RequestError(ResponseCode.SYSTEM_ERROR, "register broker failed")

        smallest = min(broker.broker_addrs, default=MASTER_ID)
        members[broker_id] = address
        self._brokers[name] = broker
        self._clusters.setdefault(header.cluster_name, set()).add(name)
        self._describe(broker, bool(header.enable_acting_master), header.zone_name)
        self._set_members(broker, members)
        self._take_topics(said, broker, is_first=not holder)
        self._note_live(said)
        self._set_filters(said.member, said.body.filter_server_list)
        notices = []
        if broker_id < smallest and self._config.notify_min_broker_id_changed:
            notices = [_notice(members, ha_address=header.ha_server_addr)]
        return self._master_for(said, members), notices

    def _check_room(self, said: Registration) -> None:
        for known, key in ((self._live, said.member), (self._brokers, said.header.broker_name)):
            if key not in known and len(known) >= BROKERS_MAX:
                reason = f"{BROKERS_MAX} brokers are registered, the bound of a name server"
                raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
        table = said.body.topic_config_serialize_wrapper
        topics, mapped = table.topic_config_table, table.topic_queue_mapping_info_map
        if self.topics.entry_count + len(topics) + len(mapped) > ROUTE_ENTRIES_MAX:
            self._check_entries(self.topics.count_new(said.header.broker_name, topics, mapped))

    def _check_entries(self, new: int) -> None:
        if self.topics.entry_count + new > ROUTE_ENTRIES_MAX:
            reason = (
                f"{new} more topics would exceed the bound of {ROUTE_ENTRIES_MAX} for all brokers"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, reason)

    def _is_outdated(self, said: Registration, holder: str | None) -> bool:
        """Whether a live broker at another address has the id with a larger state version."""
        if holder is None or holder == said.header.broker_addr:
            return False
        version = self.data_version(said.header.cluster_name, holder)
        return version is not None and version.state_version > said.version.state_version

    def _describe(self, broker: BrokerData, acting_master: bool, zone: str | None) -> None:
        if (broker.enable_acting_master, broker.zone_name) != (acting_master, zone):
            broker.enable_acting_master = acting_master
            broker.zone_name = zone
            self.topics.answers.forget_all()

    def _set_members(self, broker: BrokerData, members: dict[int, str]) -> None:
        if broker.broker_addrs != members:
            broker.broker_addrs = dict(sorted(members.items()))
            self.topics.answers.forget_all()

    def _take_topics(self, said: Registration, broker: BrokerData, *, is_first: bool) -> None:
        """Topics come from the master, or from the slave that stands in for it."""
        header, table = said.header, said.body.topic_config_serialize_wrapper
        stands_in = header.broker_id != MASTER_ID
        if stands_in and (
            header.enable_acting_master is None or header.broker_id != min(broker.broker_addrs)
        ):
            return
        name, mappings = broker.broker_name, table.topic_queue_mapping_info_map
        if self._config.delete_topic_with_broker_registration and not mappings:
            for topic in self.topics.names_of((name,)):
                if topic not in table.topic_config_table:
                    self.topics.delete(topic, (name,))
        is_changed = is_first or self.data_version(*said.member) != said.version
        read_only = stands_in and broker.enable_acting_master
        for key, config in table.topic_config_table.items():
            topic = config.topic_name or key
            if is_changed or not self.topics.holds(topic, name):
                self.topics.put(topic, _queue_data(name, config, read_only=read_only))
        if is_changed:
            for topic, mapping in mappings.items():
                self.topics.put_mapping(topic, name, mapping)

    def _note_live(self, said: Registration) -> None:
        header, known = said.header, self._live.get(said.member)
        timeout_ms = header.heartbeat_timeout_ms
        self._live[said.member] = Live(
            said.now_ms,
            EXPIRY_MS if timeout_ms is None else timeout_ms,
            said.version,
            said.connection,
            header.ha_server_addr,
            {header.broker_name} | (known.names if known else set()),
        )
        if known is None:
            log.info(
                "broker %.255r id %d: %.255r is new",
                header.broker_name,
                header.broker_id,
                said.member,
            )

    def _set_filters(self, member: _Member, servers: list[str]) -> None:
        if servers != self._filters.pop(member, []):
            self.topics.answers.forget_all()
        if servers:
            self._filters[member] = servers

    def _master_for(self, said: Registration, members: dict[int, str]) -> RegisterBrokerResponse:
        """What a slave is told: where its master is, if that lives."""
        address = members.get(MASTER_ID, "")
        master = self._live.get((said.header.cluster_name, address))
        if said.header.broker_id == MASTER_ID or master is None:
            return RegisterBrokerResponse()
        return RegisterBrokerResponse(ha_server_addr=master.ha_server_addr, master_addr=address)

    # --- liveness ---------------------------------------------------------------------------------

    def heartbeat(self, cluster: str, address: str, now_ms: int) -> None:
        live = self._live.get((cluster, address))
        if live is not None:
            live.updated_ms = now_ms

    def data_version(self, cluster: str, address: str) -> DataVersion | None:
        live = self._live.get((cluster, address))
        return live.version if live else None

    def unregister(self, cluster: str, address: str, name: str, broker_id: int) -> list[Notice]:
        """Take an address from a broker name, and the name away with its last address."""
        log.info("broker %.255r id %d: %.255r is gone", name, broker_id, (cluster, address))
        self._drop_live((cluster, address), name)
        broker = self._brokers.get(name)
        if broker is None:
            return []
        smallest = min(broker.broker_addrs)
        members = {i: a for i, a in broker.broker_addrs.items() if a != address}
        self._set_members(broker, members)
        if not members:
            self._drop_broker(name)
        elif broker.enable_acting_master:
            if MASTER_ID not in members:
                self.topics.clear_write(name)
            if broker_id == smallest and self._config.notify_min_broker_id_changed:
                return [_notice(members, offline_address=address)]
        return []

    def expire(self, now_ms: int) -> tuple[list[object], list[Notice]]:
        """Drop brokers that were silent for too long; return their connections, to be closed."""
        silent = {m: v for m, v in self._live.items() if v.updated_ms + v.timeout_ms < now_ms}
        for member, live in silent.items():
            log.warning("broker at %.255r was silent for more than %d ms", member, live.timeout_ms)
        connections = [live.connection for live in silent.values()]
        return connections, [notice for member in silent for notice in self._leave(member)]

    def connection_closed(self, connection: object) -> list[Notice]:
        """Drop every broker whose last registration came over this connection."""
        gone = [member for member, live in self._live.items() if live.connection is connection]
        return [notice for member in gone for notice in self._leave(member)]

    def _leave(self, member: _Member) -> list[Notice]:
        cluster, address = member
        notices = []
        for name in sorted(self._live[member].names):
            ids = [i for i, a in self.members(name).items() if a == address]
            if ids:
                notices += self.unregister(cluster, address, name, ids[0])
            else:  # another address has taken its id
                self._drop_live(member, name)
        return notices

    def _drop_live(self, member: _Member, name: str) -> None:
        live = self._live.get(member)
        if live is not None:
            live.names.discard(name)
            if not live.names:
                del self._live[member]
                self._set_filters(member, [])

    def _drop_broker(self, name: str) -> None:
        del self._brokers[name]
        for names in self._clusters.values():
            names.discard(name)
        self._clusters = {cluster: names for cluster, names in self._clusters.items() if names}
        self.topics.drop_broker(name)

    # --- answers ----------------------------------------------------------------------------------

    def pick_route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic, None where no known broker has it."""
        queues = self.topics.queues(topic)
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        if self._config.support_acting_master and not topic.startswith(_SYNC_MEMBER_PREFIX):
            brokers = [_with_acting_master(b, queues[b.broker_name]) for b in brokers]
        addresses = [(b.cluster, address) for b in brokers for address in b.broker_addrs.values()]
        return TopicRouteData(
            broker_datas=brokers,
            filter_server_table={m[1]: self._filters[m] for m in addresses if m in self._filters},
            queue_datas=list(queues.values()),
            topic_queue_mapping_by_broker=self.topics.mappings(topic),
        )

    def cluster_info(self) -> ClusterInfo:
        clusters = {cluster: sorted(names) for cluster, names in self._clusters.items()}
        return ClusterInfo(broker_addr_table=self._brokers, cluster_addr_table=clusters)

    def members(self, name: str) -> dict[int, str]:
        """The addresses of a broker name by id; not for changing."""
        broker = self._brokers.get(name)
        return broker.broker_addrs if broker else {}

    def topics_of_cluster(self, cluster: str) -> list[str]:
        return self.topics.names_of(self._clusters.get(cluster, ()))

    def system_topics(self) -> TopicList:
        """Cluster and broker names, which are topics of their own, and some broker's address."""
        names = [name for c, brokers in self._clusters.items() for name in (c, *sorted(brokers))]
        addresses = (address for b in self._brokers.values() for address in b.broker_addrs.values())
        return TopicList(broker_addr=next(addresses, None), topic_list=list(dict.fromkeys(names)))

    # --- changes by administrators ----------------------------------------------------------------

    def register_topic(self, topic: str, queues: list[QueueData]) -> None:
        """Add a topic to brokers; one that is not known ends it without an error, as in Java."""
        self._check_entries(len(queues))
        for queue in queues:
            if queue.broker_name not in self._brokers:
                log.warning(
                    "topic %.255r names the unknown broker %.255r", topic, queue.broker_name
                )
                return
            self.topics.put(topic, queue)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.topics.delete(topic, self._clusters.get(cluster, ()) if cluster else None)


def _queue_data(name: str, config: TopicConfig, *, read_only: bool) -> QueueData:
    return QueueData(
        broker_name=name,
        perm=config.perm & ~PERM_WRITE if read_only else config.perm,
        read_queue_nums=config.read_queue_nums,
        topic_sys_flag=config.topic_sys_flag,
        write_queue_nums=config.write_queue_nums,
    )


def _with_acting_master(broker: BrokerData, queue: QueueData) -> BrokerData:
    """Show the smallest id as the master where there is none and nobody may write."""
    members = broker.broker_addrs
    if not broker.enable_acting_master or MASTER_ID in members or queue.perm & PERM_WRITE:
        return broker
    acting = min(members)
    shown = {MASTER_ID if i == acting else i: address for i, address in members.items()}
    return replace(broker, broker_addrs=shown)


def _notice(
    members: dict[int, str], *, offline_address: str | None = None, ha_address: str | None = None
) -> Notice:
    smallest = min(members)
    is_told_all = offline_address is not None or len(members) == 1
    return Notice(
        [address for i, address in members.items() if is_told_all or i != smallest],
        NotifyMinBrokerIdChangeRequest(
            min_broker_id=smallest,
            min_broker_addr=members[smallest],
            offline_broker_addr=offline_address,
            ha_broker_addr=ha_address,
        ),
    )
