"""Bring queues and index to the disk without waiting for it, and then say so in the checkpoint.

One round: the owner takes the marks, which say how far everything is; writes the units that are in
memory to their files, some queues at each turn; lets the worker sync queues and index; takes note
of that; lets the worker replace the checkpoint. So the checkpoint never claims what is not on the
disk, and the owner never waits for one.

Where many queues were written, the worker also puts the memory that they take into huge pages.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from roketto.store.checkpoint import Checkpoint, Marks, save_checkpoint
from roketto.store.files import Files
from roketto.store.huge_pages import collapse
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.worker import Worker

INTERVAL_MS: Final = 10_000
"""How often there is a round; Java has one a minute."""

LOG_BYTES: Final = 32 << 20
"""After how much of the log there is one, if that comes before: recovery after a crash reads that
much, a few seconds' work, and what came during a round."""

QUEUES_PER_MS: Final = 5
LOG_BYTES_PER_QUEUE: Final = 8_192
"""Where many queues are to be written, which are as many files, there is a round less often: a
millisecond later for so many of them, and after so much more of the log for each."""

QUEUES_MANY: Final = 1_000
UNITS_PER_QUEUE: Final = 200
UNITS: Final = 2_000_000
LOG_BYTES_MAX: Final = 2 << 30
"""So many queues wait until each has so many units to write, since a few take as long as many; but
not for more than so many units of all of them, which recovery has to read (5.7 us each with 50,000
queues, on a busy machine), and not for more than so much of the log."""

QUEUES_PER_TURN: Final = 128
"""Queues written at one turn. Each takes some twelve microseconds, a new one some sixty."""


class _Synced(NamedTuple):
    """What is on the disk since a sync."""

    marks: Marks
    """How far everything was before it."""
    store_time_ms: int
    """The log had been synced for messages stored up to then."""
    index_time_ms: int
    """The checkpoint's time of the index, 0 without one."""


class _Stage(Enum):
    IDLE = "idle"
    FLUSHING = "flushing"
    SYNCING = "syncing"
    SAVING = "saving"


class DerivedSync:
    """The rounds of one store, one at a time; the owner's thread calls everything.

    derived.begin(marks, now_ms)   # if it is idle
    while derived.step(): ...      # with other work in between; later once more, until it is idle
    derived.finish(marks)          # a whole round at once, after the worker was stopped

    Queues and index are on the disk for all of the log before ``synced_end``. Every error is raised
    by ``step`` or ``finish``. DiskFullError leaves everything as it was, and the round goes on with
    the next step. After an OSError nobody knows what is on the disk.
    """

    def __init__(
        self,
        files: Files,
        path: Path,
        checkpoint: Checkpoint,
        queues: Queues,
        index: Index | None,
        worker: Worker,
        synced_end: int,
    ) -> None:
        self._files = files
        self._path = path
        self._checkpoint = checkpoint
        self._queues = queues
        self._index = index
        self._worker = worker
        self.synced_end = synced_end
        self._begun_ms = 0
        self._stage = _Stage.IDLE
        self._queues_left = 0
        self._is_large = False
        self._marks: Marks | None = None
        self._store_time_ms = 0
        self._work: Callable[[], _Synced] | None = None
        self._syncing: Future[_Synced] | None = None
        self._saving: Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether a round may begin."""
        return self._stage is _Stage.IDLE

    def is_due(self, now_ms: int, written: int) -> bool:
        """Whether a round should begin by now, with the log at ``written``."""
        dirty = self._queues.dirty_count
        if not 0 <= now_ms - self._begun_ms < INTERVAL_MS + dirty // QUEUES_PER_MS:
            return True
        log_bytes = written - self.synced_end
        if log_bytes < LOG_BYTES + dirty * LOG_BYTES_PER_QUEUE:
            return False
        if dirty < QUEUES_MANY or log_bytes >= LOG_BYTES_MAX:
            return True
        return self._queues.dirty_units >= min(UNITS_PER_QUEUE * dirty, UNITS)

    def begin(self, marks: Marks, now_ms: int) -> None:
        """Begin a round that ends with everything on the disk that ``marks`` say there is."""
        assert self.is_idle, "one round at a time"
        self._begun_ms = now_ms
        self._take(marks)
        self._stage = _Stage.FLUSHING

    def _take(self, marks: Marks) -> None:
        self._marks = marks
        self._store_time_ms = self._checkpoint.physic_timestamp
        # The table of dirty queues keeps their order: those of this moment are its first ones.
        self._queues_left = self._queues.dirty_count
        self._is_large = self._queues_left >= QUEUES_MANY

    def step(self) -> bool:
        """Go on as far as possible without waiting; True if there is more to do right away."""
        if self._stage is _Stage.FLUSHING:
            self._flush_some()
            if self._queues_left:
                return True
            self._work = self._work or self._make_sync(collapses=self._is_large)
            self._syncing = self._worker.submit(self._work)
            if self._syncing is not None:
                self._work = None
                self._stage = _Stage.SYNCING
        if self._stage is _Stage.SYNCING:
            self._note_sync()
        if self._stage is _Stage.SAVING:
            self._note_save()
        return False

    def finish(self, marks: Marks) -> None:
        """Do a whole round now, in this thread. Nothing may be under way in the worker."""
        for job in (self._syncing, self._saving):
            if job is not None:
                job.result(0)
        if self._work is not None:
            self._work()
        self._take(marks)
        self._queues.flush()
        self._note(self._make_sync()())
        self._save(self._checkpoint)
        self._stage = _Stage.IDLE

    def _flush_some(self) -> None:
        flushed = self._queues.flush(min(QUEUES_PER_TURN, self._queues_left))
        # Queues may have been deleted meanwhile.
        self._queues_left = min(self._queues_left - flushed, self._queues.dirty_count)

    def _make_sync(self, *, collapses: bool = False) -> Callable[[], _Synced]:
        """What the worker does; it uses nothing that the owner changes."""
        marks, store_time_ms = self._marks, self._store_time_ms
        assert marks is not None
        sync_index = self._index.take_sync() if self._index is not None else None
        sync_queues = self._queues.take_sync()

        def sync() -> _Synced:
            sync_queues()
            if collapses:
                collapse()
            return _Synced(marks, store_time_ms, sync_index() if sync_index is not None else 0)

        return sync

    def _note(self, synced: _Synced) -> None:
        """From here on it is known: queues and index are on the disk up to the marks."""
        checkpoint, marks = self._checkpoint, synced.marks
        self.synced_end = marks.derived
        checkpoint.marks = marks
        checkpoint.logics_physical_offset = min(marks.derived, marks.flushed)
        checkpoint.logics_timestamp = synced.store_time_ms
        checkpoint.index_timestamp = synced.index_time_ms

    def _note_sync(self) -> None:
        job = self._syncing
        assert job is not None
        if not job.done():
            return
        self._syncing = None
        self._stage = _Stage.IDLE
        self._note(job.result())
        checkpoint = replace(self._checkpoint)  # as it is now: the owner goes on with its own
        self._saving = self._worker.submit(lambda: self._save(checkpoint))
        if self._saving is not None:
            self._stage = _Stage.SAVING

    def _note_save(self) -> None:
        job = self._saving
        assert job is not None
        if job.done():
            self._saving = None
            self._stage = _Stage.IDLE
            job.result()

    def _save(self, checkpoint: Checkpoint) -> None:
        save_checkpoint(self._files, self._path, checkpoint)
