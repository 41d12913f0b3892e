"""The checkpoint: how far log, queues and index were on the disk at some moment of the past.

Recovery after a crash starts where it points to; a value of 0 means "from the beginning" and is
always right. 4096 bytes, big-endian, the rest is zeros:

| offset | type | field                  |
|--------|------|------------------------|
| 0      | long | physic_timestamp       |
| 8      | long | logics_timestamp       |
| 16     | long | index_timestamp        |
| 24     | long | master_flushed_offset  |
| 32     | long | confirm_offset         |
| 40     | long | logics_physical_offset |

4.9 knows the first three, 5.0 has four, 5.1 five. The last one appeared after 5.3: from it 5.5
tells where recovery starts, and from ``logics_timestamp`` only where it is 0.

Ours, at byte 64 where no broker of Java's looks or writes:

| offset | type     | field                                                              |
|--------|----------|--------------------------------------------------------------------|
| 64     | 8 bytes  | ROKETTO2                                                           |
| 72     | 48 bytes | Java's fields again: a broker of Java's that has run since changes |
|        |          | those above and leaves these                                       |
| 120    | long     | 1 after a clean stop, else 0                                       |
| 128    | long     | flushed: the log is on the disk up to here                         |
| 136    | long     | derived: queues and index are, for all records before this offset  |
| 144    | long     | queues: how many had messages then                                 |
| 152    | long     | units: their next offsets, added up                                |
| 160    | long     | crc_from: from here on all records have the CRC property; -1: none |
| 168    | long     | name of the newest index file then; 0: no file yet, -1: no index   |
| 176    | 40 bytes | its header                                                         |
| 216    | long     | how many files the index had then                                  |
| 224    | int      | CRC-32 of bytes 64 to 224                                          |
"""

import struct
import zlib
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from roketto.store.files import Files

CHECKPOINT_BYTES: Final = 4096
"""Java maps a page, whatever it needs of it."""

_FIELDS: Final = struct.Struct(">6q")
_MARKS: Final = struct.Struct(">8s48s7q40sq")
_MARKS_AT: Final = 64
_MARKS_CRC: Final = struct.Struct(">I")
_MARKS_CRC_AT: Final = _MARKS_AT + _MARKS.size
_MAGIC: Final = b"ROKETTO2"
_NONE: Final = -1

_MARGIN_MS: Final = 3_000
"""Messages of that long ago are sure to be covered by the timestamps, as Java sees it."""

_CLOCK_STEP_MAX_MS: Final = 24 * 3600 * 1000
"""How far a clock may have been set back since; a later timestamp is garbage, not time."""


class IndexMark(NamedTuple):
    """The newest file of the index at some moment: by its header the index can be put back to it.

    Entries are never changed, so those that the header counts are there once the file was synced,
    whatever a crash has done to what came later. There is no name where no key had come yet.
    """

    name: str
    header: bytes
    files: int
    """How many there were with it, to miss one that is gone."""


NO_FILES: Final = IndexMark("", b"", 0)
"""An index without any key so far."""


class Marks(NamedTuple):
    """How far a store was, by places in the log. Taken by the writer before a sync, saved after.

    What is only in memory or in the system's cache by then does not count.
    """

    flushed: int
    """The log is on the disk up to here: damage before it is never a torn end."""
    derived: int
    """Queues and index are, for all records before this offset, where a record begins or ends."""
    queues: int
    """How many queues had messages of before ``derived``..."""
    units: int
    """...and their next offsets, added up: to miss one that is gone."""
    crc_from: int | None = None
    """All records from here on have the CRC property; None if that cannot be said of any."""
    index_mark: IndexMark | None = None
    """The index then; None if none was kept."""
    is_clean: bool = False
    """Whether it ended there: this was a clean stop."""


@dataclass(slots=True)
class Checkpoint:
    """The fields of the file, milliseconds and log offsets. 0 where nothing is known."""

    physic_timestamp: int = 0
    """Store time of the last message that was synced in the log."""
    logics_timestamp: int = 0
    """Store time of the last message whose queue entry was synced."""
    index_timestamp: int = 0
    """End time of the last index file that was full and synced."""
    master_flushed_offset: int = 0
    """How far the master was, as a slave has heard."""
    confirm_offset: int = 0
    """The log up to here is on every replica that counts."""
    logics_physical_offset: int = 0
    """The log up to here has its queue entries, synced."""
    marks: Marks | None = field(default=None, kw_only=True)
    """Ours; None where a broker of Java's has written the file, or it is damaged."""

    @property
    def min_timestamp(self) -> int:
        """Log and queues are complete for messages stored up to then."""
        return max(0, min(self.physic_timestamp, self.logics_timestamp) - _MARGIN_MS)

    @property
    def min_timestamp_index(self) -> int:
        """Log, queues and index are."""
        return min(self.min_timestamp, self.index_timestamp)


def load_checkpoint(files: Files, path: Path, now_ms: int) -> Checkpoint:
    """Read a checkpoint; fields that are missing or cannot be true count as 0.

    An offset may still lie behind the end of the log: who uses it compares.
    """
    text = files.read(path) or b""
    values = _FIELDS.unpack(_whole_fields(text[: _FIELDS.size]))
    latest = now_ms + _CLOCK_STEP_MAX_MS
    timestamps = (value if 0 <= value <= latest else 0 for value in values[:3])
    offsets = (max(0, value) for value in values[3:])
    checkpoint = Checkpoint(*timestamps, *offsets)
    checkpoint.marks = _load_marks(text)
    return checkpoint


def save_checkpoint(files: Files, path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file, durably. Whatever it claims must be on the disk before."""
    fields = _FIELDS.pack(*astuple(checkpoint)[:6])
    text = fields.ljust(_MARKS_AT, b"\0")
    if checkpoint.marks is not None:
        packed = _pack_marks(checkpoint.marks, fields)
        text += packed + _MARKS_CRC.pack(zlib.crc32(packed))
    files.replace(path, text.ljust(CHECKPOINT_BYTES, b"\0"))


def _pack_marks(marks: Marks, fields: bytes) -> bytes:
    index = marks.index_mark or NO_FILES
    return _MARKS.pack(
        _MAGIC, fields, marks.is_clean, marks.flushed, marks.derived, marks.queues, marks.units,
        _NONE if marks.crc_from is None else marks.crc_from,
        _NONE if marks.index_mark is None else int(index.name or 0), index.header, index.files,
    )  # fmt: skip


def _load_marks(text: bytes) -> Marks | None:
    packed = text[_MARKS_AT:_MARKS_CRC_AT]
    crc = text[_MARKS_CRC_AT : _MARKS_CRC_AT + _MARKS_CRC.size]
    if len(packed) < _MARKS.size or crc != _MARKS_CRC.pack(zlib.crc32(packed)):
        return None
    (
        magic, fields, is_clean, flushed, derived, queues, units, crc_from, name, header, files,
    ) = _MARKS.unpack(packed)  # fmt: skip
    if magic != _MAGIC or fields != text[: _FIELDS.size]:
        return None
    index = IndexMark(str(name), header, files) if name else NO_FILES
    return Marks(
        flushed,
        derived,
        queues,
        units,
        crc_from=None if crc_from == _NONE else crc_from,
        index_mark=None if name == _NONE else index,
        is_clean=bool(is_clean),
    )


def _whole_fields(text: bytes) -> bytes:
    """A short file without a field that it has only a part of, filled up with zeros."""
    return text[: len(text) // 8 * 8].ljust(_FIELDS.size, b"\0")
