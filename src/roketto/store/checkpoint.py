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

Ours, at byte 64 where no broker of Java's looks or writes, after a clean stop:

| offset | type    | field                                               |
|--------|---------|-----------------------------------------------------|
| 64     | 8 bytes | ROKETTO1                                            |
| 72     | long    | end of the log                                      |
| 80     | long    | number of queues                                    |
| 88     | long    | their next offsets, added up                        |

4.9 knows the first three, 5.0 has four, 5.1 five. The last one appeared after 5.3: from it 5.5
tells where recovery starts, and from ``logics_timestamp`` only where it is 0.
"""

import struct
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from roketto.store.files import Files

CHECKPOINT_BYTES: Final = 4096
"""Java maps a page, whatever it needs of it."""

_FIELDS: Final = struct.Struct(">6q")
_QUEUES: Final = struct.Struct(">8s3q")
_QUEUES_AT: Final = 64
_QUEUES_MAGIC: Final = b"ROKETTO1"

_MARGIN_MS: Final = 3_000
"""Messages of that long ago are sure to be covered by the timestamps, as Java sees it."""

_CLOCK_STEP_MAX_MS: Final = 24 * 3600 * 1000
"""How far a clock may have been set back since; a later timestamp is garbage, not time."""


class QueueCount(NamedTuple):
    """How many queues there were when the log ended at ``log_end``, to miss one that is gone."""

    log_end: int
    queues: int
    units: int


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
    counted: QueueCount | None = field(default=None, kw_only=True)
    """Known after a clean stop of ours."""

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
    checkpoint.counted = _load_count(text)
    return checkpoint


def _load_count(text: bytes) -> QueueCount | None:
    magic, *numbers = _QUEUES.unpack(text[_QUEUES_AT:][: _QUEUES.size].ljust(_QUEUES.size, b"\0"))
    return QueueCount(*numbers) if magic == _QUEUES_MAGIC else None


def save_checkpoint(files: Files, path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file, durably. Whatever it claims must be on the disk before."""
    text = _FIELDS.pack(*astuple(checkpoint)[:6]).ljust(_QUEUES_AT, b"\0")
    if checkpoint.counted is not None:
        text += _QUEUES.pack(_QUEUES_MAGIC, *checkpoint.counted)
    files.replace(path, text.ljust(CHECKPOINT_BYTES, b"\0"))


def _whole_fields(text: bytes) -> bytes:
    """A short file without a field that it has only a part of, filled up with zeros."""
    return text[: len(text) // 8 * 8].ljust(_FIELDS.size, b"\0")
