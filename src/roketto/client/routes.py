"""What a route says: which queues of a topic can be written and read, and where brokers are; pure.

The rules are those of Java's clients. Queues to write to are on brokers that have a master, in the
order of broker names; a topic whose order was fixed by an operator has that order.

A static topic has logical queues: their number stays, while each of them may move from broker to
broker. They are named as those of a broker that does not exist, ``__syslo__`` and the scope, so
that all members of a group name them alike wherever they are; ``Route.hosts`` says which broker has
each of them now.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from roketto.client.errors import UnreadableError
from roketto.protocol.bodies.route import MessageQueue, QueueData, TopicRouteData
from roketto.protocol.bodies.topics import TopicQueueMappingInfo

__all__ = ["MASTER_ID", "NO_HOST", "QUEUES_MAX", "Route", "make_route", "route_like"]

MASTER_ID: Final = 0
NO_HOST: Final = "__syslo__none__"
"""Where a logical queue is that no broker has; as in Java."""
QUEUES_MAX: Final = 65_536
"""Queues of a topic. Nobody has so many; a route that says so would fill the memory."""

_LOGICAL_PREFIX: Final = "__syslo__"
_GLOBAL_SCOPE: Final = "__global__"
_READABLE: Final = 4
_WRITABLE: Final = 2


@dataclass(frozen=True, slots=True)
class Route:
    """One topic as a client sees it; made by ``make_route``."""

    topic: str
    publish_queues: tuple[MessageQueue, ...]
    subscribe_queues: tuple[MessageQueue, ...]
    brokers: Mapping[str, Mapping[int, str]]
    """Broker name -> broker id -> address."""
    clusters: Mapping[str, str]
    """Broker name -> cluster."""
    advertiser: str = field(compare=False)
    """The name server that has told it. Another one that tells the same changes nothing."""
    data: TopicRouteData = field(compare=False, repr=False)
    is_ordered: bool = False
    hosts: Mapping[MessageQueue, str] = field(default_factory=dict)
    """Logical queue -> name of the broker that has it; empty unless the topic is static."""


def make_route(topic: str, data: TopicRouteData, advertiser: str) -> Route:
    """The route of ``topic`` from what a name server has answered; UnreadableError for no such."""
    _check_count(topic, data, advertiser)
    brokers = {broker.broker_name: dict(broker.broker_addrs) for broker in data.broker_datas}
    clusters = {broker.broker_name: broker.cluster for broker in data.broker_datas}
    ordered = _ordered_queues(topic, data.order_topic_conf or "")
    hosts = _logical_queues(topic, (data.topic_queue_mapping_by_broker or {}).values())
    logical = sorted(hosts, key=lambda queue: (queue.queue_id, queue.broker_name))
    return Route(
        topic,
        tuple(ordered or logical or _publish_queues(topic, data, brokers)),
        tuple(logical or _subscribe_queues(topic, data)),
        brokers,
        clusters,
        advertiser,
        data,
        bool(ordered),
        hosts,
    )


def _check_count(topic: str, data: TopicRouteData, advertiser: str) -> None:
    mappings = (data.topic_queue_mapping_by_broker or {}).values()
    count = max(
        sum(max(queues.read_queue_nums, queues.write_queue_nums) for queues in data.queue_datas),
        sum(count for _, count in _order(data.order_topic_conf or "")),
        max((info.total_queues for info in mappings), default=0),
    )
    if count > QUEUES_MAX:
        raise UnreadableError(
            advertiser, f"topic {topic} has {count} queues, and clients take {QUEUES_MAX}"
        )


def _order(text: str) -> list[tuple[str, int]]:
    """The brokers and numbers of ``broker-a:4;broker-b:4``."""
    parts = (part.partition(":") for part in text.split(";"))
    return [
        (name, int(count))
        for name, _, count in parts
        if name and count.isascii() and count.isdecimal()
    ]


def _ordered_queues(topic: str, text: str) -> list[MessageQueue]:
    """The queues that an operator has fixed."""
    return [
        MessageQueue(name, number, topic) for name, count in _order(text) for number in range(count)
    ]


def _logical_queues(
    topic: str, mappings: Iterable[TopicQueueMappingInfo]
) -> dict[MessageQueue, str]:
    """The queues of a static topic, and who has them: the broker that was told so last."""
    totals: dict[str, int] = {}
    owners: dict[MessageQueue, tuple[int, str]] = {}
    for info in mappings:
        if info.scope is None:
            continue
        name = _LOGICAL_PREFIX + (info.scope[2:] if info.scope == _GLOBAL_SCOPE else info.scope)
        totals[name] = max(totals.get(name, 0), info.total_queues)
        for logical_id in info.curr_id_map:
            queue = MessageQueue(name, logical_id, topic)
            owners[queue] = max(owners.get(queue, (-1, "")), (info.epoch, info.bname or NO_HOST))
    queues = (
        MessageQueue(name, number, topic)
        for name, total in totals.items()
        for number in range(total)
    )
    return {queue: owners.get(queue, (0, NO_HOST))[1] for queue in queues}


def _publish_queues(
    topic: str, data: TopicRouteData, brokers: Mapping[str, Mapping[int, str]]
) -> list[MessageQueue]:
    return [
        MessageQueue(queues.broker_name, number, topic)
        for queues in sorted(data.queue_datas, key=_broker_name)
        if queues.perm & _WRITABLE and MASTER_ID in brokers.get(queues.broker_name, {})
        for number in range(queues.write_queue_nums)
    ]


def _subscribe_queues(topic: str, data: TopicRouteData) -> list[MessageQueue]:
    return [
        MessageQueue(queues.broker_name, number, topic)
        for queues in sorted(data.queue_datas, key=_broker_name)
        if queues.perm & _READABLE
        for number in range(queues.read_queue_nums)
    ]


def _broker_name(queues: QueueData) -> str:
    return queues.broker_name


def route_like(topic: str, template: Route, queues_max: int) -> Route:
    """The route that a topic will have which is made like ``template`` when it is first sent to."""
    data = TopicRouteData(
        broker_datas=template.data.broker_datas,
        queue_datas=[
            QueueData(
                broker_name=queues.broker_name,
                perm=queues.perm,
                read_queue_nums=min(queues_max, queues.read_queue_nums),
                topic_sys_flag=queues.topic_sys_flag,
                write_queue_nums=min(queues_max, queues.read_queue_nums),
            )
            for queues in template.data.queue_datas
        ],
    )
    return make_route(topic, data, template.advertiser)
