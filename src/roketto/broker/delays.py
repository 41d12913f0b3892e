"""Delayed messages: put aside when they come, delivered when they are due, once.

Each level has its queue, in which messages are due in the order they came; so one offset says how
far a level has been delivered. ``config/delayOffset.json`` keeps it, and has to be neither quick
nor exact:

* It never says more than is safe. An offset goes into the table when the copies before it are on
  the disk: after a power loss no message counts as delivered whose copy is gone.
* It may say less. Each copy names the record that it is a copy of, in a field that has no other
  use there (``prepared_log_offset``). After a start, every message that was due by then is looked
  for in its real queue, among what was stored there since the first of them was due; only what is
  not found is delivered. So a kill at any moment brings no second copy. What a broker of Java's has
  delivered names no record, and may come again as it does there.

How far that looks back is in copies.py.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from roketto.broker.copies import Copies
from roketto.broker.delay_levels import DelayLevels, Wait, level_of, release, schedule
from roketto.broker.timer_rules import TIMERS
from roketto.broker.turn import Turn
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.bodies.offsets import DelayOffsetSerializeWrapper
from roketto.protocol.errors import IllegalNameError, RecordError
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.record import Record
from roketto.protocol.sysflags import (
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.delay_table import LEVELS_MAX, DelayOffsetTable
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import PutResult, Store
from roketto.store.unit import Unit

__all__ = ["Delays"]

log = logging.getLogger(__name__)

_STEP_S_MAX: Final = 1.0
"""How long it sleeps at most: no delay is shorter, and the wall clock may be set meanwhile."""
_RETRY_S: Final = 0.1
"""When a copy that the store refused is tried again, as in Java."""
_FAILURE_S: Final = 1.0


def _ignore(_queue_id: int, _size: int) -> None:
    """What happens to deliveries that nobody counts."""


class _Level:
    """One level: where it is, and which of its messages may have been delivered before."""

    __slots__ = ("level", "offset", "old_end", "queue_id", "wait")

    def __init__(self, level: int, delay_ms: int, offset: int) -> None:
        self.level: int = level
        self.queue_id: int = level - 1
        self.offset: int = offset
        """The next to deliver."""
        self.old_end: int = 0
        """Below this, and due by then, messages may have been delivered before this start."""
        self.wait: Wait = Wait(delay_ms)


class Delays:
    """The delayed messages of a broker. ``put`` stores a copy in its real queue, ``timer`` lets a
    message wait that asks for a time of its own, and ``note_delivered`` is told from which queue a
    message was, and of which size.

    put = partial(put_as_is, store, stats)
    delays = Delays(tables.delays, levels, store, put, timers.transform)
    delays.transform(record)               # of every message on its way into the store
    task = asyncio.create_task(delays.run())
    delays.settle()                        # after the store was closed, before the table is saved
    """

    def __init__(
        self,
        table: DelayOffsetTable,
        levels: DelayLevels,
        store: Store,
        put: Callable[[Record], PutResult],
        timer: Callable[[Record], None],
        *,
        note_delivered: Callable[[int, int], None] = _ignore,
        clock_ms: Callable[[], int] = wall_ms,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self._note_delivered = note_delivered
        self._table = table
        self._delays = levels
        self._store = store
        self._put = put
        self._timer = timer
        self._clock_ms = clock_ms
        self._now_s = now_s
        self._levels: list[_Level] = []
        self._turn = 0
        """The level that is the first to deliver in the next turn."""
        self._started_ms = 0
        self._since_ms = 0
        self._copies = Copies(store, 0)
        self._end = 0
        """Where the last copy ends in the log."""
        self._mark: dict[int, int] = {}
        self._mark_end = 0
        self._refused = ""

    def wrapper(self) -> DelayOffsetSerializeWrapper:
        """How far each level is, as slaves fetch it."""
        return self._table.body

    # --- when a message comes ---------------------------------------------------------------------

    def level_of(self, record: Record) -> int:
        """The delay level that a message asks for; not above 0 means none."""
        return level_of(record)

    def transform(self, record: Record) -> None:
        """Make a delayed message wait in the queue of its level, or for its time."""
        if record.sys_flag & TRANSACTION_TYPE in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            return
        level = level_of(record)
        if level > 0:
            schedule(record, level, self._delays)
        else:
            self._timer(record)

    def refuse_in_batch(self, batch: Record) -> None:
        """PutRefusedError if a batch is delayed: its messages have one place, and no time."""
        level = level_of(batch)
        if level > 0:
            raise PutRefusedError(
                PutStatus.MESSAGE_ILLEGAL,
                f"a batch for topic {batch.topic} has delay level {level}; send delayed messages"
                " one by one",
            )
        for name in TIMERS:
            if batch.get_property(name) is not None:
                raise PutRefusedError(
                    PutStatus.MESSAGE_ILLEGAL,
                    f"a batch for topic {batch.topic} has property {name}; send timer messages"
                    " one by one",
                )

    # --- when its time has come -------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver whatever gets due; never ends by itself."""
        self.start()
        while True:
            try:
                wait_s = self.step()
            except (OSError, StoreError, RecordError) as error:
                log.error("delayed messages cannot be delivered, and are tried again: %s", error)
                wait_s = _FAILURE_S
            await asyncio.sleep(wait_s)

    def start(self) -> None:
        """Begin where the table says; the store is open."""
        now_ms = self._started_ms = self._since_ms = self._clock_ms()
        self._levels = []
        for number in range(1, LEVELS_MAX + 1):
            queue = self._store.queue(SCHEDULE_TOPIC, number - 1)
            # Levels that are configured no more may still have messages.
            if queue is not None or number <= self._delays.count:
                self._levels.append(self._start_level(number, queue, now_ms))
        self._copies = Copies(self._store, self._since_ms)
        self._mark = self._offsets()

    def _start_level(self, number: int, queue: ConsumeQueue | None, now_ms: int) -> _Level:
        saved = self._table.get(number)
        level = _Level(number, self._delays.delay_ms(number), saved or 0)
        if queue is None:
            level.offset = 0
        elif not queue.queue_offset_min <= level.offset <= queue.queue_offset_max:
            # Not of this store, or of messages that are gone: look at all that there are.
            level.offset = queue.queue_offset_min
        if saved is not None and saved != level.offset:
            log.warning("delay level %d goes on at %d, not at %d", number, level.offset, saved)
            self._table.put(number, level.offset)
        unit = queue.unit(level.offset) if queue is not None else None
        if unit is not None and queue is not None and unit.tags_code <= now_ms:
            level.old_end = queue.queue_offset_max
            self._since_ms = min(self._since_ms, unit.tags_code)
        return level

    def step(self) -> float:
        """Deliver some of what is due; seconds until there is more to do, 0 if there is now."""
        levels = self._levels
        turn = Turn()
        wait_s = _STEP_S_MAX
        first = self._turn
        for number in range(len(levels)):
            at = (first + number) % len(levels)
            wait_s = min(wait_s, self._deliver(levels[at], turn))
            if turn.is_over:
                self._turn = (at + 1) % len(levels)
                break
        self.settle()
        return max(0.0, wait_s)

    def _deliver(self, level: _Level, turn: Turn) -> float:
        """Deliver what is due of one level; seconds until the next is, 0 if it is."""
        queue = self._store.queue(SCHEDULE_TOPIC, level.queue_id)
        if queue is None:
            return _STEP_S_MAX
        if level.offset < queue.queue_offset_min:
            log.error(
                "delay level %d: messages %d to %d were removed before they were due",
                level.level, level.offset, queue.queue_offset_min - 1,
            )  # fmt: skip
            level.offset = queue.queue_offset_min
        while not turn.is_over:
            unit = queue.unit(level.offset)
            if unit is None:
                self._forget_copies(level)
                return _STEP_S_MAX
            wait_s = level.wait.remaining_s(
                level.offset, queue.queue_offset_max, unit.tags_code, self._clock_ms(),
                self._now_s(),
            )  # fmt: skip
            if wait_s > 0:
                return wait_s
            if not self._deliver_one(level, unit):
                return _RETRY_S if self._refused else 0.0
            level.offset += 1
            turn.take(unit.size)
        return 0.0

    def _deliver_one(self, level: _Level, unit: Unit) -> bool:
        """Let one message be consumed; False if that has to be tried again."""
        try:
            record = self._store.record_at(unit.log_offset)
            copy = release(record)
        except (StoreError, RecordError) as error:
            log.error("a delayed message of level %d is lost: %s", level.level, error)
            return True
        if copy is None:
            log.error("%r of level %d says of no queue that it is for", record, level.level)
            return True
        if level.old_end:
            is_delivered = self._is_delivered(level, unit, copy)
            if is_delivered is None:
                return False
            if is_delivered:
                return True
        try:
            where = self._put(copy)
        except PutRefusedError as refused:
            if refused.reason != self._refused:
                self._refused = refused.reason
                log.warning("delayed messages wait longer, the store takes none: %s", refused)
            return False
        except IllegalNameError as error:
            log.error("%r of level %d cannot be delivered: %s", record, level.level, error)
            return True
        self._note_delivered(level.queue_id, where.size)
        self._refused = ""
        self._end = where.end
        return True

    # --- what was delivered before this start -----------------------------------------------------

    def _is_delivered(self, level: _Level, unit: Unit, copy: Record) -> bool | None:
        """Whether the real queue has the copy of a message; None: look again in the next turn."""
        if level.offset >= level.old_end or unit.tags_code > self._started_ms:
            self._forget_copies(level)
            return False
        return self._copies.has(copy.topic, copy.queue_id, unit.log_offset + unit.size)

    def _forget_copies(self, level: _Level) -> None:
        """The level is past what may have been delivered before."""
        if level.old_end:
            level.old_end = 0
            if not any(other.old_end for other in self._levels):
                self._copies.forget()

    # --- how far it is ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Give the table what is safe: the offsets behind copies that are on the disk."""
        flushed = self._store.flushed
        if self._end <= flushed:
            self._note(self._offsets())
        elif self._mark_end <= flushed:
            self._note(self._mark)
            self._mark = self._offsets()
            self._mark_end = self._end

    def save(self) -> bool:
        """Bring what is safe to the disk; whether anything has changed."""
        self.settle()
        return self._table.save_if_changed()

    def progress(self) -> dict[int, tuple[int, int]]:
        """Of each level that was ever used: the next to deliver, and where its queue ends."""
        found: dict[int, tuple[int, int]] = {}
        for level in self._levels:
            queue = self._store.queue(SCHEDULE_TOPIC, level.queue_id)
            if queue is not None and queue.queue_offset_max:
                found[level.level] = (level.offset, queue.queue_offset_max)
        return found

    def _offsets(self) -> dict[int, int]:
        return {level.level: level.offset for level in self._levels if level.offset}

    def _note(self, offsets: dict[int, int]) -> None:
        for level, offset in offsets.items():
            self._table.put(level, offset)
