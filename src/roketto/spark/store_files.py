"""The files of a store, only to be read: runs of mapped files, units of queues, records of the log.

Ours and Java's have the same. All files of a run are named by 20 digits, the place of their first
byte; how large they are is seen from the files themselves. A unit of a queue has 20 bytes::

    0   8   log offset of the record; 0 in a blank, which fills a queue up to its first message
    8   4   size of the record; 0 behind the last unit, 2147483647 in a blank
    12  8   tags code; the time of delivery in the topic of delayed messages; -2147483649 and below:
            where another file has it

A broker may be at work in these files: it appends, and removes whole files from the begin.
"""

import mmap
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from roketto.protocol.record_layout import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    peek_magic,
    peek_size,
    peek_store_time_ms,
)
from roketto.spark.record_table import FIXED, RECORD_BYTES_MIN
from roketto.spark.spans import Longs, Mask, gather

__all__ = ["UNIT", "FileRun", "LogFiles", "MappedFiles", "QueueFiles", "QueueTail", "RunFile",
           "StoreFilesError", "Units", "find_first", "walk_log"]  # fmt: skip

UNIT: Final = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
UNIT_BYTES: Final = UNIT.itemsize
BLANK_SIZE: Final = 2**31 - 1
Units = npt.NDArray[np.void]

_NAME_DIGITS: Final = 20
_MAPS_MAX: Final = 8
"""Files mapped at once by a task, which goes from one to the next."""
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_RECORDS_PER_LOOK: Final = 5_000
_BYTES_PER_LOOK: Final = 8 * 1024 * 1024
"""How many records are looked for in the log before the first of them are used."""


class StoreFilesError(Exception):
    """The directory is no store, or has files that cannot be read."""


class MappedFiles:
    """Maps files to read; the least recently used map is given up when there are many.

    What was got from a map lives as long as somebody holds it.
    """

    __slots__ = ("_views",)

    def __init__(self) -> None:
        self._views: OrderedDict[Path, memoryview] = OrderedDict()

    def view(self, path: Path) -> memoryview:
        """All bytes of a file; FileNotFoundError if it was removed."""
        view = self._views.get(path)
        if view is None:
            with path.open("rb") as file:
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            self._views[path] = view
            if len(self._views) > _MAPS_MAX:
                self._views.popitem(last=False)
        self._views.move_to_end(path)
        return view


@dataclass(frozen=True, slots=True)
class RunFile:
    """One file of a run: the place of its first byte, and how many it has."""

    begin: int
    size: int
    path: Path

    @property
    def end(self) -> int:
        """The place behind its last byte."""
        return self.begin + self.size


class FileRun:
    """The files of one directory in their order; others that lie there are left alone."""

    __slots__ = ("_begins", "files", "maps")

    def __init__(self, folder: Path, maps: MappedFiles) -> None:
        self.maps: MappedFiles = maps
        self.files: list[RunFile] = sorted(_run_files(folder), key=lambda file: file.begin)
        self._begins: list[int] = [file.begin for file in self.files]

    def locate(self, place: int) -> RunFile | None:
        """The file that has the byte at ``place``."""
        index = bisect_right(self._begins, place) - 1
        if index < 0 or place >= self.files[index].end:
            return None
        return self.files[index]

    def view(self, file: RunFile) -> memoryview | None:
        """The bytes of a file, or None if a broker has removed it since."""
        try:
            return self.maps.view(file.path)
        except FileNotFoundError:
            return None


