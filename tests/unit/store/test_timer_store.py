"""Wheel, log and checkpoint agree after any stop, and are made anew where they are damaged."""

import struct
import tracemalloc
from pathlib import Path

import pytest

from roketto.store.consumequeue import ConsumeQueue
from roketto.store.disk import Disk
from roketto.store.files import Files
from roketto.store.timer_checkpoint import CHECKPOINT_BYTES, TimerCheckpoint
from roketto.store.timer_log import DELETE, NO_UNIT, PLAIN, ROLL, UNIT_BYTES
from roketto.store.timer_store import CHANGED_SLOTS_MAX, TimerStore
from sim.files import CrashFiles, PowerLoss

NOW_MS = 1_700_000_000_000
FILE_BYTES = 50 * UNIT_BYTES
SIZE = 100
ROOT = Path("/store")


class Rig:
    """Timers of a store whose queue has some messages."""

    def __init__(self, root: Path, messages: int, files: Files | None = None) -> None:
        self.root = root
        self.files = files or Files()
        self.queue = ConsumeQueue(Files(), root / "queue", 20 * 1000)
        if files is not None:
            self.queue = ConsumeQueue(CrashFiles(), root / "queue", 20 * 1000)
        self.send(messages)
        self.now_ms = NOW_MS

    def send(self, count: int) -> None:
        start = self.queue.queue_offset_max
        for number in range(start, start + count):
            self.queue.append(number * SIZE, SIZE, 0, number)

    def open(self, *, precision_ms: int = 1000, file_bytes: int = FILE_BYTES) -> TimerStore:
        self.timers = TimerStore(
            self.files, self.root, precision_ms=precision_ms, log_file_bytes=file_bytes,
            slots=64, clock_ms=lambda: self.now_ms,
        )  # fmt: skip
        self.problem = self.timers.open(self.queue)
        return self.timers

    def add(self, count: int, magic: int = PLAIN) -> None:
        """Bring messages of the queue into the wheel; each waits for ten seconds and its number."""
        timers = self.timers
        for _ in range(count):
            number = timers.queue_offset
            timers.add(slot_of(number), magic, NOW_MS, number * SIZE, SIZE, 7)
            timers.queue_offset += 1

    def waiting(self) -> list[int]:
        """Offsets in the queue of all that the wheel leads to."""
        timers = self.timers
        found: list[int] = []
        for second in range(60):
            slot = timers.wheel.slot(NOW_MS + second * 1000)
            at, units = slot.last, []
            while at != NO_UNIT:
                unit = timers.log.unit(at)
                assert unit is not None
                units.append(unit.log_offset // SIZE)
                at = unit.previous
            assert len(units) == slot.messages
            found += reversed(units)
        return found


def slot_of(number: int) -> int:
    return NOW_MS + 10_000 + number % 5 * 1000


def flush(timers: TimerStore) -> None:
    for work in timers.flush(timers.freeze()):
        work()


def test_a_new_store_begins_now_and_tells_nothing(tmp_path: Path) -> None:
    """There is no queue, or an empty one."""
    rig = Rig(tmp_path, 0)
    timers = rig.open()
    assert rig.problem is None
    assert (timers.read_ms, timers.queue_offset, timers.pending) == (NOW_MS - 1000, 0, 0)
    assert not timers.is_changed
    timers.close()
    other = TimerStore(Files(), tmp_path / "other", precision_ms=1000, log_file_bytes=FILE_BYTES)
    assert other.open(None) is None


def test_messages_wait_in_the_slots_of_their_times(tmp_path: Path) -> None:
    """In the order they came, before and after a flush, and after a restart."""
    rig = Rig(tmp_path, 20)
    timers = rig.open()
    assert rig.problem is not None, "a queue without a wheel is worth a word"
    rig.add(20)
    expected = [number for rest in range(5) for number in range(rest, 20, 5)]
    assert rig.waiting() == expected
    assert timers.is_changed
    flush(timers)
    assert not timers.is_changed
    assert rig.waiting() == expected
    timers = rig.open()
    assert rig.problem is None
    assert rig.waiting() == expected
    assert (timers.queue_offset, timers.pending) == (20, 20)
    assert timers.saved.version_counter == 1


def test_a_message_that_recalls_another_counts_against_it(tmp_path: Path) -> None:
    """As Java counts."""
    rig = Rig(tmp_path, 3)
    timers = rig.open()
    rig.add(2)
    rig.add(1, PLAIN | DELETE)
    assert timers.pending == 1
    assert timers.wheel.slot(slot_of(2)).messages == -1


def test_slots_that_are_delivered_count_no_more(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 10)
    timers = rig.open()
    rig.add(10)
    timers.finish_slot(slot_of(0))
    assert (timers.pending, timers.read_ms) == (8, slot_of(1))


def test_what_was_not_flushed_is_forgotten_and_comes_again(tmp_path: Path) -> None:
    """A kill: the queue still has it."""
    rig = Rig(tmp_path, 20)
    flush_at = 8
    timers = rig.open()
    rig.add(flush_at)
    flush(timers)
    rig.add(12)
    timers = rig.open()
    assert (timers.queue_offset, timers.pending) == (flush_at, flush_at)
    rig.add(12)
    assert sorted(rig.waiting()) == list(range(20))


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_kill_in_the_middle_of_a_flush_doubles_nothing(tmp_path: Path, steps: int) -> None:
    """Units behind those of the checkpoint are linked, unless the wheel has them."""
    rig = Rig(tmp_path, 70)
    timers = rig.open()
    rig.add(10)
    flush(timers)
    rig.add(55)
    for number, work in enumerate(timers.flush(timers.freeze())):
        if number == steps:
            break
        work()
    timers = rig.open()
    assert rig.problem is None
    assert (timers.queue_offset, timers.pending) == (65, 65)
    rig.add(5)
    assert sorted(rig.waiting()) == list(range(70))
    flush(timers)
    timers = rig.open()
    assert sorted(rig.waiting()) == list(range(70))
    assert timers.pending == 70


@pytest.mark.parametrize("seed", range(8))
def test_a_power_loss_at_every_call_of_a_flush_loses_and_doubles_nothing(seed: int) -> None:
    """The queue is as it was; whatever the disk has kept, each message is in the wheel once."""
    for calls in range(1, 100):
        files = CrashFiles()
        rig = Rig(ROOT, 60, files)
        timers = rig.open()
        rig.add(20)
        flush(timers)
        rig.add(35)
        files.fail_call(len(files.calls) + calls, PowerLoss())
        try:
            flush(timers)
        except PowerLoss:
            pass
        else:
            assert calls > 10
            return
        rig.files = files.crash(seed)
        timers = rig.open()
        assert rig.problem is None
        assert timers.queue_offset >= 20
        assert timers.pending == timers.queue_offset
        rig.add(60 - timers.queue_offset)
        assert sorted(rig.waiting()) == list(range(60))
    raise AssertionError("a flush has no end")


def test_units_of_messages_that_the_log_has_lost_are_dropped(tmp_path: Path) -> None:
    """A power loss took the end of the queue; what comes there now is something else."""
    rig = Rig(tmp_path, 20)
    timers = rig.open()
    flush(timers)
    rig.add(20)
    timers.log.write_to(timers.log.end)
    rig.queue = ConsumeQueue(Files(), tmp_path / "other queue", 20 * 1000)
    rig.send(12)
    timers = rig.open()
    assert (timers.queue_offset, timers.pending) == (12, 12)
    rig.send(8)
    rig.add(8)
    assert sorted(rig.waiting()) == list(range(20))


def test_a_wheel_that_is_ahead_of_its_queue_is_made_anew(tmp_path: Path) -> None:
    """Ours never is, but files may be copied, and Java's comes to the disk before the log."""
    rig = Rig(tmp_path, 20)
    timers = rig.open()
    rig.add(20)
    flush(timers)
    rig.queue = ConsumeQueue(Files(), tmp_path / "other queue", 20 * 1000)
    rig.send(5)
    again = rig.open()
    assert rig.problem == "its queue ends at 5, and 20 were in the wheel"
    assert again.queue_offset == 0
    assert again.saved.skip_before == 5


# --- a broker of Java's was here ------------------------------------------------------------------


def by_java(rig: Rig, checkpoint: TimerCheckpoint) -> None:
    """Let the checkpoint be that of one of Java's."""
    fields = (
        checkpoint.read_ms, checkpoint.log_flushed, checkpoint.queue_offset,
        checkpoint.queue_offset, 0, 0, 1,
    )  # fmt: skip
    path = rig.root / "config" / "timercheck"
    path.write_bytes(struct.pack(">7q", *fields).ljust(CHECKPOINT_BYTES, b"\0"))


def test_a_store_of_java_goes_on(tmp_path: Path) -> None:
    """Its two numbers are not of one moment: the last unit tells, and the wheel is counted."""
    rig = Rig(tmp_path, 20)
    timers = rig.open()
    rig.add(6)
    flush(timers)
    log_flushed = timers.log.end
    rig.add(8)
    timers.log.write_to(timers.log.end)
    by_java(rig, TimerCheckpoint(NOW_MS, log_flushed, 9))
    timers = rig.open()
    assert rig.problem is None
    assert (timers.queue_offset, timers.pending, timers.read_ms) == (14, 14, NOW_MS)
    rig.add(6)
    assert sorted(rig.waiting()) == list(range(20))


def test_a_wheel_of_java_may_have_what_its_checkpoint_lacks(tmp_path: Path) -> None:
    """It is flushed after the numbers were taken: such units are not counted again."""
    rig = Rig(tmp_path, 20)
    timers = rig.open()
    rig.add(14)
    flush(timers)
    by_java(rig, TimerCheckpoint(NOW_MS, 6 * UNIT_BYTES, 6))
    timers = rig.open()
    assert (timers.queue_offset, timers.pending) == (14, 14)
    assert sorted(rig.waiting()) == list(range(14))


def test_units_of_slots_that_were_delivered_count_no_more(tmp_path: Path) -> None:
    """They are linked, and nobody reads them."""
    rig = Rig(tmp_path, 10)
    timers = rig.open()
    rig.add(5)
    timers.log.write_to(timers.log.end)
    by_java(rig, TimerCheckpoint(slot_of(3), 0, 0))
    timers = rig.open()
    assert (timers.queue_offset, timers.pending) == (5, 2)


def test_messages_that_java_delivered_at_once_have_no_unit(tmp_path: Path) -> None:
    """The next unit is further in the queue; one that is not in it at all ends the scan."""
    rig = Rig(tmp_path, 20)
    timers = rig.open()
    rig.add(2)
    flush(timers)
    timers.queue_offset = 5
    rig.add(3)
    timers.add(slot_of(3), PLAIN, NOW_MS, 12 * SIZE + 1, SIZE, 7)
    timers.log.write_to(timers.log.end)
    by_java(rig, TimerCheckpoint(NOW_MS, 2 * UNIT_BYTES, 2))
    timers = rig.open()
    assert timers.queue_offset == 8
    assert rig.waiting() == [0, 5, 1, 6, 7]


def test_the_first_checkpoint_of_java_may_say_nothing(tmp_path: Path) -> None:
    """It was killed before its first flush: all units count, however old they are."""
    rig = Rig(tmp_path, 5)
    timers = rig.open()
    rig.add(5)
    timers.log.write_to(timers.log.end)
    by_java(rig, TimerCheckpoint())
    rig.now_ms += 1_000_000
    timers = rig.open()
    assert (timers.read_ms, timers.queue_offset, timers.pending) == (slot_of(0), 5, 5)


def test_without_a_unit_the_checkpoint_of_java_is_believed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 5)
    rig.open()
    by_java(rig, TimerCheckpoint(NOW_MS, 0, 3))
    assert rig.open().queue_offset == 3


