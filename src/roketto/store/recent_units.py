"""The newest units of queues that are more than files can be kept open, so that none is opened.

A queue hands over what it has just written. Whoever reads from thousands of queues in
turn, not too far behind, then needs no file: to open one, read it and close another takes longer
than the rest of a pull. Queues whose files are open anyway keep nothing here.
"""

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roketto.store.consumequeue import ConsumeQueue

__all__ = ["BYTES_MAX", "PIECE_BYTES", "PIECE_BYTES_MAX", "Kept", "RecentUnits"]

BYTES_MAX: Final = 128 * 1024 * 1024
"""What is kept of all queues together, unless said otherwise; the oldest goes first."""

PIECE_BYTES: Final = 160
"""What a piece takes in memory besides its units."""

PIECE_BYTES_MAX: Final = 16_384
"""A queue that has more to write at once is a busy one: of its file, much is read in advance."""

_LEFT_OVER_MAX: Final = 1_024
"""Entries of queues that have been forgotten, before all of them are looked for."""


class Kept:
    """Pieces of one queue, each beginning where the one before it ends."""

    __slots__ = ("pieces", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.pieces: list[bytes] = []

    @property
    def end(self) -> int:
        """Where the last one ends."""
        return self.starts[-1] + len(self.pieces[-1])

    def read(self, position: int, size: int) -> bytes:
        """So many bytes of the queue; none unless all of them are here."""
        starts = self.starts
        number = bisect_right(starts, position) - 1
        if number < 0:
            return b""
        pieces = self.pieces
        at = position - starts[number]
        found = pieces[number][at : at + size]
        while len(found) < size:
            number += 1
            if number == len(pieces):
                return b""
            found += pieces[number][: size - len(found)]
        return found


class RecentUnits:
    """What is kept of all queues of a table; a queue has its own part as ``kept``."""

    __slots__ = ("_bytes", "_bytes_max", "_left_over", "_order")

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        # Whose piece is the oldest, the next one, and so on; also of queues without any, which
        # have been forgotten since.
        self._order: deque[ConsumeQueue] = deque()
        self._left_over = 0

    def keep(self, queue: "ConsumeQueue", position: int, units: bytes) -> None:
        """Take what a queue has written at a position."""
        if len(units) > PIECE_BYTES_MAX:
            self.forget(queue)
            return
        kept = queue.kept
        if kept is not None and kept.end != position:
            self.forget(queue)
            kept = None
        if kept is None:
            kept = queue.kept = Kept()
        kept.starts.append(position)
        kept.pieces.append(units)
        self._order.append(queue)
        self._bytes += len(units) + PIECE_BYTES
        while self._bytes > self._bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        queue = self._order.popleft()
        kept = queue.kept
        if kept is None:
            self._left_over -= 1
            return
        del kept.starts[0]
        self._bytes -= len(kept.pieces.pop(0)) + PIECE_BYTES
        if not kept.pieces:
            queue.kept = None

    def forget(self, queue: "ConsumeQueue") -> None:
        """Keep nothing of a queue: it ends elsewhere now, or is gone."""
        kept = queue.kept
        if kept is None:
            return
        queue.kept = None
        self._bytes -= sum(map(len, kept.pieces)) + PIECE_BYTES * len(kept.pieces)
        self._left_over += len(kept.pieces)
        if self._left_over > _LEFT_OVER_MAX and self._left_over > len(self._order) // 2:
            self._order = deque([other for other in self._order if other.kept is not None])
            self._left_over = 0
