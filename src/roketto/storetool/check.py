"""Verify a store: its records, and its queues, index and tables against them.

The log is read once. What is kept in memory does not grow with the number of messages: some 300
bytes a queue, one byte for each entry of one index file (20 MB for one of Java's size), and the
first thousand findings.
"""

from dataclasses import dataclass, field
from datetime import UTC

from roketto.protocol.crc import CRC_PROPERTY_BYTES
from roketto.protocol.errors import RecordError
from roketto.protocol.property_names import CRC32
from roketto.protocol.record import decode_record
from roketto.protocol.record_layout import has_good_crc_property
from roketto.store.files import Files
from roketto.store.index import Index
from roketto.store.recovery import Progress
from roketto.storetool.check_index import IndexCheck
from roketto.storetool.check_queues import QueueCheck
from roketto.storetool.check_tables import check_checkpoint, check_tables
from roketto.storetool.directory import State, StoreDirectory
from roketto.storetool.facts import expect, is_inner_batch
from roketto.storetool.findings import Findings
from roketto.storetool.log import LogWalk, Place

_PROGRESS_RECORDS = 4_096
_CRC_NAME = CRC32.encode()
_NOT_UNDERSTOOD = ("batchconsumequeue", "consumequeue_ext", "timerlog", "compaction")


@dataclass(slots=True)
class Checked:
    """What a check has seen."""

    state: State
    records: int = 0
    log_begin: int = 0
    log_end: int = 0
    last_time_ms: int = 0
    units: int = 0
    entries: int = 0
    tables: int = 0
    unchecked: list[str] = field(default_factory=list)
    """What is in the store and not looked into."""


class Check:
    """One check of one store; ``run`` it once."""

    def __init__(
        self,
        store: StoreDirectory,
        findings: Findings,
        now_ms: int,
        progress: Progress | None = None,
    ) -> None:
        self._store = store
        self._findings = findings
        self._now_ms = now_ms
        self._progress = progress
        checkpoint, log = store.checkpoint, store.log
        marks = checkpoint.marks
        self._flushed = marks.flushed if marks is not None else 0
        derived = marks.derived if marks is not None else 0
        queues_until = max(derived, log.start_before(checkpoint.min_timestamp))
        self._queues = QueueCheck(store, findings, queues_until)
        # Only asked for hashes: it is not loaded and touches no file.
        hashes = Index(Files(), store.index.directory, lambda: now_ms, UTC)
        index_until = max(derived, log.start_before(checkpoint.min_timestamp_index))
        self._index = IndexCheck(store, hashes, findings, index_until)
        self._checked = Checked(store.state, log_begin=log.min_offset)

    def run(self) -> Checked:
        store, findings, checked = self._store, self._findings, self._checked
        checked.unchecked = unchecked(store)
        store.log.check_files(findings)
        self._queues.check_files()
        try:
            self._read_log()
        finally:
            self._index.close()
        checked.units = self._queues.units
        checked.entries = self._index.entries
        checked.tables = check_tables(store, findings)
        check_checkpoint(store, findings, self._now_ms, checked.last_time_ms)
        return checked

    def _read_log(self) -> None:
        store, checked = self._store, self._checked
        walk = LogWalk(store.log, self._findings)
        total = store.log.max_offset - store.log.min_offset
        for place in walk:
            self._see(place)
            checked.records += 1
            if self._progress is not None and not checked.records % _PROGRESS_RECORDS:
                self._progress(place.log_offset - store.log.min_offset, total)
        checked.log_end = walk.end
        self._check_end(walk)
        if not store.queues.is_rocksdb:
            self._queues.finish(walk.end)
        self._index.finish(walk.end)
        if self._index.is_absent and checked.records:
            self._findings.note(
                "index", store.index.directory, 0, "there is no index: no message is found by key"
            )
        if self._progress is not None:
            self._progress(total, total)

    def _see(self, place: Place) -> None:
        segment, log_offset, view, at, size, trouble = place
        if trouble is not None:
            self._findings.damage("record", segment.path, place.file_offset, trouble)
        elif has_bad_crc_property(view, at, size):
            text = f"the record at log offset {log_offset} does not match its CRC property"
            self._findings.damage("record", segment.path, place.file_offset, text)
        record = decode_record(view, at, read_body=False)
        self._checked.last_time_ms = record.store_time_ms
        expected = expect(record)
        if (
            expected.takes_place
            and not self._store.queues.is_rocksdb
            and not is_inner_batch(record)
        ):
            self._queues.see(
                record.topic, record.queue_id, record.queue_offset, log_offset, size,
                expected.tags_code,
            )  # fmt: skip
        self._index.see(
            record.topic, expected.keys, expected.tag_key, log_offset, record.store_time_ms
        )

    def _check_end(self, walk: LogWalk) -> None:
        is_open = self._store.state is State.OPEN
        if walk.end < self._flushed and not is_open:
            path, at = self._store.log.place(walk.end)
            text = f"the log ends here, but was on the disk up to {self._flushed}"
            self._findings.damage("record", path, at, f"{text}; {walk.torn_why}".rstrip("; "))
            return
        if not walk.torn_bytes:
            return
        path, at = self._store.log.place(walk.end)
        what = f"{walk.torn_why}; {walk.torn_bytes} bytes behind the last record are no record"
        if is_open:
            self._findings.note("record", path, at, f"{what}; still being written")
        elif self._store.state is State.CRASHED:
            text = f"{what}: the torn end, which the next start cuts off"
            self._findings.note("record", path, at, text)
        else:
            text = f"{what}; the last stop was clean, so nothing may be torn"
            self._findings.damage("record", path, at, text)


def unchecked(store: StoreDirectory) -> list[str]:
    """What of a store is there and not understood here."""
    rocksdb = ["consumequeue (a RocksDB database)"] if store.queues.is_rocksdb else []
    files, root = store.files, store.root
    return rocksdb + [
        name
        for name in _NOT_UNDERSTOOD
        if files.directories(root / name) or files.names(root / name)
    ]


def has_bad_crc_property(view: memoryview, at: int, size: int) -> bool:
    """Whether the record ends in a CRC property that is not true; most have none."""
    tail = at + size - CRC_PROPERTY_BYTES
    if view[tail : tail + len(_CRC_NAME)] != _CRC_NAME:
        return False
    try:
        return not has_good_crc_property(view, at)
    except RecordError:
        return True
