"""The façade: open, append, get, query, close.

One thread owns a store and calls everything here but what is marked otherwise; the flushing thread
is the store's own. A broker's event loop is that owner: it calls ``advance`` when the flushing
thread tells it to (``on_flushed``), and ``tick`` about once a second.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.ids import encode_offset_id
from roketto.protocol.limits import MESSAGE_BYTES_MAX
from roketto.protocol.names import path_component
from roketto.protocol.record import Record
from roketto.protocol.record_layout import peek_store_time_ms
from roketto.protocol.sysflags import (
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from roketto.store.abort import AbortMark
from roketto.store.checkpoint import (
    Checkpoint,
    QueueCount,
    load_checkpoint,
    save_checkpoint,
)
from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import FILE_BYTES, Boundary, ConsumeQueue
from roketto.store.dispatch import Arrival, DelayOfLevel, Dispatcher, Stored
from roketto.store.errors import StoreError
from roketto.store.files import FileLock, Files
from roketto.store.flush import Flusher, FlushSettings
from roketto.store.index import Index
from roketto.store.indexfile import ENTRIES, SLOTS
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.queues import Queues
from roketto.store.reading import GetResult, Predicate, TransferLimits, get_messages
from roketto.store.record_check import BLANK_BYTES
from roketto.store.recovery import Progress, Recovered, Recovery
from roketto.store.segments import Segments

_QUERY_MAX: Final = 64
"""Messages that a query by key returns at most: Java's maxMsgsNumBatch."""

_QUEUE_SYNC_INTERVAL_MS: Final = 60_000
"""How often queues are synced: Java's flushConsumeQueueThoroughInterval. Recovery after a crash
reads the log from there on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """What a store is made with; names of Java's options stand beside ours."""

    segment_bytes: int = 1 << 30
    """mappedFileSizeCommitLog"""
    queue_file_bytes: int = FILE_BYTES
    """mappedFileSizeConsumeQueue"""
    index_enable: bool = True
    """messageIndexEnable"""
    index_slots: int = SLOTS
    """maxHashSlotNum"""
    index_entries: int = ENTRIES
    """maxIndexNum"""
    is_flush_sync: bool = False
    """flushDiskType=SYNC_FLUSH: a message can be consumed once it is on the disk, not before."""
    flush: FlushSettings = field(default_factory=FlushSettings)
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """maxMessageSize"""
    append_crc: bool = False
    """enabledAppendPropCRC: a checksum over the whole of each record, 20 bytes more."""
    memory_bytes: int = 8 << 30
    """How much memory the machine has, for guessing whether a read needs the disk."""
    limits: TransferLimits = field(default_factory=TransferLimits)


