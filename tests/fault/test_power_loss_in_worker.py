"""Power loss while the worker syncs queues and index, replaces the checkpoint or makes a segment.

The lives of test_power_loss.py, with jobs that are done at moments of the seed's choice, and the
power gone at one of the system calls of a job. The seed is in the name of the test.
"""

from collections import Counter
from random import Random

import pytest

from fault.test_power_loss import Life
from roketto.store.store import Store
from roketto.store.worker import Worker
from sim.files import CrashFiles
from sim.worker import SeededWorker

SEEDS = 150
SEEDS_PER_TEST = 50
CALLS_MAX = 16
"""A job makes about as many calls."""


class JobFiles(CrashFiles):
    """Files with a seeded worker, that keep what the disk shows at one call of its jobs."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self.worker = SeededWorker(random)
        self.after: CrashFiles | None = None
        self.hit = ""
        self._calls_left = -1
        called = self._crash_disk._called

        def watched(*arguments):  # type: ignore[no-untyped-def]
            if self.worker.is_working:
                self._count(arguments[0])
            return called(*arguments)

        self._crash_disk._called = watched  # type: ignore[method-assign]

    def make_worker(self) -> Worker:
        return self.worker

    def lose_power(self) -> None:
        """Keep what the disk shows at one of the next calls of a job."""
        self._calls_left = self._random.randrange(CALLS_MAX)

    def _count(self, name: str) -> None:
        if self._calls_left == 0:
            self.hit = name
            self.after = self.crash(
                self._random.randrange(1 << 30), keep=self._random.random(), garble=0.3
            )
        self._calls_left -= 1


class WorkerLife(Life):
    """A life that ends in a job of the worker."""

    hit = ""

    def live(self) -> CrashFiles:
        files = JobFiles(self.random)
        store = self.work(files, tick_chance=0.2, unsafe_max=4)
        files.lose_power()
        self.wait_for_loss(store, files)
        after = files.after or files.crash(self.seed, keep=self.random.random(), garble=0.3)
        self.hit = files.hit
        store.close()
        return after

    def wait_for_loss(self, store: Store, files: JobFiles) -> None:
        """Let time pass until the power is gone, or there was nothing to do."""
        for _ in range(10):
            self.now_ms += 20_000
            store.tick()
            if files.after is not None:
                return
            files.worker.catch_up()


def run(seeds: range, *, acknowledge_early: bool = False) -> tuple[int, Counter[str]]:
    """Run some lives: what the power losses took, and at which calls they came."""
    discarded = 0
    hits: Counter[str] = Counter()
    for seed in seeds:
        life = WorkerLife(seed, acknowledge_early=acknowledge_early)
        after = life.live()
        discarded += after.loss.total
        hits[life.hit] += 1
        try:
            life.check(after)
        except BaseException as error:
            error.add_note(f"seed {seed}, power lost at {life.hit}")
            raise
    return discarded, hits


@pytest.mark.parametrize("each_max", [64, 0], ids=["file by file", "whole file system"])
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_nothing_is_lost_when_a_job_is_cut_short(
    monkeypatch: pytest.MonkeyPatch, first: int, each_max: int
) -> None:
    """Nothing acknowledged, wherever the job was: in front of, between and behind its syncs."""
    monkeypatch.setattr("roketto.store.queues.SYNCED_EACH_MAX", each_max)
    discarded, hits = run(range(first, first + SEEDS_PER_TEST))
    assert discarded > 0, "no power loss has taken anything"
    assert hits.total() - hits[""] > SEEDS_PER_TEST // 2, f"{hits}: hardly one was in a job"
    assert hits["sync_names"] > 0
    assert hits["sync_file_system" if each_max == 0 else "sync"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("each_max", [64, 0], ids=["file by file", "whole file system"])
def test_nothing_is_lost_in_many_more_jobs_cut_short(
    monkeypatch: pytest.MonkeyPatch, each_max: int
) -> None:
    """The long tier."""
    monkeypatch.setattr("roketto.store.queues.SYNCED_EACH_MAX", each_max)
    run(range(SEEDS, SEEDS + 3_000))


def test_acknowledging_before_the_sync_is_noticed_here_too() -> None:
    """The planted bug: these lives can see a lost message."""
    with pytest.raises(AssertionError, match=r"lost [1-9]"):
        run(range(100), acknowledge_early=True)
