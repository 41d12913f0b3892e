"""What a store holds: sizes, times, topics and how it was left; read without reading the log."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from roketto.protocol.errors import RecordError
from roketto.protocol.record_layout import peek_store_time_ms
from roketto.store.errors import StoreError
from roketto.storetool.directory import StoreDirectory
from roketto.storetool.findings import Findings
from roketto.storetool.log import LogWalk
from roketto.storetool.queue_files import QueueFiles

_BLOCK_BYTES: Final = 512
"""In what the system counts the blocks of a file, whatever they really are."""


@dataclass(slots=True)
class TopicStat:
    """One topic: how many messages its queues lead to that the log still has."""

    topic: str
    queues: int = 0
    messages: int = 0
    next_offsets: int = 0
    """The next offsets of its queues, added up: how many messages there ever were."""


@dataclass(slots=True)
class StoreStat:
    """The figures of one store; bytes and milliseconds."""

    root: str
    state: str
    process_id: str | None
    log_begin: int
    log_end: int
    segments: int
    segment_bytes: int
    first_time_ms: int | None
    last_time_ms: int | None
    queue_file_bytes: int
    topics: list[TopicStat]
    index_files: int
    index_slots: int | None
    index_entries_max: int | None
    index_entries: int
    checkpoint: dict[str, int]
    disk_bytes: dict[str, int] = field(default_factory=dict)
    """What the parts take on the disk; files that are mostly holes take less than they are long."""

    @property
    def messages(self) -> int:
        return sum(topic.messages for topic in self.topics)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "messages": self.messages}


def measure(store: StoreDirectory) -> StoreStat:
    """Look at the directory, the ends of queues and log, and the headers of the index."""
    topics, newest = _topics(store)
    log_end, last_time_ms = _log_end(store, newest)
    layout = store.index.layout
    checkpoint = store.checkpoint
    return StoreStat(
        root=str(store.root),
        state=store.state.value,
        process_id=_process_id(store),
        log_begin=store.log.min_offset,
        log_end=log_end,
        segments=len(store.log.segments),
        segment_bytes=store.log.segment_bytes,
        first_time_ms=store.log.first_time_ms(store.log.segments[0])
        if store.log.segments
        else None,
        last_time_ms=last_time_ms,
        queue_file_bytes=store.queues.file_bytes,
        topics=topics,
        index_files=len(store.index.paths),
        index_slots=layout.slots if layout else None,
        index_entries_max=layout.entries if layout else None,
        index_entries=_index_entries(store),
        checkpoint={
            "physic_timestamp": checkpoint.physic_timestamp,
            "logics_timestamp": checkpoint.logics_timestamp,
            "index_timestamp": checkpoint.index_timestamp,
            "master_flushed_offset": checkpoint.master_flushed_offset,
            "confirm_offset": checkpoint.confirm_offset,
            "logics_physical_offset": checkpoint.logics_physical_offset,
        },
        disk_bytes=_disk_bytes(store),
    )


def _topics(store: StoreDirectory) -> tuple[list[TopicStat], int]:
    """The topics, and where the newest message of all queues begins in the log."""
    found: dict[str, TopicStat] = {topic: TopicStat(topic) for topic in store.queues.topics}
    newest = store.log.min_offset
    for queue in store.queues:
        stat = found[queue.topic]
        first, end = _readable(store, queue)
        stat.queues += 1
        stat.messages += end - first
        stat.next_offsets += end
        if end > first:
            newest = max(newest, queue.unit(end - 1).log_offset)
    return list(found.values()), newest


def _readable(store: StoreDirectory, queue: QueueFiles) -> tuple[int, int]:
    """The first unit whose message the log still has, and the one behind the last."""
    first, end = queue.ends()
    log_min = store.log.min_offset
    return queue.find(first, end, lambda unit: unit.log_offset >= log_min), end


def _log_end(store: StoreDirectory, newest: int) -> tuple[int, int | None]:
    """Where the records end and when the last was stored, looking from ``newest`` on."""
    log = store.log
    if not log.segments:
        return 0, None
    start = max(newest, log.min_offset)
    try:
        last_time_ms: int | None = log.record_at(start, read_body=False).store_time_ms
    except (RecordError, StoreError):
        start, last_time_ms = log.segments[-1].start, None
    walk = LogWalk(log, Findings(), start, check_crc=False)
    for place in walk:
        last_time_ms = peek_store_time_ms(place.view, place.at)
    return walk.end, last_time_ms


def _index_entries(store: StoreDirectory) -> int:
    entries = 0
    if store.index.layout is None:
        return 0
    for path in store.index.paths:
        try:
            file = store.index.open(path)
        except (StoreError, FileNotFoundError):
            continue
        entries += file.count - 1
        file.close()
    return entries


def _process_id(store: StoreDirectory) -> str | None:
    text = store.files.read(store.abort_path)
    return None if text is None else text[:20].decode(errors="replace").strip()


def _disk_bytes(store: StoreDirectory) -> dict[str, int]:
    parts = {path.name: path for path in sorted(store.root.iterdir())}
    parts["commitlog"] = store.log.directory
    return {name: _allocated(path) for name, path in parts.items()}


def _allocated(path: Path) -> int:
    """What a file or all files of a directory take on the disk."""
    total = 0
    for part in (path, *path.rglob("*")) if path.is_dir() else (path,):
        try:
            total += part.lstat().st_blocks * _BLOCK_BYTES
        except FileNotFoundError:
            continue  # deleted meanwhile
    return total
