"""The units (drawn in unit.py) of all queues that are not in their files yet, in flat memory.

Thousands of queues are written to in turn, and what an append needs of its own has to come from
memory each time. So that this is next to nothing, a queue only knows where its newest unit ends;
the unit that follows is written there, and nothing waits for that. Units are in blocks::

    0    240  ten units, each of three numbers: log offset, size, tags code
    240  16   not used

All blocks but the newest of a queue are full. Places are counted in numbers of 64 bits. Which block
of a queue is before which stands in a table of its own, so small that it stays in a cache: whoever
writes a queue to its file then waits for several of its blocks at a time, and not for one after the
other. A block that is given back is the next one that is taken: so it is in a cache, too.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from librt.vecs import vec
from mypy_extensions import i32, i64

__all__ = ["BLOCK_UNITS", "NOWHERE", "UnitBlocks", "is_full"]

BLOCK_UNITS: Final = 10
"""As many as fit 256 bytes: most of thousands of queues have few units in memory."""

_BLOCK_BITS: Final = 5
_BLOCK: Final = 1 << _BLOCK_BITS
_IN_BLOCK: Final = _BLOCK - 1
_UNIT: Final = 3
_FULL: Final = BLOCK_UNITS * _UNIT
"""Where the last unit of a block ends."""

NOWHERE: Final = _FULL
"""Where the newest unit of a queue without any ends. It is the end of the first block, which is
never taken: so a look whether there is room in the last block is one for this, too."""

_SLAB_BITS: Final = 15
_SLAB: Final = 1 << _SLAB_BITS
"""Memory is taken from the system by so much, a quarter of a megabyte."""
_IN_SLAB: Final = _SLAB - 1


def is_full(end: i64) -> bool:
    """Whether the next unit of a queue that ends there takes another block."""
    return end & _IN_BLOCK == _FULL


class _Slab:
    """A piece of memory; it never moves, as a single large one would when it grows.

    For each block, ``before`` is where the block of its queue before it ends, NOWHERE for the
    oldest; for one that is free, the block that was given back before it, 0 for the first of these.
    """

    __slots__ = ("before", "numbers")

    def __init__(self) -> None:
        self.numbers: vec[i64] = vec[i64]([0] * _SLAB)
        self.before: vec[i64] = vec[i64]([0] * (_SLAB >> _BLOCK_BITS))


class UnitBlocks:
    """The blocks of all queues of one table.

    end = blocks.add(NOWHERE, log_offset, size, tags_code)      # the first unit of a queue
    end = blocks.add(end, log_offset, size, tags_code)          # the next one
    blocks.read(end, 2, 0, 2)       # both, as they stand in the queue's file
    end = blocks.drop(end, 2)       # NOWHERE: there is none left
    """

    __slots__ = ("_free", "_slabs", "_unused", "count")

    def __init__(self) -> None:
        self.count: i64 = 0
        """How many units there are."""
        self._slabs: list[_Slab] = []
        # The block that was given back last, 0 without one.
        self._free: i64 = 0
        # The blocks from here on were never taken.
        self._unused: i64 = _BLOCK

    def add(self, end: i64, log_offset: i64, size: i64, tags_code: i64) -> i64:
        """Add a unit to a queue that ends at ``end``, and return where it ends now."""
        if end & _IN_BLOCK == _FULL:
            end = self._take(end)
        numbers = self._slabs[end >> _SLAB_BITS].numbers
        at = end & _IN_SLAB
        numbers[at] = log_offset
        numbers[at + 1] = size
        numbers[at + 2] = tags_code
        self.count += 1
        return end + _UNIT

    def add_run(self, end: i64, log_offset: i64, sizes: list[int], tags_codes: list[int]) -> i64:
        """The same for records of these sizes, one behind the other from ``log_offset`` on."""
        for number, size in enumerate(sizes):
            end = self.add(end, log_offset, size, tags_codes[number])
            log_offset += size
        return end

    def _take(self, end: i64) -> i64:
        """Take a block for a queue whose last one ends at ``end``; where its first unit goes."""
        start = self._free
        if not start:
            start = self._unused
            if start >> _SLAB_BITS == len(self._slabs):
                self._slabs.append(_Slab())
            self._unused = start + _BLOCK
        before = self._slabs[start >> _SLAB_BITS].before
        block = (start & _IN_SLAB) >> _BLOCK_BITS
        if start == self._free:
            self._free = before[block]
        before[block] = end
        return start

    def log_end(self, end: i64) -> i64:
        """Where the message of the unit that ends there has its own end in the log."""
        numbers = self._slabs[end >> _SLAB_BITS].numbers
        at = end & _IN_SLAB
        return numbers[at - 3] + numbers[at - 2]

    def read(self, end: i64, count: i64, first: i64, stop: i64) -> bytes:
        """The units from ``first`` up to ``stop``, as in files, of a queue that has ``count``."""
        assert 0 <= first < stop <= count, (first, stop, count)
        starts: list[i64] = []
        start = end & ~_IN_BLOCK
        block: i64 = (count - 1) // BLOCK_UNITS
        while block * BLOCK_UNITS + BLOCK_UNITS > first:
            if block * BLOCK_UNITS < stop:
                starts.append(start)
            before = self._slabs[start >> _SLAB_BITS].before
            start = before[(start & _IN_SLAB) >> _BLOCK_BITS] & ~_IN_BLOCK
            block -= 1
        units = BytesWriter()
        number = first
        while starts:
            start = starts.pop()
            numbers = self._slabs[start >> _SLAB_BITS].numbers
            at = (start & _IN_SLAB) + number % BLOCK_UNITS * _UNIT
            block_end = (start & _IN_SLAB) + _FULL
            while at < block_end and number < stop:
                write_i64_be(units, numbers[at])
                write_i32_be(units, i32(numbers[at + 1]))
                write_i64_be(units, numbers[at + 2])
                at += _UNIT
                number += 1
        return units.getvalue()

    def drop(self, end: i64, count: i64) -> i64:
        """Take the newest units of a queue away, and return where it ends now."""
        self.count -= count
        while count > 0:
            start = end & ~_IN_BLOCK
            here = (end - start) // _UNIT
            if count < here:
                return end - count * _UNIT
            count -= here
            before = self._slabs[start >> _SLAB_BITS].before
            block = (start & _IN_SLAB) >> _BLOCK_BITS
            end = before[block]
            before[block] = self._free
            self._free = start
        if self.count == 0:  # gives the memory that many queues have taken back
            del self._slabs[1:]
            self._free = 0
            self._unused = _BLOCK
        return end
