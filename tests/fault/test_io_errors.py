"""I/O errors at every call (F12): each is answered, none makes an acknowledgement false.

A workload opens a store on a simulated disk, appends singles and batches under SYNC_FLUSH and
ASYNC_FLUSH, ticks, reads, closes and opens again, a thousand calls in all. It runs for each of
them, and that call fails: with EIO, by writing too little, or because a signal came. Then the power
goes, and what was acknowledged must be there. The number of the call is in every failure.

Whether the process ends after a failed sync is for the broker to say, which hears of it by
``on_failure``; the store only takes no more messages.
"""

import ctypes
import errno
import os
import pickle
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from checker import Found, QueueRead, check
from evidence import Evidence, Outcome, Place
from fault.appender import body_of, properties_of, queue_name, value_of
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.hosts import encode_host
from roketto.protocol.record import Record, decode_records
from roketto.store.errors import CorruptStoreError, StoreError
from roketto.store.files import MappedFile
from roketto.store.flush import FlushSettings
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import Store, StoreSettings
from sim.disk import CrashDisk
from sim.files import Call, CrashFiles, Short

ROOT: Final = Path("/store")
QUEUES: Final = (("T", 0), ("T", 1), ("Other", 0))
HOST: Final = encode_host("10.0.0.1", 10911)
LIVES: Final = (True, False, True, False)
"""Whether they are under SYNC_FLUSH."""
APPENDS_PER_TICK: Final = 4
WAIT_S: Final = 10.0
DOCUMENTED: Final = (OSError, StoreError)
"""What a store may raise; anything else is a bug."""
RETRIED_BY_PYTHON: Final = frozenset(
    {"open", "set_length", "reserve", "read", "write", "sync", "sync_mapped", "sync_names"}
)
"""Calls in which Python itself goes on after a signal (PEP 475). POSIX knows none of the others to
be interrupted; if one is all the same, it has failed like any other."""


def settings(*, is_sync: bool) -> StoreSettings:
    return StoreSettings(
        segment_bytes=2_048, queue_file_bytes=80, index_slots=10, index_entries=16,
        is_flush_sync=is_sync, append_crc=True, flush=FlushSettings(interval_ms=3_600_000),
    )  # fmt: skip


class SignalledDisk(CrashDisk):
    """A disk below Python's os module: what that retries is retried here."""

    def _called(self, name: str, path: Path, offset: int = 0, size: int = 0) -> int | None:
        try:
            return super()._called(name, path, offset, size)
        except InterruptedError:
            if name not in RETRIED_BY_PYTHON:
                raise
            return super()._called(name, path, offset, size)


