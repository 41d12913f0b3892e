"""Proves that a round syncs what it claims before the checkpoint does, and waits for nobody."""

import errno
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from roketto.store import derived as derived_module
from roketto.store.checkpoint import Checkpoint, Marks, load_checkpoint
from roketto.store.derived import (
    INTERVAL_MS,
    LOG_BYTES,
    LOG_BYTES_MAX,
    LOG_BYTES_PER_QUEUE,
    QUEUES_MANY,
    QUEUES_PER_MS,
    QUEUES_PER_TURN,
    DerivedSync,
)
from roketto.store.errors import DiskFullError
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.worker import run_job
from sim.files import CrashFiles, PowerLoss
from sim.worker import InlineWorker, SeededWorker

ROOT = Path("/store")
CHECKPOINT = ROOT / "checkpoint"
SIZE = 100
_T = TypeVar("_T")


class LateWorker(InlineWorker):
    """Does what it was given when ``do`` is called, and takes no more than ``room`` jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 1

    def submit(self, work: Callable[[], _T], *, is_urgent: bool = False) -> Future[_T] | None:
        if len(self._jobs) >= self.room:
            return None
        future: Future[_T] = Future()
        self._jobs.append(lambda: run_job(future, work))
        return future

    def do(self) -> None:
        self._jobs.popleft()()


class Rig:
    """Queues and an index with some messages, on a disk that forgets."""

    def __init__(self, worker: InlineWorker | None = None, *, queues: int = 3) -> None:
        self.files = CrashFiles()
        self.files.make_directory(ROOT)
        self.queues = Queues(self.files, ROOT / "consumequeue", 400)
        self.index = Index(self.files, ROOT / "index", lambda: 1_700_000_000_000, UTC, 20, 100)
        self.checkpoint = Checkpoint(physic_timestamp=77)
        self.count = 0
        self.derived = DerivedSync(
            self.files, CHECKPOINT, self.checkpoint, self.queues, self.index,
            worker or InlineWorker(), 0,
        )  # fmt: skip
        self.put(queues)

    @property
    def is_told(self) -> bool:
        """Whether the end of a sync was noted."""
        return self.derived.synced_end > 0

    def begin(self) -> None:
        self.derived.begin(self.marks(), 1_000)

    def put(self, queues: int) -> None:
        """One message for each queue."""
        for queue_id in range(queues):
            queue = self.queues.get_or_create("T", queue_id)
            queue.append(self.count * SIZE, SIZE, 0, queue.queue_offset_max)
            self.index.put("T", f"K{self.count}", None, self.count * SIZE, 1_700_000_000_000)
            self.index.flush()
            self.count += 1

    def marks(self) -> Marks:
        end = self.count * SIZE
        return Marks(end, end, *self.queues.count(), index_mark=self.index.mark())

    def claimed(self, files: CrashFiles | None = None) -> Marks | None:
        files = files or self.files
        return load_checkpoint(files, CHECKPOINT, 1 << 60).marks

    def check(self, after: CrashFiles) -> Marks | None:
        """What the checkpoint claims after a crash is there."""
        marks = self.claimed(after)
        if marks is not None:
            queues = Queues(after, ROOT / "consumequeue", 400)
            queues.load(0, is_after_crash=True, log_synced=marks.derived)
            assert queues.count() == (marks.queues, marks.units)
            assert marks.index_mark is not None
            index = Index(after, ROOT / "index", lambda: 0, UTC, 20, 100)
            assert index.load_marked(marks.index_mark, is_exact=False)
            assert index.log_offset_max + SIZE == marks.derived
            index.close()
        return marks


def test_a_round_with_nobody_to_wait_for_takes_one_step() -> None:
    """Everything is on the disk, and the checkpoint says so; the times are those of its begin."""
    rig = Rig()
    marks = rig.marks()._replace(flushed=250)
    assert rig.derived.is_idle
    rig.derived.begin(marks, 1_000)
    rig.checkpoint.physic_timestamp = 99
    assert not rig.derived.is_idle
    assert rig.derived.step() is False
    assert rig.derived.is_idle
    assert rig.derived.synced_end == marks.derived == 300
    found = load_checkpoint(rig.files, CHECKPOINT, 1 << 60)
    assert (found.logics_timestamp, found.physic_timestamp) == (77, 99)
    assert found.logics_physical_offset == 250  # the log was not synced any further
    assert rig.check(rig.files.crash(1, keep=0.0)) == marks
    assert rig.derived.step() is False


def test_a_store_without_an_index_syncs_its_queues() -> None:
    """There is no time of an index then."""
    rig = Rig()
    derived = DerivedSync(
        rig.files, CHECKPOINT, rig.checkpoint, rig.queues, None, InlineWorker(), 0
    )
    rig.checkpoint.index_timestamp = 5
    derived.begin(rig.marks(), 1_000)
    derived.step()
    assert derived.synced_end == 300
    assert rig.checkpoint.index_timestamp == 0


def test_many_queues_take_many_turns_and_late_ones_do_not_prolong_them() -> None:
    """A turn writes a bounded number; queues that are written to meanwhile are the next round's."""
    count = 3 * QUEUES_PER_TURN - 5
    rig = Rig(queues=count)
    rig.begin()
    turns = []
    while True:
        dirty = rig.queues.dirty_count
        has_more = rig.derived.step()
        turns.append(dirty - rig.queues.dirty_count)
        if not has_more:
            break
        rig.put(1)  # a queue that has had its turn
    assert turns == [QUEUES_PER_TURN, QUEUES_PER_TURN, QUEUES_PER_TURN - 5]
    assert rig.queues.dirty_count == 1
    assert rig.check(rig.files.crash(1, keep=0.0)) is not None


