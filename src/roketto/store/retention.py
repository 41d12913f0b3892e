"""Retention: which files of the log go and when, and what follows them.

The log loses whole files at its start, never the last one, by Java's rules:

* a pass removes up to ten files that nobody has written to for ``fileReservedTime`` hours. There is
  one every ten seconds in the hours of ``deleteWhen``, when the disk is fuller than
  ``diskMaxUsedSpaceRatio``, or on request;
* when the disk is fuller than ``diskSpaceCleanForciblyRatio`` files go whatever their age;
* above ``diskSpaceWarningLevelRatio`` no more messages are taken: see diskgate.py.

Queues and index follow: they lose the files that lead only to what is gone, never the last one,
so that a queue whose messages are all gone still knows its next offset. For the same reason a file
of the log stays until the units of its messages are synced.

Removing a file of 1 GiB blocks. The owner only forgets it; ``run`` decides where the removal itself
is done.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from roketto.store.consumequeue import ConsumeQueue
from roketto.store.diskgate import DiskGate
from roketto.store.errors import StoreError
from roketto.store.files import Files
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.segments import Segments

Runner = Callable[[Callable[[], None]], bool]
"""Does a job, here and now or in a thread; False if it cannot be taken at the moment."""

MANUAL_PASSES: Final = 20
"""How many passes a request makes, ten seconds apart: Java's MAX_MANUAL_DELETE_FILE_TIMES."""

_QUEUES_PER_STEP: Final = 1_000
"""Queues looked at in one step, some 25 ms: 50,000 follow the log within a minute."""

_QUEUES_PER_FILE: Final = 100
"""Removing a file of a queue for good takes as long as looking at so many queues."""

_FOREVER_MS: Final = 1 << 60
_HOUR_MS: Final = 3_600_000
_HOURS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """Java's names, defaults and bounds. ValueError if ``delete_when`` cannot be read."""

    file_reserved_hours: int = 72
    """fileReservedTime"""
    delete_when: str = "04"
    """deleteWhen: hours of the local day, several separated by ";"."""
    max_used_percent: int = 75
    """diskMaxUsedSpaceRatio, taken as 10 to 95."""
    forced_percent: int = 85
    """diskSpaceCleanForciblyRatio, taken as 30 to 85."""
    warning_percent: int = 90
    """diskSpaceWarningLevelRatio, taken as 35 to 90."""
    is_forced_enabled: bool = True
    """cleanFileForciblyEnable"""
    interval_ms: int = 10_000
    """cleanResourceInterval"""
    files_per_pass_max: int = 10
    """deleteFileBatchMax"""

    def __post_init__(self) -> None:
        _ = self.hours

    @property
    def hours(self) -> frozenset[int]:
        """The hours of ``delete_when``."""
        parts = [part.strip() for part in self.delete_when.split(";") if part.strip()]
        is_sound = all(part.isascii() and part.isdecimal() for part in parts)
        hours = frozenset(int(part) for part in parts) if is_sound else frozenset[int]()
        if not hours or max(hours) >= _HOURS:
            raise ValueError(
                f"deleteWhen is {self.delete_when!r}; it takes hours from 0 to 23, several"
                ' separated by ";", such as "04" or "04;16"'
            )
        return hours

    @property
    def max_used(self) -> int:
        """``max_used_percent`` within its bounds; so the two below."""
        return _clamp(self.max_used_percent, 10, 95)

    @property
    def forced(self) -> int:
        return _clamp(self.forced_percent, 30, 85)

    @property
    def warning(self) -> int:
        return _clamp(self.warning_percent, 35, 90)