def test_units_without_a_queue_are_dropped(tmp_path: Path) -> None:
    """The queue is gone, and so are its messages."""
    rig = Rig(tmp_path, 5)
    timers = rig.open()
    rig.add(5)
    timers.log.write_to(timers.log.end)
    assert timers.open(None) is None
    assert timers.queue_offset == 0


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ("timerwheel", "not there"),
        ("config/timercheck", "not there"),
        ("timerlog", "no unit"),
        ("timerwheel short", "another length"),
        ("timerlog short", "not whole"),
    ],
)
def test_what_is_gone_or_damaged_is_made_anew(tmp_path: Path, damaged: str, said: str) -> None:
    """From the queue; messages that were due long ago were delivered."""
    rig = Rig(tmp_path, 20)
    timers = rig.open()
    rig.add(20)
    timers.read_ms = NOW_MS + 5_000
    flush(timers)
    name, _, is_short = damaged.partition(" ")
    path = tmp_path / name
    for file in [path] if path.is_file() else list(path.iterdir()):
        if is_short:
            file.write_bytes(file.read_bytes()[:-1])
        else:
            file.unlink()
    timers = rig.open()
    assert rig.problem is not None
    assert said in rig.problem
    assert (timers.queue_offset, timers.pending, timers.log.end) == (0, 0, 0)
    is_known = name != "config/timercheck"
    assert timers.saved.skip_before == (20 if is_known else 0)
    assert timers.saved.skip_ms == (timers.read_ms - 3_600_000 if is_known else 0)
    rig.add(20)
    assert sorted(rig.waiting()) == list(range(20))
    timers = rig.open()
    assert rig.problem is None
    assert timers.saved.skip_before == (20 if is_known else 0)