class Workload:
    """Some lives of a store on one disk, and what producers and consumers learned in them.

    They end with the one after the fault; sooner if the log could not be synced: the system then
    shows what the disk does not have, and only a restart of the machine ends that.
    """

    def __init__(self) -> None:
        self.files = CrashFiles(SignalledDisk())
        self.note = "no fault"
        self.killed = Evidence()
        """What must survive the death of the process."""
        self.powerless = Evidence()
        """What must survive a power loss."""
        self.consumed: dict[tuple[str, int], str] = {}
        """What a consumer has read while only safe messages are shown."""
        self.errors: list[Exception] = []
        self.crashes: list[tuple[CrashFiles, Evidence]] = []
        self.failures: list[OSError] = []
        """What the store has told of by itself."""
        self.lives = 0
        self._told: threading.Semaphore | None = None
        self._is_failed = False
        self._now_ms = 1_700_000_000_000
        self._unsafe: list[tuple[int, str, Place]] = []
        self._is_sync = True

    # --- the lives --------------------------------------------------------------------------------

    def plant(self, fault_at: int, fault: OSError | Short) -> None:
        self.note = f"call {fault_at}: {fault!r}"
        self.files.fail_call(fault_at, fault)

    def run(self) -> None:
        """The lives that are left."""
        while self.lives < len(LIVES) and not self.has_lost_log:
            has_met_fault = bool(self.files.hits)
            self.run_life()
            if has_met_fault:
                return

    def run_life(self) -> None:
        self._is_sync = LIVES[self.lives]
        self._is_failed = False
        self._unsafe.clear()
        store = self.make_store(self.files, is_sync=self._is_sync)
        if self.do(lambda: store.open(1)):
            self.do(lambda: self.check_kill(store))
            self.live(store)
            if self.do(store.close) and not self._is_failed:
                self.note_safe(1 << 62)
        assert self.files.descriptors_open == 0, f"{self.note}: files left open"
        self.lives += 1
        self._told = None  # else it could not be kept as it is now

    @property
    def has_lost_log(self) -> bool:
        """Whether a sync of the log was hit."""
        return any(is_log_sync(call) for call in self.files.hits)

    def make_store(self, files: CrashFiles, *, is_sync: bool) -> Store:
        told = self._told = threading.Semaphore(0)
        return Store(
            ROOT, settings(is_sync=is_sync), files=files, clock_ms=self.tick_clock, zone=UTC,
            on_flushed=lambda offset: told.release(), on_failure=self.on_failure,
        )  # fmt: skip

    def live(self, store: Store) -> None:
        for number in range(12):
            topic, queue_id = QUEUES[number % len(QUEUES)]
            self.append(store, topic, queue_id, 5 if number % APPENDS_PER_TICK == 3 else 1)
            if number == 8 and not self._is_sync:
                self.flush(store)
            if number % APPENDS_PER_TICK == 2:
                self.do(store.tick)
            if number % 6 == 4:
                self.do(lambda: self.consume(store))
        self.do(lambda: store.query("T", "k", 32, 0, 1 << 60))

    def do(self, act: Callable[[], object]) -> bool:
        """Whether it went well; what was raised must be documented."""
        hits = len(self.files.hits)
        try:
            act()
        except DOCUMENTED as error:
            self.errors.append(error)
            is_well = False
        else:
            is_well = True
        if len(self.files.hits) > hits:
            self.lose_power()
        return is_well

    def tick_clock(self) -> int:
        self._now_ms += 7_000
        return self._now_ms

    def on_failure(self, error: OSError) -> None:
        self.failures.append(error)
        self._is_failed = True
        if self._told is not None:
            self._told.release()

    # --- producers and consumers ------------------------------------------------------------------

    def append(self, store: Store, topic: str, queue_id: int, count: int) -> None:
        queue = queue_name(topic, queue_id)
        values = [f"v{len(self.killed) + n}" for n in range(count)]
        for value in values:
            self.killed.send(value, "producer", queue)
            self.powerless.send(value, "producer", queue)
        try:
            self.do_append(store, topic, queue_id, values)
        except PutRefusedError as error:
            self.errors.append(error)
            for value in values:
                self.killed.fail(value)
                self.powerless.fail(value)
        except DOCUMENTED as error:
            self.errors.append(error)  # unknown
        if self.files.hits and not self.crashes:
            self.lose_power()

    def do_append(self, store: Store, topic: str, queue_id: int, values: list[str]) -> None:
        items = [BatchItem(body_of(value), properties_of(value)) for value in values]
        record = Record(topic, items[0].body, items[0].properties_raw, queue_id, store_host=HOST)
        if len(items) == 1:
            where = store.append(record)
            first, end, ids = where.queue_offset, where.end, [where.message_id]
        else:
            record.body, record.properties_raw = encode_batch(items), b""
            batch = store.append_batch(record)
            first, end, ids = batch.queue_offset, batch.end, batch.message_ids
        queue = queue_name(topic, queue_id)
        for number, (value, message_id) in enumerate(zip(values, ids, strict=True)):
            self._unsafe.append((end, value, Place(queue, first + number, message_id)))
        if not self._is_sync:
            for _, value, place in self._unsafe[-len(values) :]:
                self.killed.ok(value, place)
            return
        if self.wait(store, end):
            assert not self._is_failed, f"{self.note}: acknowledged after a failed sync"
            for _, value, place in self._unsafe[-len(values) :]:
                self.killed.ok(value, place)
            self.note_safe(end)
            store.advance()

    def wait(self, store: Store, end: int) -> bool:
        """Whether the log is safe up to there; if it will never be, the store has said so."""
        assert self._told is not None
        while store.flushed < end:
            assert self._told.acquire(timeout=WAIT_S), f"{self.note}: neither safe nor failed"
            if self._is_failed:
                return False
        return True

    def note_safe(self, end: int) -> None:
        """Everything up to ``end`` survives a power loss from now on."""
        for at, value, place in self._unsafe:
            if at <= end:
                self.powerless.ok(value, place)
        self._unsafe = [unsafe for unsafe in self._unsafe if unsafe[0] > end]

    def flush(self, store: Store) -> None:
        """What ASYNC_FLUSH does at its intervals."""
        assert store._flusher is not None
        end = store._log.written
        store._flusher.request()
        if not self._is_failed and self.wait(store, end):
            self.note_safe(end)
        if self.files.hits and not self.crashes:
            self.lose_power()

    def consume(self, store: Store) -> None:
        for topic, queue_id in QUEUES:
            for found in read_queue(store, topic, queue_id):
                if self._is_sync and found.queue_offset is not None:
                    self.consumed[queue_name(topic, queue_id), found.queue_offset] = found.value

    # --- what is left -----------------------------------------------------------------------------

    def check_kill(self, store: Store) -> None:
        """After the process alone has died, all is there that was ever acknowledged."""
        check(self.killed, read_all(store), faults=self.faults).raise_if_bad(self.note)

    @property
    def faults(self) -> dict[str, int]:
        return {str(call): 1 for call in self.files.hits}

    def lose_power(self, keeps: Iterable[float] = (0.0, 0.5)) -> None:
        """Keep the disk as a power loss would leave it now, at its worst and by chance."""
        for keep in keeps:
            after = self.files.crash(len(self.files.calls), keep=keep, garble=0.3 * keep)
            evidence = Evidence()
            evidence.sends = [
                type(sent)(
                    sent.number, sent.value, sent.producer, sent.queue, sent.outcome, sent.place
                )
                for sent in self.powerless
            ]
            self.crashes.append((after, evidence))

    def check_power_losses(self) -> None:
        self.lose_power([0.5 if len(self.files.calls) % 2 else 0.0])
        for after, evidence in self.crashes:
            self._is_failed = False
            store = self.make_store(after, is_sync=True)
            store.open(9)
            reads = read_all(store)
            check(evidence, reads, faults=self.faults).raise_if_bad(f"{self.note}, power lost")
            where = store.append(Record("T", b"goes on", store_host=HOST))
            assert self.wait(store, where.end), f"{self.note}: the store does not go on"
            store.close()
        places = {
            (read.queue, found.queue_offset): found.value for read in reads for found in read.found
        }
        for place, value in self.consumed.items():
            assert places.get(place) == value, f"{self.note}: {value} was consumed and is gone"


