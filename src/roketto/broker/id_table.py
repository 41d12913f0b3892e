"""A table from the hashes of ids to log offsets, in flat memory; pure.

A slot is two numbers side by side, the hash and the log offset with one added, 0 while it is free::

    slots    | hash, place + 1 | hash, place + 1 | 0, 0 | hash, place + 1 | ...
                 ^ the hash says where to look first; what does not fit there is behind it

Ids are forgotten in the order of the log, so nobody removes them: what leads below a floor that
rises is dead. A dead slot is taken by the next id that passes it, and when too few are free, those
that are alive move to a new table. To visit each id once more, wherever it lies, would take as long
as finding it.

So an id takes 24 to 64 bytes, less than in a dict, and is mostly found with one look at the memory.
Nothing is allocated for it, and no garbage collection visits it.
"""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

__all__ = ["SLOTS_LEAST", "UNKNOWN", "IdTable"]

UNKNOWN: Final = -1
"""What is found for a hash that is not there."""

SLOTS_LEAST: Final = 8
_SKIPPED_BITS: Final = 6
"""The last bits of hashes say which of several tables has them: they are the same within one."""


class IdTable:
    """Hashes of ids, and the log offsets that they lead to; it is as large as it has to be.

    table.put(hash(identity), log_offset, floor)
    table.find(hash(identity), floor)           # UNKNOWN, or the log offset, which is not below
    table.tidy(floor)                           # once in a while: gives room back

    The floor never sinks.
    """

    __slots__ = ("_last", "_slots", "used")

    def __init__(self) -> None:
        self.used: i64 = 0
        """Slots that are not free; those of them that are dead count."""
        self._slots: vec[i64] = vec[i64]([0] * (2 * SLOTS_LEAST))
        self._last: i64 = SLOTS_LEAST - 1
        """The number of the last slot, all of whose bits are set."""

    @property
    def slot_count(self) -> int:
        """How many there are, most of them free."""
        return self._last + 1

    def find(self, number: i64, floor: i64) -> i64:
        """Where a hash leads to; UNKNOWN if it is not there, or dead."""
        slots, last = self._slots, self._last
        at = number >> _SKIPPED_BITS & last
        while slots[2 * at + 1] and slots[2 * at] != number:
            at = at + 1 & last
        place = slots[2 * at + 1] - 1
        return place if place >= floor else UNKNOWN

    def put(self, number: i64, log_offset: i64, floor: i64) -> bool:
        """Let a hash lead to a log offset from now on; whether it led to another one."""
        slots, last = self._slots, self._last
        at = number >> _SKIPPED_BITS & last
        dead: i64 = -1
        while slots[2 * at + 1] and slots[2 * at] != number:
            if dead < 0 and slots[2 * at + 1] <= floor:
                dead = at
            at = at + 1 & last
        was_alive = slots[2 * at + 1] > floor
        if not slots[2 * at + 1]:
            if dead >= 0:
                at = dead
            else:
                self.used += 1
        slots[2 * at] = number
        slots[2 * at + 1] = log_offset + 1
        if 3 * self.used > 2 * (last + 1):
            self._move(floor)
        return was_alive

    def tidy(self, floor: i64) -> None:
        """Give room back if most of it is dead or free."""
        if self._last >= SLOTS_LEAST and 8 * self._count(floor) <= self._last:
            self._move(floor)

    def _count(self, floor: i64) -> i64:
        """How many are alive."""
        slots = self._slots
        alive: i64 = 0
        for at in range(1, len(slots), 2):
            if slots[at] > floor:
                alive += 1
        return alive

    def _move(self, floor: i64) -> None:
        """Leave what is dead behind; at most half of the new table is used then."""
        old = self._slots
        alive = self._count(floor)
        slot_count: i64 = SLOTS_LEAST
        while slot_count < 2 * alive:
            slot_count *= 2
        slots = vec[i64]([0] * (2 * slot_count))
        last = slot_count - 1
        for begin in range(0, len(old), 2):
            if old[begin + 1] > floor:
                at = old[begin] >> _SKIPPED_BITS & last
                while slots[2 * at + 1]:
                    at = at + 1 & last
                slots[2 * at] = old[begin]
                slots[2 * at + 1] = old[begin + 1]
        self._slots, self._last, self.used = slots, last, alive