def test_queues_that_are_deleted_meanwhile_are_not_waited_for() -> None:
    """A topic may go between two turns."""
    rig = Rig(queues=2 * QUEUES_PER_TURN)
    rig.begin()
    assert rig.derived.step() is True
    rig.queues.delete_topic("T")
    assert rig.derived.step() is False
    assert rig.derived.is_idle


def test_the_owner_never_waits_for_the_worker() -> None:
    """Each step sees what was done by then; the checkpoint comes after the sync was noted."""
    worker = LateWorker()
    rig = Rig(worker)
    rig.begin()
    worker.room = 0
    assert rig.derived.step() is False  # too much to do: again the next time
    worker.room = 1
    for _ in range(2):
        assert rig.derived.step() is False
        assert not rig.is_told
    worker.do()
    assert not rig.is_told
    for _ in range(2):
        rig.derived.step()
        assert rig.is_told
        assert rig.claimed() is None
    worker.do()
    assert rig.check(rig.files.crash(1, keep=0.0)) is not None
    assert not rig.derived.is_idle
    rig.derived.step()
    assert rig.derived.is_idle


def test_a_checkpoint_that_nobody_takes_is_saved_by_the_next_round() -> None:
    """The worker has too much to do."""
    worker = LateWorker()
    rig = Rig(worker)
    rig.begin()
    rig.derived.step()
    worker.do()
    worker.room = 0
    rig.derived.step()
    assert rig.derived.is_idle
    assert rig.is_told
    assert rig.claimed() is None


def test_a_round_is_due_after_a_while_or_so_much_of_the_log() -> None:
    """Also when the clock was set back, and at first in any case."""
    rig = Rig()
    assert rig.derived.is_due(1_700_000_000_000, 300)
    rig.derived.begin(rig.marks(), 1_700_000_000_000)
    rig.derived.step()
    for later_ms, log_bytes, expected in (
        (0, 0, False),
        (INTERVAL_MS - 1, LOG_BYTES - 1, False),
        (INTERVAL_MS, 0, True),
        (0, LOG_BYTES, True),
        (-1, 0, True),
    ):
        assert rig.derived.is_due(1_700_000_000_000 + later_ms, 300 + log_bytes) == expected


def test_rounds_are_rarer_where_many_queues_are_written() -> None:
    rig = Rig()
    rig.derived.begin(rig.marks(), 1_700_000_000_000)
    while rig.derived.step():
        pass
    for queue_id in range(10):
        rig.queues.get_or_create("Many", queue_id).append(0, 1, 0, 0)
    most = 300 + LOG_BYTES + 10 * LOG_BYTES_PER_QUEUE
    assert not rig.derived.is_due(1_700_000_000_000, most - 1)
    assert rig.derived.is_due(1_700_000_000_000, most)
    last_ms = 1_700_000_000_000 + INTERVAL_MS + 10 // QUEUES_PER_MS
    assert not rig.derived.is_due(last_ms - 1, 300)
    assert rig.derived.is_due(last_ms, 300)


