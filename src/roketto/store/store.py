"""The façade: open, append, get, query, close.

One thread owns a store and calls everything here but what is marked otherwise; the flushing thread
is the store's own. A broker's event loop is that owner: it calls ``advance`` when the flushing
thread tells it to (``on_flushed``), and ``tick`` about once a second.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.record import Record
from roketto.protocol.record_layout import peek_store_time_ms
from roketto.store.abort import AbortMark
from roketto.store.appender import Appender
from roketto.store.checkpoint import Checkpoint, Marks, load_checkpoint, save_checkpoint
from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import Boundary, ConsumeQueue
from roketto.store.derived import DerivedSync
from roketto.store.diskgate import DiskGate
from roketto.store.dispatch import Arrival, DelayOfLevel, Dispatcher
from roketto.store.errors import DiskFullError, StoreError
from roketto.store.files import FileLock, Files
from roketto.store.flush import Flusher
from roketto.store.index import Index, KeySearch
from roketto.store.put_result import BatchResult, PutResult
from roketto.store.queues import Queues
from roketto.store.reading import GetResult, Predicate, get_messages, get_range
from roketto.store.record_check import BLANK_BYTES
from roketto.store.recovery import Progress, Recovered, Recovery, log_goes_on
from roketto.store.retention import Retention
from roketto.store.segments import AHEAD_BYTES, Segments
from roketto.store.settings import StoreSettings
from roketto.store.worker import Worker

__all__ = ["BatchResult", "PutResult", "Store", "StoreSettings"]

_QUERY_MAX: Final = 64
"""Messages that a query by key returns at most: Java's maxMsgsNumBatch."""


