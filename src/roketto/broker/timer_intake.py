"""Timer messages on their way into the wheel: from their queue into the slots of their times.

The queue says which messages there are, and in which order. What a send has just found out about
its own message is remembered until the message is the next, so that nobody has to read it again; of
all others the log is asked.
"""

import logging
from collections.abc import Callable
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from librt.vecs import vec
from mypy_extensions import i64

from roketto.broker.config import BrokerConfig
from roketto.broker.timer_flush import TimerFlush
from roketto.broker.timer_rules import TIMER_QUEUE_ID, out_ms, roll_slot
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.errors import RecordError
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.javahash import java_hash
from roketto.protocol.names import TIMER_TOPIC
from roketto.protocol.record import Record
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.errors import StoreError
from roketto.store.store import Store
from roketto.store.timer_log import DELETE, PLAIN, ROLL
from roketto.store.timer_metrics import TimerMetricsTable
from roketto.store.timer_store import TimerStore
from roketto.store.unit import UNIT_BYTES

__all__ = ["ENQUEUE_TURN_MAX", "NOTES_MAX", "Notes", "TimerIntake"]

log = logging.getLogger(__name__)

ENQUEUE_TURN_MAX: Final = 256
"""Messages that go into the wheel before others get their turn: about a millisecond, a few if the
log has to be asked."""
NOTES_MAX: Final = 16_384
"""Messages that are remembered, of 24 bytes each: what comes between two turns, and more."""

_SIZE_AT: Final = 8
"""Where the size of a message is in its unit."""
_HASHES_MAX: Final = 1_024
_WHEEL_SLOTS: Final = 7 * 24 * 3600
_BLANK_SLOTS: Final = 60


class _Waiting:
    """What the wheel has to know of a message."""

    __slots__ = ("is_recall", "slot_ms", "topic")

    def __init__(self, slot_ms: int, topic: str, is_recall: bool) -> None:
        self.slot_ms: int = slot_ms
        self.topic: str = topic
        self.is_recall: bool = is_recall


class Notes:
    """What is remembered of messages, in the order of the log; too much forgets the oldest.

    They are numbers in flat memory: an object for each would live long enough to be visited by
    garbage collections.
    """

    __slots__ = ("_first", "_numbers", "_topics", "count")

    def __init__(self) -> None:
        self.count: i64 = 0
        self._first: i64 = 0
        self._numbers: vec[i64] = vec[i64]([0] * (2 * NOTES_MAX))
        """Log offsets and slots, those of one message side by side, in a ring."""
        self._topics: list[str] = [""] * NOTES_MAX

    def add(self, log_offset: i64, slot_ms: i64, topic: str) -> None:
        """Remember the slot and the topic of the message at a log offset."""
        at = (self._first + self.count) % NOTES_MAX
        self._numbers[2 * at] = log_offset
        self._numbers[2 * at + 1] = slot_ms
        self._topics[at] = topic
        self.count += 1
        if self.count > NOTES_MAX:
            self._drop_first()

    def take(self, log_offset: i64) -> _Waiting | None:
        """What is remembered of the message at a log offset; it is forgotten, and all before it."""
        while self.count and self._numbers[2 * self._first] < log_offset:
            self._drop_first()
        at = self._first
        if not self.count or self._numbers[2 * at] != log_offset:
            return None
        self._drop_first()
        return _Waiting(self._numbers[2 * at + 1], self._topics[at], False)

    def _drop_first(self) -> None:
        self._first = (self._first + 1) % NOTES_MAX
        self.count -= 1


