"""Topics as operators see them: which there are, where, how configured and how full."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import asdict, replace

from roketto.admin.fleet import Answers, Broker, Fleet
from roketto.admin.kv import ORDER_TOPICS, Kv
from roketto.client.errors import ClientError, RefusedError, TopicNotFoundError
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.groups import GroupList
from roketto.protocol.bodies.route import MessageQueue, TopicList, TopicRouteData
from roketto.protocol.bodies.stats import TopicStatsTable
from roketto.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.namesrv import (
    DeleteTopicFromNamesrvRequest,
    GetTopicsByClusterRequest,
)
from roketto.protocol.headers.topics import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetTopicConfigRequest,
    GetTopicStatsInfoRequest,
    QueryTopicConsumeByWhoRequest,
)
from roketto.protocol.names import DEFAULT_TOPIC
from roketto.protocol.sysflags import TOPIC_UNIT, TOPIC_UNIT_SUBSCRIPTION
from roketto.protocol.versions import V5_0_0, version_name

__all__ = ["READ", "WRITE", "QueueStatus", "TopicStatus", "Topics", "format_attributes"]

READ: Final = 4
WRITE: Final = 2
"""The bits of a topic's permissions."""

_QUEUES: Final = 8
"""Of a topic that mqadmin makes, unless told otherwise."""

