"""One queue's units: where in the log each of its messages lies, in Java's files.

Units are derived from the log. A queue therefore keeps the newest ones in memory and writes them
when it is flushed: an idle queue needs no map, no descriptor and no buffer, and what a crash takes
from memory is read from the log again.
"""

import os
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from mypy_extensions import i64

from roketto.store.errors import CorruptStoreError, DiskFullError, FileSizeError
from roketto.store.files import Files
from roketto.store.ledger import Ledger
from roketto.store.recent_units import Kept
from roketto.store.unit import UNIT, UNIT_BYTES, Unit
from roketto.store.unit_blocks import NOWHERE, UnitBlocks, is_full

FILE_BYTES: Final = 300_000 * UNIT_BYTES
"""Java's mappedFileSizeConsumeQueue."""
UNWRITTEN_MAX: Final = 820
"""Units kept in memory by one queue before it writes them without being asked to."""

_BLANK: Final = UNIT.pack(0, 0x7FFF_FFFF, 0)
"""Fills the first file before the first unit of a queue that does not start at 0."""
_CHUNK_BYTES: Final = 3_200 * UNIT_BYTES
"""What is read at once where many units are looked at."""
_FIRST_CHUNK_BYTES: Final = 200 * UNIT_BYTES
"""What is read first of a queue that is opened: most of many queues have few units, and of a hole
in a file the system makes pages, too."""
_FILES_SCANNED: Final = 3
"""The newest files, whose units are looked at one by one when a queue is opened; as Java does."""
_NAME_DIGITS: Final = 20
_FIRST_NAME: Final = "0" * _NAME_DIGITS
_ANYWHERE: Final = 1 << 63


class Boundary(Enum):
    """Which of the messages around a time is meant."""

    LOWER = "lower"
    """The first that is not older."""
    UPPER = "upper"
    """The last that is not newer."""


class QueueMismatchError(CorruptStoreError):
    """The log has a message whose place in its queue is not the next one there.

    Either the queue's files or the numbering in the log are wrong; nothing was written.
    """

    def __init__(self, directory: Path, queue_offset: int, queue_offset_max: int) -> None:
        super().__init__(
            directory,
            queue_offset * UNIT_BYTES,
            f"the log has a message for offset {queue_offset} of this queue, which continues at "
            f"{queue_offset_max}; rebuild the queue from the log",
        )
        self.queue_offset = queue_offset
        self.queue_offset_max = queue_offset_max