def test_another_precision_makes_the_wheel_anew(tmp_path: Path) -> None:
    """The slots that messages name were longer: they are due later than a slot of today says."""
    rig = Rig(tmp_path, 10)
    timers = rig.open(precision_ms=1000)
    rig.add(10)
    flush(timers)
    timers = rig.open(precision_ms=100)
    assert rig.problem == "timerPrecisionMs was 1000 and is 100"
    assert (timers.saved.coarse_before, timers.saved.coarse_ms) == (10, 900)
    assert timers.floor(NOW_MS + 199) == NOW_MS + 100
    timers = rig.open(precision_ms=5000)
    assert timers.saved.coarse_ms == 0
    assert rig.open(precision_ms=5000).saved.coarse_before == 10
    assert rig.problem is None


# --- bounds ---------------------------------------------------------------------------------------


def test_a_slot_that_is_still_to_be_delivered_is_not_taken(tmp_path: Path) -> None:
    """Its place in the wheel is that of a time two weeks later."""
    rig = Rig(tmp_path, 1)
    timers = rig.open()
    assert timers.slot_max_ms == timers.read_ms + 63_000
    for slot_ms in (timers.read_ms - 1000, timers.slot_max_ms + 1000):
        with pytest.raises(AssertionError, match="not in the wheel"):
            timers.add(slot_ms, PLAIN | ROLL, NOW_MS, 0, SIZE, 7)


