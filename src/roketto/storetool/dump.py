"""Find messages: by queue and offset, time, key, tag, id or place, the cheapest way there is.

Queues and index are used where they can be trusted, and the log is read where they cannot: without
a topic, without an index, and behind the end of what a running or crashed broker has written of
them.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from roketto.protocol.errors import RecordError
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.property_names import TAGS, UNIQ_KEY
from roketto.protocol.record import Record, decode_record
from roketto.protocol.tags import TagFilter
from roketto.store.errors import StoreError
from roketto.store.files import Files
from roketto.store.index import Index
from roketto.store.recovery import Progress
from roketto.storetool.directory import State, StoreDirectory
from roketto.storetool.facts import keys_of
from roketto.storetool.findings import Findings
from roketto.storetool.log import LogWalk
from roketto.storetool.queue_files import QueueFiles

_PROGRESS_RECORDS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which messages; both ends of a range are in it."""

    topic: str | None = None
    queue_id: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    key: str | None = None
    tags: TagFilter | None = None
    log_offset: int | None = None
    message_id: str | None = None

    def matches(self, record: Record) -> bool:
        return (
            (self.topic is None or record.topic == self.topic)
            and (self.queue_id is None or record.queue_id == self.queue_id)
            and (self.from_offset is None or record.queue_offset >= self.from_offset)
            and (self.to_offset is None or record.queue_offset <= self.to_offset)
            and (self.begin_ms is None or record.store_time_ms >= self.begin_ms)
            and (self.end_ms is None or record.store_time_ms <= self.end_ms)
            and (self.tags is None or self.tags.matches_tag(record.get_property(TAGS)))
            and (self.key is None or self.key in keys_of(record))
            and (self.log_offset is None or record.log_offset == self.log_offset)
            and (self.message_id is None or _has_id(record, self.message_id))
        )