class Store:
    """The messages of one broker in one directory.

    store = Store(Path("store"), StoreSettings())
    store.open(process_id=os.getpid())     # StoreLockedError, CorruptStoreError, FileSizeError
    where = store.append(record)           # PutRefusedError
    found = store.get("T", 0, where.queue_offset, 32)
    store.close()

    ``on_flushed`` and ``on_failure`` are called by the flushing thread. ``waited`` is that of the
    Dispatcher, ``on_wanted`` that of the Appender.
    """

    def __init__(
        self,
        root: Path,
        settings: StoreSettings,
        *,
        files: Files | None = None,
        clock_ms: Callable[[], int] = wall_ms,
        zone: tzinfo | None = None,
        on_arrival: Callable[[Arrival], None] | None = None,
        on_flushed: Callable[[int], None] | None = None,
        on_failure: Callable[[OSError], None] | None = None,
        delay_of_level: DelayOfLevel | None = None,
        waited: Mapping[tuple[str, int], object] | None = None,
        on_wanted: Callable[[], None] | None = None,
    ) -> None:
        self.root = root
        self._settings = settings
        self.limits = settings.limits
        """How much one read may return; may be replaced at any time."""
        self._files = files or Files()
        self._clock_ms = clock_ms
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._abort = AbortMark(self._files, root / "abort")
        self._segments = Segments(
            self._files, root / "commitlog", settings.segment_bytes, BLANK_BYTES
        )
        self._log = CommitLog(
            self._segments,
            clock_ms,
            settings.memory_bytes,
            message_bytes_max=settings.message_bytes_max,
            append_crc=settings.append_crc,
        )
        self._queues = Queues(
            self._files, root / "consumequeue", settings.queue_file_bytes,
            settings.recent_units_bytes,
        )  # fmt: skip
        self._index = self._make_index(zone) if settings.index_enable else None
        self._dispatcher = Dispatcher(self._queues, self._index, on_arrival, delay_of_level, waited)
        self.gate = DiskGate()
        self.retention = Retention(
            self._files, self._segments, self._queues, self._index, self.gate,
            settings.retention, zone, self._run_elsewhere,
        )  # fmt: skip
        self.appender = Appender(
            root, self._log, self._queues, self._dispatcher, self.gate,
            is_flush_sync=settings.is_flush_sync, on_wanted=on_wanted,
        )  # fmt: skip
        self._has_deleted = False
        self._checkpoint = Checkpoint()
        self._crc_from: int | None = None
        self._mark = (0, 0)
        self._flusher: Flusher | None = None
        self._worker: Worker | None = None
        self._ahead: Worker | None = None
        """The thread that has pages of the log made; none where its files are small."""
        self._derived: DerivedSync | None = None
        self._lock: FileLock | None = None

    def _make_index(self, zone: tzinfo | None) -> Index:
        settings = self._settings
        local = zone or datetime.now().astimezone().tzinfo
        assert local is not None
        return Index(
            self._files, self.root / "index", self._clock_ms, local,
            settings.index_slots, settings.index_entries,
        )  # fmt: skip

    # --- opening and closing ----------------------------------------------------------------------

    def open(self, process_id: int, progress: Progress | None = None) -> Recovered:
        """Lock the store, recover it and start flushing."""
        self._files.make_directory(self.root)
        if self._files.size(self.root / "lock") is None:
            # A start that failed or was killed may have made the directory, and not its name safe.
            with suppress(PermissionError):  # who may not read the parent has not made it there
                self._files.sync_directory(self.root.parent)
        self._lock = self._files.lock(self.root / "lock")
        try:
            recovered = self._recover(progress)
            self.retention.units_end = recovered.end
            self.retention.measure()
            self._abort.set(process_id)
        except BaseException:
            self._release()
            raise
        self._flusher = Flusher(
            self._log, self._segments.flushed, self._settings.flush,
            self._tell_flushed, self._tell_failure,
        )  # fmt: skip
        self._flusher.start()
        self.appender.flusher = self._flusher
        self._worker = self._files.make_worker()
        self._worker.start()
        if self._settings.segment_bytes > AHEAD_BYTES:
            self._ahead = self._files.make_worker()
            self._ahead.start()
            self._segments.look_ahead(self._ahead)
        self._derived = DerivedSync(
            self._files, self.root / "checkpoint", self._checkpoint, self._queues, self._index,
            self._worker, recovered.end,
        )  # fmt: skip
        return recovered

    def _recover(self, progress: Progress | None) -> Recovered:
        checkpoint, is_clean = self._load_checkpoint()
        marks = checkpoint.marks
        self._queues.load(
            self._segments.min_offset,
            is_after_crash=not is_clean,
            log_synced=marks.derived if marks is not None and not is_clean else None,
        )
        recovery = Recovery(
            self._segments, self._queues, self._index, self._dispatcher, progress,
            crc_from=marks.crc_from if marks is not None else None,
        )  # fmt: skip
        recovered = recovery.run(
            checkpoint,
            is_clean=is_clean,
            is_index_damaged=self._index is not None and not self._load_index(is_clean),
        )
        self._log.store_time_ms = max(recovered.store_time_ms, checkpoint.physic_timestamp)
        self._mark = (recovered.end, self._log.store_time_ms)
        self._crc_from = None
        if self._settings.append_crc:
            crc_from = marks.crc_from if marks is not None else None
            self._crc_from = recovered.end if crc_from is None else crc_from
        # Everything that was found is on the disk now. Whatever is appended must meet what the
        # checkpoint says of it, so it comes before.
        checkpoint.physic_timestamp = checkpoint.logics_timestamp = self._log.store_time_ms
        checkpoint.confirm_offset = min(checkpoint.confirm_offset, recovered.end)
        self._save_checkpoint(self._take_marks())
        assert self._lock is not None
        self._files.claim(self._lock)
        return recovered

    def _load_checkpoint(self) -> tuple[Checkpoint, bool]:
        """Load the log's files and the checkpoint; also whether the last stop was a clean one.

        The marks count only if no broker of Java's was here since. After one of ours, a checkpoint
        without marks, or with those of an earlier stop, is damage, and so was a crash.
        """
        self._segments.load()
        is_clean = not self._abort.is_set
        checkpoint = load_checkpoint(self._files, self.root / "checkpoint", self._clock_ms())
        assert self._lock is not None
        if not self._lock.is_ours:
            checkpoint.marks = None
        elif checkpoint.marks is None:
            checkpoint, is_clean = Checkpoint(), False
        else:
            marks = checkpoint.marks
            is_clean &= marks.is_clean and not log_goes_on(self._segments, marks.flushed)
        self._checkpoint = checkpoint
        return checkpoint, is_clean

    def _load_index(self, is_clean: bool) -> bool:
        """Load the index; False if something of it was not to be trusted."""
        assert self._index is not None
        marks = self._checkpoint.marks
        if marks is None:
            return not self._index.load(None if is_clean else self._checkpoint.index_timestamp)
        mark = marks.index_mark
        if mark is None:  # it was switched off, and lacks what came then
            self._index.load()
            self._index.clear()
            return False
        if mark.files and not is_clean:
            self._files.expect(self._index.directory / mark.name)  # all entries are looked at
        return self._index.load_marked(mark, is_exact=is_clean)

    def close(self) -> None:
        """Bring everything to the disk and say that this was a clean stop."""
        if self._flusher is None:
            return
        try:
            has_ended = self._flusher.stop()
            self._mark = (self._log.written, self._log.store_time_ms)
            self.advance()
            self._file_keys()
            has_ended &= self._stop_workers()
            is_safe = has_ended and self._flusher.failure is None
            if (
                is_safe
                and not self.appender.waiting.messages
                and not self.appender.is_behind
                and self._sync_derived()
            ):
                self._abort.clear()
        finally:
            self._flusher = self.appender.flusher = None
            self._release()

    def _stop_workers(self) -> bool:
        """Let the workers do what they have been given and end; False if that took too long."""
        workers = [worker for worker in (self._ahead, self._worker) if worker is not None]
        self._ahead = self._worker = None
        have_ended = [worker.stop() for worker in workers]
        return all(have_ended)

    def _release(self) -> None:
        self._stop_workers()
        if self._index is not None:
            self._index.close()
        self._segments.close()
        self._files.close()
        assert self._lock is not None, "nothing is opened before the lock is taken"
        self._lock.release()
        self._lock = None

    # --- appending --------------------------------------------------------------------------------

    def append(self, record: Record) -> PutResult:
        """Store one message in its queue; PutRefusedError says why not."""
        return self.appender.append(record)

    def append_batch(self, batch: Record) -> BatchResult:
        """Store the messages of a batch in its queue, all or none."""
        return self.appender.append_batch(batch)

    def delete_topic(self, topic: str) -> None:
        """Forget the queues of a topic; its messages stay in the log until that loses them.

        A crash before the next tick may bring queues back, with what the log has of them.
        """
        self.appender.waiting.forget_topic(topic)
        self._queues.delete_topic(topic)
        self._has_deleted = True

    def delete_expired_queue(self, topic: str, queue_id: int) -> bool:
        """Forget a queue whose messages the log has lost, all of them; whether it was one.

        For a queue that is not written to any more: if it were, it would begin at 0 again.
        """
        if (topic, queue_id) in self.appender.waiting.places:
            return False
        is_gone = self._queues.delete_expired(topic, queue_id, self._log.min_offset)
        self._has_deleted |= is_gone
        return is_gone

    # --- time goes on -----------------------------------------------------------------------------

    def request_flush(self) -> None:
        """Let the log be synced now."""
        if self._flusher is not None:
            self._flusher.request()

    @property
    def flushed(self) -> int:
        """Everything below this log offset is on the disk. Any thread may ask."""
        return self._flusher.flushed if self._flusher is not None else self._segments.flushed

    def advance(self) -> int:
        """Take note of what the flushing thread has done; return up to where all is safe."""
        assert self._flusher is not None, "the store is not open"
        flushed = self._flusher.flushed
        self._segments.mark_flushed(flushed)
        self.appender.dispatch_waiting(flushed)
        written, store_time_ms = self._mark
        if flushed >= written:
            self._checkpoint.physic_timestamp = store_time_ms
            self._mark = (self._log.written, self._log.store_time_ms)
        return flushed

    def _file_keys(self) -> None:
        """Let the index file what waits in memory, that it does not wait for long."""
        if self._index is not None:
            try:
                self._index.flush()
            except (OSError, DiskFullError) as error:
                self.appender.fall_behind(error)

    def tick(self) -> bool:
        """Once a second: let queues and index be synced now and then, and remove old files.

        True if there is more to do than one turn should take: call it again as soon as whatever
        else waits was done. A full disk stops nothing but new messages: what found no room is kept
        and tried again.
        """
        assert self._derived is not None, "the store is not open"
        assert self._worker is not None
        assert self._flusher is not None
        now_ms = self._clock_ms()
        self.gate.retry()
        self.advance()
        self._file_keys()
        has_more = False
        try:
            if self._is_sync_due(now_ms):
                self._derived.begin(self._take_marks(), now_ms)
                self._has_deleted = False
            has_more = self._derived.step()
            self.retention.units_end = self._derived.synced_end
        except DiskFullError as full:
            self.gate.hold(str(full))
        except OSError as error:
            self._flusher.fail(error)
        self._segments.prepare_ahead(self._worker)
        if self._index is not None:
            self._index.prepare_ahead(self._worker)
        self.retention.step(now_ms)
        return has_more

    def _is_sync_due(self, now_ms: int) -> bool:
        """Now and then, and before files of the log go whatever their age."""
        assert self._derived is not None
        assert self._flusher is not None
        if (
            self.appender.is_behind
            or not self._derived.is_idle
            or self._flusher.failure is not None
        ):
            return False
        is_due = self._derived.is_due(now_ms, self._log.written)
        return is_due or self._has_deleted or self.retention.is_urgent(now_ms)

    def _sync_derived(self) -> bool:
        """Sync everything now, at the end; False if that failed, and this is no clean stop."""
        assert self._derived is not None
        assert self._flusher is not None
        try:
            self._derived.finish(self._take_marks(is_clean=True))
        except DiskFullError:  # the next start then reads the log, as after a crash
            return False
        except OSError as error:
            self._flusher.fail(error)
            return False
        return True

    def _run_elsewhere(self, work: Callable[[], None]) -> bool:
        """Let the worker do what blocks; False if it has too much to do already."""
        assert self._worker is not None, "the store is not open"
        return self._worker.submit(work) is not None

    def _take_marks(self, *, is_clean: bool = False) -> Marks:
        """How far everything is now; true of the disk once queues and index are synced."""
        waiting_from = self.appender.waiting.log_offset()
        return Marks(
            self._segments.flushed,
            self._log.written if waiting_from is None else waiting_from,
            *self._queues.count(),
            crc_from=self._crc_from,
            index_mark=self._index.mark() if self._index is not None else None,
            is_clean=is_clean,
        )

    def _save_checkpoint(self, marks: Marks) -> None:
        checkpoint = self._checkpoint
        checkpoint.marks = marks
        checkpoint.logics_physical_offset = min(marks.derived, marks.flushed)
        save_checkpoint(self._files, self.root / "checkpoint", checkpoint)

    def _tell_flushed(self, offset: int) -> None:
        if self._on_flushed is not None:
            self._on_flushed(offset)

    def _tell_failure(self, error: OSError) -> None:
        if self._on_failure is not None:
            self._on_failure(error)

    # --- reading ----------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        count_max: int,
        *,
        codes: frozenset[int] | None = None,
        predicate: Predicate | None = None,
    ) -> GetResult:
        """Read messages of a queue; the views are good until the store is closed."""
        return get_messages(
            self._queues.get(topic, queue_id), self._log, queue_offset, count_max,
            codes=codes, predicate=predicate, limits=self.limits,
        )  # fmt: skip

    def get_range(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        end_offset: int,
        bytes_max: int,
        codes: frozenset[int] | None = None,
    ) -> GetResult:
        """Read the messages between two offsets, as many as fit; views as those of ``get``."""
        queue = self._queues.get(topic, queue_id)
        return get_range(queue, self._log, queue_offset, end_offset, bytes_max, codes)

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue itself, for its first and its next offset."""
        return self._queues.get(topic, queue_id)

    def topics(self) -> Iterable[tuple[str, list[int]]]:
        """The topics that have queues, with the ids of these."""
        return [(topic, self._queues.queue_ids(topic)) for topic in self._queues.topics()]

    @property
    def log(self) -> CommitLog:
        """The log itself, to be read only."""
        return self._log

    def record_at(self, log_offset: int) -> Record:
        """The message at a log offset; OutsideLogError or RecordError if there is none."""
        return self._log.record_at(log_offset)

    def record_by_id(self, message_id: str) -> Record:
        """The message with a broker's id."""
        return self._log.record_by_id(message_id)

    def query(self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int) -> list[int]:
        """Log offsets of messages that may have this key, in the order they were stored.

        The index knows hashes only: whoever shows the messages compares the key itself.
        """
        found = self._known_index.query(topic, key, min(count_max, _QUERY_MAX), begin_ms, end_ms)
        least, most = self._log.min_offset, self._log.max_offset
        return sorted({offset for offset in found if least <= offset < most})

    def search(self, topic: str, key: str, begin_ms: int, end_ms: int) -> KeySearch:
        """The same in pieces; the log may not have what is found any more."""
        return self._known_index.search(topic, key, begin_ms, end_ms)

    @property
    def index_update(self) -> tuple[int, int]:
        """When the newest message that is indexed was stored, and its log offset."""
        return self._known_index.last_update

    @property
    def _known_index(self) -> Index:
        if self._index is None:
            raise StoreError("messages cannot be found by key: messageIndexEnable is false")
        return self._index

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The first offset not older, or the last not newer, than a time; 0 without a queue."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        return queue.offset_by_time(timestamp_ms, boundary, self._store_time_of)

    def _store_time_of(self, log_offset: int) -> int:
        if log_offset < self._log.min_offset:
            return -1  # gone, and its queue has not followed yet
        segment = self._segments.find(log_offset)
        return peek_store_time_ms(self._segments.view(segment), log_offset - segment.start)
