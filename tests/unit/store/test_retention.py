"""Proves that the right files go at the right time, and that queues and index follow."""

import errno
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from roketto.store import retention as retention_module
from roketto.store.disk import Usage
from roketto.store.diskgate import DiskGate
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.retention import MANUAL_PASSES, Retention, RetentionSettings, Runner, run_now
from roketto.store.segment import segment_name
from roketto.store.segments import Segments
from sim.files import CrashFiles

SIZE = 1_000
ROOT = Path("/store")
HOUR_MS = 3_600_000
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
AT_FOUR_MS = NOON_MS + 16 * HOUR_MS
EASY = 50
"""Percent of the disk in use, below every bound."""


class Rig:
    """A log of so many full segments, one message each, with its queues and its index."""

    def __init__(
        self,
        segments: int,
        settings: RetentionSettings | None = None,
        *,
        index_enable: bool = True,
        zone: timezone = UTC,
        run: Runner | None = None,
        queues: int = 1,
    ) -> None:
        self.files = CrashFiles()
        self.files.make_directory(ROOT)
        self.segments = Segments(self.files, ROOT / "commitlog", SIZE)
        self.segments.load()
        self.queues = Queues(self.files, ROOT / "consumequeue", file_bytes=40)
        self.index = (
            Index(self.files, ROOT / "index", lambda: NOON_MS, UTC, slots=10, entries=3)
            if index_enable
            else None
        )
        self.gate = DiskGate()
        self.retention = Retention(
            self.files, self.segments, self.queues, self.index, self.gate,
            settings or RetentionSettings(), zone, run,
        )  # fmt: skip
        self._queue_count = queues
        self.use(EASY)
        for _ in range(segments):
            self.grow()

    def grow(self) -> None:
        """Append a segment, which is safe at once; its file counts as written at noon."""
        start = self.segments.written
        self.segments.append_bytes(b"x" * SIZE)
        self.segments.mark_flushed(self.segments.written)
        self.files.set_modified(self.path(start // SIZE), NOON_MS)
        for queue_id in range(self._queue_count):
            queue = self.queues.get_or_create("T", queue_id)
            size = SIZE // self._queue_count
            queue.append(start + queue_id * size, size, 0, start // SIZE)
        if self.index is not None:
            self.index.put("T", f"k{start // SIZE}", None, start, NOON_MS)
            self.index.flush()
        self.queues.flush()
        self.retention.units_end = self.segments.written

    def path(self, number: int) -> Path:
        return ROOT / "commitlog" / segment_name(number * SIZE)

    def use(self, percent: int) -> None:
        self.files.set_usage(100, 100 - percent)

    @property
    def first(self) -> int:
        """The number of the oldest segment."""
        return self.segments.min_offset // SIZE

    @property
    def files_left(self) -> int:
        return len(self.files.names(ROOT / "commitlog"))


# --- by age ---------------------------------------------------------------------------------------


def test_old_files_go_at_the_hour_and_the_last_one_never() -> None:
    """72 hours after they were written to, between four and five."""
    rig = Rig(4)
    rig.retention.step(NOON_MS + 80 * HOUR_MS)  # old enough, but it is evening
    assert rig.first == 0
    rig.retention.step(AT_FOUR_MS + 48 * HOUR_MS)  # the hour, but 64 hours old
    assert rig.first == 0
    rig.retention.step(AT_FOUR_MS + 72 * HOUR_MS)
    assert (rig.first, rig.files_left, rig.retention.segments_removed) == (3, 1, 3)


def test_a_file_that_is_not_old_keeps_those_behind_it() -> None:
    """Files go from the start only: a hole in the log would be damage."""
    rig = Rig(5)
    rig.files.set_modified(rig.path(2), AT_FOUR_MS + 71 * HOUR_MS)
    rig.retention.step(AT_FOUR_MS + 72 * HOUR_MS)
    assert rig.first == 2
    rig.retention.step(AT_FOUR_MS + 96 * HOUR_MS)
    assert rig.first == 2
    rig.retention.step(AT_FOUR_MS + 144 * HOUR_MS)
    assert rig.first == 4


def test_a_pass_removes_ten_files_and_the_next_comes_ten_seconds_later() -> None:
    """A clock that was set back does not put it off."""
    rig = Rig(35)
    at_ms = AT_FOUR_MS + 72 * HOUR_MS
    steps = [(0, 10), (1_000, 10), (9_999, 10), (10_000, 20), (5_000, 30), (6_000, 30)]
    for later_ms, first in steps:
        rig.retention.step(at_ms + later_ms)
        assert rig.first == first, later_ms


def test_hours_are_those_of_the_zone() -> None:
    """Four in the morning is when it is four there."""
    rig = Rig(2, zone=timezone(timedelta(hours=-8)))
    rig.retention.step(AT_FOUR_MS + 72 * HOUR_MS)
    assert rig.first == 0
    rig.retention.step(AT_FOUR_MS + 80 * HOUR_MS)
    assert rig.first == 1


@pytest.mark.parametrize(
    ("text", "hours"), [("04", {4}), ("0;12;23", {0, 12, 23}), ("04;", {4}), ("4", {4})]
)
def test_several_hours_can_be_given(text: str, hours: set[int]) -> None:
    """As Java splits them."""
    assert RetentionSettings(delete_when=text).hours == hours


@pytest.mark.parametrize("text", ["", ";", "24", "-1", "4:00", "four", "\u0664"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    """When the settings are made, not at four in the morning."""
    with pytest.raises(ValueError, match=r"deleteWhen is .*hours from 0 to 23"):
        RetentionSettings(delete_when=text)


def test_a_request_does_not_wait_for_the_hour() -> None:
    """It makes twenty passes, the first one at once; age still counts."""
    rig = Rig(250)
    noon_ms = NOON_MS + 72 * HOUR_MS
    rig.retention.step(noon_ms)
    rig.retention.request()
    rig.retention.step(noon_ms + 1)
    assert rig.first == 10
    for number in range(MANUAL_PASSES + 3):
        rig.retention.step(noon_ms + 1 + number * 10_000)
    assert rig.first == 10 * MANUAL_PASSES
    young = Rig(3)
    young.retention.request()
    young.retention.step(NOON_MS + 71 * HOUR_MS)
    assert young.first == 0


# --- by disk use ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "is_old", "removed"),
    [(75, True, 0), (76, True, 3), (76, False, 0), (85, False, 0), (86, False, 3), (99, False, 3)],
)
def test_a_full_disk_makes_a_pass_and_a_fuller_one_forgets_the_age(
    percent: int, is_old: bool, removed: int
) -> None:
    """Java's diskMaxUsedSpaceRatio and diskSpaceCleanForciblyRatio."""
    rig = Rig(4)
    rig.use(percent)
    rig.retention.step(NOON_MS + (72 if is_old else 1) * HOUR_MS)
    assert rig.first == removed


def test_forced_cleaning_can_be_turned_off() -> None:
    """Even far above the warning ratio what is young stays; the gate closes all the same."""
    rig = Rig(4, RetentionSettings(is_forced_enabled=False))
    rig.use(95)
    rig.retention.step(NOON_MS + HOUR_MS)
    assert rig.first == 0
    assert rig.gate.reason is not None
    rig.retention.step(NOON_MS + 72 * HOUR_MS)
    assert rig.first == 3


def test_ratios_are_taken_within_the_bounds_of_java() -> None:
    """10 to 95, 30 to 85 and 35 to 90."""
    low = RetentionSettings(max_used_percent=0, forced_percent=0, warning_percent=0)
    assert (low.max_used, low.forced, low.warning) == (10, 30, 35)
    high = RetentionSettings(max_used_percent=99, forced_percent=99, warning_percent=99)
    assert (high.max_used, high.forced, high.warning) == (95, 85, 90)
    own = RetentionSettings(max_used_percent=50, forced_percent=60, warning_percent=70)
    assert (own.max_used, own.forced, own.warning) == (50, 60, 70)


def test_the_gate_follows_the_disk_at_every_step() -> None:
    """Not only when a pass is due."""
    rig = Rig(1)
    for number, (percent, is_open) in enumerate([(90, True), (91, False), (86, False), (85, True)]):
        rig.use(percent)
        rig.retention.step(NOON_MS + number)
        assert (rig.gate.reason is None) == is_open, percent


def test_the_fuller_of_two_disks_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log and queues may be mounted from different ones; a directory that is not there is none."""
    rig = Rig(2)
    usage = {
        ROOT / "commitlog": Usage(100, 90),
        ROOT / "consumequeue": Usage(100, 5),
        ROOT: Usage(100, 80),
    }
    monkeypatch.setattr(rig.files, "usage", usage.__getitem__)
    assert rig.retention.measure() == 95
    assert rig.gate.reason is not None
    assert "consumequeue is 95 % full" in rig.gate.reason
    empty = Rig(0)
    monkeypatch.setattr(empty.files, "usage", usage.__getitem__)
    assert empty.retention.measure() == 20


def test_cleaning_is_urgent_when_it_is_due_and_forced() -> None:
    """Then units should be synced first, for a file stays until they are."""
    rig = Rig(3)
    rig.retention.units_end = SIZE - 1
    assert not rig.retention.is_urgent(NOON_MS)
    rig.use(86)
    rig.retention.measure()
    assert rig.retention.is_urgent(NOON_MS)
    rig.retention.step(NOON_MS)
    assert rig.first == 0
    assert rig.retention.is_urgent(NOON_MS + 1), "it does not wait for the next pass"
    rig.retention.units_end = SIZE
    rig.retention.step(NOON_MS + 1)
    assert rig.first == 1
    assert not rig.retention.is_urgent(NOON_MS + 10_000)
    assert rig.retention.is_urgent(NOON_MS + 10_001)


def test_an_unflushed_file_stays() -> None:
    """The flushing thread may be in it."""
    rig = Rig(2)
    rig.segments.append_bytes(b"x" * SIZE)
    rig.segments.append_bytes(b"x" * SIZE)
    rig.retention.units_end = 4 * SIZE
    rig.use(99)
    rig.retention.step(NOON_MS)
    assert rig.first == 2


# --- what follows ---------------------------------------------------------------------------------


def test_queues_and_index_follow_the_log() -> None:
    """Files that lead only to what is gone go, never the last; a queue keeps its next offset."""
    rig = Rig(8)
    idle = rig.queues.get_or_create("Idle", 0)
    idle.append(0, 10, 0, 0)
    rig.queues.flush()
    assert rig.index is not None
    indexed = len(rig.index.file_names)
    rig.use(86)
    rig.retention.step(NOON_MS)
    queue = rig.queues.get("T", 0)
    assert queue is not None
    assert (queue.queue_offset_min, queue.queue_offset_max) == (7, 8)
    assert len(rig.files.names(queue.directory)) == 1
    assert len(rig.index.file_names) < indexed
    assert rig.files.names(ROOT / "index") == rig.index.file_names
    assert (idle.queue_offset_min, idle.queue_offset_max) == (1, 1)
    again = Queues(rig.files, ROOT / "consumequeue", file_bytes=40)
    again.load(rig.segments.min_offset)
    assert {topic: queue.queue_offset_max for topic, _, queue in again} == {"T": 8, "Idle": 1}


def test_a_store_without_an_index_has_less_to_do() -> None:
    """Its queues follow all the same."""
    rig = Rig(3, index_enable=False)
    rig.use(86)
    rig.retention.step(NOON_MS)
    queue = rig.queues.get("T", 0)
    assert queue is not None
    assert queue.queue_offset_min == 2


def test_many_queues_follow_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is ended before the next one begins, however fast the log goes on."""
    monkeypatch.setattr(retention_module, "_QUEUES_PER_STEP", 3)
    monkeypatch.setattr(retention_module, "_QUEUES_PER_FILE", 1)
    rig = Rig(2, RetentionSettings(files_per_pass_max=1), queues=5)
    rig.use(86)

    def starts() -> list[int]:
        return [queue.queue_offset_min for _, _, queue in rig.queues]

    rig.retention.step(NOON_MS)
    assert starts() == [1, 1, 1, 0, 0]
    rig.grow()
    rig.retention.step(NOON_MS + 10_000)
    assert rig.first == 2
    assert starts() == [1, 1, 1, 2, 2]
    rig.retention.step(NOON_MS + 10_001)  # finds that this round is at its end
    rig.retention.step(NOON_MS + 10_002)
    assert starts() == [2, 2, 1, 2, 2]  # a file of each went, too, which takes longer
    rig.retention.step(NOON_MS + 10_003)
    assert starts() == [2, 2, 2, 2, 2]


# --- removing files -------------------------------------------------------------------------------


def test_files_can_be_removed_elsewhere_while_nobody_reads_them_here() -> None:
    """The owner forgets them at once; a view that a reader holds stays good."""
    jobs: list[Callable[[], None]] = []

    def later(job: Callable[[], None]) -> bool:
        jobs.append(job)
        return True

    rig = Rig(4, run=later)
    held = rig.segments.read(0, 3)
    rig.use(86)
    rig.retention.step(NOON_MS)
    assert (rig.first, rig.files_left, len(jobs)) == (3, 4, 1)
    rig.grow()
    rig.retention.step(NOON_MS + 10_000)
    assert (rig.first, rig.files_left, len(jobs)) == (4, 5, 1), "one job at a time"
    jobs.pop()()
    assert rig.files_left == 1
    assert bytes(held) == b"xxx"
    rig.retention.step(NOON_MS + 20_000)
    assert not jobs


def test_a_runner_that_is_busy_is_asked_again() -> None:
    """At the next step."""
    answers: Iterator[bool] = iter([False, True])

    def run(job: Callable[[], None]) -> bool:
        return next(answers) and run_now(job)

    rig = Rig(3, run=run)
    rig.use(86)
    rig.retention.step(NOON_MS)
    assert rig.files_left == 3
    rig.retention.step(NOON_MS + 1)
    assert rig.files_left == 1


def test_a_file_that_cannot_be_removed_keeps_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the next start finds no gap; the reason is told, and the next step tries again."""
    rig = Rig(4)
    stuck = rig.path(1)
    unlink = rig.files.unlink

    def fail(path: Path) -> None:
        if path == stuck:
            raise OSError(errno.EROFS, "Read-only file system")
        unlink(path)

    rig.use(86)
    with monkeypatch.context() as patch:
        patch.setattr(rig.files, "unlink", fail)
        rig.retention.step(NOON_MS)
    assert rig.retention.failure is not None
    assert (rig.first, rig.files_left) == (3, 3)
    rig.retention.step(NOON_MS + 1)
    assert rig.retention.failure is None
    assert rig.files_left == 1


def test_a_file_that_somebody_has_removed_is_old() -> None:
    """An operator short of space may have done so; a step must not stumble over it."""
    rig = Rig(3)
    rig.files.remove(rig.path(0))
    rig.retention.request()
    rig.retention.step(NOON_MS)
    assert (rig.first, rig.files_left, rig.retention.failure) == (1, 2, None)


def test_a_damaged_queue_does_not_keep_the_others_from_following(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told, and so is a disk that cannot be asked how full it is."""
    rig = Rig(4, queues=3)
    damaged = rig.queues.get("T", 1)
    assert damaged is not None
    for name in rig.files.names(damaged.directory):
        rig.files.remove(damaged.directory / name)
    rig.use(86)
    rig.retention.step(NOON_MS)
    assert isinstance(rig.retention.failure, FileNotFoundError)
    assert [queue.queue_offset_min for _, _, queue in rig.queues] == [3, 0, 3]
    rig.retention.step(NOON_MS + 1)
    assert rig.retention.failure is None

    def fail(path: Path) -> Usage:
        raise OSError(errno.EIO, f"{path} does not answer")

    monkeypatch.setattr(rig.files, "usage", fail)
    rig.retention.step(NOON_MS + 2)
    assert isinstance(rig.retention.failure, OSError)


def test_power_loss_while_files_go_leaves_no_gap() -> None:
    """Whatever the disk had of it: those left follow each other up to the newest."""
    seen = set()
    for number in range(1, 40):
        rig = Rig(6)
        rig.use(86)
        rig.files.fail_call(len(rig.files.calls) + number, OSError(errno.EIO, "planted"))
        rig.retention.step(NOON_MS)
        assert bool(rig.files.hits) == (rig.retention.failure is not None)
        for seed in range(5):
            after = rig.files.crash(seed)
            segments = Segments(after, ROOT / "commitlog", SIZE)
            segments.load()
            seen.add(segments.min_offset // SIZE)
            assert segments.written == 6 * SIZE, (number, seed)
            segments.close()
    assert len(seen) > 3, "no crash came in between"