@dataclass(frozen=True, slots=True)
class PutResult:
    """Where a message is. It is safe once ``Store.flushed`` has reached ``end``."""

    queue_offset: int
    log_offset: int
    size: int
    store_time_ms: int
    message_id: str

    @property
    def end(self) -> int:
        return self.log_offset + self.size


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Where the messages of a batch are; the ids are those of its messages, in order."""

    queue_offset: int
    end: int
    store_time_ms: int
    message_ids: list[str]


class Store:
    """The messages of one broker in one directory.

    store = Store(Path("store"), StoreSettings())
    store.open(process_id=os.getpid())     # StoreLockedError, CorruptStoreError, FileSizeError
    where = store.append(record)           # PutRefusedError
    found = store.get("T", 0, where.queue_offset, 32)
    store.close()

    ``on_flushed`` and ``on_failure`` are called by the flushing thread.
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
    ) -> None:
        self.root = root
        self._settings = settings
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
        self._queues = Queues(self._files, root / "consumequeue", settings.queue_file_bytes)
        self._index = self._make_index(zone) if settings.index_enable else None
        self._dispatcher = Dispatcher(self._queues, self._index, on_arrival, delay_of_level)
        self._next_offsets: dict[tuple[str, int], int] = {}
        self._waiting: deque[Stored] = deque()
        self._checkpoint = Checkpoint()
        self._mark = (0, 0)
        self._synced_ms = 0
        self._flusher: Flusher | None = None
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
        self._lock = self._files.lock(self.root / "lock")
        try:
            recovered = self._recover(progress)
            self._abort.set(process_id)
        except BaseException:
            self._release()
            raise
        self._flusher = Flusher(
            self._log, self._segments.flushed, self._settings.flush,
            self._tell_flushed, self._tell_failure,
        )  # fmt: skip
        self._flusher.start()
        return recovered

    def _recover(self, progress: Progress | None) -> Recovered:
        is_clean = not self._abort.is_set
        path = self.root / "checkpoint"
        self._checkpoint = load_checkpoint(self._files, path, self._clock_ms())
        self._segments.load()
        self._queues.load(self._segments.min_offset, is_after_crash=not is_clean)
        untrusted: list[Path] = []
        if self._index is not None:
            trusted_until_ms = None if is_clean else self._checkpoint.index_timestamp
            untrusted = self._index.load(trusted_until_ms)
        recovery = Recovery(
            self._segments, self._queues, self._index, self._dispatcher, progress,
            check_crc_property=self._settings.append_crc,
        )  # fmt: skip
        recovered = recovery.run(
            self._checkpoint, is_clean=is_clean, is_index_damaged=bool(untrusted)
        )
        counted, self._checkpoint.counted = self._checkpoint.counted, None
        # If the log is the same as at the last stop, its queues must be, too.
        is_same_log = counted is not None and counted.log_end == recovered.end
        if is_same_log and counted != QueueCount(recovered.end, *self._queues.count()):
            recovered = recovery.rebuild()
        self._next_offsets = self._queues.next_offsets()
        self._log.store_time_ms = max(recovered.store_time_ms, self._checkpoint.physic_timestamp)
        self._mark = (recovered.end, self._log.store_time_ms)
        return recovered

    def close(self) -> None:
        """Bring everything to the disk and say that this was a clean stop."""
        if self._flusher is None:
            return
        has_ended = self._flusher.stop()
        self._mark = (self._log.written, self._log.store_time_ms)
        self.advance()
        is_safe = has_ended and self._flusher.failure is None
        if is_safe:
            self._checkpoint.counted = QueueCount(self._log.written, *self._queues.count())
            self._sync_derived()
            self._abort.clear()
        self._flusher = None
        self._release()

    def _release(self) -> None:
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
        self._check_writable()
        key = (record.topic, record.queue_id)
        takes_place = record.sys_flag & TRANSACTION_TYPE not in _WITHOUT_PLACE
        queue_offset = self._next_offset(key) if takes_place else 0
        where = self._log.append(record, queue_offset)
        if takes_place:
            self._next_offsets[key] = queue_offset + 1
        self._show(
            Stored(
                record.topic, record.queue_id, queue_offset, where.log_offset, where.size,
                record.sys_flag, where.store_time_ms, record.properties_raw,
            )
        )  # fmt: skip
        return PutResult(
            queue_offset, where.log_offset, where.size, where.store_time_ms,
            encode_offset_id(record.store_host, where.log_offset),
        )  # fmt: skip

    def append_batch(self, batch: Record) -> BatchResult:
        """Store the messages of a batch in its queue, all or none."""
        self._check_writable()
        key = (batch.topic, batch.queue_id)
        first = self._next_offset(key)
        where = self._log.append_batch(batch, first)
        log_offset = where.log_offset
        ids = []
        for number, size in enumerate(where.sizes):
            ids.append(encode_offset_id(batch.store_host, log_offset))
            self._show(
                Stored(
                    batch.topic, batch.queue_id, first + number, log_offset, size,
                    batch.sys_flag, where.store_time_ms, where.properties[number],
                )
            )  # fmt: skip
            log_offset += size
        self._next_offsets[key] = first + len(ids)
        return BatchResult(first, where.end, where.store_time_ms, ids)

    def _next_offset(self, key: tuple[str, int]) -> int:
        """The next offset of a queue; IllegalNameError if it may not have a directory.

        A record of such a queue in the log would keep the store from opening ever after.
        """
        queue_offset = self._next_offsets.get(key)
        if queue_offset is None:
            path_component(key[0])
            queue_offset = 0
        return queue_offset

    def _check_writable(self) -> None:
        flusher = self._flusher
        if flusher is None:
            raise PutRefusedError(
                PutStatus.SERVICE_NOT_AVAILABLE, f"the store {self.root} is not open"
            )
        if flusher.failure is not None:
            raise PutRefusedError(
                PutStatus.SERVICE_NOT_AVAILABLE,
                f"the store {self.root} takes no more messages: a write to its disk has failed "
                f"({flusher.failure}); look at the disk and start the broker again",
            )

    def _show(self, stored: Stored) -> None:
        """Let a message be consumed: now, or when it is on the disk."""
        if self._settings.is_flush_sync:
            self._waiting.append(stored)
            assert self._flusher is not None
            self._flusher.request()
        else:
            self._dispatcher.dispatch(stored)

    # --- time goes on -----------------------------------------------------------------------------

    @property
    def flushed(self) -> int:
        """Everything below this log offset is on the disk. Any thread may ask."""
        return self._flusher.flushed if self._flusher is not None else self._segments.flushed

    def advance(self) -> int:
        """Take note of what the flushing thread has done; return up to where all is safe."""
        assert self._flusher is not None, "the store is not open"
        flushed = self._flusher.flushed
        self._segments.mark_flushed(flushed)
        waiting = self._waiting
        while waiting and waiting[0].log_offset + waiting[0].size <= flushed:
            self._dispatcher.dispatch(waiting.popleft())
        written, store_time_ms = self._mark
        if flushed >= written:
            self._checkpoint.physic_timestamp = store_time_ms
            self._mark = (self._log.written, self._log.store_time_ms)
        return flushed

    def tick(self) -> None:
        """Once a second: write queues to their files, and now and then sync them."""
        self.advance()
        self._queues.flush()
        now_ms = self._clock_ms()
        if now_ms - self._synced_ms >= _QUEUE_SYNC_INTERVAL_MS:
            self._synced_ms = now_ms
            self._sync_derived()

    def _sync_derived(self) -> None:
        """Sync queues and index, and say in the checkpoint how far they are."""
        checkpoint = self._checkpoint
        # Whatever was stored by then is on the disk in the log, and so are its units from here on.
        logics_timestamp = checkpoint.physic_timestamp
        self._queues.flush()
        self._queues.sync()
        if self._index is not None:
            checkpoint.index_timestamp = self._index.sync()
        checkpoint.logics_timestamp = logics_timestamp
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
            codes=codes, predicate=predicate, limits=self._settings.limits,
        )  # fmt: skip

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue itself, for its first and its next offset."""
        return self._queues.get(topic, queue_id)

    def topics(self) -> Iterable[tuple[str, list[int]]]:
        """The topics that have queues, with the ids of these."""
        return [(topic, self._queues.queue_ids(topic)) for topic in self._queues.topics()]

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
        if self._index is None:
            raise StoreError("messages cannot be found by key: messageIndexEnable is false")
        found = self._index.query(topic, key, min(count_max, _QUERY_MAX), begin_ms, end_ms)
        least, most = self._log.min_offset, self._log.max_offset
        return sorted({offset for offset in found if least <= offset < most})

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The first offset not older, or the last not newer, than a time; 0 without a queue."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        return queue.offset_by_time(timestamp_ms, boundary, self._store_time_of)

    def _store_time_of(self, log_offset: int) -> int:
        segment = self._segments.find(log_offset)
        return peek_store_time_ms(self._segments.view(segment), log_offset - segment.start)


_WITHOUT_PLACE: Final = frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK})
"""Half messages and rollbacks do not take a place in their queue."""
