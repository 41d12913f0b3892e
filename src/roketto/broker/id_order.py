"""Hashes of ids with the log offsets of their messages, in the order they came; pure.

Blocks of numbers, two for each id; the first block is read, the last one is written::

    block   | hash, log offset | hash, log offset | ...
                                 ^ ``begin``, the serial number of the first that is left

They are flat memory: nothing is allocated for an id, and no garbage collection visits it.
"""

from collections import deque
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

__all__ = ["BLOCK_IDS", "IdOrder"]

_BLOCK_BITS: Final = 9
BLOCK_IDS: Final = 1 << _BLOCK_BITS
"""Whatever is forgotten comes back to the allocator in such pieces."""
_BLOCK_LAST: Final = BLOCK_IDS - 1


class _Block:
    """Room for some ids."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers: vec[i64] = vec[i64]([0] * (2 * BLOCK_IDS))


class IdOrder:
    """Ids from the one that came first to the one that came last; each has a serial number.

    order.add(number, log_offset)
    order.number_of(serial), order.place_of(serial)     # from order.begin, below order.end
    order.drop(1)
    """

    __slots__ = ("_blocks", "_first", "_last", "begin", "end")

    def __init__(self) -> None:
        self.begin: i64 = 0
        """The serial number of the first that is left."""
        self.end: i64 = 0
        """That of the next one."""
        self._first: _Block = _Block()
        self._blocks: deque[_Block] = deque()
        """Those between the first and the last."""
        self._last: _Block = self._first
        """There is always room in it for one more."""

    @property
    def count(self) -> int:
        """How many there are."""
        return self.end - self.begin

    def add(self, number: i64, log_offset: i64) -> None:
        """One more; it is the last."""
        numbers, at = self._last.numbers, 2 * (self.end & _BLOCK_LAST)
        numbers[at] = number
        numbers[at + 1] = log_offset
        self.end += 1
        if not self.end & _BLOCK_LAST:
            if self._last is not self._first:
                self._blocks.append(self._last)
            self._last = _Block()

    def number_of(self, serial: i64) -> i64:
        """The hash of one of those that are left."""
        return self._block_of(serial).numbers[2 * (serial & _BLOCK_LAST)]

    def place_of(self, serial: i64) -> i64:
        """The log offset of one of them."""
        return self._block_of(serial).numbers[2 * (serial & _BLOCK_LAST) + 1]

    def _block_of(self, serial: i64) -> _Block:
        at = (serial >> _BLOCK_BITS) - (self.begin >> _BLOCK_BITS)
        if not at:
            return self._first
        return self._blocks[at - 1] if at <= len(self._blocks) else self._last

    def count_below(self, log_offset: i64, count_max: i64) -> i64:
        """Of how many that came first the messages are below a place in the log.

        It looks no further than the first block: whoever wants more asks again when they are gone.
        """
        numbers, begin = self._first.numbers, self.begin
        end: i64 = min(begin + count_max, self.end, (begin | _BLOCK_LAST) + 1)
        serial = begin
        while serial < end and numbers[2 * (serial & _BLOCK_LAST) + 1] < log_offset:
            serial += 1
        return serial - begin

    def drop(self, count: i64) -> None:
        """Forget so many that came first; there are as many."""
        block = self.begin >> _BLOCK_BITS
        self.begin += count
        for _ in range((self.begin >> _BLOCK_BITS) - block):
            self._first = self._blocks.popleft() if self._blocks else self._last
