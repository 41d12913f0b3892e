"""How far a group has come, queue by queue, and how much is left; computed as mqadmin does; pure.

| of one queue | is                                                                      |
|--------------|-------------------------------------------------------------------------|
| lag          | broker offset - consume offset: messages not consumed yet               |
| in flight    | pull offset - consume offset: of these, sent to a consumer              |
| last time    | when the last consumed message was stored; 0 if none was, or it is gone |
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.running import ConsumerRunningInfo
from roketto.protocol.bodies.stats import ConsumeStats

__all__ = ["Progress", "QueueProgress", "merge_progress", "owners_of"]


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """A group in one queue."""

    queue: MessageQueue
    broker_offset: int
    """What the next message will get."""
    consume_offset: int
    """What the group consumes next."""
    pull_offset: int
    """What is sent to it next."""
    last_consume_ms: int
    client_id: str | None = None
    """Who has the queue, if that was asked for and somebody does."""

    @property
    def lag(self) -> int:
        """Below zero, as in mqadmin, if a broker has lost messages that were consumed."""
        return self.broker_offset - self.consume_offset

    @property
    def in_flight(self) -> int:
        """0 from brokers before 5.0, which do not know it; mqadmin shows a negative number."""
        return max(0, self.pull_offset - self.consume_offset)


@dataclass(frozen=True, slots=True)
class Progress:
    """A group in all its queues, ordered by topic, broker and number."""

    group: str
    queues: tuple[QueueProgress, ...]
    consume_tps: float

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def in_flight(self) -> int:
        return sum(queue.in_flight for queue in self.queues)

    @property
    def topics(self) -> list[str]:
        """Those that it has queues of; its retry topic is one of them."""
        return list(dict.fromkeys(queue.queue.topic for queue in self.queues))

    def of_topic(self, topic: str) -> tuple[QueueProgress, ...]:
        """The queues of one topic."""
        return tuple(queue for queue in self.queues if queue.queue.topic == topic)


def merge_progress(
    group: str, tables: Iterable[ConsumeStats], owners: Mapping[MessageQueue, str]
) -> Progress:
    """What several brokers say of a group, in one; each speaks of its own queues."""
    queues: dict[MessageQueue, QueueProgress] = {}
    consume_tps = 0.0
    for table in tables:
        consume_tps += table.consume_tps
        for queue, at in table.offset_table.items():
            queues[queue] = QueueProgress(
                queue,
                at.broker_offset,
                at.consumer_offset,
                at.pull_offset,
                at.last_timestamp,
                owners.get(queue),
            )
    ordered = sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
    return Progress(group, tuple(queues[queue] for queue in ordered), consume_tps)


def owners_of(infos: Mapping[str, ConsumerRunningInfo]) -> dict[MessageQueue, str]:
    """Queue -> client id, from what consumers say of themselves."""
    return {
        queue: client_id
        for client_id, info in infos.items()
        for queue in (*info.mq_pop_table, *info.mq_table)
    }