def test_thousands_of_queues_wait_until_each_has_something_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As far as all of them together have not too much, and the log is not too long."""
    monkeypatch.setattr(derived_module, "UNITS_PER_QUEUE", 3)
    rig = Rig(queues=QUEUES_MANY)
    start = rig.count * SIZE
    rig.derived.begin(rig.marks(), 1_700_000_000_000)
    while rig.derived.step():
        pass
    due = start + LOG_BYTES + QUEUES_MANY * LOG_BYTES_PER_QUEUE
    for expected in (False, False, True):
        rig.put(QUEUES_MANY)
        assert rig.derived.is_due(1_700_000_000_000, due) == expected
        assert rig.derived.is_due(1_700_000_000_000, start + LOG_BYTES_MAX)
        assert not rig.derived.is_due(1_700_000_000_000, due - 1)
    monkeypatch.setattr(derived_module, "UNITS_PER_QUEUE", 4)
    assert not rig.derived.is_due(1_700_000_000_000, due)
    monkeypatch.setattr(derived_module, "UNITS", 3 * QUEUES_MANY)
    assert rig.derived.is_due(1_700_000_000_000, due)


@pytest.mark.parametrize(("queues", "expected"), [(3, 0), (QUEUES_MANY, 1)])
def test_many_queues_have_huge_pages_after_a_round_but_not_at_a_stop(
    monkeypatch: pytest.MonkeyPatch, queues: int, expected: int
) -> None:
    collapsed: list[None] = []
    monkeypatch.setattr(derived_module, "collapse", lambda: collapsed.append(None))
    rig = Rig(queues=queues)
    rig.begin()
    while rig.derived.step():
        pass
    assert len(collapsed) == expected
    rig.put(queues)
    rig.derived.finish(rig.marks())
    assert len(collapsed) == expected


def test_one_round_at_a_time() -> None:
    """A second one would claim what the first has not written."""
    rig = Rig(LateWorker())
    rig.begin()
    with pytest.raises(AssertionError, match="one round at a time"):
        rig.begin()


def test_a_full_disk_lets_the_round_go_on_later() -> None:
    """The units stay in memory until there is room."""
    rig = Rig()
    rig.begin()
    rig.files.fail_call(len(rig.files.calls) + 5, OSError(errno.ENOSPC, "planted"))
    with pytest.raises(DiskFullError):
        rig.derived.step()
    assert len(rig.files.hits) == 1
    assert not rig.is_told
    rig.derived.step()
    assert rig.check(rig.files.crash(1, keep=0.0)) is not None


def sync_calls(rig: Rig) -> list[int]:
    """The calls of a round after its flush that make something durable."""
    start = len(rig.files.calls)
    rig.begin()
    rig.derived.step()
    return [number for number in rig.files.sync_numbers if number > start]


def test_a_sync_that_fails_is_told_and_claims_nothing() -> None:
    """Each sync of a round in turn, that of the checkpoint included."""
    numbers = sync_calls(Rig())
    assert len(numbers) > 8
    for number in numbers:
        rig = Rig()
        rig.files.fail_call(number, OSError(errno.EIO, "planted"))
        rig.begin()
        with pytest.raises(OSError, match="planted"):
            rig.derived.step()
        assert len(rig.files.hits) == 1
        assert rig.derived.is_idle
        assert rig.is_told == (rig.files.hits[0].path in (CHECKPOINT.with_suffix(".tmp"), ROOT)
                                 and number > numbers[-3])  # fmt: skip
        rig.check(rig.files.crash(number, keep=0.3))


@pytest.mark.parametrize("is_early", [False, True])
def test_power_loss_at_any_call_of_a_round_leaves_no_false_claim(
    monkeypatch: pytest.MonkeyPatch, is_early: bool
) -> None:
    """Before, in and after each sync. The planted bug saves the checkpoint before the sync."""
    if is_early:
        monkeypatch.setattr(Queues, "take_sync", lambda queues: lambda: None)
    lost = bad = claims = 0
    for seed in range(60):
        random = Random(seed)
        worker = SeededWorker(random)
        rig = Rig(worker)
        rig.files.fail_call(len(rig.files.calls) + random.randrange(1, 120), PowerLoss())
        with suppress(PowerLoss):
            for _ in range(3):
                rig.put(3)
                rig.begin()
                while not rig.derived.is_idle:
                    rig.derived.step()
                    rig.put(1)
                    if random.random() < 0.5:
                        worker.catch_up()
        after = rig.files.crash(seed, keep=random.random(), garble=0.2)
        lost += after.loss.total
        try:
            claims += rig.check(after) is not None
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            if not is_early:
                raise
            bad += 1
    assert lost > 0
    assert claims > 10 or is_early
    assert bool(bad) == is_early


@pytest.mark.parametrize("is_taken", [True, False])
def test_at_the_end_everything_is_done_at_once(is_taken: bool) -> None:
    """Also what a round has left that was under way, or that the worker did not take."""
    worker = LateWorker()
    rig = Rig(worker)
    rig.begin()
    worker.room = int(is_taken)
    rig.derived.step()
    if is_taken:
        worker.do()
    rig.put(2)
    rig.derived.finish(rig.marks())
    assert rig.derived.is_idle
    assert rig.check(rig.files.crash(1, keep=0.0)) == rig.marks()


def test_an_error_that_nobody_has_seen_yet_is_told_at_the_end() -> None:
    """The worker's last sync has failed: this is no clean stop."""
    worker = LateWorker()
    rig = Rig(worker)
    rig.begin()
    rig.derived.step()
    rig.files.fail_call(len(rig.files.calls) + 2, OSError(errno.EIO, "planted"))
    worker.do()
    assert len(rig.files.hits) == 1
    with pytest.raises(OSError, match="planted"):
        rig.derived.finish(rig.marks())
    assert rig.claimed() is None