class TimerIntake:
    """The way of one broker's timer messages into its wheel.

    intake.note(log_offset, slot_ms, "Orders")    # of a message that was just stored
    intake.step(first_ms)                         # how many messages went into the wheel
    """

    def __init__(
        self,
        timers: TimerStore,
        metrics: TimerMetricsTable,
        config: BrokerConfig,
        store: Store,
        flush: TimerFlush,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._timers: TimerStore = timers
        self._metrics: TimerMetricsTable = metrics
        self._config: BrokerConfig = config
        self._store: Store = store
        self._flush: TimerFlush = flush
        self._clock_ms: Callable[[], int] = clock_ms
        self._precision_ms: int = config.timer_precision_ms
        self._notes: Notes = Notes()
        self._hashes: dict[str, int] = {}

    def note(self, log_offset: int, slot_ms: int, topic: str) -> None:
        """Remember a message that was just stored, waits for a slot, and recalls no other."""
        self._notes.add(log_offset, slot_ms, topic)

    def step(self, first_ms: int) -> int:
        """Bring new messages into the wheel, none before ``first_ms``; how many were looked at."""
        timers = self._timers
        queue = self._store.queue(TIMER_TOPIC, TIMER_QUEUE_ID)
        if queue is None:
            return 0
        self._pass_over_removed(queue)
        if timers.wants_flush:
            self._flush.hurry()
        if not timers.has_room:
            return 0
        base_ms = timers.floor(self._clock_ms())
        window = self.window
        units = queue.read(timers.queue_offset, ENQUEUE_TURN_MAX)
        counts: dict[str, int] = {}
        end = 0
        try:
            for at in range(0, len(units), UNIT_BYTES):
                log_offset: int = read_i64_be(units, at)
                size: int = read_i32_be(units, at + _SIZE_AT)
                found = self._find(log_offset, timers.queue_offset)
                if found is not None:
                    self._add(found, log_offset, size, first_ms, base_ms, window)
                    count = counts.get(found.topic, 0)
                    counts[found.topic] = count - 1 if found.is_recall else count + 1
                timers.queue_offset += 1
                end = log_offset + size
        finally:
            self._flush.rests_on(end)
            for topic, count in counts.items():
                self._metrics.add(topic, count)
        return len(units) // UNIT_BYTES

    def _pass_over_removed(self, queue: ConsumeQueue) -> None:
        timers = self._timers
        if timers.queue_offset < queue.queue_offset_min:
            log.error(
                "timer messages %d to %d were removed before they were in the wheel",
                timers.queue_offset, queue.queue_offset_min - 1,
            )  # fmt: skip
            timers.queue_offset = queue.queue_offset_min

    def _find(self, log_offset: int, queue_offset: int) -> _Waiting | None:
        """The message at a log offset; None if it is lost, or was delivered before."""
        found = self._notes.take(log_offset) or self._read(log_offset)
        if found is None:
            return None
        saved = self._timers.saved
        if queue_offset < saved.skip_before and found.slot_ms < saved.skip_ms:
            return None  # it was delivered before the wheel was made anew
        return found

    def _read(self, log_offset: int) -> _Waiting | None:
        try:
            record = self._store.record_at(log_offset)
        except (StoreError, RecordError) as error:
            log.error("a timer message is lost: %s", error)
            return None
        slot_ms = self.slot_in(record)
        if slot_ms is None:
            log.error("%r says of no time that it waits for", record)
            return None
        is_recall = record.get_property(names.TIMER_DEL_UNIQKEY) is not None
        return _Waiting(slot_ms, record.get_property(names.REAL_TOPIC) or "", is_recall)

    def _add(
        self,
        found: _Waiting,
        log_offset: int,
        size: int,
        first_ms: int,
        base_ms: int,
        window: int,
    ) -> None:
        timers = self._timers
        slot_ms = found.slot_ms
        magic = PLAIN | DELETE if found.is_recall else PLAIN
        if slot_ms - base_ms >= window * self._precision_ms:
            rolled_ms = roll_slot(slot_ms, base_ms, self._precision_ms, window)
            assert rolled_ms is not None
            slot_ms, magic = rolled_ms, magic | ROLL
        slot_ms = max(slot_ms, first_ms)
        if slot_ms > timers.slot_max_ms:  # nobody was here for two weeks: it has to wait its turn
            slot_ms, magic = timers.slot_max_ms, magic | ROLL
        timers.add(slot_ms, magic, base_ms, log_offset, size, self._hash_of(found.topic))

    def _hash_of(self, topic: str) -> int:
        found = self._hashes.get(topic)
        if found is None:
            if len(self._hashes) >= _HASHES_MAX:
                self._hashes.clear()
            found = self._hashes[topic] = java_hash(topic)
        return found

    def slot_in(self, record: Record) -> int | None:
        """The slot that a waiting message names, by the precision of today."""
        slot_ms = out_ms(record)
        if slot_ms is None:
            return None
        saved = self._timers.saved
        if record.queue_offset < saved.coarse_before:
            slot_ms += saved.coarse_ms
        return slot_ms + -slot_ms % self._precision_ms

    @property
    def window(self) -> int:
        """How many slots ahead the wheel is used."""
        bound = min(_WHEEL_SLOTS - _BLANK_SLOTS, I32_MAX // self._precision_ms)
        asked = self._config.timer_roll_window_slot
        return asked if 2 <= asked <= bound else bound
