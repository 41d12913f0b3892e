"""The store as a whole: what is put in comes out, and is safe when it says so."""

import dataclasses
import errno
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import ClassVar

import pytest

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.hosts import encode_host
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.protocol.sysflags import TRANSACTION_PREPARED
from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import Boundary, QueueMismatchError
from roketto.store.disk import Usage
from roketto.store.dispatch import Arrival
from roketto.store.errors import CorruptStoreError, DiskFullError, StoreError, StoreLockedError
from roketto.store.files import Files, MappedFile
from roketto.store.flush import FlushSettings
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.reading import GetStatus
from roketto.store.segments import AHEAD_BYTES, STEP_BYTES, OutsideLogError
from roketto.store.store import Store, StoreSettings
from sim.files import CrashFiles

HOST = encode_host("10.0.0.1", 10911)
SETTINGS = StoreSettings(
    segment_bytes=8_192, queue_file_bytes=2_000, index_slots=100, index_entries=1_000,
    flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
SYNC = StoreSettings(
    segment_bytes=8_192, queue_file_bytes=2_000, index_slots=100, index_entries=1_000,
    is_flush_sync=True, flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
WAIT_S = 10.0


class Clock:
    """A wall clock that moves when it is looked at."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        self.now_ms += 1_000
        return self.now_ms


class Rig:
    """A store with somebody who listens to it."""

    def __init__(self, root: Path, settings: StoreSettings = SETTINGS) -> None:
        self.root = root
        self.settings = settings
        self.clock = Clock()
        self.arrivals: list[Arrival] = []
        self.told = threading.Semaphore(0)
        self.failures: list[OSError] = []
        self.store = self.make()

    def make(self, files: Files | None = None) -> Store:
        return Store(
            self.root, self.settings, files=files, clock_ms=self.clock, zone=UTC,
            on_arrival=self.arrivals.append, on_flushed=self.on_flushed,
            on_failure=self.on_failure,
        )  # fmt: skip

    def on_flushed(self, offset: int) -> None:
        self.told.release()

    def on_failure(self, error: OSError) -> None:
        self.failures.append(error)
        self.told.release()

    def wait(self) -> None:
        assert self.told.acquire(timeout=WAIT_S)

    def crash(self) -> None:
        """End the process's part without any of the care of close()."""
        flusher = self.store._flusher
        assert flusher is not None
        flusher.stop()
        self.store._flusher = None
        self.store._release()
        self.store = self.make()


def tick_through(store: Store, ticks: int = 3) -> None:
    """Let the worker do what it has to, and the store take note of it."""
    for _ in range(ticks):
        store.tick()
        assert store._worker is not None
        assert store._worker.wait_idle(WAIT_S)


def message(number: int = 0, topic: str = "T", queue_id: int = 0, sys_flag: int = 0) -> Record:
    properties = {"UNIQ_KEY": f"U{number}", "TAGS": "t", "KEYS": "all"}
    return Record(
        topic, b"message %d" % number, encode_properties(properties), queue_id,
        sys_flag=sys_flag, store_host=HOST, born_host=HOST,
    )  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "store")
    rig.store.open(1)
    yield rig
    rig.store.close()


def bodies(store: Store, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    """All messages of a queue, read as a consumer reads them."""
    found: list[bytes] = []
    offset = 0
    while True:
        result = store.get(topic, queue_id, offset, 32)
        if not result.count:
            return found
        records = [record for view in result.views for record in decode_records(view)]
        found += [bytes(record.body) for record in records]
        offset = result.next_offset


def test_what_is_appended_can_be_read_at_once(rig: Rig) -> None:
    """By queue, by place, by id, by key, by time."""
    put = [rig.store.append(message(n)) for n in range(3)]
    assert [result.queue_offset for result in put] == [0, 1, 2]
    assert bodies(rig.store) == [b"message 0", b"message 1", b"message 2"]
    assert rig.store.record_at(put[1].log_offset).body == b"message 1"
    assert rig.store.record_by_id(put[2].message_id).body == b"message 2"
    assert rig.store.query("T", "U1", 32, 0, 1 << 60) == [put[1].log_offset]
    assert rig.store.query("T", "all", 32, 0, 1 << 60) == [p.log_offset for p in put]
    search = rig.store.search("T", "all", 0, 1 << 60)
    assert search.step(9) == [p.log_offset for p in reversed(put)]
    assert search.is_done
    assert rig.store.index_update == (put[2].store_time_ms, put[2].log_offset)
    assert rig.store.offset_by_time("T", 0, put[1].store_time_ms) == 1
    assert rig.store.offset_by_time("T", 0, put[1].store_time_ms, Boundary.UPPER) == 1
    assert rig.store.offset_by_time("Nothing", 0, 0) == 0
    assert [arrival.queue_offset for arrival in rig.arrivals] == [0, 1, 2]
    assert put[0].end == put[1].log_offset


def test_queues_count_for_themselves(rig: Rig) -> None:
    """Each topic and queue has its own offsets; half messages take none."""
    for number in range(4):
        rig.store.append(message(number, queue_id=number % 2))
    half = rig.store.append(message(9, sys_flag=TRANSACTION_PREPARED))
    after = rig.store.append(message(5))
    assert (half.queue_offset, after.queue_offset) == (0, 2)
    assert list(rig.store.topics()) == [("T", [0, 1])]
    queue = rig.store.queue("T", 1)
    assert queue is not None
    assert queue.queue_offset_max == 2


def test_a_batch_is_as_many_messages(rig: Rig) -> None:
    """Consecutive offsets and an id for each."""
    rig.store.append(message(0))
    items = [BatchItem(b"b%d" % n, encode_properties({"UNIQ_KEY": f"B{n}"})) for n in range(3)]
    batch = message(0)
    batch.body = encode_batch(items)
    result = rig.store.append_batch(batch)
    assert result.queue_offset == 1
    assert [rig.store.record_by_id(name).body for name in result.message_ids] == [
        b"b0", b"b1", b"b2",
    ]  # fmt: skip
    assert bodies(rig.store) == [b"message 0", b"b0", b"b1", b"b2"]
    assert rig.store.append(message(1)).queue_offset == 4
    assert len(rig.store.query("T", "B1", 32, 0, 1 << 60)) == 1


def test_a_batch_is_visible_once_it_is_on_the_disk(tmp_path: Path) -> None:
    """A batch may open a queue, and its end is what must be flushed."""
    rig = Rig(tmp_path / "store", SYNC)
    rig.store.open(1)
    batch = message(0)
    batch.body = encode_batch([BatchItem(b"b%d" % n) for n in range(3)])
    result = rig.store.append_batch(batch)
    assert bodies(rig.store) == []
    while rig.store.flushed < result.end:
        rig.wait()
    rig.store.advance()
    assert bodies(rig.store) == [b"b0", b"b1", b"b2"]
    rig.store.close()


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_store_goes_on_where_it_ended(rig: Rig, is_crash: bool) -> None:
    """After a clean stop, which reads nothing, and after a crash, which reads the log."""
    for number in range(100):
        rig.store.append(message(number, queue_id=number % 3))
    expected = [bodies(rig.store, queue_id=n) for n in range(3)]
    end = rig.store._log.written
    if is_crash:
        rig.crash()
    else:
        rig.store.close()
        rig.store.close()
        rig.store = rig.make()
    recovered = rig.store.open(2)
    assert recovered.end == end
    assert recovered.records == (100 if is_crash else 0)
    assert [bodies(rig.store, queue_id=n) for n in range(3)] == expected
    assert rig.store.append(message(100, queue_id=1)).queue_offset == 33
    for number in (0, 50, 99):
        assert rig.store.query("T", f"U{number}", 32, 0, 1 << 60)


@pytest.mark.parametrize("gone", ["consumequeue/T/1", "consumequeue/T", "consumequeue"])
def test_a_queue_that_is_missing_after_a_clean_stop_is_missed(rig: Rig, gone: str) -> None:
    """Its directory was removed as a whole; the log has its messages, and they come back."""
    for number in range(60):
        rig.store.append(message(number, queue_id=number % 3))
    expected = [bodies(rig.store, queue_id=n) for n in range(3)]
    rig.store.close()
    shutil.rmtree(rig.root / gone)
    rig.store = rig.make()
    assert rig.store.open(2).records == 60
    assert [bodies(rig.store, queue_id=n) for n in range(3)] == expected
    assert rig.store.query("T", "U7", 32, 0, 1 << 60)
    rig.store.append(message(60))
    rig.store.close()
    rig.store = rig.make()
    assert rig.store.open(3).records == 0


def test_a_checkpoint_of_an_earlier_stop_is_no_clean_one(rig: Rig) -> None:
    """Somebody has put an old file back: what came later is read from the log."""
    rig.store.append(message(0))
    rig.store.close()
    stale = (rig.root / "checkpoint").read_bytes()
    rig.store = rig.make()
    rig.store.open(2)
    rig.store.append(message(1, queue_id=1))
    rig.store.close()
    (rig.root / "checkpoint").write_bytes(stale)
    rig.store = rig.make()
    assert rig.store.open(3).records == 1
    assert bodies(rig.store, queue_id=1) == [b"message 1"]


def test_a_java_broker_that_was_here_makes_the_marks_worthless(rig: Rig) -> None:
    """Its records have no checksum over the whole, and are not cut off for it.

    4.9 may be killed before it has changed the checkpoint; what it always does is take the lock.
    """
    rig.store.append(message(0))
    rig.store.close()
    (rig.root / "abort").touch()
    (rig.root / "lock").write_bytes(b"lock")
    rig.store = rig.make()
    without = StoreSettings(segment_bytes=8_192, append_crc=False)
    java = CommitLog(rig.store._segments, rig.clock, 0, append_crc=without.append_crc)
    rig.store._segments.load()
    rig.store._segments.set_positions(149, 149)
    java.append(message(1), 1)
    rig.store._segments.close()
    rig.store = rig.make()
    assert rig.store.open(2).records == 2
    assert bodies(rig.store) == [b"message 0", b"message 1"]
    assert rig.store._crc_from == rig.store._log.written
    assert (rig.root / "lock").read_bytes() == b"LOCK"


@pytest.mark.parametrize("text", [None, b"", b"garbage" * 100])
def test_a_checkpoint_that_is_gone_or_garbled_makes_all_of_the_log_read(
    rig: Rig, text: bytes | None
) -> None:
    """Even after a clean stop: nobody can say that it was one."""
    for number in range(20):
        rig.store.append(message(number))
    rig.store.close()
    (rig.root / "checkpoint").unlink()
    if text is not None:
        (rig.root / "checkpoint").write_bytes(text)
    rig.store = rig.make()
    assert rig.store.open(2).records == 20
    assert len(bodies(rig.store)) == 20


def test_an_index_that_was_switched_off_is_made_anew(tmp_path: Path) -> None:
    """It lacks the keys of the time without it."""
    rig = Rig(tmp_path)
    for number, is_on in enumerate((True, False, True)):
        rig.settings = dataclasses.replace(SETTINGS, index_enable=is_on)
        rig.store = rig.make()
        recovered = rig.store.open(1)
        rig.store.append(message(number))
        if is_on:
            found = [len(rig.store.query("T", f"U{n}", 32, 0, 1 << 60)) for n in range(number + 1)]
            assert found == [1] * (number + 1)
            assert recovered.records == number
        rig.store.close()


def test_a_store_written_without_checksums_goes_on_with_them(tmp_path: Path) -> None:
    """Only records from there on must have one; switched off again, none must."""
    rig = Rig(tmp_path)
    marks = []
    for number, append_crc in enumerate((False, True, False, True, True)):
        rig.settings = dataclasses.replace(SETTINGS, append_crc=append_crc)
        rig.store = rig.make()
        recovered = rig.store.open(1)
        rig.store.append(message(number))
        marks.append((rig.store._crc_from, recovered.end))
        rig.crash()
    rig.store.open(1)
    assert len(bodies(rig.store)) == 5
    assert [crc_from for crc_from, _ in marks] == [
        None, marks[1][1], None, marks[3][1], marks[3][1],
    ]  # fmt: skip
    rig.store.close()


def test_store_times_never_go_back(rig: Rig) -> None:
    """Not when the clock does, and not over a restart."""
    first = rig.store.append(message(0))
    rig.store.close()
    rig.clock.now_ms -= 1_000_000
    rig.store = rig.make()
    rig.store.open(1)
    assert rig.store.append(message(1)).store_time_ms >= first.store_time_ms


def test_under_sync_flush_a_message_is_visible_only_once_it_is_safe(tmp_path: Path) -> None:
    """Until the sync has returned and was noted, no consumer can read it."""
    gate = threading.Semaphore(0)

    class SlowFile(MappedFile):
        __slots__ = ()

        def sync(self, start: int = 0, end: int = 0) -> None:
            assert gate.acquire(timeout=WAIT_S)
            super().sync(start, end)

    class SlowFiles(Files):
        def create_mapped(self, path: Path, size: int) -> MappedFile:
            mapped = super().create_mapped(path, size)
            if path.parent.name == "commitlog":
                mapped.__class__ = SlowFile
            return mapped

    rig = Rig(tmp_path, SYNC)
    rig.store = rig.make(SlowFiles())
    rig.store.open(1)
    result = rig.store.append(message(0))
    assert rig.store.flushed == 0
    assert rig.store.advance() == 0
    assert bodies(rig.store) == []
    assert rig.arrivals == []
    gate.release()
    rig.wait()
    assert rig.store.flushed == result.end
    assert bodies(rig.store) == []
    assert rig.store.advance() == result.end
    assert bodies(rig.store) == [b"message 0"]
    assert len(rig.arrivals) == 1
    for _ in range(10):
        gate.release()
    rig.store.close()


def test_a_failed_sync_turns_the_store_read_only(tmp_path: Path) -> None:
    """No further message is taken, what is there can be read, and the stop is not a clean one."""

    class BrokenFile(MappedFile):
        __slots__ = ()

        def sync(self, start: int = 0, end: int = 0) -> None:
            raise OSError(5, "Input/output error")

    class BrokenFiles(Files):
        def create_mapped(self, path: Path, size: int) -> MappedFile:
            mapped = super().create_mapped(path, size)
            if path.parent.name == "commitlog":
                mapped.__class__ = BrokenFile
            return mapped

    rig = Rig(tmp_path, SYNC)
    rig.store = rig.make(BrokenFiles())
    rig.store.open(1)
    rig.store.append(message(0))
    rig.wait()
    assert [error.errno for error in rig.failures] == [5]
    with pytest.raises(PutRefusedError, match="a write to its disk has failed") as caught:
        rig.store.append(message(1))
    assert caught.value.status is PutStatus.SERVICE_NOT_AVAILABLE
    rig.store.close()
    assert (tmp_path / "abort").exists()


def test_nobody_has_to_listen_to_the_flushing_thread(tmp_path: Path) -> None:
    """A tool that reads a store gives no callbacks; the defaults of clock and zone work."""
    store = Store(tmp_path, SETTINGS)
    store.open(1)
    store.append(message(0))
    store._tell_failure(OSError(5, "said to nobody"))
    store.close()
    assert not (tmp_path / "abort").exists()


def test_a_closed_store_takes_nothing(rig: Rig) -> None:
    """The reason says so."""
    rig.store.close()
    with pytest.raises(PutRefusedError, match="is not open"):
        rig.store.append(message(0))
    with pytest.raises(PutRefusedError, match="is not open"):
        rig.store.append_batch(message(0))


def test_a_store_cannot_be_opened_twice(rig: Rig) -> None:
    """The second one is refused at once, and the first one goes on."""
    with pytest.raises(StoreLockedError, match="another broker has this store open"):
        rig.make().open(2)
    assert rig.store.append(message(0)).queue_offset == 0


def test_a_damaged_store_is_not_opened_and_its_lock_is_given_back(rig: Rig) -> None:
    """The next attempt, after the file was put back, works."""
    for number in range(5):
        rig.store.append(message(number))
    rig.store.close()
    [log] = (rig.root / "commitlog").iterdir()
    content = log.read_bytes()
    log.write_bytes(content[:-8] + b"garbage!")
    rig.store = rig.make()
    with pytest.raises(CorruptStoreError):
        rig.store.open(2)
    log.write_bytes(content)
    rig.store = rig.make()
    rig.store.open(2)
    assert len(bodies(rig.store)) == 5


def test_a_crash_reads_the_log_from_the_checkpoint_on(tmp_path: Path) -> None:
    """What a tick has synced is not read again; everything is there all the same."""
    settings = StoreSettings(
        segment_bytes=8_192, queue_file_bytes=2_000, index_enable=False,
        flush=FlushSettings(interval_ms=3_600_000),
    )  # fmt: skip
    rig = Rig(tmp_path, settings)
    rig.store.open(1)
    for number in range(200):
        rig.store.append(message(number))
    assert len(rig.store._segments) > 2
    assert rig.store._flusher is not None
    rig.store._flusher.request()
    rig.wait()
    rig.store.advance()
    tick_through(rig.store)
    saved = (tmp_path / "checkpoint").read_bytes()
    for number in range(200, 220):
        rig.store.append(message(number))
    rig.store.tick()  # it is too early for the next sync
    assert rig.store._worker is not None
    assert rig.store._worker.wait_idle(WAIT_S)
    assert (tmp_path / "checkpoint").read_bytes() == saved
    assert rig.store._checkpoint.logics_timestamp == rig.store._checkpoint.physic_timestamp > 0
    rig.crash()
    recovered = rig.store.open(2)
    assert 0 < recovered.records < 30
    assert recovered.read_from > 0
    assert len(bodies(rig.store)) == 220
    rig.store.close()


def test_queues_are_synced_after_so_much_of_the_log(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the time: it bounds what recovery reads."""
    monkeypatch.setattr("roketto.store.derived.LOG_BYTES", 2_000)
    monkeypatch.setattr("roketto.store.derived.LOG_BYTES_PER_QUEUE", 0)
    tick_through(rig.store)
    ends = []
    for number in range(60):
        rig.clock.now_ms -= 2_000  # two looks at it for a message and a tick
        end = rig.store.append(message(number)).end
        rig.store.tick()
        tick_through(rig.store, ticks=1)
        marks = rig.store._checkpoint.marks
        assert marks is not None
        assert end - marks.derived < 2_000
        ends.append(marks.derived)
    assert 3 < len(set(ends)) < 10


def test_another_thread_has_pages_of_the_log_made_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of logs with large files; nobody waits for that thread but whoever closes the store."""
    asked: list[tuple[str, int, int]] = []

    def expect(mapped: MappedFile, start: int, end: int) -> None:
        asked.append((threading.current_thread().name, start, end))

    monkeypatch.setattr(MappedFile, "expect", expect)
    rig = Rig(tmp_path / "store", dataclasses.replace(SETTINGS, segment_bytes=2 * AHEAD_BYTES))
    rig.store.open(1)
    rig.store.append(message(0))
    ahead = rig.store._ahead
    assert ahead is not None
    assert ahead.wait_idle(WAIT_S)
    assert asked[-1] == ("roketto-worker", 0, STEP_BYTES + AHEAD_BYTES)
    rig.store.close()
    assert not ahead._thread.is_alive()
    rig.store.open(2)
    assert bodies(rig.store) == [b"message 0"]
    rig.store.close()


def test_the_next_segment_is_made_ahead_and_goes_with_the_store(rig: Rig) -> None:
    """A store that was killed leaves it: the next start removes it, and goes on before it."""
    log = rig.root / "commitlog"
    for is_crash in (False, True):
        while rig.store._log.written % 8_192 < 5_000:
            rig.store.append(message(0))
        tick_through(rig.store)
        assert len(list(log.iterdir())) == len(rig.store._segments) + 1
        made = max(log.iterdir())
        if is_crash:
            content = made.read_bytes()
            rig.crash()
            made.write_bytes(content)  # a kill leaves what a stop removes
            (rig.root / "abort").touch()
        else:
            rig.store.close()
            rig.store = rig.make()
        end = rig.store.open(2).end
        assert not made.exists()
        assert rig.store.append(message(1)).log_offset == end


@pytest.mark.parametrize("kind", ["sync", "sync_names", "sync_file_system"])
def test_a_sync_of_queues_that_fails_turns_the_store_read_only(kind: str) -> None:
    """Told once; the checkpoint claims nothing of it, and the stop is not a clean one."""
    rig = Rig(Path("/store"))
    files = CrashFiles()
    rig.store = rig.make(files)
    rig.store.open(1)
    queues = 100 if kind == "sync_file_system" else 2
    for number in range(queues):
        rig.store.append(message(number, queue_id=number))
    rig.store.query("T", "U0", 1, 0, 1)  # the index makes its file
    disk = files._crash_disk
    fail = OSError(errno.EIO, "planted")

    def refuse(*arguments: object) -> None:
        if any("consumequeue" in str(argument) for argument in arguments) or kind != "sync_names":
            raise fail

    setattr(disk, kind, refuse)
    rig.store.tick()
    rig.store.tick()
    assert rig.failures == [fail]
    with pytest.raises(PutRefusedError, match=r"a write to its disk has failed .*planted"):
        rig.store.append(message(0))
    assert rig.store._checkpoint.logics_physical_offset == 0
    rig.store.close()
    assert rig.failures == [fail]
    assert files.read(Path("/store/abort")) is not None


def test_a_stop_whose_last_sync_fails_is_not_a_clean_one() -> None:
    """It says why, and gives everything back all the same."""
    rig = Rig(Path("/store"))
    files = CrashFiles()
    rig.store = rig.make(files)
    rig.store.open(1)
    rig.store.append(message(0))
    rig.store.query("T", "U0", 1, 0, 1)  # the index makes its file

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "planted")

    files._crash_disk.sync = refuse  # type: ignore[method-assign]
    rig.store.close()
    assert [error.errno for error in rig.failures] == [errno.EIO]
    assert files.read(Path("/store/abort")) is not None
    assert files.descriptors_open == 0


def test_a_store_without_an_index_cannot_be_asked_for_keys(tmp_path: Path) -> None:
    """And says which option decides."""
    rig = Rig(tmp_path, StoreSettings(segment_bytes=8_192, index_enable=False))
    rig.store.open(1)
    rig.store.append(message(0))
    with pytest.raises(StoreError, match="messageIndexEnable is false"):
        rig.store.query("T", "U0", 32, 0, 1)
    rig.crash()
    rig.store.open(1)
    assert bodies(rig.store) == [b"message 0"]
    rig.store.close()


class StubbornFiles(Files):
    """Files whose directories ``names`` take no new file for a while."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names_refused = names
        self.refused = 0

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        if path.parent.name in self.names_refused:
            self.refused += 1
            raise OSError(5, "Input/output error")
        return super().create_mapped(path, size)


@pytest.mark.parametrize("settings", [SETTINGS, SYNC], ids=["async", "sync"])
@pytest.mark.parametrize("is_many", [False, True])
def test_an_error_of_the_index_holds_messages_back_and_loses_none(
    tmp_path: Path, settings: StoreSettings, is_many: bool
) -> None:
    """The batch is in the log: it is not refused, others are, and a tick makes all well again.

    Keys that cannot be filed are noticed by a tick, or when too many of them wait.
    """
    files = StubbornFiles("index")
    rig = Rig(tmp_path, settings)
    rig.store = rig.make(files)
    rig.store.open(1)
    assert rig.store._index is not None
    rig.store._index._waiting_max = 3 if is_many else 1_000
    batch = message(0)
    batch.body = encode_batch([BatchItem(b"b%d" % n, batch.properties_raw) for n in range(3)])
    for _ in range(2 if is_many else 1):
        result = rig.store.append_batch(batch)
        if settings.is_flush_sync:
            rig.wait()
            rig.store.advance()
    if not is_many:
        rig.store.tick()
    with pytest.raises(PutRefusedError, match=r"queues and the index of .* cannot be written"):
        rig.store.append(message(1))
    assert files.refused == 1
    rig.store.tick()
    assert files.refused > 1
    files.names_refused = ()
    rig.store.tick()
    assert bodies(rig.store) == [b"b0", b"b1", b"b2"] * (2 if is_many else 1)
    assert len(rig.store.query("T", "U0", 32, 0, 1 << 60)) == (6 if is_many else 3)
    assert rig.store.append(message(2)).queue_offset == result.queue_offset + 3
    rig.store.close()


def test_a_stop_with_keys_that_cannot_be_filed_is_not_a_clean_one(tmp_path: Path) -> None:
    """The next start reads them from the log."""
    files = StubbornFiles("index")
    rig = Rig(tmp_path)
    rig.store = rig.make(files)
    rig.store.open(1)
    rig.store.append(message(0))
    rig.store.close()
    assert files.refused == 2  # once more when it gives its files back
    assert (tmp_path / "abort").exists()
    rig.store = rig.make()
    assert rig.store.open(2).records == 1
    assert len(rig.store.query("T", "U0", 32, 0, 1 << 60)) == 1
    rig.store.close()


@pytest.mark.parametrize("is_batch", [False, True])
def test_an_error_that_is_not_the_disks_costs_no_place_in_the_queue(
    tmp_path: Path, is_batch: bool
) -> None:
    """The log has the message, whatever went wrong then: no other message may have its number."""

    def fail(level: int) -> int:
        raise ValueError("planted")

    store = Store(tmp_path, SETTINGS, delay_of_level=fail)
    store.open(1)
    store.append(Record(SCHEDULE_TOPIC, b"first"))
    delay = encode_properties({"DELAY": "1"})
    failing = Record(SCHEDULE_TOPIC, b"second", delay)
    if is_batch:
        failing.body = encode_batch([BatchItem(b"b%d" % n, delay) for n in range(3)])
    with pytest.raises(ValueError, match="planted"):
        (store.append_batch if is_batch else store.append)(failing)
    with pytest.raises(QueueMismatchError, match=f"offset {4 if is_batch else 2} of this queue"):
        store.append(Record(SCHEDULE_TOPIC, b"third"))
    store.close()


def test_a_stop_that_fails_gives_everything_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the caller's to see; the store can be opened again, as after a crash."""
    rig.store.append(message(0))

    def fail() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(rig.store._abort, "clear", fail)
    with pytest.raises(OSError, match="Input/output error"):
        rig.store.close()
    rig.store = rig.make()
    rig.store.open(2)
    assert bodies(rig.store) == [b"message 0"]


def test_the_name_of_a_new_store_is_safe_before_it_is_used(tmp_path: Path) -> None:
    """Even if an earlier start has made the directory and failed then; not if it may not look."""

    class WatchedFiles(Files):
        synced: ClassVar[list[Path]] = []

        def sync_directory(self, directory: Path | str) -> None:
            self.synced.append(Path(directory))
            if directory == tmp_path:
                raise PermissionError(13, "Permission denied")
            super().sync_directory(directory)

    rig = Rig(tmp_path / "store")
    rig.root.mkdir()
    for _ in range(2):
        rig.store = rig.make(WatchedFiles())
        rig.store.open(1)
        rig.store.close()
    assert WatchedFiles.synced.count(tmp_path) == 1


# --- a full disk ----------------------------------------------------------------------------------


class FullFiles(Files):
    """Files that have no room for what is named by one of these words."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words = words
        self.used_percent = 10

    def _check(self, path: Path | str) -> None:
        if any(word in str(path) for word in self.words):
            raise DiskFullError(f"no room for {path}: 0 of 100 bytes are free")

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        self._check(path)
        return super().create_mapped(path, size)

    def create_sparse(self, path: Path | str, size: int) -> None:
        self._check(path)
        super().create_sparse(path, size)

    def replace(self, path: Path, data: bytes, *, keep_previous: bool = False) -> None:
        self._check(path)
        super().replace(path, data, keep_previous=keep_previous)

    def usage(self, path: Path) -> Usage:
        return Usage(100, 100 - self.used_percent)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[tuple[Rig, FullFiles]]:
    """An open store with a message, on a disk that can be filled."""
    rig, files = Rig(tmp_path), FullFiles()
    rig.store = rig.make(files)
    rig.store.open(1)
    rig.store.append(message(0))
    yield rig, files
    files.words = ()
    rig.store.close()


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_log_without_room_refuses_until_the_next_tick(
    full: tuple[Rig, FullFiles], is_batch: bool
) -> None:
    """Once it is tried, after that it is known; other refusals close nothing."""
    rig, files = full
    files.words = ("commitlog",)

    def send(body: bytes) -> None:
        record = message(1)
        if is_batch:
            record.body = encode_batch([BatchItem(body, b"")])
            rig.store.append_batch(record)
        else:
            record.body = body
            rig.store.append(record)

    with pytest.raises(PutRefusedError, match="to store at once"):
        send(bytes(9_000))
    assert rig.store.gate.reason is None
    statuses = []
    for _ in range(2):
        with pytest.raises(PutRefusedError, match=r"no room for .*commitlog.* are free") as put:
            send(bytes(8_000))
        statuses.append(put.value.status)
    assert statuses == [PutStatus.CREATE_MAPPED_FILE_FAILED, PutStatus.SERVICE_NOT_AVAILABLE]
    assert bodies(rig.store) == [b"message 0"]
    files.words = ()
    rig.store.tick()
    send(bytes(8_000))
    assert bodies(rig.store) == [b"message 0", bytes(8_000)]


@pytest.mark.parametrize("word", ["consumequeue", "checkpoint"])
def test_a_tick_on_a_full_disk_refuses_messages_and_goes_on(
    full: tuple[Rig, FullFiles], word: str
) -> None:
    """No error reaches whoever ticks; what could not be written is, once there is room."""
    rig, files = full
    files.words = (word,)
    rig.clock.now_ms += 60_000
    settle(rig, lambda: rig.store.gate.reason is not None)
    with pytest.raises(PutRefusedError, match=f"no room for .*{word}"):
        rig.store.append(message(1))
    assert bodies(rig.store) == [b"message 0"]
    files.words = ()
    settle(rig, lambda: rig.store.gate.reason is None)
    assert rig.store.append(message(1)).queue_offset == 1


def settle(rig: Rig, is_done: Callable[[], bool]) -> None:
    """Tick until the worker has come so far."""
    assert rig.store._worker is not None
    for _ in range(10):
        rig.store.tick()
        if is_done():
            return
        assert rig.store._worker.wait_idle(WAIT_S)
    raise AssertionError("nothing has happened")


@pytest.mark.parametrize("word", ["consumequeue", "checkpoint", "index"])
def test_a_stop_on_a_full_disk_loses_nothing(tmp_path: Path, word: str) -> None:
    """It is not a clean one then: the next start reads the log."""
    files = FullFiles()
    rig = Rig(tmp_path)
    rig.store = rig.make(files)
    rig.store.open(1)
    files.words = (word,)
    for number in range(3):
        try:
            rig.store.append(message(number))
        except PutRefusedError:
            assert (word, number > 0) == ("index", True)
    stored = bodies(rig.store)
    rig.store.close()
    assert (tmp_path / "abort").exists()
    rig.store = rig.make()
    rig.store.open(2)
    assert bodies(rig.store) == stored
    for number in range(len(stored)):
        assert rig.store.query("T", f"U{number}", 32, 0, 1 << 60)
    rig.store.close()


def test_a_disk_above_the_warning_ratio_takes_no_messages(full: tuple[Rig, FullFiles]) -> None:
    """From the first moment on, until it is at the lower ratio."""
    rig, files = full
    files.used_percent = 91
    rig.store.close()
    rig.store = rig.make(files)
    rig.store.open(2)
    for percent in (91, 90, 86):
        files.used_percent = percent
        rig.store.tick()
        with pytest.raises(PutRefusedError, match=f"is {percent} % full, 90 % is the bound") as put:
            rig.store.append(message(1))
        assert put.value.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert bodies(rig.store) == [b"message 0"]
    files.used_percent = 85
    rig.store.tick()
    assert rig.store.append(message(1)).queue_offset == 1


def test_a_queue_that_has_lost_its_messages_may_be_forgotten(full: tuple[Rig, FullFiles]) -> None:
    """Not one that has some, nor one that is not there."""
    rig, files = full
    rig.store.append(message(1, topic="Old"))
    while len(rig.store._segments) < 4:
        rig.store.append(message(2))
    rig.store.request_flush()
    rig.wait()
    assert not rig.store.delete_expired_queue("Old", 0)
    files.used_percent = 86
    rig.clock.now_ms += 60_000
    settle(rig, lambda: rig.store.retention.segments_removed > 0)
    assert rig.store.delete_expired_queue("Old", 0)
    assert not rig.store.delete_expired_queue("Old", 0)
    assert not rig.store.delete_expired_queue("T", 0)
    assert [topic for topic, _ in rig.store.topics()] == ["T"]


def test_what_was_removed_is_answered_as_removed(full: tuple[Rig, FullFiles]) -> None:
    """By offset, place, key and time; the queue goes on where it was, after a restart, too."""
    rig, files = full
    first = rig.store.append(message(1, topic="Old"))
    while len(rig.store._segments) < 4:
        rig.store.append(message(2))
    assert rig.store._flusher is not None
    rig.store._flusher.request()
    rig.wait()
    view = rig.store.get("Old", 0, 0, 1).views[0]
    files.used_percent = 86
    rig.clock.now_ms += 60_000
    settle(rig, lambda: rig.store.retention.segments_removed > 0)
    settle(rig, lambda: not list((rig.root / "commitlog").glob("0" * 20)))
    least = rig.store._log.min_offset
    assert least > 0
    assert b"message 1" in bytes(view)
    for topic in ("T", "Old"):
        queue = rig.store.queue(topic, 0)
        assert queue is not None
        result = rig.store.get(topic, 0, 0, 32)
        assert (result.status, result.next_offset) == (
            GetStatus.OFFSET_TOO_SMALL, queue.queue_offset_min,
        )  # fmt: skip
        assert rig.store.offset_by_time(topic, 0, 0) == queue.queue_offset_min > 0
    with pytest.raises(OutsideLogError):
        rig.store.record_at(first.log_offset)
    with pytest.raises(OutsideLogError):
        rig.store.record_by_id(first.message_id)
    assert rig.store.query("Old", "U1", 32, 0, 1 << 60) == []
    assert rig.store._store_time_of(first.log_offset) < 0
    rig.crash()
    rig.store.open(2)
    assert rig.store.get("Old", 0, 0, 1).status is GetStatus.OFFSET_TOO_SMALL
    assert rig.store.append(message(3, topic="Old")).queue_offset == 1


def test_a_queue_without_a_legal_name_is_refused(rig: Rig) -> None:
    """A record of it in the log could never be consumed."""
    for topic, queue_id in (("../x", 0), ("T", -1)):
        with pytest.raises(IllegalNameError):
            rig.store.append(message(0, topic, queue_id))
        batch = message(0, topic, queue_id)
        batch.body = encode_batch([BatchItem(b"b", b"")])
        with pytest.raises(IllegalNameError):
            rig.store.append_batch(batch)
    assert rig.store._log.written == 0


def test_a_range_is_read_as_a_whole(rig: Rig) -> None:
    """Far more messages than one pull would get."""
    for number in range(60):
        rig.store.append(message(number))
    result = rig.store.get_range("T", 0, 5, 50, 1 << 20)
    assert (result.count, result.next_offset) == (45, 50)
    assert rig.store.get_range("Other", 0, 0, 1, 1).status is GetStatus.NO_MATCHED_LOGIC_QUEUE


def test_the_worker_makes_the_next_file_of_the_index(tmp_path: Path) -> None:
    """The owner only the very first one; a stop removes one that was made and not used."""
    makers: dict[str, str] = {}

    class WatchedFiles(Files):
        def create_mapped(self, path: Path, size: int) -> MappedFile:
            if path.parent.name == "index":
                makers[path.name] = threading.current_thread().name
            return super().create_mapped(path, size)

    rig = Rig(tmp_path / "store", dataclasses.replace(SETTINGS, index_entries=20))
    rig.store = rig.make(WatchedFiles())
    rig.store.open(1)
    places = []
    for number in range(5 * 20):
        places.append(rig.store.append(message(number)).log_offset)
        if not number % 4:
            tick_through(rig.store)
    index = rig.root / "index"
    used = sorted(path.name for path in index.iterdir() if path.name != "next")
    assert len(used) > 8
    own = threading.current_thread().name
    assert set(makers) == {used[0], "next"}, "the owner has made another one than the first"
    assert makers[used[0]] == own != makers["next"]
    for number, place in enumerate(places):
        assert rig.store.query("T", f"U{number}", 32, 0, 1 << 60) == [place]
    while "next" not in {path.name for path in index.iterdir()}:
        rig.store.append(message())
        tick_through(rig.store)
    rig.store.close()
    assert "next" not in {path.name for path in index.iterdir()}


def test_a_store_opens_after_a_crash_with_a_file_of_the_index_made_ahead(tmp_path: Path) -> None:
    """It is removed, and all keys are found; what was never used is no damage."""
    rig = Rig(tmp_path / "store", dataclasses.replace(SETTINGS, index_entries=20))
    rig.store.open(1)
    places = [rig.store.append(message(number)).log_offset for number in range(26)]
    rig.store.request_flush()
    rig.wait()
    tick_through(rig.store)
    shutil.copytree(rig.root, tmp_path / "killed")
    rig.store.close()
    found = {path.name for path in (tmp_path / "killed" / "index").iterdir()}
    assert "next" in found
    killed = Rig(tmp_path / "killed", rig.settings)
    killed.store.open(2)
    after = {path.name for path in (tmp_path / "killed" / "index").iterdir()}
    assert after == found - {"next"}
    for number, place in enumerate(places):
        assert killed.store.query("T", f"U{number}", 32, 0, 1 << 60) == [place]
    killed.store.close()
