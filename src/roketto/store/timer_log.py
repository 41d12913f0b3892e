"""The timer log: one unit for each timer message, those of one slot of the wheel in a chain.

Files of ``mappedFileSizeTimerLog`` bytes in ``timerlog``, named by the position of their first
byte, as Java writes them. A unit is 52 bytes, big-endian:

| offset | type | field                                                        |
|--------|------|--------------------------------------------------------------|
| 0      | int  | 52                                                           |
| 4      | long | position of the unit before it in its slot, -1: it is the 1st |
| 12     | int  | magic: 1, with 2 if it rolls on, with 4 if it recalls another |
| 16     | long | when it was written, rounded to the precision                |
| 24     | int  | the time of its slot, counted from there                     |
| 28     | long | log offset of its message in the commit log                  |
| 36     | int  | size of that                                                 |
| 40     | int  | hash of the message's real topic                             |
| 44     | long | 0                                                            |

A file ends where a unit and these 16 bytes would not fit: int rest of the file, long 0,
int 0xCBD43194. New units are in memory until ``write_to`` brings them to their files.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from roketto.store.files import Files
from roketto.store.segment import NAME_DIGITS, segment_name

__all__ = ["DELETE", "NO_UNIT", "PLAIN", "ROLL", "UNIT_BYTES", "TimerLog", "TimerUnit"]

UNIT_BYTES: Final = 52
PLAIN: Final = 1
ROLL: Final = 2
"""It waits here for a part of its time only, and goes back to the end of the queue then."""
DELETE: Final = 4
"""Its message says that another one shall not be delivered."""
NO_UNIT: Final = -1

_MAGIC_MAX: Final = 15
_UNIT: Final = struct.Struct(">iqiqiqiiq")
_BLANK: Final = struct.Struct(">iqi")
_BLANK_MAGIC: Final = 0xCBD43194 - (1 << 32)
_CHUNK_BYTES: Final = 64 * UNIT_BYTES
"""Read at a time: units of one slot often follow each other."""
_ERASED_BYTES: Final = 1 << 20


class TimerUnit(NamedTuple):
    """One timer message: where its slot goes on, when it is due, and where it is."""

    previous: int
    magic: int
    base_ms: int
    delay_ms: int
    log_offset: int
    size: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        """The time of its slot."""
        return self.base_ms + self.delay_ms


class TimerLog:
    """The log of one store. One thread has it; ``sync`` may run in another.

    log = TimerLog(files, directory, 100 << 20)
    log.load()                      # False: damaged; clear() it and make it anew
    log.end_at(position)            # what recovery has found
    position = log.append(unit)
    log.write_to(log.end); log.sync()
    """

    def __init__(self, files: Files, directory: Path, file_bytes: int) -> None:
        assert file_bytes >= UNIT_BYTES + _BLANK.size
        self.directory = directory
        self.first = 0
        """Where the first file begins."""
        self.end = 0
        """Where the next unit goes."""
        self.written = 0
        """Up to here the units are in their files."""
        self._files = files
        self._file_bytes = file_bytes
        self._tail = bytearray()
        self._created = 0
        self._chunk = b""
        self._chunk_at = 0
        self._unsynced: set[int] = set()

    # --- opening ----------------------------------------------------------------------------------

    def load(self) -> bool:
        """Find the files; False if they are not a row of whole ones, without a gap."""
        self._files.make_directory(self.directory)
        starts = self._starts()
        if starts and self._files.size(self._path(starts[-1])) == 0:  # a crash came as it was made
            self._files.unlink(self._path(starts.pop()))
        size = self._file_bytes
        first = starts[0] if starts else 0
        is_whole = first % size == 0 and starts == [first + n * size for n in range(len(starts))]
        if not is_whole or any(self._files.size(self._path(start)) != size for start in starts):
            return False
        self.first = first
        self._created = first + len(starts) * size
        self.end_at(self._created)
        return True

    def clear(self) -> None:
        """Remove everything."""
        for start in self._starts():
            self._files.remove(self._path(start))
        self._files.sync_directory(self.directory)
        self.first = self._created = 0
        self.end_at(0)

    def holds(self, position: int) -> bool:
        """Whether a unit may begin at a position, or right behind the last file."""
        at = position % self._file_bytes
        return self.first <= position <= self._created and at % UNIT_BYTES == 0

    def end_at(self, position: int, synced: int | None = None) -> None:
        """Let the log end here; what its files have behind it goes with ``erase_rest``.

        What lies behind ``synced`` is in the files, but may not be on the disk.
        """
        self.end = self.written = position
        self._tail.clear()
        self._chunk = b""
        begin = position if synced is None else synced - synced % self._file_bytes
        self._unsynced = set(range(begin, position, self._file_bytes))

    def scan(self, position: int) -> Iterator[tuple[int, TimerUnit]]:
        """The units from a position on, with theirs; the first that is none ends it."""
        while position < self._created:
            at = position % self._file_bytes
            raw = self._read_file(position, UNIT_BYTES)
            if raw[: _BLANK.size] == self._blank(at):
                position += self._file_bytes - at
                continue
            unit = _parse(raw, position)
            if unit is None:
                return
            yield position, unit
            position += UNIT_BYTES

    def erase_rest(self) -> None:
        """Make zeros of what the files have behind the end, and remove those that have nothing."""
        at = self.end % self._file_bytes
        keep = self.end - at + self._file_bytes if at or self.end == self.first else self.end
        for start in reversed(self._starts()):
            if start >= keep:
                self._files.remove(self._path(start))
                self._files.sync_directory(self.directory)  # the last first: no gap after a crash
        self._created = min(self._created, keep)
        if self.end < self._created:
            path = self._path(self.end - at)
            for begin, stop in self._files.data_spans(path, at, self._file_bytes):
                for piece in range(begin, stop, _ERASED_BYTES):
                    size = min(_ERASED_BYTES, stop - piece)
                    if self._files.read_at(path, piece, size).strip(b"\0"):
                        self._files.write_at(path, piece, bytes(size))
            self._files.sync(path)
        self._chunk = b""

    # --- writing ----------------------------------------------------------------------------------

    def append(self, unit: TimerUnit) -> int:
        """Add a unit; its position."""
        return self.append_fields(
            unit.previous, unit.magic, unit.base_ms, unit.delay_ms, unit.log_offset, unit.size,
            unit.topic_hash,
        )  # fmt: skip

    def append_fields(
        self,
        previous: int,
        magic: int,
        base_ms: int,
        delay_ms: int,
        log_offset: int,
        size: int,
        topic_hash: int,
    ) -> int:
        """The same for a unit that is only its fields."""
        position = self.end
        rest = self._file_bytes - position % self._file_bytes
        if rest < UNIT_BYTES + _BLANK.size:
            self._tail += self._blank(self._file_bytes - rest).ljust(rest, b"\0")
            position += rest
        # A struct takes longer where this is compiled.
        unit = BytesWriter()
        write_i32_be(unit, UNIT_BYTES)
        write_i64_be(unit, previous)
        write_i32_be(unit, magic)
        write_i64_be(unit, base_ms)
        write_i32_be(unit, delay_ms)
        write_i64_be(unit, log_offset)
        write_i32_be(unit, size)
        write_i32_be(unit, topic_hash)
        write_i64_be(unit, 0)
        self._tail += unit.getvalue()
        self.end = position + UNIT_BYTES
        return position

    @property
    def unwritten_bytes(self) -> int:
        """What is in memory only."""
        return len(self._tail)

    def write_to(self, position: int) -> None:
        """Bring the units before a position to their files; DiskFullError keeps the rest."""
        while self.written < position:
            at = self.written % self._file_bytes
            start = self.written - at
            if start >= self._created:
                self._create(start)
            size = min(position - self.written, self._file_bytes - at)
            self._files.write_at(self._path(start), at, self._tail[:size])
            self._unsynced.add(start)
            del self._tail[:size]
            self.written += size

    def _create(self, start: int) -> None:
        """Make a file for good, before another follows: no gap after a crash."""
        path = self._path(start)
        self._files.create_sparse(path, self._file_bytes)
        self._files.sync(path)
        self._files.sync_directory(self.directory)
        self._created = start + self._file_bytes

    def sync(self) -> None:
        """Return when what was written is on the disk. May run in another thread."""
        for start in sorted(self._unsynced):
            self._files.sync(self._path(start))

    def note_synced(self) -> None:
        """That has ended well, and nothing was written meanwhile."""
        self._unsynced.clear()

    # --- reading ----------------------------------------------------------------------------------

    def unit(self, position: int) -> TimerUnit | None:
        """The unit at a position, None if there is none."""
        if not self.first <= position <= self.end - UNIT_BYTES:
            return None
        if position >= self.written:
            at = position - self.written
            return _parse(bytes(self._tail[at : at + UNIT_BYTES]), position)
        at = position - self._chunk_at
        if not 0 <= at <= len(self._chunk) - UNIT_BYTES:
            # Chains lead back, so what lies before it is read with it.
            stop = position + UNIT_BYTES
            begin = max(stop - _CHUNK_BYTES, position - position % self._file_bytes)
            self._chunk = self._read_file(begin, stop - begin)
            self._chunk_at = begin
            at = position - begin
        return _parse(self._chunk[at : at + UNIT_BYTES], position)

    def last_before(self, position: int) -> TimerUnit | None:
        """The unit that ends at a position, or at the end of the file before it."""
        if position % self._file_bytes == 0:
            position -= self._file_bytes - self._last_at - UNIT_BYTES
        return self.unit(position - UNIT_BYTES)

    # --- retention --------------------------------------------------------------------------------

    def remove_below(self, log_min_offset: int, flushed: int) -> int:
        """Remove files none of whose messages is left in the commit log; how many.

        As in Java its last unit speaks for a file. What is not below ``flushed`` stays: a
        checkpoint may speak of it.
        """
        removed = 0
        while self.first + self._file_bytes <= flushed:
            last = self.unit(self.first + self._last_at)
            if last is not None and last.log_offset >= log_min_offset:
                break
            self._files.remove(self._path(self.first))
            self._files.sync_directory(self.directory)
            self.first += self._file_bytes
            removed += 1
        return removed

    @property
    def _last_at(self) -> int:
        """Where the last unit of a file begins in it."""
        return (self._file_bytes - UNIT_BYTES - _BLANK.size) // UNIT_BYTES * UNIT_BYTES

    def _read_file(self, position: int, size: int) -> bytes:
        at = position % self._file_bytes
        return self._files.read_at(self._path(position - at), at, size)

    def _blank(self, at: int) -> bytes:
        return _BLANK.pack(self._file_bytes - at, 0, _BLANK_MAGIC)

    def _starts(self) -> list[int]:
        names = self._files.names(self.directory)
        return [int(name) for name in names if len(name) == NAME_DIGITS and name.isdecimal()]

    def _path(self, start: int) -> Path:
        return self.directory / segment_name(start)


def _parse(raw: bytes, position: int) -> TimerUnit | None:
    """A unit, None if these bytes cannot be the one at a position."""
    if len(raw) < UNIT_BYTES:
        return None
    size, previous, magic, base_ms, delay_ms, log_offset, record_bytes, topic_hash, _ = (
        _UNIT.unpack(raw)
    )
    if (
        size != UNIT_BYTES
        or not NO_UNIT <= previous < position
        or not 0 <= magic <= _MAGIC_MAX
        or log_offset < 0
        or record_bytes <= 0
        or base_ms <= 0
    ):
        return None
    return TimerUnit(previous, magic, base_ms, delay_ms, log_offset, record_bytes, topic_hash)