class CountingDisk(Disk):
    """A real disk that counts what is read from it."""

    read_bytes = 0

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        self.read_bytes += size
        return super().read(descriptor, size, offset)


def test_many_timers_cost_no_memory_and_a_start_reads_none_of_them(tmp_path: Path) -> None:
    """Nothing is kept for each of them once it is on the disk."""
    count = 20_000
    rig = Rig(tmp_path, count)
    timers = rig.open(file_bytes=1 << 20)
    rig.add(500)
    flush(timers)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(count // 500 - 1):
            rig.add(500)
            flush(timers)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 40_000
    disk = CountingDisk()
    rig.files = Files(disk=disk)
    timers = rig.open(file_bytes=1 << 20)
    assert (timers.pending, timers.queue_offset) == (count, count)
    assert disk.read_bytes < 20_000


def test_what_waits_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units and slots; a flush makes room, and is wanted when half of it is used."""
    rig = Rig(tmp_path, 60)
    timers = rig.open()
    assert CHANGED_SLOTS_MAX > 60
    monkeypatch.setattr("roketto.store.timer_store.UNWRITTEN_BYTES_MAX", 10 * UNIT_BYTES)
    rig.add(4)
    assert not timers.wants_flush
    rig.add(5)
    assert timers.wants_flush
    assert timers.has_room
    rig.add(1)
    assert not timers.has_room
    flush(timers)
    assert timers.has_room
    assert not timers.wants_flush
    monkeypatch.setattr("roketto.store.timer_store.CHANGED_SLOTS_MAX", 5)
    rig.add(3)
    assert timers.wants_flush
    assert timers.has_room
    rig.add(2)
    assert not timers.has_room
