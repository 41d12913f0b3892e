"""Small stores for the tests of ``roketto store``, and ways to damage them."""

import hashlib
import struct
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.compression import compress
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_ZSTD, TRANSACTION_PREPARED
from roketto.store.files import Files
from roketto.store.flush import FlushSettings
from roketto.store.store import Store, StoreSettings
from roketto.storetool.check import Check, Checked
from roketto.storetool.directory import Options, StoreDirectory
from roketto.storetool.findings import Findings

HOST = encode_host("10.0.0.1", 10911)
SEGMENT_BYTES = 8_192
QUEUE_FILE_BYTES = 400
SLOTS, ENTRIES = 101, 1_000
BEGIN_MS = 1_700_000_000_000
STEP_MS = 1_000
COUNT = 90
SETTINGS = StoreSettings(
    segment_bytes=SEGMENT_BYTES, queue_file_bytes=QUEUE_FILE_BYTES, index_slots=SLOTS,
    index_entries=ENTRIES, flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
_UNIT = struct.Struct(">qiq")


class Sent(NamedTuple):
    """One message as the store took it."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    store_time_ms: int
    offset_id: str
    body: bytes
    key: str
    tag: str


class Clock:
    """A wall clock that moves when it is looked at."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS

    def __call__(self) -> int:
        self.now_ms += STEP_MS
        return self.now_ms


def message(number: int, topic: str = "T", queue_id: int = 0) -> Record:
    properties = {
        "UNIQ_KEY": f"{number:032X}", "TAGS": f"tag{number % 3}", "KEYS": f"key{number} all",
    }  # fmt: skip
    body = b"message %d " % number + b"x" * (200 if topic == "T" else 20)
    return Record(
        topic, body, encode_properties(properties), queue_id, store_host=HOST, born_host=HOST
    )


def make_store(root: Path, settings: StoreSettings = SETTINGS, count: int = COUNT) -> list[Sent]:
    """Three queues in two topics over some segments, stopped in order; what was sent."""
    store = Store(root, settings, clock_ms=Clock(), zone=UTC)
    store.open(1)
    sent = fill(store, count)
    store.close()
    return sent


def fill(store: Store, count: int = COUNT, first: int = 0) -> list[Sent]:
    sent = []
    for number in range(first, first + count):
        topic, queue_id = (("T", 0), ("T", 1), ("Other", 0))[number % 3]
        record = message(number, topic, queue_id)
        where = store.append(record)
        sent.append(
            Sent(
                topic, queue_id, where.queue_offset, where.log_offset, where.size,
                where.store_time_ms, where.message_id, bytes(record.body), f"key{number}",
                f"tag{number % 3}",
            )
        )  # fmt: skip
    return sent


def add_odd_messages(store: Store) -> None:
    """A batch, a half message, a packed body, one that is no text, one without properties."""
    batch = message(1_000, "Odd")
    batch.body = encode_batch(
        [BatchItem(b"item %d" % n, encode_properties({"KEYS": f"item{n}"})) for n in range(3)]
    )
    store.append_batch(batch)
    half = message(1_001, "Odd")
    half.sys_flag = TRANSACTION_PREPARED
    store.append(half)
    packed = message(1_002, "Odd")
    packed.body = compress(b"packed " * 50, COMPRESSION_ZSTD)
    packed.sys_flag = COMPRESSED | COMPRESSION_ZSTD
    store.append(packed)
    store.append(Record("Odd", b"\x00\xff\x01", b"", 0, store_host=HOST, born_host=HOST))


def look(root: Path, **options: object) -> StoreDirectory:
    return StoreDirectory(root, Files(), BEGIN_MS + 10**9, Options(**options))  # type: ignore[arg-type]


def check(root: Path) -> tuple[Checked, Findings]:
    findings = Findings()
    store = look(root)
    try:
        return Check(store, findings, BEGIN_MS + 10**9).run(), findings
    finally:
        store.close()


def segment_path(root: Path, log_offset: int) -> tuple[Path, int]:
    inside = log_offset % SEGMENT_BYTES
    return root / "commitlog" / f"{log_offset - inside:020d}", inside


def queue_path(root: Path, sent: Sent) -> tuple[Path, int]:
    position = sent.queue_offset * 20
    inside = position % QUEUE_FILE_BYTES
    folder = root / "consumequeue" / sent.topic / str(sent.queue_id)
    return folder / f"{position - inside:020d}", inside


def index_path(root: Path) -> Path:
    [path] = (root / "index").iterdir()
    return path


def patch(path: Path, at: int, change: bytes | Callable[[bytes], bytes], size: int = 0) -> None:
    """Replace bytes of a file by others, or by what a function makes of them."""
    content = bytearray(path.read_bytes())
    if not isinstance(change, bytes):
        change = change(bytes(content[at : at + size]))
    content[at : at + len(change)] = change
    path.write_bytes(bytes(content))


def unit(log_offset: int, size: int, tags_code: int) -> bytes:
    return _UNIT.pack(log_offset, size, tags_code)


def fingerprint(root: Path) -> dict[str, tuple[int, int, str]]:
    """Names, lengths, times and contents of everything below a directory."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(root.rglob("*"))
    }
