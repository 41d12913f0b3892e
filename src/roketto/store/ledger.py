"""What the queues of one table have in common: what is to be done, and units read in advance."""

from typing import TYPE_CHECKING, Final

from roketto.store.recent_units import BYTES_MAX, RecentUnits
from roketto.store.unit_blocks import UnitBlocks

if TYPE_CHECKING:
    from roketto.store.consumequeue import ConsumeQueue

__all__ = ["Ledger"]

AHEAD_BYTES_MAX: Final = 10_240
"""What is read at once of a queue whose reader goes on where it was: 16 pulls of 32 messages."""

AHEAD_TOTAL_MAX: Final = 32 * 1024 * 1024
"""What is kept of all queues together; the oldest goes first."""

_SHARED_BYTES: Final = AHEAD_TOTAL_MAX // 4 * 3
"""What the queues that are read share. The rest lets one more come in before one has to go, so that
their number, and with it the share of each, is soon that of the queues whose readers go on."""

_TURNS_MAX: Final = 4
"""What nobody has asked for while all others were read so many times is of a reader that left."""


class Ledger:
    """What a table of queues has to do: each queue enters itself.

    ``dirty`` are the queues with units that are in memory only, in ``blocks``. ``unsynced`` are
    those whose files have changed since they were last synced, and from which byte of the queue on.
    ``recent`` are the newest units of queues that are many.
    """

    __slots__ = ("_ahead", "_ahead_bytes", "_reads", "blocks", "dirty", "recent", "unsynced")

    def __init__(self, recent_bytes_max: int = BYTES_MAX) -> None:
        self.blocks = UnitBlocks()
        self.recent = RecentUnits(recent_bytes_max)
        self.dirty: dict[ConsumeQueue, None] = {}
        self.unsynced: dict[ConsumeQueue, int] = {}
        # Of each queue its position, the bytes from there on, and which read they came with.
        self._ahead: dict[ConsumeQueue, tuple[int, bytes, int]] = {}
        self._ahead_bytes: int = 0
        self._reads: int = 0

    def recall(self, queue: "ConsumeQueue", position: int, size: int) -> bytes:
        """Bytes of a queue that were read in advance; none unless all of them were.

        Those at the end of what was read are given out once: their reader will ask for others.
        """
        kept = self._ahead.get(queue)
        if kept is None:
            return b""
        raw = kept[1]
        at = position - kept[0]
        end = at + size
        if at < 0 or end > len(raw):
            return b""
        if end == len(raw):
            self._drop(queue)
        return raw[at:end]

    def share(self) -> int:
        """How many bytes of a queue should be read at once, now that one is read."""
        ahead = self._ahead
        self._reads += 1
        if ahead:
            oldest = next(iter(ahead))
            if self._reads - ahead[oldest][2] > _TURNS_MAX * len(ahead) + _TURNS_MAX:
                self._drop(oldest)
        return min(AHEAD_BYTES_MAX, _SHARED_BYTES // (len(ahead) + 1))

    def keep(self, queue: "ConsumeQueue", position: int, raw: bytes) -> None:
        """Remember what was read of a queue at a position; its next reader will ask for it."""
        self._drop(queue)
        ahead = self._ahead
        ahead[queue] = (position, raw, self._reads)
        self._ahead_bytes += len(raw)
        while self._ahead_bytes > AHEAD_TOTAL_MAX:
            self._drop(next(iter(ahead)))

    def forget(self, queue: "ConsumeQueue") -> None:
        """Keep nothing of a queue in memory: it may be written over, or is gone."""
        self._drop(queue)
        self.recent.forget(queue)

    def _drop(self, queue: "ConsumeQueue") -> None:
        """Keep nothing of what was read in advance: it was used, or others need the room."""
        kept = self._ahead.pop(queue, None)
        if kept is not None:
            self._ahead_bytes -= len(kept[1])
