"""A small store on a disk in memory, and what must be in it: for tests that damage it many times.

``SmallStore`` appends messages of several shapes and remembers them. ``image`` is the disk as a
killed process leaves it; each copy of it can be damaged and opened on its own.
"""

from datetime import UTC
from pathlib import Path
from typing import Final, NamedTuple

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.store.flush import FlushSettings
from roketto.store.recovery import Recovered
from roketto.store.store import Store, StoreSettings
from sim.files import CrashFiles

ROOT: Final = Path("/store")
LOG: Final = ROOT / "commitlog"
SETTINGS: Final = StoreSettings(
    segment_bytes=4_096, queue_file_bytes=400, index_slots=20, index_entries=40,
    flush=FlushSettings(interval_ms=3_600_000, thorough_interval_ms=3_600_000),
)  # fmt: skip
SHAPES: Final = ("plain", "bare", "ipv6", "long topic", "batch")
TOPICS: Final = {"long topic": "%RETRY%" + "g" * 150}
IPV6: Final = encode_host("2001:db8::7", 10911)


class Known(NamedTuple):
    """One message that was appended."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    key: str | None

    @property
    def end(self) -> int:
        return self.log_offset + self.size


class SmallStore:
    """One store from its first message to its end, and all that went into it."""

    def __init__(self, files: CrashFiles | None = None, settings: StoreSettings = SETTINGS) -> None:
        self.files = files or CrashFiles()
        self.settings = settings
        self.now_ms = 1_700_000_000_000
        self.known: list[Known] = []
        self.store = self._make()
        self.recovered: Recovered | None = None

    def _make(self) -> Store:
        return Store(ROOT, self.settings, files=self.files, clock_ms=self._tick, zone=UTC)

    def _tick(self) -> int:
        self.now_ms += 10
        return self.now_ms

    def open(self) -> "SmallStore":
        self.recovered = self.store.open(1)
        return self

    def append(self, shape: str = "plain", queue_id: int = 0) -> None:
        """Store one message, or a batch of three, of a shape."""
        number = len(self.known)
        key = f"U{number}" if shape != "bare" else None
        properties = encode_properties({"UNIQ_KEY": key, "TAGS": f"t{number}", "KEYS": "all"})
        record = Record(
            TOPICS.get(shape, "T"),
            b"message %d " % number * 3,
            properties if key else b"",
            queue_id,
        )
        if shape == "bare":
            record.body = b""
        if shape == "ipv6":
            record.born_host = record.store_host = IPV6
        if shape == "batch":
            self._append_batch(record, number)
            return
        put = self.store.append(record)
        known = Known(record.topic, queue_id, put.queue_offset, put.log_offset, put.size, key)
        self.known.append(known)

    def _append_batch(self, record: Record, number: int) -> None:
        keys = [f"U{number + item}" for item in range(3)]
        record.body = encode_batch(
            [
                BatchItem(b"item " + key.encode(), encode_properties({"UNIQ_KEY": key}))
                for key in keys
            ]
        )
        start = self.store._log.written
        put = self.store.append_batch(record)
        sizes = [size for _, size, _ in self.store._log.records(max(start, put.end - 4_096))][-3:]
        for item, key in enumerate(keys):
            log_offset = put.end - sum(sizes[item:])
            self.known.append(
                Known("T", record.queue_id, put.queue_offset + item, log_offset, sizes[item], key)
            )

    def sync(self) -> None:
        """Bring log, queues and index to the disk, and say so in the checkpoint."""
        self.flush()
        assert self.store._derived is not None
        self.store._derived.finish(self.store._take_marks())

    def flush(self) -> None:
        """Bring the log to the disk, and say so in the checkpoint; queues and index stay behind."""
        flusher = self.store._flusher
        assert flusher is not None
        flusher._flush(is_wanted=True)
        self.store.advance()
        marks = self.store._checkpoint.marks
        assert marks is not None
        self.store._save_checkpoint(marks._replace(flushed=self.store.flushed))

    @property
    def end(self) -> int:
        return self.store._log.written

    def image(self) -> CrashFiles:
        """The disk as a process that is killed now leaves it."""
        return copy(self.files)

    def close(self) -> None:
        self.store.close()

    # --- afterwards ---------------------------------------------------------------------------

    def reopen(self, files: CrashFiles) -> "SmallStore":
        """Another store that knows the same, over other files, opened."""
        after = SmallStore(files, self.settings)
        after.now_ms = self.now_ms
        after.known = list(self.known)
        return after.open()

    def check(self, known: list[Known] | None = None, torn: Known | None = None) -> None:
        """Exactly these messages are in the log, the queues and the index, and more can follow.

        A torn one behind them is in the log, too, and whether it has its queue and its key depends
        on what it has lost.
        """
        self.known = list(self.known if known is None else known)
        queues: dict[tuple[str, int], list[Known]] = {}
        for message in self.known:
            queues.setdefault((message.topic, message.queue_id), []).append(message)
        for (topic, queue_id), messages in queues.items():
            places = self._read(topic, queue_id)
            if torn is not None and places[-1:] == [torn[2:5]]:
                places.pop()
            assert places == [message[2:5] for message in messages], f"queue {queue_id} of {topic}"
        for topic, queue_ids in self.store.topics():
            for queue_id in queue_ids:
                assert (topic, queue_id) in queues or not self._read(topic, queue_id)
        for message in self.known:
            if message.key is not None:
                found = self.store.query(message.topic, message.key, 9, 0, 1 << 60)
                assert found == [message.log_offset], message
        last = torn or (self.known[-1] if self.known else None)
        end = last.end if last is not None else 0
        rest = -end % self.settings.segment_bytes  # a blank may fill it
        assert self.end in (end, end + rest), f"the log ends at {self.end}, its records at {end}"
        self.append()
        assert self._read("T", 0)[-1][1:] == self.known[-1][3:5]

    def _read(self, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
        found = []
        offset = 0
        while (result := self.store.get(topic, queue_id, offset, 32)).count:
            for view in result.views:
                records = decode_records(view, strict=True)
                found += [(it.queue_offset, it.log_offset, it.size) for it in records]
            offset = result.next_offset
        return found


def copy(files: CrashFiles) -> CrashFiles:
    """The same content on another disk, all of it durable."""
    return files.crash(0, keep=1.0)


def segment_path(log_offset: int) -> Path:
    """The file of the log that a byte lies in."""
    size = SETTINGS.segment_bytes
    return LOG / f"{log_offset // size * size:020d}"


def cut(files: CrashFiles, log_offset: int) -> None:
    """Make the log zeros from a byte on, in all its files: what came later never reached them."""
    size = SETTINGS.segment_bytes
    for name in files.names(LOG):
        start = max(int(name), log_offset)
        if start < int(name) + size:
            files.damage(LOG / name, start - int(name), bytes(int(name) + size - start))


def flip(files: CrashFiles, log_offset: int, mask: int) -> None:
    """Turn bits of one byte of the log."""
    path, at = segment_path(log_offset), log_offset % SETTINGS.segment_bytes
    [byte] = files.read_at(path, at, 1)
    files.damage(path, at, bytes([byte ^ mask]))
