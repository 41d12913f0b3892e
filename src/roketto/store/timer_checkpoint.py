"""How far the timers of a store were: ``config/timercheck``, 4096 bytes, big-endian.

| offset | type | field                                                                  |
|--------|------|------------------------------------------------------------------------|
| 0      | long | lastReadTimeMs: slots before this time are delivered                   |
| 8      | long | lastTimerLogFlushPos: the timer log is on the disk up to here          |
| 16     | long | lastTimerQueueOffset: messages before it are in the timer log          |
| 24     | long | masterTimerQueueOffset: the same of the master                         |
| 32     | long | data version: state version, at 40 its timestamp, at 48 its counter    |

The first 56 bytes are what a slave asks for. Ours, where no broker of Java's looks or writes:

| offset | type     | field                                                                |
|--------|----------|----------------------------------------------------------------------|
| 64     | 8 bytes  | ROKETTO1                                                             |
| 72     | 56 bytes | Java's fields again: one of Java's that has run since changes those  |
| 128    | long     | the precision that the wheel was made with                           |
| 136    | long     | messages that wait, as the wheel counts them                         |
| 144    | long     | coarse_before: messages before this offset of the timer queue ...    |
| 152    | long     | coarse_ms: ... may say by so much less when they are due             |
| 160    | long     | skip_before: messages before this offset are not looked at again ... |
| 168    | long     | skip_ms: ... if they were due before this time                       |
| 176    | int      | CRC-32 of bytes 64 to 176                                            |
"""

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roketto.store.files import Files

__all__ = ["TimerCheckpoint", "encode_timer_checkpoint", "load_timers", "save_timers"]

CHECKPOINT_BYTES: Final = 4096

_FIELDS: Final = struct.Struct(">7q")
_MARKS: Final = struct.Struct(">8s56s6q")
_MARKS_AT: Final = 64
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = _MARKS_AT + _MARKS.size
_MAGIC: Final = b"ROKETTO1"


@dataclass(slots=True)
class TimerCheckpoint:
    """The fields of the file."""

    read_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    version_ms: int = 0
    version_counter: int = 0
    precision_ms: int = 0
    """0 where a broker of Java's has written the file last, and so for all that follow."""
    pending: int = 0
    coarse_before: int = 0
    coarse_ms: int = 0
    skip_before: int = 0
    skip_ms: int = 0

    @property
    def is_ours(self) -> bool:
        """Whether one of our brokers was the last to write it."""
        return self.precision_ms > 0


def load_timers(files: Files, path: Path) -> TimerCheckpoint | None:
    """What the file says; None if there is none, or none that can be true."""
    text = files.read(path) or b""
    if len(text) < _FIELDS.size:
        return None
    checkpoint = TimerCheckpoint(*_FIELDS.unpack_from(text))
    if min(checkpoint.read_ms, checkpoint.log_flushed, checkpoint.queue_offset) < 0:
        return None
    packed = text[_MARKS_AT:_CRC_AT]
    if text[_CRC_AT : _CRC_AT + _CRC.size] == _CRC.pack(zlib.crc32(packed)):
        magic, fields, *marks = _MARKS.unpack(packed)
        if magic == _MAGIC and fields == text[: _FIELDS.size]:
            (
                checkpoint.precision_ms, checkpoint.pending, checkpoint.coarse_before,
                checkpoint.coarse_ms, checkpoint.skip_before, checkpoint.skip_ms,
            ) = marks  # fmt: skip
    return checkpoint


def save_timers(files: Files, path: Path, checkpoint: TimerCheckpoint) -> None:
    """Replace the file, durably. Whatever it claims must be on the disk before."""
    fields = encode_timer_checkpoint(checkpoint)
    packed = _MARKS.pack(
        _MAGIC, fields, checkpoint.precision_ms, checkpoint.pending, checkpoint.coarse_before,
        checkpoint.coarse_ms, checkpoint.skip_before, checkpoint.skip_ms,
    )  # fmt: skip
    text = fields.ljust(_MARKS_AT, b"\0") + packed + _CRC.pack(zlib.crc32(packed))
    files.replace(path, text.ljust(CHECKPOINT_BYTES, b"\0"))


def encode_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    """Java's fields, as a slave gets them."""
    return _FIELDS.pack(
        checkpoint.read_ms, checkpoint.log_flushed, checkpoint.queue_offset,
        checkpoint.master_queue_offset, checkpoint.state_version, checkpoint.version_ms,
        checkpoint.version_counter,
    )  # fmt: skip
