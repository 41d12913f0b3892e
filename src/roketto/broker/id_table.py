"""A table by which ids are found in their order by their hashes, in flat memory; pure.

A slot is one number, 0 while it is free::

    slot    | 30 bits of the hash | 1 | the last 32 bits of the serial number |
              ^ they say where to look first; what does not fit there is behind it

What is there for those bits is looked up in the order, which has the whole hash: see id_order.py.
A slot of half the size of a hash and a place in the log is worth that. With a million ids most of
the time goes into memory that is in no cache of the processor, and half as much of it is touched.

Nobody removes an id: what has left the order is dead. A dead slot is taken by the next id that
passes it, and when too few are free, all that are dead are freed at once. To visit each id once
more, wherever it lies, would take as long as finding it.

So an id takes 12 to 32 bytes, less than in a dict, and is mostly found with one look at the memory.
Nothing is allocated for it, and no garbage collection visits it.
"""

from typing import Final

from librt.strings import read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

from roketto.broker.id_order import IdOrder
from roketto.compiled import is_compiled

__all__ = ["SLOTS_LEAST", "UNKNOWN", "IdTable", "hash_of_id"]

UNKNOWN: Final = -1
"""What is found for a hash that is not there."""

SLOTS_LEAST: Final = 8
_SKIPPED_BITS: Final = 6
"""The last bits of hashes say which of several tables has them: they are the same within one."""
_NOWHERE: Final = -1

_MARKS: Final = (1 << 30) - 1
_MARK_SHIFT: Final = 33
_TAKEN: Final = 1 << 32
_SERIALS: Final = _TAKEN - 1
"""They begin anew after four billions, with less than that alive. What died before may then seem to
be alive, but the order has another hash for it; its slot is freed later."""

_NEIGHBOUR_BITS: Final = 3
_NEIGHBOURS: Final = (1 << _NEIGHBOUR_BITS) - 1
_SPREAD: Final = 0x0113_79B9_7F4A_7C15
"""Odd, with its bits all over it; times what is left of a byte it is still a number of 63 bits."""

_USUAL_BYTES: Final = 32
"""Of the ids that clients make, but for those with addresses of IPv6."""
_MIXES_WORDS: Final = is_compiled()
"""In compiled code products lose what is more than 64 bits; elsewhere they would grow and grow."""
_SECRET: Final[i64] = hash(b"dedup")
"""Another one in each process, as hashes of bytes are: nobody can aim many ids at one slot. A few
may have one hash, which costs a look at the message of each."""
_HALF: Final = 32


def hash_of_id(identity: bytes) -> i64:
    """A hash by which ids with the same bytes but for the last bits of the last one are neighbours.

    Clients end their ids with a counter. The slots of eight neighbours are as large as a line of
    the processor's cache, and only the first of them has to come from memory.
    """
    last: i64 = identity[-1]
    number: i64
    if _MIXES_WORDS and len(identity) == _USUAL_BYTES:
        number = _mix(identity)
    else:
        number = hash(identity[:-1])
    number ^= (last >> _NEIGHBOUR_BITS) * _SPREAD
    return number & ~(_NEIGHBOURS << _SKIPPED_BITS) | (last & _NEIGHBOURS) << _SKIPPED_BITS


def _mix(identity: bytes) -> i64:
    """A hash of all but the last byte of an id of the usual length, without a copy of them.

    A product only carries upwards what it is made of; so its upper half is added to the lower one,
    and the last word, behind which no other comes, takes two steps.
    """
    number = _step(_SECRET ^ read_i64_le(identity, 0))
    number = _step(number ^ read_i64_le(identity, 8))
    number = _step(number ^ read_i64_le(identity, 16))
    return _step(_step(number ^ read_i64_le(identity, 23)))


def _step(number: i64) -> i64:
    number *= _SPREAD
    return number ^ number >> _HALF


