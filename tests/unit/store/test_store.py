"""The store as a whole: what is put in comes out, and is safe when it says so."""

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.protocol.sysflags import TRANSACTION_PREPARED
from roketto.store.consumequeue import Boundary
from roketto.store.dispatch import Arrival
from roketto.store.errors import CorruptStoreError, StoreError, StoreLockedError
from roketto.store.files import Files, MappedFile
from roketto.store.flush import FlushSettings
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import Store, StoreSettings

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


def test_a_count_of_another_log_is_not_believed(rig: Rig) -> None:
    """A Java broker has appended since: it does not know of our count, and leaves it as it is."""
    rig.store.append(message(0))
    rig.store.close()
    stale = (rig.root / "checkpoint").read_bytes()
    rig.store = rig.make()
    rig.store.open(2)
    rig.store.append(message(1, queue_id=1))
    rig.store.close()
    (rig.root / "checkpoint").write_bytes(stale)
    rig.store = rig.make()
    assert rig.store.open(3).records == 0
    assert bodies(rig.store, queue_id=1) == [b"message 1"]


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

        def sync(self) -> None:
            assert gate.acquire(timeout=WAIT_S)
            super().sync()

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

        def sync(self) -> None:
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
    rig.store.tick()
    saved = (tmp_path / "checkpoint").read_bytes()
    rig.store.tick()  # until a minute has passed, queues are written but not synced
    assert (tmp_path / "checkpoint").read_bytes() == saved
    rig.clock.now_ms += 60_000
    rig.store.tick()
    assert rig.store._checkpoint.logics_timestamp == rig.store._checkpoint.physic_timestamp > 0
    rig.crash()
    recovered = rig.store.open(2)
    assert 0 < recovered.records < 200
    assert recovered.read_from > 0
    assert len(bodies(rig.store)) == 200
    rig.store.close()


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
