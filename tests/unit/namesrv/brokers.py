"""Registrations as brokers send them, for the tests of the name server."""

from dataclasses import dataclass, field

from roketto.namesrv.config import NamesrvConfig
from roketto.namesrv.routes import Notice, Registration, RouteTable
from roketto.protocol.bodies.registration import RegisterBrokerBody
from roketto.protocol.bodies.route import QueueData, TopicRouteData
from roketto.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicQueueMappingInfo,
)
from roketto.protocol.headers.namesrv import RegisterBrokerRequest, RegisterBrokerResponse


@dataclass
class Broker:
    """One broker process; ``register`` announces it with its topics."""

    name: str = "a"
    address: str = "10.0.0.1:10911"
    broker_id: int = 0
    cluster: str = "C"
    acting_master: bool | None = None
    zone: str | None = None
    timeout_ms: int | None = None
    connection: object = field(default_factory=object)

    def said(
        self,
        topics: tuple[str, ...] = ("T1", "T2"),
        *,
        counter: int = 1,
        state: int = 0,
        perm: int = 6,
        flags: int = 0,
        filters: tuple[str, ...] = (),
        mappings: dict[str, TopicQueueMappingInfo] | None = None,
        now_ms: int = 0,
    ) -> Registration:
        header = RegisterBrokerRequest(
            broker_name=self.name,
            broker_addr=self.address,
            cluster_name=self.cluster,
            ha_server_addr=f"ha of {self.address}",
            broker_id=self.broker_id,
            heartbeat_timeout_ms=self.timeout_ms,
            enable_acting_master=self.acting_master,
            zone_name=self.zone,
        )
        table = {
            topic: TopicConfig(
                topic_name=topic,
                perm=perm,
                read_queue_nums=4,
                write_queue_nums=4,
                topic_sys_flag=flags,
            )
            for topic in topics
        }
        wrapper = TopicConfigAndMappingSerializeWrapper(
            data_version=DataVersion(counter=counter, state_version=state, timestamp=1),
            topic_config_table=table,
            topic_queue_mapping_info_map=mappings or {},
        )
        return Registration(
            header, RegisterBrokerBody(list(filters), wrapper), self.connection, now_ms
        )


def table(**options: bool) -> RouteTable:
    """A route table of a name server with these options of its configuration."""
    config = NamesrvConfig()
    for name, value in options.items():
        assert hasattr(config, name)
        setattr(config, name, value)
    return RouteTable(config)


def route(routes: RouteTable, topic: str) -> TopicRouteData:
    found = routes.pick_route(topic)
    assert found is not None, f"no route of {topic}"
    return found


def queue(routes: RouteTable, topic: str) -> QueueData:
    """What the only broker of a topic offers."""
    (only,) = route(routes, topic).queue_datas
    return only


def register(routes: RouteTable, *said: Registration) -> list[Notice]:
    """Register several brokers in turn; return what the last one set off."""
    notices: list[Notice] = []
    for one in said:
        _, notices = routes.register(one)
    return notices


def answer(routes: RouteTable, said: Registration) -> RegisterBrokerResponse:
    return routes.register(said)[0]
