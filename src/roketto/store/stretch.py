"""The stretch of the log that is read at the moment, copied once for all who read there.

Messages of several queues lie in turn in the log, and consumers that keep up read them at about the
same time. A record that is cut out of a copy costs less than half of a view of the mapped file, and
nothing that was written to an open log ever changes.
"""

from typing import Final

from mypy_extensions import i64

from roketto.store.segments import Segments

__all__ = ["STRETCH_BYTES", "Stretch"]

STRETCH_BYTES: Final = 262_144
"""What is copied at once, in some ten microseconds: it lasts for dozens of reads."""

_READ_BYTES_MAX: Final = STRETCH_BYTES // 2
"""A read over more than that would soon need the next copy: 32 records of 16 queues are less."""

_NEAR_BYTES: Final = STRETCH_BYTES // 4
"""A read that begins so close to the one before probably shares its stretch with others."""


class Stretch:
    """A copy of a part of the log, and views of the rest.

    stretch = Stretch(segments)
    stretch.follow(first, end)          # before many records between these two are read
    stretch.cut(begin, end)
    """

    __slots__ = ("_copied", "_end", "_segments", "_start", "_was_read")

    def __init__(self, segments: Segments) -> None:
        self._segments: Segments = segments
        self._copied: bytes = b""
        self._start: i64 = 0
        self._end: i64 = 0
        self._was_read: i64 = -STRETCH_BYTES
        """Where the last read began that could not use the copy."""

    def follow(self, first: i64, end: i64) -> bool:
        """Copy what lies from ``first`` on, if that pays off for a read up to ``end``.

        False if it does not: then it is better to have a view of all of it.
        """
        if first >= self._start and end <= self._end:
            return True
        away = first - self._was_read
        self._was_read = first
        if end - first > _READ_BYTES_MAX or not -_NEAR_BYTES < away < _NEAR_BYTES:
            return False
        segment_end = self._segments.find(first).end
        stop = min(first + STRETCH_BYTES, segment_end, self._segments.written)
        self._copied = bytes(self._segments.read(first, stop - first))
        self._start = first
        self._end = first + len(self._copied)
        return True

    def cut(self, begin: i64, end: i64) -> bytes | memoryview:
        """What lies between two offsets; OutsideLogError if that is not in the log."""
        if begin >= self._start and end <= self._end:
            return self._copied[begin - self._start : end - self._start]
        return self._segments.read(begin, end - begin)