def read_queue(store: Store, topic: str, queue_id: int) -> list[Found]:
    found: list[Found] = []
    offset = 0
    while (result := store.get(topic, queue_id, offset, 32)).count:
        for view in result.views:
            found += (
                Found(record.queue_offset, value_of(bytes(record.body)), record.offset_id)
                for record in decode_records(view, strict=True)
            )
        offset = result.next_offset
    return found


def read_all(store: Store) -> list[QueueRead]:
    return [QueueRead("store", queue_name(*queue), read_queue(store, *queue)) for queue in QUEUES]


class Recording:
    """A run without a fault, in which nothing goes wrong: its calls, and each life's beginning.

    What comes before a fault need not be done for each of them: a run begins with its life.
    """

    def __init__(self) -> None:
        self._beginnings: list[tuple[int, bytes]] = []
        workload = Workload()
        for _ in LIVES:
            self._beginnings.append((len(workload.files.calls), pickle.dumps(workload)))
            workload.run_life()
        assert workload.errors == []
        self.calls = list(workload.files.calls)
        workload.check_power_losses()

    def workload(self, number: int) -> Workload:
        """The workload at the beginning of the life that makes a call."""
        kept = [kept for calls, kept in self._beginnings if calls < number]
        workload: Workload = pickle.loads(kept[-1])
        return workload


