"""Blocking: ``roketto.client.active_consumer`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Collection

from roketto.client.active_consumer import ActiveConsumer as AsyncActiveConsumer
from roketto.client.facade import LivingFacade
from roketto.client.message import MessageQueue
from roketto.client.positions import BoundaryType
from roketto.protocol.bodies.heartbeat import MessageModel

__all__ = ["ActiveConsumer"]


class ActiveConsumer(LivingFacade[AsyncActiveConsumer]):
    """The common part; PullConsumer and LitePullConsumer are of use.

    Queues have topics as brokers know them, with the namespace, as ``message.queue`` has; methods
    take them without, too.
    """

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def model(self) -> MessageModel:
        return self._inner.model

    def fetch_subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read; TopicNotFoundError if there is none."""
        return self._run(self._inner.fetch_subscribe_queues(topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there."""
        return self._run(self._inner.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self._run(self._inner.max_offset(queue))

    def offset_for_timestamp(
        self, queue: MessageQueue, timestamp_ms: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """The offset of the first message that was stored at a time or later (LOWER)."""
        return self._run(self._inner.offset_for_timestamp(queue, timestamp_ms, boundary))

    def earliest_time_ms(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored."""
        return self._run(self._inner.earliest_time_ms(queue))

    @property
    def topics(self) -> Collection[str]:
        """Those it reads, as far as it knows itself."""
        return self._call(lambda: self._inner.topics)
