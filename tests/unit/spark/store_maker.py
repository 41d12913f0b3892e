"""Makes the files of a store as a broker leaves them, and damaged ones."""

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from roketto.protocol.hosts import encode_host
from roketto.protocol.record import Record, encode_record
from roketto.protocol.record_layout import MAGIC_BLANK
from roketto.protocol.tags import tag_code

UNIT = struct.Struct(">qiq")
BLANK_UNIT = UNIT.pack(0, 2**31 - 1, 0)
TIME_MS = 1_700_000_000_000


@dataclass(slots=True)
class StoreMaker:
    """A store with small files.

    maker = StoreMaker(tmp_path)
    maker.put("Orders", 0, b"first", tag="TagA")
    """

    root: Path
    log_bytes: int = 1_000
    units_per_file: int = 5
    begin: int = 0
    """Where the log begins; what was before is removed."""
    log_end: int = field(init=False)
    queue_ends: dict[tuple[str, int], int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.log_end = self.begin

    @property
    def options(self) -> dict[str, str]:
        return {"storePath": str(self.root)}

    def put(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        tag: str = "",
        *,
        in_queue: bool = True,
        sys_flag: int = 0,
    ) -> int:
        """Append a message; its log offset. Its unit may stay in memory, which is no file."""
        offset = self.queue_ends.get((topic, queue_id), 0)
        record = Record(
            topic,
            body,
            f"TAGS\x01{tag}\x02".encode() if tag else b"",
            queue_id=queue_id,
            queue_offset=offset,
            sys_flag=sys_flag,
            born_time_ms=TIME_MS,
            store_time_ms=TIME_MS + self.log_end,
            store_host=encode_host("127.0.0.1", 10_911),
        )
        size = len(encode_record(record))
        room = self.log_bytes - self.log_end % self.log_bytes
        if size + 8 > room:
            self.write_log(self.log_end, struct.pack(">iI", room, MAGIC_BLANK))
            self.log_end += room
            record.store_time_ms = TIME_MS + self.log_end
        record.log_offset = place = self.log_end
        self.write_log(place, encode_record(record))
        self.log_end += size
        if in_queue:
            self.write_unit(topic, queue_id, offset, UNIT.pack(place, size, tag_code(tag)))
        self.queue_ends[topic, queue_id] = offset + 1
        return place

    def write_checkpoint(self, written: int) -> None:
        """Say that the units of all records before a log offset are in files, as ours does."""
        marks = bytearray(160)
        marks[:8] = b"ROKETTO2"
        struct.pack_into(">q", marks, 72, written)
        raw = bytes(64) + bytes(marks) + struct.pack(">I", zlib.crc32(marks))
        (self.root / "checkpoint").write_bytes(raw.ljust(4_096, b"\0"))

    def skip(self, topic: str, queue_id: int, offset: int) -> None:
        """Let a queue begin at an offset, with blanks before it in its first file."""
        first = offset - offset % self.units_per_file
        for blank in range(first, offset):
            self.write_unit(topic, queue_id, blank, BLANK_UNIT)
        self.queue_ends[topic, queue_id] = offset

    def log_file(self, place: int) -> Path:
        return self.root / "commitlog" / f"{place - place % self.log_bytes:020d}"

    def write_log(self, place: int, raw: bytes) -> None:
        self._write(self.log_file(place), self.log_bytes, place % self.log_bytes, raw)

    def write_unit(self, topic: str, queue_id: int, offset: int, raw: bytes) -> None:
        file_bytes = self.units_per_file * UNIT.size
        place = offset * UNIT.size
        folder = self.root / "consumequeue" / topic / str(queue_id)
        path = folder / f"{place - place % file_bytes:020d}"
        self._write(path, file_bytes, place % file_bytes, raw)

    @staticmethod
    def _write(path: Path, size: int, at: int, raw: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            file.seek(at)
            file.write(raw)