@cache
def record() -> Recording:
    return Recording()


def is_log_sync(call: Call) -> bool:
    return call.name == "sync_mapped" and call.path.parent.name == "commitlog"


def io_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def run_with(number: int, fault: OSError | Short) -> Workload:
    """Run with one fault, and with all that follows from it."""
    workload = record().workload(number)
    workload.plant(number, fault)
    try:
        workload.run()
        workload.check_power_losses()
        assert len(workload.files.hits) == 1, "it was not hit"
        check_answers(workload)
    except BaseException as caught:
        caught.add_note(f"{workload.note}, {workload.files.hits}, errors {workload.errors}")
        raise
    return workload


def check_answers(workload: Workload) -> None:
    """One error costs one request, unless a sync was lost; and it is never called damage."""
    for caught in workload.errors:
        assert not isinstance(caught, CorruptStoreError), "a sound store is called damaged"
        if isinstance(caught, PutRefusedError):
            assert not caught.status.is_stored, "refused and stored"
    if workload.failures:
        refused = [e for e in workload.errors if isinstance(e, PutRefusedError)]
        assert all("takes no more messages" in e.reason for e in refused), refused
        return
    # Until the next tick, nobody tries again what has failed.
    assert len(workload.errors) <= APPENDS_PER_TICK, "one error has led to others"
    if not workload.errors:
        assert_all_is_well(workload)


def assert_all_is_well(workload: Workload) -> None:
    """Nobody noticed anything."""
    assert workload.errors == []
    assert workload.failures == []
    outcomes = {sent.outcome for evidence in (workload.killed, workload.powerless)
                for sent in evidence}  # fmt: skip
    assert outcomes == {Outcome.OK}, "somebody suffers, and nobody was told"


def check_errors(numbers: Iterable[int]) -> int:
    """EIO at these calls; how many of them were syncs of the log."""
    return sum(run_with(number, io_error(errno.EIO)).has_lost_log for number in numbers)


def check_signals(numbers: Iterable[int]) -> int:
    """A signal at these calls; how many were simply tried again."""
    retried = 0
    for number in numbers:
        workload = run_with(number, io_error(errno.EINTR))
        if workload.files.hits[0].name in RETRIED_BY_PYTHON:
            assert_all_is_well(workload)
            retried += 1
    return retried


def check_short_writes(numbers: Iterable[int]) -> int:
    """Less than all is written at each of these that is a write; how many are."""
    calls = record().calls
    writes = [number for number in numbers if calls[number - 1].name == "write"]
    for number in writes:
        size = calls[number - 1].size
        assert_all_is_well(run_with(number, Short(number % max(1, size - 1) + 1)))
    return len(writes)


PARTS: Final = 8
SIGNALS_STEP: Final = 9
"""No divisor in common with the parts, so that each has its share."""


def is_signalled(number: int) -> bool:
    """Whether a call gets a signal, too: all those that Python gives up, some of the others."""
    return record().calls[number - 1].name not in RETRIED_BY_PYTHON or not number % SIGNALS_STEP


@pytest.mark.parametrize("part", range(PARTS))
def test_an_error_at_any_call_costs_nothing_acknowledged(part: int) -> None:
    """All calls of the recorded run, shared out."""
    numbers = range(1 + part, len(record().calls) + 1, PARTS)
    log_syncs = check_errors(numbers)
    signalled = [number for number in numbers if is_signalled(number)]
    retried = check_signals(signalled)
    short = check_short_writes(numbers)
    print(f"{len(numbers)} errors: {log_syncs} at syncs of the log")
    print(f"{len(signalled)} signals: {retried} calls went on; {short} short writes")
    assert log_syncs > 0
    assert 0 < retried < len(signalled)
    assert short > 0