Attributes = Mapping[str, str | None]
"""Changes to the attributes of a topic or group: name -> new value, None to remove it."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue: where it begins, where the next message goes, when it last grew (0: never)."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_update_ms: int

    @property
    def count(self) -> int:
        """Messages that can still be read."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """All queues of a topic, by broker and number, and what all brokers take of it per second."""

    topic: str
    queues: tuple[QueueStatus, ...]
    put_tps: float
    """0 from brokers before 5.0, which do not say."""


class Topics:
    """Made by ``Admin``, as ``admin.topics``.

    await admin.topics.create("Orders", cluster="DefaultCluster", write_queues=4, read_queues=4)
    await admin.topics.update("Orders", perm=READ)
    """

    def __init__(self, fleet: Fleet, kv: Kv) -> None:
        self._fleet = fleet
        self._kv = kv

    # --- what there is ----------------------------------------------------------------------------

    async def names(self, cluster: str | None = None) -> list[str]:
        """The names of all topics that a name server knows, of all clusters or of one."""
        if cluster is None:
            answer = await self._fleet.ask_names(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            request = GetTopicsByClusterRequest(cluster=cluster)
            answer = await self._fleet.ask_names(RequestCode.GET_TOPICS_BY_CLUSTER, request)
        return sorted(decode_body(TopicList, answer.body).topic_list)

    async def route(self, topic: str) -> TopicRouteData:
        """Where it is; TopicNotFoundError if nobody has it."""
        return await self._fleet.route(topic)

    async def clusters(self, topic: str) -> list[str]:
        """The clusters whose brokers have it. Java looks at the first of its brokers only."""
        route = await self._fleet.route(topic)
        return sorted({broker.cluster for broker in route.broker_datas})

    async def groups(self, topic: str) -> list[str]:
        """The groups that consume it, online or not. Java asks the first of its brokers only."""
        request = QueryTopicConsumeByWhoRequest(topic=topic)
        answers = await self._fleet.ask_each(
            f"list the groups of topic {topic}",
            await self._fleet.of_topic(topic),
            lambda broker: self._fleet.ask_body(
                GroupList, broker.address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, request
            ),
        )
        lists = answers.results.values()
        return answers.checked(sorted({group for found in lists for group in found.group_list}))

    async def status(self, topic: str) -> TopicStatus:
        """How far each of its queues goes."""
        request = GetTopicStatsInfoRequest(topic=topic)
        answers = await self._fleet.ask_each(
            f"look at topic {topic}",
            await self._fleet.of_topic(topic),
            lambda broker: self._fleet.ask_body(
                TopicStatsTable, broker.address, RequestCode.GET_TOPIC_STATS_INFO, request
            ),
        )
        tables = answers.results.values()
        queues = [
            QueueStatus(queue, ends.min_offset, ends.max_offset, ends.last_update_timestamp)
            for table in tables
            for queue, ends in table.offset_table.items()
        ]
        queues.sort(key=lambda status: status.queue)
        put_tps = sum(table.topic_put_tps for table in tables)
        return answers.checked(TopicStatus(topic, tuple(queues), put_tps))

    async def config(
        self, topic: str, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, TopicConfig]:
        """Its configuration on each broker that is meant, or on those that have it."""
        answers = await self._fleet.ask_each(
            f"read the configuration of topic {topic}",
            await self._targets(topic, cluster, broker),
            lambda one: self._config_on(one, topic),
        )
        return answers.checked(answers.results)

    async def configs(self, broker: str) -> dict[str, TopicConfig]:
        """The configurations of all topics on one broker, by its name or address."""
        (one,) = await self._fleet.masters(broker=broker)
        answers = await self._fleet.ask_each("list topics", [one], self._configs_on)
        return answers.checked(answers.results.get(one, {}))

    async def _targets(self, topic: str, cluster: str | None, broker: str | None) -> list[Broker]:
        if cluster is None and broker is None:
            return await self._fleet.of_topic(topic)
        return await self._fleet.masters(cluster, broker)

    async def _config_on(self, broker: Broker, topic: str) -> TopicConfig:
        request = GetTopicConfigRequest(topic=topic)
        try:
            found = await self._fleet.ask_body(
                TopicConfigAndQueueMapping, broker.address, RequestCode.GET_TOPIC_CONFIG, request
            )
        except RefusedError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:  # before 5.0
                raise
            table = await self._configs_on(broker)
            if topic not in table:
                raise TopicNotFoundError(topic, f"{broker} does not have it") from error
            return table[topic]
        fields = asdict(found)
        del fields["mapping_detail"]
        return TopicConfig(**fields)

    async def _configs_on(self, broker: Broker) -> dict[str, TopicConfig]:
        found = await self._fleet.ask_body(
            TopicConfigAndMappingSerializeWrapper, broker.address, RequestCode.GET_ALL_TOPIC_CONFIG
        )
        return found.topic_config_table

    # --- changes ----------------------------------------------------------------------------------

    async def create(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        read_queues: int = _QUEUES,
        write_queues: int = _QUEUES,
        perm: int = READ | WRITE,
        is_ordered: bool = False,
        attributes: Attributes | None = None,
        is_unit: bool = False,
        has_unit_subscription: bool = False,
    ) -> list[Broker]:
        """Make it on every master that is meant, or replace how it is configured there.

        An ordered topic also gets an order of its queues at the name servers. Returns where it is.
        """
        config = TopicConfig(
            order=is_ordered,
            perm=perm,
            read_queue_nums=read_queues,
            topic_name=topic,
            topic_sys_flag=(TOPIC_UNIT if is_unit else 0)
            | (TOPIC_UNIT_SUBSCRIPTION if has_unit_subscription else 0),
            write_queue_nums=write_queues,
        )
        answers = await self._fleet.ask_each(
            f"create topic {topic}",
            await self._fleet.masters(cluster, broker),
            lambda one: self._put(one, config, attributes or {}),
        )
        return await self._finish(topic, answers, merges=broker is not None)

    async def update(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        is_ordered: bool | None = None,
        attributes: Attributes | None = None,
    ) -> list[Broker]:
        """Change what is given and leave the rest, on each broker as it is there.

        mqadmin's updateTopicPerm forgets the order and the attributes of a topic.
        """
        given = {
            "read_queue_nums": read_queues,
            "write_queue_nums": write_queues,
            "perm": perm,
            "order": is_ordered,
        }
        changes = {name: value for name, value in given.items() if value is not None}

        async def change(one: Broker) -> TopicConfig:
            current = await self._config_on(one, topic)
            return await self._put(one, replace(current, **changes), attributes or {})

        answers = await self._fleet.ask_each(
            f"update topic {topic}", await self._targets(topic, cluster, broker), change
        )
        return await self._finish(topic, answers, merges=True)

    async def _put(
        self, broker: Broker, config: TopicConfig, attributes: Attributes
    ) -> TopicConfig:
        changes = format_attributes(attributes)
        request = CreateTopicRequest(
            topic=config.topic_name,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type.value,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=changes,
        )
        answer = await self._fleet.ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, request)
        if changes and answer.version < V5_0_0:
            raise ClientError(
                f"it is {version_name(answer.version)} and knows no attributes; all but {changes}"
                " was done"
            )
        return config

    async def _finish(
        self, topic: str, answers: Answers[Broker, TopicConfig], *, merges: bool
    ) -> list[Broker]:
        """Give an ordered topic its order, if no broker has failed."""
        answers.checked(list(answers.results))
        ordered = {
            broker.name: f"{broker.name}:{config.write_queue_nums}"
            for broker, config in answers.results.items()
            if config.order
        }
        if ordered:
            if merges:
                before = await self._kv.get(ORDER_TOPICS, topic) or ""
                parts = (part for part in before.split(";") if part)
                ordered = {part.partition(":")[0]: part for part in parts} | ordered
            await self._kv.put(ORDER_TOPICS, topic, ";".join(ordered.values()))
        return list(answers.results)

    async def delete(self, topic: str, cluster: str | None = None) -> list[Broker]:
        """Delete it on all masters of a cluster, then at all name servers, with its order.

        The name servers are told only when every broker has deleted it: a broker that has it would
        tell them of it again.
        """
        masters = await self._fleet.masters(cluster)
        request = DeleteTopicRequest(topic=topic)
        answers = await self._fleet.ask_each(
            f"delete topic {topic}",
            masters,
            lambda broker: self._fleet.ask(
                broker.address, RequestCode.DELETE_TOPIC_IN_BROKER, request
            ),
        )
        done = answers.checked(list(answers.results))
        for name in sorted({master.cluster for master in masters}):
            told = await self._fleet.ask_all_names(
                f"delete the route of topic {topic}",
                RequestCode.DELETE_TOPIC_IN_NAMESRV,
                DeleteTopicFromNamesrvRequest(topic=topic, cluster_name=name),
            )
            told.checked(done)
        await self._kv.delete(ORDER_TOPICS, topic)
        return done


def format_attributes(changes: Attributes) -> str | None:
    """Changes as the wire has them, ``+name=value,-name``; None without any.

    ValueError for a comma or an equals sign in them: nothing can be escaped there.
    """
    for text in (text for change in changes.items() for text in change if text is not None):
        if "," in text or "=" in text or not text:
            raise ValueError(f"attribute {text!r} is empty or has a comma or an equals sign in it")
    items = (f"-{name}" if value is None else f"+{name}={value}" for name, value in changes.items())
    return ",".join(items) or None
