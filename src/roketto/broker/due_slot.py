"""The messages of one slot of the timer wheel, in the order they came, a bounded number a turn.

A slot leads to its last unit, and each unit to the one before. So all of them are followed first,
which also finds the messages that recall others; of the rest only the positions are kept.
"""

import logging
from array import array
from typing import Final

from roketto.protocol import property_names as names
from roketto.protocol.errors import RecordError
from roketto.store.errors import StoreError
from roketto.store.store import Store
from roketto.store.timer_log import DELETE, NO_UNIT, ROLL, TimerUnit
from roketto.store.timer_store import TimerStore

__all__ = ["DueSlot"]

log = logging.getLogger(__name__)

UNITS_PER_TURN: Final = 1_024
"""Units that are followed in one turn: about a millisecond."""


class DueSlot:
    """One slot that has ended.

    while not due.load():            # a turn each
        ...
    while (unit := due.unit) is not None:
        ...
        due.next()
    """

    def __init__(self, timers: TimerStore, store: Store, slot_ms: int) -> None:
        self.slot_ms = slot_ms
        self.recalled: dict[str, str] = {}
        """What was said of the messages that shall not be delivered -> their topics."""
        self.repeated: list[str] = []
        """The topics of those that were recalled more than once, for each time but one."""
        self._timers = timers
        self._store = store
        self._at = timers.wheel.slot(slot_ms).last
        self._positions = array("q")
        self._unit: TimerUnit | None = None

    def load(self) -> bool:
        """Follow some more units; whether all of them are known."""
        units_left = UNITS_PER_TURN
        while self._at != NO_UNIT:
            if not units_left:
                return False
            units_left -= 1
            unit = self._timers.log.unit(self._at)
            if unit is None:
                self._note_end()
                break
            if unit.magic & DELETE and not unit.magic & ROLL:
                self._recall(unit)
            else:
                self._positions.append(self._at)
            self._at = unit.previous
        return True

    def _note_end(self) -> None:
        if self._at >= self._timers.log.first:
            log.error(
                "the timer log is damaged at %d: what came before it for %d is lost",
                self._at, self.slot_ms,
            )  # fmt: skip
        self._at = NO_UNIT

    def _recall(self, unit: TimerUnit) -> None:
        try:
            record = self._store.record_at(unit.log_offset)
        except (StoreError, RecordError) as error:
            log.error("a message that recalls another is lost: %s", error)
            return
        key = record.get_property(names.TIMER_DEL_UNIQKEY)
        if key is not None:
            if key in self.recalled:
                self.repeated.append(self.recalled[key])
            self.recalled[key] = record.get_property(names.REAL_TOPIC) or ""

    @property
    def unit(self) -> TimerUnit | None:
        """The message that is next; None if there is none."""
        if self._unit is None and self._positions:
            self._unit = self._timers.log.unit(self._positions[-1])
        return self._unit

    def next(self) -> None:
        """Go on to the next message."""
        self._positions.pop()
        self._unit = None
