"""The timers of a store: wheel, log and checkpoint, which always agree on the disk.

All of it is derived from queue 0 of rmq_sys_wheel_timer. ``add`` puts one message of that queue
into the slot of its time; what is taken by ``freeze`` comes to the disk by ``flush``, first the
log, then the wheel, then the checkpoint that speaks of both. So whatever a crash leaves, the wheel
leads to no unit that is not there, and the units behind those of the checkpoint are linked again,
as far as the queue has their messages. Where files are gone or damaged, or the precision was
changed, everything is made anew from the queue.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from roketto.clock import wall_ms
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.files import Files
from roketto.store.timer_checkpoint import TimerCheckpoint, load_timers, save_timers
from roketto.store.timer_log import DELETE, NO_UNIT, UNIT_BYTES, TimerLog, TimerUnit
from roketto.store.timer_wheel import SLOTS, Slot, TimerWheel

__all__ = ["Frozen", "TimerStore"]

UNWRITTEN_BYTES_MAX: Final = 4 << 20
"""Units that wait in memory: some 80,000."""
CHANGED_SLOTS_MAX: Final = 131_072
"""Slots that do: some 250 bytes each."""
LATE_MS_MAX: Final = 3_600_000
"""How late a message may have come into the wheel: made anew, it is looked for so far back."""


class Frozen(NamedTuple):
    """What comes to the disk together."""

    log_end: int
    queue_offset: int
    read_ms: int
    pending: int


class TimerStore:
    """The timers of one store; one thread has them.

    timers = TimerStore(files, root, precision_ms=1000, log_file_bytes=100 << 20)
    problem = timers.open(queue)         # not None: why they are made anew
    timers.add(slot_ms, PLAIN, base_ms, log_offset, size, topic_hash)
    for work in timers.flush(timers.freeze()):
        work()                           # blocks; another thread may do it
    """

    def __init__(
        self,
        files: Files,
        root: Path,
        *,
        precision_ms: int,
        log_file_bytes: int,
        slots: int = SLOTS,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.precision_ms = precision_ms
        self.read_ms = 0
        """Slots before this time are delivered."""
        self.queue_offset = 0
        """Messages before this one are in the wheel."""
        self.pending = 0
        """How many wait there."""
        self.saved = TimerCheckpoint(precision_ms=precision_ms)
        """What the disk has."""
        self.wheel = TimerWheel(files, root / "timerwheel", precision_ms, slots)
        self.log = TimerLog(files, root / "timerlog", log_file_bytes)
        self._path = root / "config" / "timercheck"
        self._files = files
        self._clock_ms = clock_ms

    # --- opening ----------------------------------------------------------------------------------

    def open(self, queue: ConsumeQueue | None) -> str | None:
        """Load what there is; the text says why everything has to be made anew.

        Then ``queue_offset`` is where the queue begins, and ``add`` is called for all of it.
        """
        self._files.make_directory(self._path.parent)
        saved = load_timers(self._files, self._path)
        had_wheel = bool(self._files.size(self.wheel.path))
        is_log_whole = self.log.load()
        problem = None
        if not is_log_whole:
            problem = f"the files in {self.log.directory} are not whole, or of another size"
        elif not self.wheel.open():
            problem = f"{self.wheel.path} has another length than a wheel"
        elif saved is None or not had_wheel:
            missing = self._path if saved is None else self.wheel.path
            problem = f"{missing} is not there, or damaged"
        elif not self.log.holds(saved.log_flushed):
            problem = f"{self.log.directory} has no unit {saved.log_flushed}, where it was last"
        elif saved.is_ours and saved.precision_ms != self.precision_ms:
            problem = f"timerPrecisionMs was {saved.precision_ms} and is {self.precision_ms}"
        least = queue.queue_offset_min if queue is not None else 0
        most = queue.queue_offset_max if queue is not None else 0
        if problem is None and saved is not None and saved.queue_offset > most:
            problem = f"its queue ends at {most}, and {saved.queue_offset} were in the wheel"
        if problem is not None or saved is None:
            self._start_anew(saved, least, most)
            return problem if saved is not None or least < most else None
        self._go_on(saved, queue)
        self.queue_offset = max(least, min(self.queue_offset, most))
        return None

    def _start_anew(self, saved: TimerCheckpoint | None, least: int, most: int) -> None:
        self.log.clear()
        self.wheel.clear()
        fresh = TimerCheckpoint(precision_ms=self.precision_ms, queue_offset=least)
        fresh.master_queue_offset = least
        fresh.read_ms = self.floor(self._clock_ms()) - self.precision_ms
        if saved is not None and saved.read_ms:
            fresh.read_ms = min(fresh.read_ms, self.floor(saved.read_ms))
            fresh.skip_before = min(max(saved.queue_offset, saved.skip_before), most)
            fresh.skip_ms = max(fresh.read_ms - LATE_MS_MAX, saved.skip_ms)
            fresh.version_counter = saved.version_counter
            was_ms = saved.precision_ms or self.precision_ms
            fresh.coarse_before = most
            fresh.coarse_ms = max(0, saved.coarse_ms + was_ms - self.precision_ms)
        self._take(fresh)
        save_timers(self._files, self._path, fresh)

    def _go_on(self, saved: TimerCheckpoint, queue: ConsumeQueue | None) -> None:
        """Take over what the disk has, and link the units that the checkpoint does not know of."""
        self._take(replace(saved, precision_ms=self.precision_ms))
        self.read_ms = self.floor(self.read_ms) or self.floor(self._clock_ms())
        self.log.end_at(saved.log_flushed)
        if not saved.is_ours:
            # One of Java's notes both numbers one after the other, and may be between them.
            last = self.log.last_before(saved.log_flushed)
            found = self._offset_of(queue, last, saved.queue_offset - 1) if last else None
            self.queue_offset = saved.queue_offset if found is None else found + 1
            self.pending = self.wheel.count_from(self.read_ms)
        end = saved.log_flushed
        for position, unit in self.log.scan(end):
            found = self._offset_of(queue, unit, self.queue_offset)
            if found is None:
                break
            if not saved.read_ms:  # nothing was ever saved: nothing is known to be delivered
                self.read_ms = min(self.read_ms, unit.slot_ms)
            slot = self.wheel.slot(unit.slot_ms)
            is_linked = slot.last >= position
            if not is_linked:
                self._link(slot, position, unit)
            if saved.is_ours or not is_linked:  # a wheel of Java's was counted as it is
                self._count(unit)
            self.queue_offset = found + 1
            end = position + UNIT_BYTES
        self.log.end_at(end, saved.log_flushed)
        self.log.erase_rest()

    def _take(self, checkpoint: TimerCheckpoint) -> None:
        self.saved = checkpoint
        self.read_ms, self.queue_offset = checkpoint.read_ms, checkpoint.queue_offset
        self.pending = checkpoint.pending

    def _offset_of(self, queue: ConsumeQueue | None, unit: TimerUnit, near: int) -> int | None:
        """Where the queue has the message of a unit, which is mostly ``near``; None: nowhere."""
        if queue is None:
            return None
        found = queue.unit(near)
        if found is None or found.log_offset != unit.log_offset:
            offsets = range(queue.queue_offset_min, queue.queue_offset_max)
            near = offsets.start + bisect_left(
                offsets, unit.log_offset, key=lambda offset: _log_offset_at(queue, offset)
            )
            found = queue.unit(near)
        is_it = found is not None and (found.log_offset, found.size) == (unit.log_offset, unit.size)
        return near if is_it else None

    # --- messages ---------------------------------------------------------------------------------

    def floor(self, time_ms: int) -> int:
        """The time of the slot that a time belongs to."""
        return time_ms - time_ms % self.precision_ms

    @property
    def has_room(self) -> bool:
        """Whether more messages may be added before the next flush."""
        return (
            self.log.unwritten_bytes < UNWRITTEN_BYTES_MAX
            and self.wheel.changed_slots < CHANGED_SLOTS_MAX
        )

    @property
    def wants_flush(self) -> bool:
        """Whether half of that room is used: a flush that begins now ends before all of it is."""
        return (
            2 * self.log.unwritten_bytes >= UNWRITTEN_BYTES_MAX
            or 2 * self.wheel.changed_slots >= CHANGED_SLOTS_MAX
        )

    @property
    def slot_max_ms(self) -> int:
        """The last slot that may be used: the place of the next may be that of one to deliver."""
        return self.read_ms + (self.wheel.slots - 1) * self.precision_ms

    def add(
        self, slot_ms: int, magic: int, base_ms: int, log_offset: int, size: int, topic_hash: int
    ) -> None:
        """Put a message into the slot of a time."""
        assert self.read_ms <= slot_ms <= self.slot_max_ms, f"{slot_ms} is not in the wheel"
        slot = self.wheel.change(slot_ms)
        position = self.log.append_fields(
            slot.last, magic, base_ms, slot_ms - base_ms, log_offset, size, topic_hash
        )
        if slot.first == NO_UNIT:
            slot.first = position
        slot.last = position
        step = -1 if magic & DELETE else 1
        slot.messages += step
        self.pending += step

    def _link(self, slot: Slot, position: int, unit: TimerUnit) -> None:
        """Let a slot end with a unit."""
        first = position if slot.first == NO_UNIT else slot.first
        count = slot.messages + _step(unit)
        self.wheel.put(unit.slot_ms, first, position, count, slot.magic)

    def _count(self, unit: TimerUnit) -> None:
        if unit.slot_ms >= self.read_ms:
            self.pending += _step(unit)

    def finish_slot(self, slot_ms: int) -> None:
        """The messages of a slot are delivered, and those of all before it."""
        self.pending -= self.wheel.slot(slot_ms).messages
        self.read_ms = slot_ms + self.precision_ms

    # --- to the disk ------------------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        """Whether messages came or went since the last flush."""
        saved = self.saved
        return (
            self.queue_offset != saved.queue_offset
            or self.log.end != saved.log_flushed
            or self.pending != saved.pending
        )

    def freeze(self) -> Frozen:
        """Take what there is; the one before must have been flushed."""
        self.wheel.freeze()
        return Frozen(self.log.end, self.queue_offset, self.read_ms, self.pending)

    def flush(self, frozen: Frozen) -> Iterator[Callable[[], None]]:
        """Bring what was taken to the disk; what it yields blocks, and may run in a thread.

        It must be on the disk before that the commit log has the messages of these units, and the
        copies of those that were delivered.
        """
        self.log.write_to(frozen.log_end)
        yield self.log.sync
        self.log.note_synced()
        self.wheel.write_frozen()
        yield partial(self._files.sync, self.wheel.path)
        saved = self.saved
        checkpoint = replace(
            saved,
            read_ms=frozen.read_ms,
            log_flushed=frozen.log_end,
            queue_offset=frozen.queue_offset,
            master_queue_offset=frozen.queue_offset,
            version_ms=self._clock_ms(),
            version_counter=saved.version_counter + 1,
            pending=frozen.pending,
        )
        yield partial(save_timers, self._files, self._path, checkpoint)
        self.saved = checkpoint

    def close(self) -> None:
        """Give the files back."""
        self._files.close()


def _step(unit: TimerUnit) -> int:
    return -1 if unit.magic & DELETE else 1


def _log_offset_at(queue: ConsumeQueue, offset: int) -> int:
    unit = queue.unit(offset)
    assert unit is not None
    return unit.log_offset