class LogFiles(FileRun):
    """The log: records one behind the other, each in one file.

    log = LogFiles(Path("store/commitlog"), MappedFiles())
    log.store_time_ms(log.begin)
    """

    __slots__ = ()

    @property
    def begin(self) -> int:
        """The place of the oldest byte."""
        return self.files[0].begin if self.files else 0

    def store_time_ms(self, log_offset: int) -> int | None:
        """When the record there was stored; None if there is no record."""
        file = self.locate(log_offset)
        view = None if file is None else self.view(file)
        if file is None or view is None:
            return None
        at = log_offset - file.begin
        if len(view) - at < RECORD_BYTES_MIN or peek_magic(view, at) not in _MAGICS:
            return None
        return peek_store_time_ms(view, at)

    def find_end(self, file: RunFile) -> int:
        """Where the records of a file end: at its filler, or at what no broker has written yet."""
        view = self.view(file) or memoryview(b"")
        at, goes_on = 0, True
        while goes_on:
            _, at, goes_on = walk_log(view, at, len(view))
        return file.begin + at

    def ends_properly(self, file: RunFile, log_offset: int) -> bool:
        """Whether a file that has others behind it says at ``log_offset`` that it ends there."""
        view = self.view(file)
        at = log_offset - file.begin
        return view is None or len(view) - at < 8 or peek_magic(view, at) == MAGIC_BLANK


@dataclass(frozen=True, slots=True)
class QueueTail:
    """Units that a broker has not written to the files of a queue yet, from an offset on."""

    begin: int
    raw: bytes
    """The units as they would be in a file."""

    @property
    def end(self) -> int:
        """The offset behind the last one."""
        return self.begin + len(self.raw) // UNIT_BYTES

    def part(self, begin: int, end: int) -> "QueueTail | None":
        """Those of an offset range; None if there are none."""
        begin, end = max(begin, self.begin), min(end, self.end)
        if begin >= end:
            return None
        first = (begin - self.begin) * UNIT_BYTES
        return QueueTail(begin, self.raw[first : first + (end - begin) * UNIT_BYTES])


