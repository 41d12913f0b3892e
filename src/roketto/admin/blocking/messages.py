"""Blocking: ``roketto.admin.messages`` for threads; ``./dev blocking`` writes it."""

from roketto.admin.messages import Found
from roketto.admin.messages import Messages as AsyncMessages
from roketto.client.facade import Facade
from roketto.client.message import MessageQueue, SendResult
from roketto.client.received import ReceivedMessage
from roketto.protocol.headers.base import I64_MAX

__all__ = ["Messages"]


class Messages(Facade[AsyncMessages]):
    """Made by ``Admin``, as ``admin.messages``.

    found = admin.messages.query("Orders", "order-17", begin_ms=yesterday_ms)
    message = admin.messages.view("Orders", result.message_id)
    """

    def view(self, topic: str, message_id: str) -> ReceivedMessage:
        """The message with an id of either kind: the broker's, or the producer's."""
        return self._run(self._inner.view(topic, message_id))

    def by_offset_id(self, offset_id: str) -> ReceivedMessage:
        """The message that a broker gave this id; the address in it has to be registered."""
        return self._run(self._inner.by_offset_id(offset_id))

    def by_queue_offset(self, queue: MessageQueue, queue_offset: int) -> ReceivedMessage:
        """The message at an offset of a queue."""
        return self._run(self._inner.by_queue_offset(queue, queue_offset))

    def by_unique_key(
        self, topic: str, message_id: str, *, begin_ms: int = 0, end_ms: int = I64_MAX
    ) -> Found:
        """All messages with a producer's id: several if it was sent more than once."""
        return self._run(
            self._inner.by_unique_key(topic, message_id, begin_ms=begin_ms, end_ms=end_ms)
        )

    def query(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = I64_MAX, count_max: int = 64
    ) -> Found:
        """The messages of a topic with a key that were stored in a time, so many of each broker."""
        return self._run(
            self._inner.query(topic, key, begin_ms=begin_ms, end_ms=end_ms, count_max=count_max)
        )

    def resend(self, message: ReceivedMessage, *, topic: str | None = None) -> SendResult:
        """Send a message again, at once and with the same id; to its topic, or to another one."""
        return self._run(self._inner.resend(message, topic=topic))
