"""What is counted for one topic, and for the groups that read it; the names are Java's:

===========================  =======================================================
TOPIC_PUT_NUMS, SIZE         ``TopicStats.put``
TOPIC_PUT_LATENCY            ``TopicStats.latency``
QUEUE_PUT_NUMS, SIZE         ``TopicStats.queues``, of delayed messages only
GROUP_GET_NUMS, SIZE         ``GroupStats.get``
GROUP_GET_LATENCY            ``GroupStats.latency``
QUEUE_GET_NUMS, SIZE         ``GroupStats.queues``, of delayed messages only
SNDBCK_PUT_NUMS              ``GroupStats.send_back``
SNDBCK2DLQ_TIMES             ``GroupStats.dead``
===========================  =======================================================
"""

from typing import Final

from roketto.broker.stats_window import Meter
from roketto.protocol.names import (
    HALF_OP_TOPIC,
    SCHEDULE_TOPIC,
    TRANSACTION_GIVEN_UP_TOPIC,
    is_system_topic,
)

__all__ = ["ALL_QUEUES", "GROUP_METERS", "GroupStats", "TopicStats"]

ALL_QUEUES: Final = -1
"""Where latencies of gets are kept if those of the queues are not told apart."""

_ASIDE: Final = frozenset({HALF_OP_TOPIC, TRANSACTION_GIVEN_UP_TOPIC})
"""Topics whose messages Java counts for the store only."""


class GroupStats:
    """What one group took from one topic."""

    __slots__ = ("dead", "get", "latency", "queues", "send_back")

    def __init__(self) -> None:
        self.get: Meter = Meter()
        self.send_back: Meter = Meter()
        self.dead: Meter = Meter()
        self.latency: dict[int, Meter] = {}
        """By queue, or under ALL_QUEUES: gets of a millisecond or more; ``count`` is these."""
        self.queues: dict[int, Meter] = {}

    def meters(self) -> list[Meter]:
        own = [self.get, self.send_back, self.dead]
        return [*own, *self.latency.values(), *self.queues.values()]


GROUP_METERS: Final = len(GroupStats().meters())


class TopicStats:
    """What came into one topic, and who took it."""

    __slots__ = (
        "groups", "has_queues", "is_aside", "is_system", "latency", "put", "queues", "topic",
    )  # fmt: skip

    def __init__(self, topic: str) -> None:
        self.topic: str = topic
        self.is_system: bool = is_system_topic(topic)
        self.is_aside: bool = topic in _ASIDE
        self.has_queues: bool = topic == SCHEDULE_TOPIC
        """Whether Java tells its queues apart: they are the delay levels."""
        self.put: Meter = Meter()
        self.latency: dict[int, Meter] = {}
        """By queue: puts of a millisecond or more; ``count`` is these."""
        self.queues: dict[int, Meter] = {}
        self.groups: dict[str, GroupStats] = {}

    def meters(self) -> list[Meter]:
        found = [self.put, *self.latency.values(), *self.queues.values()]
        for group in self.groups.values():
            found += group.meters()
        return found