def test_the_calls_that_fail_are_many_and_of_all_kinds() -> None:
    """A thousand, with each of which something goes wrong; all kinds that a store can make."""
    calls = record().calls
    names = Counter(call.name for call in calls)
    assert len(calls) > 1_000
    assert names.keys() >= RETRIED_BY_PYTHON | {"map", "find", "entries", "rename", "remove_file"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_signal_at_any_call_costs_nothing_acknowledged() -> None:
    """The long tier: also at the calls that Python itself tries again."""
    calls = record().calls
    assert check_signals(range(1, len(calls) + 1)) > len(calls) // 2


def log_sync_numbers() -> list[int]:
    return [n for n, call in enumerate(record().calls, 1) if is_log_sync(call)]


def test_after_a_failed_sync_nothing_is_taken_any_more() -> None:
    """Each sync of the log: the store says so once, and why to everybody who asks later.

    One that fails while the store is opened keeps it closed.
    """
    refusals = 0
    for number in log_sync_numbers():
        workload = run_with(number, io_error(errno.EIO))
        if not workload.failures:
            assert [type(e) for e in workload.errors] == [OSError], workload.note
            continue
        assert len(workload.failures) == 1, workload.note
        refusals += sum(
            isinstance(e, PutRefusedError) and e.status is PutStatus.SERVICE_NOT_AVAILABLE
            for e in workload.errors
        )
    assert refusals > 20


def test_swallowing_a_sync_error_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a message is acknowledged though its sync has failed."""
    honest = MappedFile.sync

    def sync(self: MappedFile, start: int = 0, end: int = 0) -> None:
        with suppress(OSError):
            honest(self, start, end)

    numbers = log_sync_numbers()
    monkeypatch.setattr(MappedFile, "sync", sync)
    with pytest.raises(AssertionError, match=r"lost [1-9]"):
        check_errors(numbers)


def test_trying_a_failed_sync_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other planted bug: the second sync succeeds, for the system has given the data up."""
    honest = MappedFile.sync

    def sync(self: MappedFile, start: int = 0, end: int = 0) -> None:
        try:
            honest(self, start, end)
        except OSError:
            honest(self, start, end)

    numbers = log_sync_numbers()
    monkeypatch.setattr(MappedFile, "sync", sync)
    with pytest.raises(AssertionError, match=r"lost [1-9]"):
        check_errors(numbers)


def test_signals_do_no_harm_to_a_real_store(tmp_path: Path) -> None:
    """Python does go on after a signal: a storm of them, at the owner and at its threads."""
    caught: list[int] = []
    told = threading.Semaphore(0)
    store = Store(
        tmp_path, settings(is_sync=True), zone=UTC, on_flushed=lambda offset: told.release()
    )
    before = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    over = threading.Event()
    storm = threading.Thread(target=send_signals, args=(over, threading.main_thread()))
    storm.start()
    try:
        store.open(1)
        for number in range(200):
            where = store.append(Record("T", body_of(f"v{number}"), properties_of(f"v{number}")))
            while store.flushed < where.end:
                assert told.acquire(timeout=WAIT_S)
            if number % 20 == 0:
                store.tick()
        store.advance()
        assert [found.value for found in read_queue(store, "T", 0)] == [
            f"v{number}" for number in range(200)
        ]
        store.close()
    finally:
        over.set()
        storm.join()
        # On a busy machine a thread that has ended for Python may have a signal to come, which
        # would end this process: to ignore signals takes away those that are to come.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, before)
    assert len(caught) > 20, f"{len(caught)} signals are no storm"


def send_signals(over: threading.Event, owner: threading.Thread) -> None:
    """Signal the owner of a store and its threads, again and again.

    By the number that the kernel has for a thread: to ask the C library for one that has just
    ended (``signal.pthread_kill``) reads memory that is given back, and was seen to crash.
    """
    library = ctypes.CDLL(None, use_errno=True)
    while not over.wait(0.0005):
        for thread in threading.enumerate():
            if (thread is owner or thread.name.startswith("roketto-")) and thread.native_id:
                # That there is no such thread any more is told by its result, and no error here.
                library.tgkill(os.getpid(), thread.native_id, int(signal.SIGUSR1))