class Retention:
    """Keeps one store within its time and its disk. Its owner calls ``step`` at every tick.

    retention = Retention(files, segments, queues, index, gate, settings, zone)
    retention.units_end = log_offset       # the units of all messages below are synced
    retention.step(now_ms)
    retention.request()                    # do not wait for the hour

    ``settings`` may be replaced at any time. ``zone`` is what ``delete_when`` means, None that of
    the machine.
    """

    def __init__(
        self,
        files: Files,
        segments: Segments,
        queues: Queues,
        index: Index | None,
        gate: DiskGate,
        settings: RetentionSettings,
        zone: tzinfo | None = None,
        run: Runner | None = None,
    ) -> None:
        self.settings = settings
        self.units_end = 0
        """The units of all messages below this log offset are on the disk: the log may lose them
        without a queue forgetting how far it was."""
        self.segments_removed = 0
        """How many files the log has lost since the store was opened."""
        self.failure: OSError | StoreError | None = None
        """What went wrong in the last step. It harms nobody but the disk, and is tried again."""
        self._files = files
        self._segments = segments
        self._queues = queues
        self._index = index
        self._gate = gate
        self._zone = zone
        self._run = run or run_now
        self._used_percent = 0
        self._passed_ms: int | None = None
        self._manual_passes = 0
        self._followed = 0
        self._following: Iterator[ConsumeQueue] | None = None
        self._doomed: deque[Path] = deque()
        self._is_unlinking = False

    def request(self) -> None:
        """Remove what is old enough from the next step on, without waiting for the hour."""
        self._manual_passes = MANUAL_PASSES
        self._passed_ms = None

    def measure(self) -> int:
        """How many percent of the disk are in use; the gate opens and closes accordingly."""
        path, used_percent = max(self._used(), key=lambda found: found[1])
        settings = self.settings
        self._gate.measure(
            path, used_percent, warning_percent=settings.warning, reopen_percent=settings.forced
        )
        self._used_percent = used_percent
        return used_percent

    def is_urgent(self, now_ms: int) -> bool:
        """Whether the next step may remove files whatever their age, if their units are synced."""
        return self._is_due(now_ms) and self._is_forced(self._used_percent)

    def step(self, now_ms: int) -> None:
        """Look at the disk, remove what is due, and let queues and index follow for a while."""
        self.failure = None
        try:
            used_percent = self.measure()
            if self._is_due(now_ms):
                self._passed_ms = now_ms
                self._pass(now_ms, used_percent)
        except OSError as error:
            self.failure = error
        self._follow()
        self._unlink_doomed()

    # --- the log ------------------------------------------------------------------------------

    def _used(self) -> Iterator[tuple[Path, int]]:
        """Log and queues may be on different disks."""
        for directory in (self._segments.directory, self._queues.directory):
            there = directory if self._files.size(directory) is not None else directory.parent
            yield directory, self._files.usage(there).used_percent

    def _is_due(self, now_ms: int) -> bool:
        """Whether it is time for a pass; a clock that was set back does not put it off."""
        passed_ms = self._passed_ms
        return passed_ms is None or not 0 <= now_ms - passed_ms < self.settings.interval_ms

    def _is_forced(self, used_percent: int) -> bool:
        settings = self.settings
        return settings.is_forced_enabled and used_percent > min(settings.forced, settings.warning)

    def _pass(self, now_ms: int, used_percent: int) -> None:
        settings = self.settings
        local = datetime.fromtimestamp(now_ms // 1000, self._zone)
        is_asked = self._manual_passes > 0
        if is_asked:
            self._manual_passes -= 1
        is_space_short = used_percent > min(settings.max_used, settings.forced, settings.warning)
        if not (is_asked or is_space_short or local.hour in settings.hours):
            return
        written_until_ms = now_ms - settings.file_reserved_hours * _HOUR_MS
        if self._is_forced(used_percent):
            written_until_ms = now_ms + _FOREVER_MS
            if len(self._segments) > 1 and self._segments[0].end > self._safe_end:
                self._passed_ms = None  # once the units are synced, not ten seconds later
        count = self._count_due(written_until_ms)
        self._segments.remove_first(count, self._doomed.append)
        self.segments_removed += count

    @property
    def _safe_end(self) -> int:
        """Files that end here or before are not needed for anything but reading."""
        return min(self._segments.flushed, self.units_end)

    def _count_due(self, written_until_ms: int) -> int:
        """How many of the oldest files go: those that nobody has written to since then."""
        segments = self._segments
        end = self._safe_end
        count = 0
        for number in range(min(len(segments) - 1, self.settings.files_per_pass_max)):
            segment = segments[number]
            if segment.end > end or self._modified_ms(segment.path) > written_until_ms:
                break
            count += 1
        return count

    def _modified_ms(self, path: Path) -> int:
        """When a file was last written to; long ago if somebody has removed it already."""
        try:
            return self._files.modified_ms(path)
        except FileNotFoundError:
            return 0

    # --- what follows it ----------------------------------------------------------------------

    def _follow(self) -> None:
        """Let queues and index lose what the log has lost; some queues at a time.

        A round is ended before the next begins, lest the last queues never have their turn.
        """
        log_min_offset = self._segments.min_offset
        if self._following is None:
            if log_min_offset <= self._followed:
                return
            self._followed = log_min_offset
            if self._index is not None:
                self._index.delete_below(log_min_offset, self._doomed.append)
            self._following = self._queues.follow(log_min_offset)
        left = _QUEUES_PER_STEP
        for queue in self._following:
            left -= 1 + self._delete_files(queue, log_min_offset) * _QUEUES_PER_FILE
            if left <= 0:
                return
        self._following = None

    def _delete_files(self, queue: ConsumeQueue, log_min_offset: int) -> int:
        try:
            return queue.delete_files_below(log_min_offset)
        except (OSError, StoreError) as error:  # of this one; the others need not wait for it
            self.failure = error
            return 0

    def _unlink_doomed(self) -> None:
        if self._doomed and not self._is_unlinking:
            self._is_unlinking = True
            if not self._run(self._unlink):
                self._is_unlinking = False

    def _unlink(self) -> None:
        """Remove the files that were forgotten, oldest first. May run in another thread."""
        try:
            while self._doomed:
                # It leaves the row afterwards: if it cannot be removed, those behind it stay, too,
                # and what the next start finds has no gap.
                self._files.unlink(self._doomed[0])
                self._doomed.popleft()
        except OSError as error:
            self.failure = error
        finally:
            self._is_unlinking = False


def run_now(job: Callable[[], None]) -> bool:
    """Run a job here and now."""
    job()
    return True


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