class Dump:
    """One search in one store; what could not be read on the way is in ``findings``."""

    def __init__(
        self,
        store: StoreDirectory,
        wanted: Wanted,
        findings: Findings,
        progress: Progress | None = None,
    ) -> None:
        self._store = store
        self._wanted = wanted
        self._findings = findings
        self._progress = progress

    def __iter__(self) -> Iterator[Record]:
        """The messages that match, in the order of the log."""
        for record in self._candidates():
            if self._wanted.matches(record):
                yield record

    def _candidates(self) -> Iterator[Record]:
        wanted = self._wanted
        if wanted.log_offset is not None:
            return iter([self._store.log.record_at(wanted.log_offset)])
        if wanted.message_id is not None:
            found = self._by_offset_id(wanted.message_id)
            return iter([found]) if found else self._by_key(wanted.message_id)
        if wanted.key is not None:
            return self._by_key(wanted.key)
        if wanted.topic is not None and not self._store.queues.is_rocksdb:
            return self._by_queue(wanted.topic)
        return self._by_log(self._start_of_times())

    # --- by place -----------------------------------------------------------------------------

    def _by_offset_id(self, message_id: str) -> Record | None:
        """The message of a broker's id; a producer's looks alike, but leads nowhere."""
        try:
            log_offset = decode_offset_id(message_id).log_offset
            record = self._store.log.record_at(log_offset)
        except (RecordError, StoreError):
            return None
        return record if record.offset_id == message_id.upper() else None

    # --- by key -------------------------------------------------------------------------------

    def _by_key(self, key: str) -> Iterator[Record]:
        index, wanted = self._store.index, self._wanted
        topics = [wanted.topic] if wanted.topic is not None else self._store.queues.topics
        if index.layout is None or not topics:
            yield from self._by_log(self._start_of_times())
            return
        hashes = Index(Files(), index.directory, lambda: 0, UTC)
        places: set[int] = set()
        for topic in topics:
            places.update(index.query(hashes.key_hash(topic, key)))
        for log_offset in sorted(places):
            if log_offset >= self._store.log.min_offset:
                yield from self._read(log_offset, index.directory, 0)
        if self._store.state is not State.CLEAN:
            for record in self._by_log(self._index_end()):
                if record.log_offset not in places:
                    yield record

    def _index_end(self) -> int:
        file = self._store.index.open(self._store.index.paths[-1])
        try:
            end = file.header.log_offset_end
        finally:
            file.close()
        is_inside = self._store.log.find(end) is not None
        return end if is_inside else self._store.log.min_offset

    # --- by queue -----------------------------------------------------------------------------

    def _by_queue(self, topic: str) -> Iterator[Record]:
        queues = self._store.queues.of_topic(topic)
        if self._wanted.queue_id is not None:
            queues = [queue for queue in queues if queue.queue_id == self._wanted.queue_id]
        ends = {queue.queue_id: queue.ends() for queue in queues}
        merged = heapq.merge(*(self._units(queue, *ends[queue.queue_id]) for queue in queues))
        for log_offset, queue_offset, queue_id in merged:
            path, at = queues[0].place(0)
            queue = self._store.queues.get(topic, queue_id)
            if queue is not None:
                path, at = queue.place(queue_offset)
            yield from self._read(log_offset, path, at)
        if self._store.state is not State.CLEAN:
            yield from self._behind_queues(topic, queues, ends)

    def _units(self, queue: QueueFiles, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Where the wanted messages of one queue lie, with their places in it."""
        wanted, log_min = self._wanted, self._store.log.min_offset
        first = queue.find(first, end, lambda unit: unit.log_offset >= log_min)
        if wanted.from_offset is not None:
            first = max(first, wanted.from_offset)
        if wanted.to_offset is not None:
            end = min(end, wanted.to_offset + 1)
        begin_ms, end_ms = wanted.begin_ms, wanted.end_ms
        if begin_ms is not None:
            first = queue.find(first, end, lambda unit: self._time(unit.log_offset) >= begin_ms)
        if end_ms is not None:
            end = queue.find(first, end, lambda unit: self._time(unit.log_offset) > end_ms)
        codes = None if wanted.tags is None or queue.topic == SCHEDULE_TOPIC else wanted.tags.codes
        for queue_offset, unit in queue.units(first, end):
            if not codes or unit.tags_code in codes:
                yield unit.log_offset, queue_offset, queue.queue_id

    def _time(self, log_offset: int) -> int:
        try:
            return self._store.log.record_at(log_offset, read_body=False).store_time_ms
        except (RecordError, StoreError):
            return 0

    def _behind_queues(
        self, topic: str, queues: list[QueueFiles], ends: dict[int, tuple[int, int]]
    ) -> Iterator[Record]:
        """What the log has of the topic and the files of its queues do not have yet."""
        store = self._store
        start = store.log.start_before(store.checkpoint.min_timestamp)
        last_ends = [queue.unit(ends[queue.queue_id][1] - 1) for queue in queues
                     if ends[queue.queue_id][1]]  # fmt: skip
        if last_ends and len(last_ends) == len(queues):
            start = max(start, min(unit.log_offset for unit in last_ends))
        for record in self._by_log(start):
            queue_end = ends.get(record.queue_id, (0, 0))[1]
            if record.topic == topic and record.queue_offset >= queue_end:
                yield record

    # --- by reading the log -------------------------------------------------------------------

    def _read(self, log_offset: int, path: Path, at: int) -> Iterator[Record]:
        try:
            yield self._store.log.record_at(log_offset)
        except (RecordError, StoreError) as error:
            self._findings.damage(
                "queue", path, at, f"it leads to log offset {log_offset}: {error}"
            )

    def _start_of_times(self) -> int:
        """Where to begin reading for the wanted times; clocks may have gone back a little."""
        log, begin_ms = self._store.log, self._wanted.begin_ms
        return log.min_offset if begin_ms is None else log.start_before(begin_ms - 1)

    def _by_log(self, start: int) -> Iterator[Record]:
        log, end_ms = self._store.log, self._wanted.end_ms
        scan = LogWalk(log, self._findings, start, check_crc=False)
        for number, place in enumerate(scan):
            if self._progress is not None and not number % _PROGRESS_RECORDS:
                self._progress(place.log_offset - start, log.max_offset - start)
            record = decode_record(place.view, place.at)
            if end_ms is not None and not place.file_offset and record.store_time_ms > end_ms:
                return  # this whole file is newer
            yield record


def _has_id(record: Record, message_id: str) -> bool:
    return record.get_property(UNIQ_KEY) == message_id or record.offset_id == message_id.upper()
