"""Power loss under ASYNC_FLUSH (F5): what is missing is an unflushed suffix of the log.

The lives of test_power_loss.py on a clock of their own. The flushing thread sleeps; whenever an
interval is over the life does what that would do, and notes itself whether a flush was due. After
the power loss there must be no hole over all queues, everything must be there that the store had
called flushed, and everything for which a flush had been due.
"""

from dataclasses import replace

import pytest

from checker import QueueRead
from evidence import Place
from fault.test_power_loss import QUEUES, SETTINGS, Life
from roketto.store.catchup import Scan
from roketto.store.flush import PAGE_BYTES, Flusher, FlushSettings
from roketto.store.recovery import Recovery
from roketto.store.segments import Segments
from roketto.store.store import Store
from sim.files import CrashFiles

SEEDS = 500
SEEDS_PER_TEST = 50
INTERVAL_MS = 500
THOROUGH_MS = 2_000
APPENDS_MAX = 60
APPEND_MS_MAX = 200


class Time:
    """What the flusher's clock says, by the life that runs."""

    now_ms = 0

    def monotonic_s(self) -> float:
        return self.now_ms / 1000


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr("roketto.store.flush.monotonic_s", time.monotonic_s)
    return time


class AsyncLife(Life):
    """A life in which nobody waits for the disk."""

    def __init__(self, seed: int, time: Time, tick_chance: float = 0.1) -> None:
        super().__init__(seed)
        self.time = time
        self.tick_chance = tick_chance
        self.pages_least = self.random.choice((0, 1, 2, 4))
        self.settings = replace(
            SETTINGS,
            is_flush_sync=False,
            flush=FlushSettings(
                interval_ms=3_600_000,  # the thread's; this life has its own
                pages_least=self.pages_least,
                thorough_interval_ms=THOROUGH_MS,
            ),
        )
        self.appended: list[tuple[str, Place, int]] = []
        """Everything, in the order of the log."""
        self.due = 0
        """Up to where the log had to be flushed when the last flush was due."""
        self.due_ms = 0
        self.flushed_count = 0
        self.left_count = 0

    def live(self) -> CrashFiles:
        files = CrashFiles()
        self.time.now_ms = self.due_ms = 0
        store = self.make(files)
        store.open(1)
        for _ in range(self.random.randrange(1, APPENDS_MAX)):
            self.appended.append(self.append(store))
            self.let_pass(store, self.random.randrange(APPEND_MS_MAX))
            if self.random.random() < self.tick_chance:
                store.tick()
        for value, place, end in self.appended:
            if end <= store.flushed:
                self.evidence.ok(value, place)
                self.flushed_count += 1
        after = files.crash(self.seed, keep=self.random.random(), garble=0.3)
        store.close()
        return after

    def let_pass(self, store: Store, wait_ms: int) -> None:
        """Let the flusher look after the log as often as an interval ends."""
        assert store._flusher is not None
        end_ms = self.time.now_ms + wait_ms
        while (next_ms := self.time.now_ms // INTERVAL_MS * INTERVAL_MS + INTERVAL_MS) <= end_ms:
            self.time.now_ms = next_ms
            self.note_due(store._log.written)
            store._flusher._flush(is_wanted=False)
        self.time.now_ms = end_ms

    def note_due(self, written: int) -> None:
        """A flush is due if enough pages are dirty, or anything for long enough."""
        pages = written // PAGE_BYTES - self.due // PAGE_BYTES
        is_due = pages >= self.pages_least or self.time.now_ms - self.due_ms >= THOROUGH_MS
        if written > self.due and is_due:
            self.due, self.due_ms = written, self.time.now_ms

    def check_found(self, reads: list[QueueRead]) -> None:
        """What is left is how the log begins, and it goes as far as a flush had been due."""
        left = {found.value for read in reads for found in read.found}
        self.left_count = len(left)
        values = [value for value, _, _ in self.appended]
        assert left == set(values[: len(left)]), "there is a hole: later messages are there"
        owed = sum(end <= self.due for _, _, end in self.appended)
        assert len(left) >= owed, f"{len(left)} are left, a flush was due for {owed}"


def run(time: Time, seeds: range, tick_chance: float = 0.1) -> tuple[int, int]:
    """Run some lives; how many messages were lost, and how many lives have lost only some of what
    was not flushed."""
    lost = partly = 0
    for seed in seeds:
        life = AsyncLife(seed, time, tick_chance)
        after = life.live()
        try:
            life.check(after)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        missing = len(life.appended) - life.left_count
        assert not missing or after.loss.total, f"seed {seed}: lost, though the disk kept all"
        lost += missing
        partly += missing > 0 and life.left_count > life.flushed_count
    return lost, partly


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_only_an_unflushed_suffix_is_lost(time: Time, first: int) -> None:
    """500 seeds: a beginning of the log is left, with all that was flushed or should have been."""
    lost, partly = run(time, range(first, first + SEEDS_PER_TEST))
    assert lost > SEEDS_PER_TEST, f"{lost} lost: the power losses have taken hardly anything"
    assert partly > 0, "none has cut the log between what was flushed and its end"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(SEEDS, 20_000, 1_500))
def test_only_an_unflushed_suffix_is_lost_in_many_more_lives(time: Time, first: int) -> None:
    """The long tier: 20,000 seeds in all."""
    run(time, range(first, min(first + 1_500, 20_000)))


# --- planted bugs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queues", "seen"), [(QUEUES, "gap [1-9]"), (20 * APPENDS_MAX, "there is a hole")]
)
def test_passing_over_what_is_torn_is_noticed(
    time: Time, monkeypatch: pytest.MonkeyPatch, queues: int, seen: str
) -> None:
    """A recovery that goes on behind a torn record leaves a hole, in a queue or between queues."""

    def pass_over(recovery: Recovery, scan: Scan) -> bool:
        segment = recovery._segments.find(scan.at)
        for log_offset in range(scan.at + 1, segment.end):
            if recovery._is_sound(segment, log_offset):
                scan.at = log_offset
                return True
        return False

    monkeypatch.setattr(Recovery, "_repair", pass_over)
    monkeypatch.setattr(Life, "queues", queues)
    with pytest.raises(AssertionError, match=seen):
        run(time, range(SEEDS_PER_TEST))


def test_calling_flushed_what_was_not_synced_is_noticed(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a flush covers, the last segment is left to the system."""
    honest = Segments.sync

    def sync_less(segments: Segments, start: int, end: int) -> None:
        honest(segments, start, max(start, end - segments.segment_bytes))

    monkeypatch.setattr(Segments, "sync", sync_less)
    with pytest.raises(AssertionError, match=r"lost [1-9]"):
        run(time, range(SEEDS_PER_TEST), tick_chance=0)  # else the next start refuses to go on


def test_a_flush_that_is_due_and_does_not_come_is_noticed(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is lost than was written since."""
    monkeypatch.setattr(Flusher, "_is_due", lambda *_: False)
    with pytest.raises(AssertionError, match="a flush was due for"):
        run(time, range(SEEDS_PER_TEST))
