"""How much work filters may make in one turn of the loop: nobody else waits for more than that.

A costly expression over messages with long properties takes many milliseconds for each of them, and
one read of a queue looks at hundreds. So a read stops where the work of its turn is used up, and
says how far it came; whoever comes then waits for another turn, in the order of their coming. The
loop serves all others in between.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from roketto.broker.expiry import Alive
from roketto.broker.wanted import Wanted
from roketto.protocol.record_layout import peek_properties, peek_queue_offset
from roketto.store.reading import GetResult

__all__ = ["UNITS_PER_TURN", "WAITING_MAX", "FilterWork", "Look"]

UNITS_PER_TURN: Final = 40_000_000
"""About 10 ms of the worst that expressions can do; 800 messages, all that a read looks at, with
200 bytes of properties each, for an expression of 150 bytes. See ``Wanted.work_of``."""

WAITING_MAX: Final = 10_000
"""New requests that wait for a turn, of about a kilobyte each."""

Turn = Callable[[], None]
CallSoon = Callable[[Turn], object]


class FilterWork:
    """What is left of the work of this turn, and who waits for another one.

    work = FilterWork()
    if work.is_used_up:
        work.wait(do_it)                     # called in a later turn
    else:
        look = Look(work, wanted)
        found = store.get(..., predicate=look.matches_record)
        look.end(found)
    """

    def __init__(
        self, *, units_per_turn: int = UNITS_PER_TURN, call_soon: CallSoon | None = None
    ) -> None:
        """``call_soon`` is that of the running loop unless it is given."""
        self._units_per_turn = units_per_turn
        self._call_soon = call_soon
        self._left = units_per_turn
        self._waiting: deque[Turn] = deque()
        self._is_turn_due = False

    def __len__(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    @property
    def is_used_up(self) -> bool:
        """Whether whoever comes now has to wait."""
        return self._left <= 0 or bool(self._waiting)

    @property
    def is_left(self) -> bool:
        """Whether whoever has the turn may go on."""
        return self._left > 0

    def spend(self, units: int) -> None:
        """Take note of work; what is used up comes back with the next turn."""
        self._left -= units
        if self._left <= 0:
            self._ask_for_turn()

    def wait(self, turn: Turn) -> None:
        """Have ``turn`` called when its time has come; nothing may escape from it."""
        self._waiting.append(turn)
        self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            call_soon = self._call_soon or asyncio.get_running_loop().call_soon
            call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_turn_due = False
        self._left = self._units_per_turn
        while self._waiting and self._left > 0:
            self._waiting.popleft()()
        if self._waiting:
            self._ask_for_turn()


class Look:
    """One read that looks at properties, until the work of its turn is used up.

    It looks at one record in any case: so it gets on, though its expression may have been parsed in
    the same turn.
    """

    def __init__(self, work: FilterWork, wanted: Wanted, alive: Alive | None = None) -> None:
        """With ``alive``, what it says to be over is not wanted."""
        self._work = work
        self._wanted = wanted
        self._alive = alive
        self._has_looked = False
        self._stopped_at: int | None = None

    def matches_record(self, record: memoryview) -> bool:
        """Whether a record is wanted; of those that come too late nobody knows."""
        if self._stopped_at is not None:
            return False
        if self._has_looked and not self._work.is_left:
            self._stopped_at = peek_queue_offset(record)
            return False
        self._has_looked = True
        properties = peek_properties(record)
        is_wanted = self._wanted.matches(properties)
        self._work.spend(self._wanted.work_of(properties))
        return is_wanted and (self._alive is None or self._alive.matches_record(record))

    def end(self, found: GetResult) -> None:
        """Let the next read go on with the first record that was not looked at."""
        if self._stopped_at is not None:
            found.next_offset = self._stopped_at