class IdTable:
    """Where in an order the ids with some hashes are; it is as large as it has to be.

    order.add(number, log_offset)
    table.put(number, order)
    table.find(number, order)           # UNKNOWN, or the serial number
    table.tidy(order)                   # once in a while: gives room back

    The order is always the same one.
    """

    __slots__ = ("_last", "_slots", "_sought", "_sought_at", "used")

    def __init__(self) -> None:
        self.used: i64 = 0
        """Slots that are not free; those of them that are dead count."""
        self._slots: vec[i64] = vec[i64]([0] * SLOTS_LEAST)
        self._last: i64 = SLOTS_LEAST - 1
        """The number of the last slot, all of whose bits are set."""
        self._sought: i64 = 0
        self._sought_at: i64 = _NOWHERE
        """The hash that was looked for last, and the slot that is or would be its own."""

    @property
    def slot_count(self) -> int:
        """How many there are, most of them free."""
        return self._last + 1

    def find(self, number: i64, order: IdOrder) -> i64:
        """The newest with a hash; UNKNOWN if there is none, or it has left the order."""
        slots, last = self._slots, self._last
        begin = order.begin
        count = order.end - begin
        mark = number >> _SKIPPED_BITS & _MARKS
        self._sought = number
        dead: i64 = _NOWHERE
        at = mark & last
        slot = slots[at]
        while slot:
            age = slot - begin & _SERIALS
            if age >= count:
                if dead < 0:
                    dead = at
            elif slot >> _MARK_SHIFT == mark and order.number_of(begin + age) == number:
                self._sought_at = at
                return begin + age
            at = at + 1 & last
            slot = slots[at]
        self._sought_at = at if dead < 0 else dead
        return UNKNOWN

    def put(self, number: i64, order: IdOrder) -> bool:
        """Let a hash lead to what came to the order last; whether it led to another one.

        Whoever puts it has mostly just looked for it: then nobody looks again where its slot is.
        """
        if self._sought != number or self._sought_at < 0:
            self.find(number, order)
        slots, at = self._slots, self._sought_at
        was_alive = _is_alive(slots[at], order)
        if not slots[at]:
            self.used += 1
        serial = order.end - 1
        slots[at] = (number >> _SKIPPED_BITS & _MARKS) << _MARK_SHIFT | _TAKEN | serial & _SERIALS
        if 3 * self.used > 2 * (self._last + 1):
            self._sweep(order)
            self._fit()
        return was_alive

    def tidy(self, order: IdOrder) -> None:
        """Give room back if most of it is dead or free."""
        if self._last >= SLOTS_LEAST and 8 * self._count(order) <= self._last:
            self._sweep(order)
            self._fit()

    def _count(self, order: IdOrder) -> i64:
        """How many are alive."""
        slots = self._slots
        alive: i64 = 0
        for at in range(len(slots)):
            if _is_alive(slots[at], order):
                alive += 1
        return alive

    def _sweep(self, order: IdOrder) -> None:
        """Free the slots of what is dead, and let what is alive move up.

        Behind a free slot each one is emptied and filled anew: what belongs before it has been, and
        so it comes to lie where it was, or before. Another table would do, too, but memory that is
        taken and given back for it costs more than all the rest.
        """
        slots, last = self._slots, self._last
        free: i64 = 0
        while slots[free]:
            free += 1
        alive: i64 = 0
        for step in range(1, last + 1):
            at = free + step & last
            slot = slots[at]
            if slot:
                slots[at] = 0
                if _is_alive(slot, order):
                    alive += 1
                    _fill(slots, last, slot)
        self.used = alive
        self._sought_at = _NOWHERE

    def _fit(self) -> None:
        """Have as many slots that at most half of them are used, and no more; none is dead."""
        slot_count: i64 = SLOTS_LEAST
        while slot_count < 2 * self.used:
            slot_count *= 2
        if slot_count == self._last + 1:
            return
        old = self._slots
        slots = vec[i64]([0] * slot_count)
        for at in range(len(old)):
            if old[at]:
                _fill(slots, slot_count - 1, old[at])
        self._slots, self._last = slots, slot_count - 1


def _is_alive(slot: i64, order: IdOrder) -> bool:
    """Whether what a slot leads to is in the order."""
    return slot != 0 and (slot - order.begin & _SERIALS) < order.end - order.begin


def _fill(slots: vec[i64], last: i64, slot: i64) -> None:
    """Let what was in another slot take the first one for its hash that is free."""
    at = slot >> _MARK_SHIFT & last
    while slots[at]:
        at = at + 1 & last
    slots[at] = slot