class QueueFiles(FileRun):
    """One queue: its units by their offsets, with those of ``tail`` behind those of the files.

    queue = QueueFiles(Path("store/consumequeue/Orders/0"), MappedFiles())
    begin, end = queue.bounds(log)
    queue.units(begin, end)["log_offset"]
    """

    __slots__ = ("queue_id", "tail")

    def __init__(self, folder: Path, maps: MappedFiles, tail: QueueTail | None = None) -> None:
        super().__init__(folder, maps)
        self.queue_id: int = int(folder.name)
        self.tail: QueueTail | None = tail

    def units(self, begin: int, end: int) -> Units:
        """The units from ``begin`` on that one file or the tail has, ``end`` at most; none if it
        is gone."""
        tail = self.tail
        if tail is not None and tail.begin <= begin < tail.end:
            count = min(end, tail.end) - begin
            return np.frombuffer(tail.raw, UNIT, count, (begin - tail.begin) * UNIT_BYTES)
        if tail is not None and begin < tail.begin:
            end = min(end, tail.begin)  # behind that a file may be filled with zeros, still
        file = self.locate(begin * UNIT_BYTES)
        view = None if file is None else self.view(file)
        if file is None or view is None:
            return np.empty(0, UNIT)
        first = begin - file.begin // UNIT_BYTES
        count = min(end - begin, len(view) // UNIT_BYTES - first)
        return np.frombuffer(view, UNIT, max(0, count), first * UNIT_BYTES)

    def log_offset(self, queue_offset: int) -> int:
        """Where the record of a unit lies; -1 if it is not there."""
        units = self.units(queue_offset, queue_offset + 1)
        return int(units["log_offset"][0]) if len(units) else -1

    def bounds(self, log: LogFiles) -> tuple[int, int]:
        """The offsets that can be read: from the first one whose record the log still has, up to
        the last whose record it has already (a copy may have got the queue after the log)."""
        written = self._find_written()
        oldest = self.files[0].begin // UNIT_BYTES if self.files else (
            self.tail.begin if self.tail is not None else 0
        )  # fmt: skip
        begin = find_first(oldest, written, lambda at: self._is_kept(at, log))
        end = written
        if begin < end and not self._is_stored(end - 1, log):
            end = find_first(begin, end, lambda at: not self._is_stored(at, log))
        return begin, end

    def are_stored(self, view: memoryview, file: RunFile, units: Units, begins: Longs) -> Mask:
        """Which of the units have a record in a file of the log that says the same as they do:
        size, place, queue and offset (``begins``). No other record may be read by a unit."""
        places = units["log_offset"].astype(np.int64) - file.begin
        sizes = units["size"].astype(np.int64)
        is_good: Mask = (places >= 0) & (sizes >= RECORD_BYTES_MIN) & (places + sizes <= len(view))
        inside = np.where(is_good, places, 0)
        if len(view) < FIXED.itemsize:
            return np.zeros(len(units), np.bool_)
        heads = gather(np.frombuffer(view, np.uint8), f"V{FIXED.itemsize}", inside).view(FIXED)
        is_good &= (heads["magic"] == MAGIC_V1) | (heads["magic"] == MAGIC_V2)
        is_good &= heads["size"] == sizes
        is_good &= heads["log_offset"] == units["log_offset"]
        is_good &= heads["queue_id"] == self.queue_id
        is_good &= heads["queue_offset"] == begins
        return is_good

    def _find_written(self) -> int:
        """The offset behind the last unit that can be had."""
        written = self._find_written_to_files()
        tail = self.tail
        if tail is not None and (not self.files or tail.begin <= written):
            return max(written, tail.end)
        return written

    def _find_written_to_files(self) -> int:
        """The same without the tail; what a broker makes in advance is filled with zeros."""
        for file in reversed(self.files):
            first = file.begin // UNIT_BYTES
            end = find_first(first, file.end // UNIT_BYTES, lambda at: not self._is_unit(at))
            if end > first:
                return end
        return self.files[0].begin // UNIT_BYTES if self.files else 0

    def _is_unit(self, queue_offset: int) -> bool:
        units = self.units(queue_offset, queue_offset + 1)
        return len(units) > 0 and bool(units["size"][0] > 0) and bool(units["log_offset"][0] >= 0)

    def _is_kept(self, queue_offset: int, log: LogFiles) -> bool:
        units = self.units(queue_offset, queue_offset + 1)
        if not len(units) or int(units["size"][0]) == BLANK_SIZE:
            return False
        return int(units["log_offset"][0]) >= log.begin

    def _is_stored(self, queue_offset: int, log: LogFiles) -> bool:
        file = log.locate(self.log_offset(queue_offset))
        view = None if file is None else log.view(file)
        if file is None or view is None:
            return False
        units = self.units(queue_offset, queue_offset + 1)
        return bool(self.are_stored(view, file, units, np.array([queue_offset])).all())


def walk_log(view: memoryview, at: int, end: int) -> tuple[Longs, int, bool]:
    """Where some records of a file begin from ``at`` on, where the next one would, and if it does.

    Only sizes and magics are looked at. What is not written yet has neither.
    """
    starts: list[int] = []
    stop = at + _BYTES_PER_LOOK
    while end - at >= RECORD_BYTES_MIN and at < stop and len(starts) < _RECORDS_PER_LOOK:
        size = peek_size(view, at)
        if peek_magic(view, at) not in _MAGICS or not RECORD_BYTES_MIN <= size <= end - at:
            return np.array(starts, np.int64), at, False
        starts.append(at)
        at += size
    return np.array(starts, np.int64), at, end - at >= RECORD_BYTES_MIN


def find_first(begin: int, end: int, holds: Callable[[int], bool]) -> int:
    """The first number from ``begin`` on for which ``holds``; from there on it always does.

    >>> find_first(0, 10, lambda number: number * number >= 30)
    6
    """
    while begin < end:
        middle = (begin + end) // 2
        if holds(middle):
            end = middle
        else:
            begin = middle + 1
    return begin


def _run_files(folder: Path) -> list[RunFile]:
    found: list[RunFile] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        if len(path.name) == _NAME_DIGITS and path.name.isascii() and path.name.isdecimal():
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue
            if size:
                found.append(RunFile(int(path.name), size, path))
    return found
