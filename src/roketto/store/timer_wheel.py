"""The timer wheel: for each tick of the clock, where its messages are in the timer log.

The file ``timerwheel`` as Java has it: 1,209,600 slots, 14 days of seconds, whatever the precision.
The slot of a time is that of its ticks modulo their number; each is 32 bytes, big-endian:

| offset | type | field                                     |
|--------|------|-------------------------------------------|
| 0      | long | its time in ticks; of another time: empty |
| 8      | long | position of its first unit                |
| 16     | long | position of its last one                  |
| 24     | int  | messages                                  |
| 28     | int  | 0                                         |

The file is sparse: what no message ever waited for takes no room. Changes are in memory, in two
layers, until they may come to the disk: a slot on the disk must not lead to a unit that is not.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from roketto.store.files import Files

__all__ = ["EMPTY", "SLOTS", "Slot", "TimerWheel"]

SLOTS: Final = 2 * 7 * 24 * 3600
SLOT_BYTES: Final = 32

_SLOT: Final = struct.Struct(">qqqii")
_TICK: Final = struct.Struct(">q24x")
_COUNT: Final = struct.Struct(">q16xi4x")
_LOOK_SLOTS: Final = 4_096
"""Slots that are looked at in one turn."""
_PAGE_SLOTS: Final = 128
"""What is read at once where one slot is asked for, and how near to each other changed slots are
that are written at once: 4 KiB, so that no block is filled that was a hole of the file."""
_PAGES_MAX: Final = 1_024
"""Pages that are remembered until the next write: the slots of a day and a half."""


class Slot(NamedTuple):
    """The messages of one tick."""

    tick: int
    first: int
    last: int
    messages: int
    magic: int = 0


EMPTY: Final = Slot(-1, -1, -1, 0)


class ChangedSlot:
    """The same while messages come to it: what the file has of it is older."""

    __slots__ = ("first", "last", "magic", "messages", "tick")

    def __init__(self, tick: int, first: int, last: int, messages: int, magic: int) -> None:
        self.tick: int = tick
        self.first: int = first
        self.last: int = last
        self.messages: int = messages
        self.magic: int = magic

    def as_slot(self) -> Slot:
        """What it is now."""
        return Slot(self.tick, self.first, self.last, self.messages, self.magic)


class TimerWheel:
    """The wheel of one store. One thread has it.

    wheel = TimerWheel(files, path, precision_ms=1000)
    wheel.open()                        # False: damaged; clear() it and make it anew
    wheel.put(time_ms, first, last, count)
    wheel.freeze()                      # these changes belong together...
    wheel.write_frozen(); files.sync(wheel.path)      # ...and come to the disk now
    """

    def __init__(self, files: Files, path: Path, precision_ms: int, slots: int = SLOTS) -> None:
        self.path = path
        self.precision_ms = precision_ms
        self.slots = slots
        self._files = files
        self._fresh: dict[int, ChangedSlot] = {}
        self._frozen: dict[int, ChangedSlot] = {}
        self._pages: dict[int, bytes] = {}

    def open(self) -> bool:
        """Make the file if it is not there; False if it is not that of such a wheel."""
        size = self._files.size(self.path)
        if not size:
            self.clear()
        return not size or size == self.slots * SLOT_BYTES

    def clear(self) -> None:
        """Make an empty wheel of it."""
        self._fresh, self._frozen, self._pages = {}, {}, {}
        self._files.remove(self.path)
        self._files.create_sparse(self.path, self.slots * SLOT_BYTES)
        self._files.sync(self.path)
        self._files.sync_directory(self.path.parent)

    # --- slots ------------------------------------------------------------------------------------

    def slot(self, time_ms: int) -> Slot:
        """The messages of a time."""
        tick = time_ms // self.precision_ms
        index = tick % self.slots
        changed = self._fresh.get(index) or self._frozen.get(index)
        slot = self._slot_in_file(index) if changed is None else changed.as_slot()
        return slot if slot.tick == tick else EMPTY

    def _slot_in_file(self, index: int) -> Slot:
        number = index // _PAGE_SLOTS
        page = self._pages.get(number)
        if page is None:
            begin = number * _PAGE_SLOTS
            count = min(_PAGE_SLOTS, self.slots - begin)
            page = self._files.read_at(self.path, begin * SLOT_BYTES, count * SLOT_BYTES)
            if len(self._pages) >= _PAGES_MAX:
                self._pages.clear()
            self._pages[number] = page
        return Slot._make(_SLOT.unpack_from(page, index % _PAGE_SLOTS * SLOT_BYTES))

    def put(self, time_ms: int, first: int, last: int, count: int, magic: int = 0) -> None:
        """Give a time its messages; those of another time in the same place are forgotten."""
        tick = time_ms // self.precision_ms
        self._fresh[tick % self.slots] = ChangedSlot(tick, first, last, count, magic)

    def change(self, time_ms: int) -> ChangedSlot:
        """The slot of a time, for its caller to change at once."""
        tick = time_ms // self.precision_ms
        index = tick % self.slots
        changed = self._fresh.get(index)
        if changed is None or changed.tick != tick:
            slot = self.slot(time_ms)
            changed = ChangedSlot(tick, slot.first, slot.last, slot.messages, slot.magic)
            self._fresh[index] = changed
        return changed

    def next_used(self, begin_ms: int, end_ms: int) -> int:
        """The first time from ``begin_ms`` on that has messages, or how far was looked for one.

        Both are whole ticks. It looks at a bounded number of slots, and not beyond ``end_ms``.
        """
        tick = begin_ms // self.precision_ms
        index = tick % self.slots
        count = min(end_ms // self.precision_ms - tick, _LOOK_SLOTS, self.slots - index)
        if count <= 0:
            return begin_ms
        raw = self._files.read_at(self.path, index * SLOT_BYTES, count * SLOT_BYTES)
        for number, (found,) in enumerate(_TICK.iter_unpack(raw)):
            slot = self._fresh.get(index + number) or self._frozen.get(index + number)
            if (found if slot is None else slot.tick) == tick + number:
                return (tick + number) * self.precision_ms
        return (tick + count) * self.precision_ms

    def count_from(self, begin_ms: int) -> int:
        """All messages that wait from a time on, as the file has them. It reads all of it."""
        tick = begin_ms // self.precision_ms
        total = 0
        for start, stop in self._files.data_spans(self.path, 0, self.slots * SLOT_BYTES):
            begin = start - start % SLOT_BYTES
            while begin < stop:
                size = min(_LOOK_SLOTS * SLOT_BYTES, stop - begin + -stop % SLOT_BYTES)
                raw = self._files.read_at(self.path, begin, size)
                total += sum(n for found, n in _COUNT.iter_unpack(raw) if found >= tick)
                begin += size
        return total

    # --- to the disk ------------------------------------------------------------------------------

    @property
    def changed_slots(self) -> int:
        """Slots that are not as the file has them."""
        return len(self._fresh) + len(self._frozen)

    def freeze(self) -> None:
        """Take what has changed so far; later changes are not among it."""
        self._frozen |= self._fresh
        self._fresh = {}

    def write_frozen(self) -> None:
        """Bring what was taken to the file; durable after a sync of that.

        What lies between two slots that are near to each other is written as it is.
        """
        self._pages.clear()
        indexes = sorted(self._frozen)
        at = 0
        while at < len(indexes):
            begin = end = indexes[at]
            stop = at + 1
            while (
                stop < len(indexes)
                and indexes[stop] - end <= _PAGE_SLOTS
                and indexes[stop] - begin < _LOOK_SLOTS
            ):
                end = indexes[stop]
                stop += 1
            self._write_span(begin, indexes[at:stop])
            at = stop
        self._frozen = {}

    def _write_span(self, begin: int, indexes: list[int]) -> None:
        size = (indexes[-1] + 1 - begin) * SLOT_BYTES
        span = bytearray(size)
        if size > len(indexes) * SLOT_BYTES:
            span[:] = self._files.read_at(self.path, begin * SLOT_BYTES, size)
        for index in indexes:
            _SLOT.pack_into(span, (index - begin) * SLOT_BYTES, *self._frozen[index].as_slot())
        self._files.write_at(self.path, begin * SLOT_BYTES, bytes(span))
