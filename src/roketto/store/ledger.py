"""What the queues of one table have in common: what is to be done, and units read in advance."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roketto.store.consumequeue import ConsumeQueue

__all__ = ["AHEAD_BYTES_MAX", "Ledger"]

AHEAD_BYTES_MAX: Final = 10_240
"""What is read at once of a queue whose reader goes on where it was: 16 pulls of 32 messages."""

QUEUES_AHEAD_MAX: Final = 256
"""Queues of which units are kept that were read in advance: 2.5 MB; the oldest go first."""


class Ledger:
    """What a table of queues has to do: each queue enters itself.

    ``dirty`` are the queues with units in memory. ``unsynced`` are those whose files have changed
    since they were last synced, and from which byte of the queue on.
    """

    __slots__ = ("_ahead", "dirty", "unsynced")

    def __init__(self) -> None:
        self.dirty: dict[ConsumeQueue, None] = {}
        self.unsynced: dict[ConsumeQueue, int] = {}
        self._ahead: dict[ConsumeQueue, tuple[int, bytes]] = {}

    def recall(self, queue: "ConsumeQueue", position: int, size: int) -> bytes:
        """Bytes of a queue that were read in advance; none unless all of them were."""
        kept = self._ahead.get(queue)
        if kept is None:
            return b""
        at = position - kept[0]
        if at < 0 or at + size > len(kept[1]):
            return b""
        return kept[1][at : at + size]

    def keep(self, queue: "ConsumeQueue", position: int, raw: bytes) -> None:
        """Remember what was read of a queue at a position; its next reader will ask for it."""
        ahead = self._ahead
        if len(ahead) >= QUEUES_AHEAD_MAX and queue not in ahead:
            del ahead[next(iter(ahead))]
        ahead[queue] = (position, raw)

    def forget(self, queue: "ConsumeQueue") -> None:
        """What was read of a queue in advance may be written over."""
        self._ahead.pop(queue, None)