class ConsumeQueue:
    """The units of one queue. The table of all queues makes, flushes and syncs it.

    ``queue_offset_min`` is the first unit whose message may still be read, ``queue_offset_max``
    the next one to be written; ``log_offset_max`` is where the newest message ends in the log, -1
    without one. After ``recover``, ``rebuild_from`` says from where on the log must be dispatched
    again because files were damaged; None means that nothing but an unwritten tail can be missing.

    There may be many: strings are shared, and nothing is kept that can be told from the rest.
    """

    __slots__ = (
        "_blocks", "_created", "_end", "_file_bytes", "_files", "_first", "_has_rest",
        "_has_strays", "_ledger", "_name", "_parent", "_written", "kept", "log_offset_max",
        "queue_offset_max", "queue_offset_min", "rebuild_from",
    )  # fmt: skip

    # First what an append needs: with thousands of queues, each has to come from memory.
    _blocks: UnitBlocks
    _end: i64
    queue_offset_max: int
    log_offset_max: int

    def __init__(
        self,
        files: Files,
        directory: Path | str,
        file_bytes: int = FILE_BYTES,
        ledger: Ledger | None = None,
    ) -> None:
        """``ledger`` is where the queue enters itself when it has units to flush or to sync."""
        assert file_bytes > 0, file_bytes
        assert file_bytes % UNIT_BYTES == 0, file_bytes
        self._files = files
        parent, self._name = os.path.split(directory)
        self._parent = sys.intern(parent)
        self._file_bytes = file_bytes
        self._ledger: Ledger = Ledger() if ledger is None else ledger
        # The units in memory, and where the newest of them ends there.
        self._blocks = self._ledger.blocks
        self._end = NOWHERE
        # After a crash: bytes behind the end that must be erased, files beside those of the queue.
        self._has_rest = False
        self._has_strays = False
        self.kept: Kept | None = None
        """What was written last, where it is better not to open the file for it."""
        self._forget(0)

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return Path(self._parent, self._name)

    def _forget(self, position: int) -> None:
        """No units and no files; the next unit is the one at ``position``."""
        self.forget_newest()
        # Bytes of the queue: its files cover [first, created), of which [.., written) is in use;
        # the units in memory follow at written.
        start = position - position % self._file_bytes
        self._first = start
        self._created = start
        self._written = position
        self.queue_offset_min = position // UNIT_BYTES
        self.queue_offset_max = position // UNIT_BYTES
        self.log_offset_max = -1
        self.rebuild_from: int | None = None

    # --- writing ------------------------------------------------------------------------------

    def append(self, log_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Add the unit of one message; False if the queue has it already.

        An empty queue may start anywhere. After that, QueueMismatchError unless ``queue_offset``
        is the next one.
        """
        log_end = log_offset + size
        if log_end <= self.log_offset_max:
            return False
        if queue_offset != self.queue_offset_max:
            self._start_at(queue_offset)
        if is_full(self._end):
            self._prepare()
        self._end = self._blocks.add(self._end, log_offset, size, tags_code)
        self.queue_offset_max = queue_offset + 1
        self.log_offset_max = log_end
        return True

    def append_run(
        self, log_offset: int, sizes: list[int], tags_codes: list[int], queue_offset: int
    ) -> None:
        """Add the units of messages that follow each other in the log, and behind all others."""
        if queue_offset != self.queue_offset_max:
            self._start_at(queue_offset)
        self._prepare()
        self._end = self._blocks.add_run(self._end, log_offset, sizes, tags_codes)
        self.log_offset_max = self._blocks.log_end(self._end)
        self.queue_offset_max = queue_offset + len(sizes)

    def _prepare(self) -> None:
        """Before more units come: write those there are if they are many, and ask for a flush."""
        if self.unwritten >= UNWRITTEN_MAX:
            self._flush_if_possible()
        if self._end == NOWHERE:
            self._ledger.dirty[self] = None

    def _start_at(self, queue_offset: int) -> None:
        if self.log_offset_max >= 0 or queue_offset < 0:
            raise QueueMismatchError(self.directory, queue_offset, self.queue_offset_max)
        if self._starts():
            self.clear()
        self._forget(queue_offset * UNIT_BYTES)

    def flush(self) -> None:
        """Write the units that are in memory to their files; after an error they still are."""
        if self._end == NOWHERE:
            return
        units = self._newest(self._written, self.queue_offset_max * UNIT_BYTES)
        begin = min(self._written, self._created)
        unsynced = self._ledger.unsynced
        unsynced[self] = min(begin, unsynced.get(self, begin))  # a cut may have led back before it
        written = self._written
        done = 0
        was_closed = False
        while done < len(units):
            position = written + done
            inside = position % self._file_bytes
            path = self._path(position - inside)
            if position >= self._created:
                self._create_file(path, inside)
                start = position - inside
                self._created = start + self._file_bytes if start else self._file_bytes
                was_closed = True
            room = self._file_bytes - inside
            piece = units[done : done + room]
            was_closed |= self._files.write_at(path, inside, piece)
            done += len(piece)
        self._end = self._blocks.drop(self._end, self.unwritten)
        self._written = written + done
        if was_closed:
            self._ledger.recent.keep(self, written, units)

    def _flush_if_possible(self) -> None:
        """Write them; if the disk does not take them, whoever flushes all queues says so."""
        with suppress(OSError, DiskFullError):
            self.flush()

    def _create_file(self, path: str, blank_bytes: int) -> None:
        """Make the next file, beginning with filler where a queue begins in the middle of it."""
        if self._created == self._first:
            self._files.add_directory(f"{self._parent}/{self._name}")
        try:
            self._files.create_sparse(path, self._file_bytes)
        except FileExistsError:  # what damage or a crash while it was made may have left there
            self._files.remove(path)
            self._files.create_sparse(path, self._file_bytes)
        if blank_bytes:
            self._files.write_at(path, 0, _BLANK * (blank_bytes // UNIT_BYTES))

    @property
    def unwritten(self) -> int:
        """How many units are in memory only."""
        if self._end == NOWHERE:
            return 0  # also while it is opened, when its ends are not known yet
        return self.queue_offset_max - self._written // UNIT_BYTES

    def changed_files(self, position: int) -> tuple[list[str], bool]:
        """The files that have bytes of the queue from ``position`` on; whether one was made since.

        With these synced, and the directories if one was made, all that was flushed is safe.
        """
        file_bytes = self._file_bytes
        first = position - position % file_bytes
        starts = range(max(first, self._first), self._written, file_bytes)
        return [self._path(start) for start in starts], bool(starts) and starts[-1] >= position

    def directories(self) -> tuple[str, str]:
        """Where its files are, and where that is."""
        return f"{self._parent}/{self._name}", self._parent

    def distrust(self) -> None:
        """Let what was found when the queue was opened count as not synced."""
        if self._written > self._first:
            first = max(self._first, self._created - _FILES_SCANNED * self._file_bytes)
            self._ledger.unsynced[self] = first

    def forget_newest(self) -> None:
        """Keep nothing of the queue in memory: it ends elsewhere from now on, or is gone."""
        self._ledger.forget(self)
        self._end = self._blocks.drop(self._end, self.unwritten)

    def clear(self) -> None:
        """Remove all units and files; the queue may start anywhere again."""
        self._files.remove_tree(self.directory)
        self._forget(0)

    # --- reading ------------------------------------------------------------------------------

    def read(self, queue_offset: int, count: int) -> bytes:
        """Up to ``count`` units from ``queue_offset`` on, fewer at the end, none outside."""
        stop = min(queue_offset + count, self.queue_offset_max)
        if not self.queue_offset_min <= queue_offset < stop:
            return b""
        position = queue_offset * UNIT_BYTES
        size = stop * UNIT_BYTES - position
        if position >= self._written:
            return self._newest(position, position + size)
        if self.kept is not None and (raw := self._read_kept(position, size)):
            return raw
        return self._ledger.recall(self, position, size) or self._read_ahead(position, size)

    def _read_kept(self, position: int, size: int) -> bytes:
        """The same from memory; none unless all of it is there."""
        kept = self.kept
        assert kept is not None
        written = self._written
        if position + size <= written:
            return kept.read(position, size)
        raw = kept.read(position, written - position)
        return raw + self._newest(written, position + size) if raw else b""

    def _newest(self, position: int, stop: int) -> bytes:
        """Units that are in memory only; none outside."""
        count = self.unwritten
        first = (position - self._written) // UNIT_BYTES
        last = min((stop - self._written) // UNIT_BYTES, count)
        return self._blocks.read(self._end, count, first, last) if first < last else b""

    def _read_ahead(self, position: int, size: int) -> bytes:
        """Read, and keep what follows in the same file: most readers go on where they were."""
        inside = position % self._file_bytes
        room = min(self._written, position - inside + self._file_bytes) - position
        ahead = min(16 * size, self._ledger.share() // size * size, room)
        if size < ahead:
            raw = self._files.read_at(self._path(position - inside), inside, ahead)
            if len(raw) > size:
                self._ledger.keep(self, position, raw)
                return raw[:size]
        return self._read(position, position + size)

    def unit(self, queue_offset: int) -> Unit | None:
        """The unit at an offset, None outside the queue."""
        raw = self.read(queue_offset, 1)
        return Unit._make(UNIT.unpack(raw)) if raw else None

    def _read(self, position: int, stop: int) -> bytes:
        written = self._written
        pieces = []
        while position < min(stop, written):
            inside = position % self._file_bytes
            size = min(stop, written, position - inside + self._file_bytes) - position
            piece = self._files.read_at(self._path(position - inside), inside, size)
            if len(piece) != size:
                reason = f"it ends there, but the queue has {size - len(piece)} bytes more in it"
                path = self._path(position - inside)
                raise CorruptStoreError(Path(path), inside + len(piece), reason)
            pieces.append(piece)
            position += size
        if position < stop:
            pieces.append(self._newest(position, stop))
        return b"".join(pieces)

    def _unit_at(self, queue_offset: int) -> Unit:
        position = queue_offset * UNIT_BYTES
        return Unit._make(UNIT.unpack(self._read(position, position + UNIT_BYTES)))

    def _log_offset_at(self, queue_offset: int) -> int:
        return self._unit_at(queue_offset).log_offset

    def _find(self, log_offset: int) -> int:
        """The first readable unit whose message lies at or behind ``log_offset``."""
        offsets = range(self.queue_offset_min, self.queue_offset_max)
        return offsets.start + bisect_left(offsets, log_offset, key=self._log_offset_at)

    def offset_by_time(
        self, timestamp_ms: int, boundary: Boundary, store_time_of: Callable[[int], int]
    ) -> int:
        """The first unit not older (LOWER) or the last not newer (UPPER) than a time.

        ``store_time_of`` says when the record at a log offset was stored; a negative time stands
        for one that is gone. All older: LOWER is the end of the queue. All newer: UPPER is its
        start.
        """
        offsets = range(self.queue_offset_min, self.queue_offset_max)

        def time_of(queue_offset: int) -> int:
            return store_time_of(self._log_offset_at(queue_offset))

        if boundary is Boundary.LOWER:
            return offsets.start + bisect_left(offsets, timestamp_ms, key=time_of)
        not_newer = bisect_right(offsets, timestamp_ms, key=time_of)
        return offsets.start + max(not_newer - 1, 0)

    # --- retention ----------------------------------------------------------------------------

    def correct_min(self, log_min_offset: int) -> None:
        """Move the start to the first message that is still in the log, which begins there."""
        if self.log_offset_max <= log_min_offset:
            self.queue_offset_min = self.queue_offset_max
        elif self._log_offset_at_start() < log_min_offset:
            self.queue_offset_min = self._find(log_min_offset)

    def delete_files_below(self, log_min_offset: int) -> int:
        """Delete files, but never the last, with no message left in the log; how many."""
        deleted = 0
        while self._first + self._file_bytes < self._created:
            following = self._first + self._file_bytes
            if self._log_offset_at(following // UNIT_BYTES - 1) >= log_min_offset:
                break
            self._files.remove(self._path(self._first))
            self._files.sync_directory(self.directory)  # one after the other: no gap after a crash
            self._first = following
            deleted += 1
        self.queue_offset_min = max(self.queue_offset_min, self._first // UNIT_BYTES)
        self.correct_min(log_min_offset)
        return deleted

    # --- opening ------------------------------------------------------------------------------

    def recover(self, log_min_offset: int, log_synced: int | None = None) -> None:
        """Find the units in the files, writing nothing; the log begins at ``log_min_offset``.

        The end is the first unit that was never written. Where a unit contradicts the one before
        it (records do not overlap, and a queue has them in the order of the log) or others follow
        on the end, none of the files that were looked at is trusted.

        ``log_synced`` is where the log was when all units so far were last synced. Units of later
        messages are the end then, whatever else a crash has left there: ``truncate`` takes it away.
        """
        self._forget(0)
        starts = self._starts()
        self._has_rest = log_synced is not None
        if starts == [0] and self._recover_short(log_synced):
            self.correct_min(log_min_offset)
            return
        run, has_older, is_damaged = self._newest_run(starts)
        self._has_strays = len(starts) * self._file_bytes != len(run)
        if run:
            self._first, self._created = run.start, run.stop
            self._written = run.stop  # the whole of the files may be read from here on
            if log_synced is not None:
                is_damaged = False
                self._recover_synced(log_synced)
            else:
                is_damaged |= self._recover_run(log_min_offset)
            # Filler says that a queue began in the middle; else the files before it are gone.
            has_older |= 0 < self._first == self.queue_offset_min * UNIT_BYTES
            if has_older and self._log_offset_at_start() > log_min_offset:
                self._forget(0)  # the units between are missing and cannot be put in later
                is_damaged = True
            self.correct_min(log_min_offset)
        self._has_strays |= is_damaged or self._created < run.stop
        if is_damaged:
            self.rebuild_from = max(self.log_offset_max, 0)

    def _recover_short(self, log_synced: int | None) -> bool:
        """Look into the one file of a queue; False if it is not that of a few sound units."""
        path = self._path(0)
        if self._files.length(path) != self._file_bytes:
            return False
        chunk = self._files.read_at(path, 0, min(_FIRST_CHUNK_BYTES, self._file_bytes))
        log_bound = _ANYWHERE if log_synced is None else log_synced
        end = log_end = 0
        for log_offset, size, _ in UNIT.iter_unpack(chunk):
            if size <= 0 or not log_end <= log_offset < log_bound:
                break
            end += UNIT_BYTES
            log_end = log_offset + size
        if not 0 < end < len(chunk) or chunk.startswith(_BLANK):
            return False
        if not self._has_rest and chunk[end:].strip(b"\0"):
            return False
        self._created = self._file_bytes
        self._written = end
        self.queue_offset_max = end // UNIT_BYTES
        self.log_offset_max = log_end
        return True

    def _newest_run(self, starts: list[int]) -> tuple[range, bool, bool]:
        """The newest whole files without a gap; are there older ones; was something damaged?"""
        file_bytes = self._file_bytes
        whole: list[int] = []
        partial: list[int] = []
        for start in starts:
            size = self._files.size(self._path(start)) or 0
            if size > file_bytes:
                raise FileSizeError(
                    f"{self._path(start)} has {size} bytes, the configuration says {file_bytes}; "
                    "set mappedFileSizeConsumeQueue to what it was"
                )
            if size == file_bytes and start % file_bytes == 0:
                whole.append(start)
            elif size:  # an empty one is what a crash leaves that came while it was made
                partial.append(start)
        if not whole:
            return range(0), False, bool(partial)
        first = whole[-1]
        for start in reversed(whole[:-1]):
            if start != first - file_bytes:
                break
            first = start
        has_older = whole[0] < first or any(start < first for start in partial)
        has_newer = any(start > whole[-1] for start in partial)
        return range(first, whole[-1] + file_bytes), has_older, has_newer

    def _recover_run(self, log_min_offset: int) -> bool:
        """Set the ends of the queue from its files; True if they were damaged."""
        last = self._created - self._file_bytes
        begin = self._skip_blanks()
        scanned_from = max(begin, self._created - _FILES_SCANNED * self._file_bytes)
        end, is_sound = self._scan_end(scanned_from)
        self._end_at(end if is_sound else scanned_from)
        self.queue_offset_min = begin // UNIT_BYTES
        if not is_sound and self.log_offset_max <= log_min_offset:
            self._forget(0)  # the units to rebuild need not follow on those that are left
        return not is_sound or end < last

    def _recover_synced(self, log_synced: int) -> None:
        """Set the ends of the queue to its units before a place in the log."""
        begin = self._skip_blanks()
        scanned_from = self._created
        while scanned_from > begin:
            scanned_from = max(begin, scanned_from - self._file_bytes)
            log_offset, size, _ = self._unit_at(scanned_from // UNIT_BYTES)
            if size > 0 and 0 <= log_offset < log_synced:
                break
        end, _ = self._scan_end(scanned_from, log_synced)
        self._end_at(end)
        self.queue_offset_min = begin // UNIT_BYTES

    def _skip_blanks(self) -> int:
        """Where the first file's filler ends."""
        first = self._first // UNIT_BYTES
        if not self._is_blank(first):
            return self._first
        offsets = range(first, first + self._file_bytes // UNIT_BYTES)
        blanks = bisect_left(offsets, True, key=lambda offset: not self._is_blank(offset))
        return self._first + blanks * UNIT_BYTES

    def _is_blank(self, queue_offset: int) -> bool:
        position = queue_offset * UNIT_BYTES
        return self._read(position, position + UNIT_BYTES) == _BLANK

    def _scan_end(self, position: int, log_bound: int = _ANYWHERE) -> tuple[int, bool]:
        """Where the units end, and whether they agree with each other and nothing follows.

        A unit at or behind ``log_bound`` is none.
        """
        log_end = 0
        while position < self._created:
            chunk = self._read(position, min(position + _CHUNK_BYTES, self._created))
            chunk_end = position + len(chunk)
            for log_offset, size, _ in UNIT.iter_unpack(chunk):
                if size <= 0 or not log_end <= log_offset < log_bound:
                    rest_bytes = chunk_end - position
                    return position, chunk[-rest_bytes:] == bytes(rest_bytes)
                log_end = log_offset + size
                position += UNIT_BYTES
        return position, True

    def _end_at(self, position: int) -> None:
        """Let the queue end at a position inside its files."""
        self.forget_newest()
        self._written = position
        self._created = position + -position % self._file_bytes
        self.queue_offset_max = position // UNIT_BYTES
        self.log_offset_max = self._log_end_before(position)

    def _log_end_before(self, position: int) -> int:
        """Where the message of the unit before a position ends in the log, -1 without one."""
        first = self._first if self._created > self._first else self._written
        last = self._read(max(position - UNIT_BYTES, first), position)
        if not last or last == _BLANK:
            return -1
        log_offset, size, _ = Unit._make(UNIT.unpack(last))
        return log_offset + size

    def _log_offset_at_start(self) -> int:
        """Where the first message lies in the log; 0 without one, as nothing can miss before."""
        has_units = self.queue_offset_min < self.queue_offset_max
        return self._log_offset_at(self.queue_offset_min) if has_units else 0

    def truncate(self, log_offset: int) -> None:
        """Drop the units of messages at or behind ``log_offset``, and files that are not ours.

        Recovery's last step, after it has dispatched the log again; nobody else may call it.
        """
        self.rebuild_from = None
        if log_offset < self.log_offset_max:
            cut = self._find(log_offset) * UNIT_BYTES
            if cut >= self._written:
                dropped = self.queue_offset_max - cut // UNIT_BYTES
                self._end = self._blocks.drop(self._end, dropped)
                self.queue_offset_max = cut // UNIT_BYTES
                self.log_offset_max = self._log_end_before(cut)
            else:
                self._end_at(cut)
                self._has_rest = self._has_strays = True
        if self._has_rest:
            self._erase_after(self._written)
            self._has_rest = False
        if self._has_strays:
            for start in self._starts():
                if start % self._file_bytes or not self._first <= start < self._created:
                    self._files.remove(self._path(start))
            self._has_strays = False

    def _erase_after(self, position: int) -> None:
        """Put zeros where units were, lest they be taken for newer ones one day."""
        inside = position % self._file_bytes
        if not inside:
            return  # the file is removed as a whole
        path = self._path(position - inside)
        for start, end in self._files.data_spans(path, inside, self._file_bytes):
            for at in range(start, end, _CHUNK_BYTES):
                size = min(_CHUNK_BYTES, end - at)
                if self._files.read_at(path, at, size).strip(b"\0"):
                    self._files.write_at(path, at, bytes(size))
        unsynced = self._ledger.unsynced
        unsynced[self] = min(position, unsynced.get(self, position))

    def _starts(self) -> list[int]:
        """What the names of the files say, in order; other names are not ours."""
        names = self._files.names(f"{self._parent}/{self._name}")
        return [int(name) for name in names if len(name) == _NAME_DIGITS and name.isdecimal()]

    def _path(self, start: int) -> str:
        name = f"{start:020d}" if start else _FIRST_NAME
        return f"{self._parent}/{self._name}/{name}"
