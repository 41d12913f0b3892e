"""Timer messages: put aside when they come, delivered when they are due, once and never early.

A timer message is stored in rmq_sys_wheel_timer, which has all there is to know. From there it goes
into the slot of its time in the wheel (store/timer_store.py), and when that slot has ended, a copy
of it goes to its real queue. Both steps are done in turns.

What the disk has of the wheel, how far the slots are delivered among it, never says more than is
safe: it is flushed when the messages and the copies that it speaks of are in the log for good. It
may say less. After a start, messages that were due by then are looked for in their real queues
(copies.py), and only what is not found is delivered.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from roketto.broker.config import BrokerConfig
from roketto.broker.copies import Copies
from roketto.broker.due_slot import DueSlot
from roketto.broker.timer_flush import TimerFlush
from roketto.broker.timer_gate import TimerGate
from roketto.broker.timer_intake import ENQUEUE_TURN_MAX, TimerIntake
from roketto.broker.timer_rules import (
    TIMER_QUEUE_ID,
    is_recalled,
    out_ms,
    release,
    roll,
)
from roketto.broker.turn import Turn
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.errors import IllegalNameError, RecordError
from roketto.protocol.names import TIMER_TOPIC
from roketto.protocol.record import Record
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import PutResult, Store
from roketto.store.timer_checkpoint import TimerCheckpoint
from roketto.store.timer_log import NO_UNIT, ROLL, TimerUnit
from roketto.store.timer_metrics import TimerMetricsTable
from roketto.store.timer_store import TimerStore

__all__ = ["Timers"]

log = logging.getLogger(__name__)

_STEP_S_MAX: Final = 0.1
"""How often it looks for new messages, as Java does; a slot that ends is not slept over."""
_RETRY_S: Final = 0.1
_FAILURE_S: Final = 1.0
_UNFIT: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)
"""A copy that was refused like this is refused for ever."""


class Timers:
    """The timer messages of a broker. ``put`` stores a copy in its real queue.

    timers = Timers(timer_store, metrics, config, store, partial(put_as_is, store, stats))
    timers.start()                         # the store is open
    tasks = [asyncio.create_task(work) for work in timers.tasks()]
    timers.close()                         # after the store was closed
    """

    def __init__(
        self,
        timers: TimerStore,
        metrics: TimerMetricsTable,
        config: BrokerConfig,
        store: Store,
        put: Callable[[Record], PutResult],
        *,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.metrics = metrics
        self.gate = TimerGate(timers.wheel, config, clock_ms=clock_ms)
        self.flush = TimerFlush(timers, metrics, store, config)
        self.intake = TimerIntake(timers, metrics, config, store, self.flush, clock_ms)
        self._timers = timers
        self._config = config
        self._store = store
        self._put = put
        self._clock_ms = clock_ms
        self._precision_ms = config.timer_precision_ms
        self._due: DueSlot | None = None
        self._fence: tuple[int, int] | None = None
        """Messages of slots before this time are all before this offset of their queue."""
        self._copies = Copies(store, 0)
        self._old_ms = 0
        """Slots up to this time may have been delivered before this start..."""
        self._old_end = 0
        """...as far as their messages are before this log offset."""
        self._old_offset = 0
        """Messages before this one were in the wheel at the start."""
        self._refused = ""
        self._rates = _Rates()

    # --- starting and stopping --------------------------------------------------------------------

    def start(self) -> None:
        """Load the wheel; the store is open."""
        if not self._config.timer_wheel_enable:
            return
        timers = self._timers
        queue = self._store.queue(TIMER_TOPIC, TIMER_QUEUE_ID)
        problem = timers.open(queue)
        if problem is not None:
            log.warning("the timer wheel is made anew from its messages: %s", problem)
            self.metrics.clear()
        self._due = self._fence = None
        self._old_end = self._store.log.max_offset
        self.flush.start(self._old_end)
        self._old_ms = max(self._clock_ms(), self._store.log.store_time_ms)
        self._old_offset = timers.queue_offset
        self._copies = Copies(self._store, min(timers.read_ms, self._store_time_of_next(queue)))
        log.info(
            "%d timer messages wait; the wheel is at %d, and its queue at %d",
            timers.pending, timers.read_ms, timers.queue_offset,
        )  # fmt: skip

    def _store_time_of_next(self, queue: ConsumeQueue | None) -> int:
        """When the first message was stored that is not in the wheel."""
        unit = queue.unit(self._timers.queue_offset) if queue is not None else None
        if unit is None:
            return self._old_ms
        try:
            return self._store.record_at(unit.log_offset).store_time_ms
        except (StoreError, RecordError):
            return 0

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What has to run while the broker does."""
        return [self.run(), self.flush.run()] if self._config.timer_wheel_enable else []

    async def run(self) -> None:
        """Deliver whatever gets due; never ends by itself."""
        while True:
            try:
                wait_s = self.step()
            except (OSError, StoreError, RecordError) as error:
                log.error("timer messages cannot be delivered, and are tried again: %s", error)
                wait_s = _FAILURE_S
            self._rates.note(monotonic_s())
            await asyncio.sleep(wait_s)

    def step(self) -> float:
        """Do some of what there is to do; seconds until there is more, 0 if there is now."""
        wait_s = self._enqueue()
        return max(0.0, min(wait_s, self._dequeue()))

    def close(self) -> None:
        """Bring everything to the disk; the store was closed."""
        if self._config.timer_wheel_enable:
            self.flush.close()

    # --- into the wheel ---------------------------------------------------------------------------

    def _enqueue(self) -> float:
        """Bring new messages into the wheel; seconds until there may be more."""
        first_ms = self._timers.read_ms
        if self._due is not None:
            first_ms = self._due.slot_ms + self._precision_ms
        count = self.intake.step(first_ms)
        self._rates.enqueued += count
        return 0.0 if count >= ENQUEUE_TURN_MAX else _STEP_S_MAX

    # --- out of the wheel -------------------------------------------------------------------------

    def _dequeue(self) -> float:
        """Deliver some of what is due; seconds until there is more, 0 if there is now."""
        due = self._due or self._begin_slot()
        if due is None:
            left_ms = self._timers.read_ms + self._precision_ms - self._clock_ms()
            return left_ms / 1000
        if not due.load():
            return 0.0
        turn = Turn()
        while not turn.is_over:
            unit = due.unit
            if unit is None:
                self._finish_slot(due)
                break
            if not self._deliver(due, unit):
                return _RETRY_S if self._refused else 0.0
            due.next()
            turn.take(unit.size)
        return 0.0

    def _begin_slot(self) -> DueSlot | None:
        """The first slot that has ended and has messages; None: there is none, or not yet."""
        timers = self._timers
        end_ms = self._complete_ms()
        if timers.read_ms >= end_ms:
            return None
        slot_ms = timers.wheel.next_used(timers.read_ms, end_ms)
        timers.read_ms = slot_ms
        if slot_ms >= end_ms or timers.wheel.slot(slot_ms).last == NO_UNIT:
            return None  # or it was not looked for further yet
        self._due = DueSlot(timers, self._store, slot_ms)
        return self._due

    def _complete_ms(self) -> int:
        """Slots before this time have ended, and all their messages are in the wheel."""
        timers = self._timers
        if self._fence is None or self._fence[0] <= timers.read_ms:
            queue = self._store.queue(TIMER_TOPIC, TIMER_QUEUE_ID)
            end = queue.queue_offset_max if queue is not None else 0
            self._fence = timers.floor(self._clock_ms()), end
        end_ms, offset = self._fence
        is_behind = timers.queue_offset < offset and timers.has_room
        return timers.read_ms if is_behind else end_ms

    def _finish_slot(self, due: DueSlot) -> None:
        self._timers.finish_slot(due.slot_ms)
        self._due = None
        for topic in due.repeated:  # recalls of what was recalled already
            self.metrics.add(topic, 1)
        for topic in due.recalled.values():  # of what was not there to be recalled
            self.metrics.add(topic, 1)

    def _deliver(self, due: DueSlot, unit: TimerUnit) -> bool:
        """Let one message be consumed, or roll on; False if that has to be tried again."""
        try:
            record = self._store.record_at(unit.log_offset)
        except (StoreError, RecordError) as error:
            log.error("a timer message of %d is lost: %s", due.slot_ms, error)
            return True
        topic = record.get_property(names.REAL_TOPIC) or ""
        key = is_recalled(record, due.recalled) if due.recalled else None
        if key is not None:
            del due.recalled[key]
            return True
        copy = self._copy_of(record, unit)
        if copy is None:
            log.error("%r of %d says of no queue that it is for", record, due.slot_ms)
            return True
        is_delivered = self._is_old(due, record, unit) and self._copies.has(
            copy.topic, copy.queue_id, copy.prepared_log_offset
        )
        if is_delivered is None:
            return False
        if not is_delivered and not self._store_copy(record, copy):
            return False
        self.metrics.add(topic, -1)
        self._rates.dequeued += 1
        return True

    def _copy_of(self, record: Record, unit: TimerUnit) -> Record | None:
        now_ms = self._clock_ms()
        if unit.magic & ROLL:
            slot_ms = self.intake.slot_in(record)
            return None if slot_ms is None else roll(record, slot_ms, unit.base_ms, now_ms)
        return release(record, unit.base_ms, now_ms)

    def _store_copy(self, record: Record, copy: Record) -> bool:
        """Store a copy; False if that has to be tried again."""
        try:
            self.flush.rests_on(self._put_fitting(copy).end)
        except PutRefusedError as refused:
            if refused.status in _UNFIT:
                log.error("%r cannot be delivered: %s", record, refused)
                return True
            if refused.reason != self._refused:
                self._refused = refused.reason
                log.warning("timer messages wait longer, the store takes none: %s", refused)
            return False
        except (IllegalNameError, RecordError) as error:
            log.error("%r cannot be delivered: %s", record, error)
            return True
        self._refused = ""
        return True

    def _put_fitting(self, copy: Record) -> PutResult:
        """Store a copy, without the times of its waiting if its properties are too long then."""
        try:
            return self._put(copy)
        except PutRefusedError as refused:
            if refused.status not in _UNFIT:
                raise
            for name in (names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS, names.TIMER_ROLL_TIMES):
                copy.remove_property(name)
            return self._put(copy)

    def _is_old(self, due: DueSlot, record: Record, unit: TimerUnit) -> bool:
        """Whether a message may have been delivered before this start."""
        if record.log_offset >= self._old_end:
            return False
        if due.slot_ms <= self._old_ms:
            return True
        if record.queue_offset < self._old_offset:
            self._copies.forget()
            return False
        # It has come into the wheel since, perhaps once more and not where it was before.
        slot_ms = out_ms(record)
        return bool(unit.magic & ROLL) or (slot_ms is not None and slot_ms <= self._old_ms)

    # --- how it is doing --------------------------------------------------------------------------

    @property
    def checkpoint(self) -> TimerCheckpoint | None:
        """What the disk has; None without a wheel."""
        return self._timers.saved if self._config.timer_wheel_enable else None

    def figures(self) -> dict[str, str]:
        """What Java says of its wheel among the figures of a broker."""
        if not self._config.timer_wheel_enable:
            return _WITHOUT_WHEEL
        timers = self._timers
        queue = self._store.queue(TIMER_TOPIC, TIMER_QUEUE_ID)
        end = queue.queue_offset_max if queue is not None else 0
        return {
            "timerReadBehind": str((self._clock_ms() - timers.read_ms) // 1000),
            "timerOffsetBehind": str(end - timers.queue_offset),
            "timerCongestNum": str(timers.pending),
            "timerEnqueueTps": str(self._rates.enqueued_tps),
            "timerDequeueTps": str(self._rates.dequeued_tps),
        }


class _Rates:
    """Messages into the wheel and out of it, a second."""

    def __init__(self) -> None:
        self.enqueued = self.dequeued = 0
        """Since they were noted last."""
        self.enqueued_tps = self.dequeued_tps = 0.0
        self._noted_s = monotonic_s()

    def note(self, now_s: float) -> None:
        """Tell the rates anew, if a second is over."""
        passed_s = now_s - self._noted_s
        if passed_s >= 1:
            self.enqueued_tps = self.enqueued / passed_s
            self.dequeued_tps = self.dequeued / passed_s
            self.enqueued = self.dequeued = 0
            self._noted_s = now_s


_WITHOUT_WHEEL: Final = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}
