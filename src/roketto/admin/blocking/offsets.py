"""Blocking: ``roketto.admin.offsets`` for threads; ``./dev blocking`` writes it."""

from roketto.admin.offsets import Offsets as AsyncOffsets
from roketto.client.facade import Facade
from roketto.protocol.bodies.offsets import RollbackStats
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.headers.base import BoundaryType

__all__ = ["Offsets"]


class Offsets(Facade[AsyncOffsets]):
    """Made by ``Admin``, as ``admin.offsets``.

    admin.offsets.reset("billing", "Orders", time_ms)     # also while it consumes
    admin.offsets.reset("billing", "Orders", END)         # skip all that waits
    """

    def min(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there."""
        return self._run(self._inner.min(queue))

    def max(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self._run(self._inner.max(queue))

    def search(
        self, queue: MessageQueue, time_ms: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """The first message that was stored at a time or later, or the last before that."""
        return self._run(self._inner.search(queue, time_ms, boundary))

    def earliest_time_ms(self, queue: MessageQueue) -> int:
        """When its first message was stored; below zero if it has none."""
        return self._run(self._inner.earliest_time_ms(queue))

    def get(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group stands in a queue; None if it has never been there."""
        return self._run(self._inner.get(group, queue))

    def set(self, group: str, queue: MessageQueue, consume_offset: int) -> None:
        """Let a group go on at an offset of one queue; mqadmin cannot set 0."""
        self._run(self._inner.set(group, queue, consume_offset))

    def clone(self, source: str, target: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Give a group the offsets of another one, in one topic or in all of them."""
        return self._run(self._inner.clone(source, target, topic))

    def reset(
        self, group: str, topic: str, time_ms: int, *, is_forced: bool = True
    ) -> dict[MessageQueue, int]:
        """Let a group go on at a time, or at the ``END``; where it now stands in each queue."""
        return self._run(self._inner.reset(group, topic, time_ms, is_forced=is_forced))

    def reset_offline(
        self, group: str, topic: str, time_ms: int, *, is_forced: bool = True
    ) -> list[RollbackStats]:
        """The same for a group of which nobody is online; nobody would hear of it."""
        return self._run(self._inner.reset_offline(group, topic, time_ms, is_forced=is_forced))
