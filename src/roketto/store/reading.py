"""Read messages of a queue: a range of units becomes views of the log, sent as they are.

Tags are compared by their hashes before a record is touched, neighbours in the log become one
view, and nothing is decoded unless a predicate asks for it. How much one read may take depends on
whether it probably comes from memory or from the disk: a consumer far behind must not make the
others wait for the disk.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.unit import UNIT_BYTES, scan

Predicate = Callable[[memoryview], bool]
"""Whether the record in a view is wanted; for filters that look at properties."""

_UNITS_SCANNED_LEAST: Final = 800
"""Units looked at where not each of them counts: as many as Java's maxFilterMessageSize holds."""

_UNITS_AT_ONCE: Final = 1_024
"""What is read of a queue at once where a whole range of it is wanted: no more than a few are read
in vain when the bytes are used up."""


_FEW_BYTES: Final = 64 * UNIT_BYTES
"""Units that are looked at one by one: twice as many as most consumers ask for."""

_MANY_BYTES: Final = 8 * UNIT_BYTES
"""Units of as many messages as are worth a copy of the stretch of the log that they lie in."""


_JOINED_BYTES_MAX: Final = 2_048
"""Views of this size on the average are joined."""


class GetStatus(Enum):
    """What a read has come to; names are those that answers carry as their remark."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"
    """Said by the broker, of a queue in which an operator has moved the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLimits:
    """How much one read may return; the first message always comes, whatever its size."""

    memory_bytes: int = 262_144
    """maxTransferBytesOnMessageInMemory"""
    memory_count: int = 256
    """maxTransferCountOnMessageInMemory"""
    disk_bytes: int = 65_536
    """maxTransferBytesOnMessageInDisk"""
    disk_count: int = 8
    """maxTransferCountOnMessageInDisk"""


class GetResult:
    """The answer to one read. ``views`` hold ``count`` records, back to back."""

    __slots__ = (
        "count", "is_behind_memory", "max_offset", "min_offset", "next_offset", "size", "status",
        "views",
    )  # fmt: skip

    def __init__(
        self,
        status: GetStatus,
        next_offset: int,
        min_offset: int,
        max_offset: int,
        views: list[bytes | memoryview],
        count: int = 0,
        size: int = 0,
        is_behind_memory: bool = False,
    ) -> None:
        self.status: GetStatus = status
        self.next_offset: int = next_offset
        self.min_offset: int = min_offset
        self.max_offset: int = max_offset
        self.views: list[bytes | memoryview] = views
        self.count: int = count
        self.size: int = size
        self.is_behind_memory: bool = is_behind_memory
        """Whether it had to be read from the disk, probably; consumers may be sent to a slave."""

    def join_small(self) -> None:
        """Make one of many small views: that is less work than to send each of them."""
        count = len(self.views)
        if count > 1 and self.size <= count * _JOINED_BYTES_MAX:
            self.views = [b"".join(self.views)]


_FOUND: Final = GetStatus.FOUND


def get_messages(
    queue: ConsumeQueue | None,
    log: CommitLog,
    queue_offset: int,
    count_max: int,
    *,
    codes: frozenset[int] | None = None,
    predicate: Predicate | None = None,
    limits: TransferLimits | None = None,
) -> GetResult:
    """Read up to ``count_max`` messages from ``queue_offset`` on that the filter lets through."""
    if queue is None:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
    least = queue.queue_offset_min
    most = queue.queue_offset_max
    if not least <= queue_offset < most:
        status, next_offset = _outside(queue_offset, least, most)
        return GetResult(status, next_offset, least, most, [])
    if limits is None:
        limits = TransferLimits()
    raw = queue.read(queue_offset, count_max)
    if predicate is None:
        found = _read_near(raw, log, queue_offset, count_max, least, most, codes, limits)
        if found is not None:
            return found
    window = count_max
    if codes is not None or predicate is not None or int.from_bytes(raw[:8]) < log.min_offset:
        window = max(_UNITS_SCANNED_LEAST, count_max)
    reader = _Reader(log, count_max, limits, predicate)
    at = 0
    while raw:
        stopped_at = reader.take(scan(raw, codes))
        if stopped_at is not None:
            at += stopped_at
            break
        at += len(raw) // 20
        if reader.count >= min(count_max, limits.memory_count):
            break
        # Most filters let most messages through: look at many only if the first ones were few.
        raw = queue.read(queue_offset + at, min(4 * at, window - at))
    return reader.result(queue_offset + at, least, most)


def get_range(
    queue: ConsumeQueue | None,
    log: CommitLog,
    queue_offset: int,
    end_offset: int,
    bytes_max: int,
    codes: frozenset[int] | None = None,
) -> GetResult:
    """Read the messages with these tags from ``queue_offset`` on, all before ``end_offset``.

    For those who read in bulk: it does not matter how many they are, nor whether they come from
    the disk.
    """
    assert end_offset > queue_offset, (queue_offset, end_offset)
    if queue is None:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
    least, most = queue.queue_offset_min, queue.queue_offset_max
    if not least <= queue_offset < most:
        status, next_offset = _outside(queue_offset, least, most)
        return GetResult(status, next_offset, least, most, [])
    stop = min(end_offset, most)
    count_max = stop - queue_offset
    limits = TransferLimits(
        memory_bytes=bytes_max, memory_count=count_max, disk_bytes=bytes_max, disk_count=count_max
    )
    reader = _Reader(log, count_max, limits, None)
    at = queue_offset
    while at < stop:
        raw = queue.read(at, min(_UNITS_AT_ONCE, stop - at))
        stopped_at = reader.take(scan(raw, codes))
        if stopped_at is not None:
            at += stopped_at
            break
        at += len(raw) // 20
    return reader.result(at, least, most)


def _read_near(
    raw: bytes,
    log: CommitLog,
    queue_offset: int,
    count_max: int,
    least: int,
    most: int,
    codes: frozenset[int] | None,
    limits: TransferLimits,
) -> GetResult | None:
    """What nearly all consumers are sent: a few messages that were just written.

    ``raw`` are the units from ``queue_offset`` on. None, and ``_Reader`` has to look closer, if
    there are many or old ones among them, or if more units are needed.
    """
    raw_bytes: i64 = len(raw)
    if raw_bytes == 0 or raw_bytes > _FEW_BYTES:
        return None
    first = read_i64_be(raw, 0)
    if first < log.min_offset or not log.is_likely_in_memory(first):
        return None
    stretch = log.stretch
    bytes_max: i64 = limits.memory_bytes
    taken_max: i64 = min(count_max, limits.memory_count)
    count = raw_bytes // UNIT_BYTES
    if count > 1 and read_i64_be(raw, UNIT_BYTES) == first + _size_at(raw, 0):
        size = _run_bytes(raw, raw_bytes) if codes is None and count <= taken_max else 0
        if 0 < size <= bytes_max:
            run: list[bytes | memoryview] = [log.read(first, size)]
            return GetResult(_FOUND, queue_offset + count, least, most, run, count, size)
    whole: memoryview | None = None
    whole_start: i64 = 0
    if raw_bytes >= _MANY_BYTES and not stretch.follow(first, _end_of(raw, raw_bytes)):
        segment = log.segments.find(first)
        if _end_of(raw, raw_bytes) <= min(segment.end, log.segments.written):
            whole = log.segments.view(segment)
            whole_start = segment.start
    views: list[bytes | memoryview] = []
    begin: i64 = -1
    end: i64 = -1
    taken: i64 = 0
    total: i64 = 0
    at: i64 = 0
    while at < raw_bytes:
        if codes is None or read_i64_be(raw, at + 12) in codes:
            log_offset = read_i64_be(raw, at)
            size = read_i64_be(raw, at + 8) >> 32  # as _size_at says, without a call of it
            if taken > 0 and (taken >= taken_max or total + size > bytes_max):
                break
            if log_offset != end:
                if whole is not None and end >= 0:
                    views.append(whole[begin - whole_start : end - whole_start])
                elif end >= 0:
                    views.append(stretch.cut(begin, end))
                begin = end = log_offset
            end += size
            taken += 1
            total += size
        at += UNIT_BYTES
    next_offset = queue_offset + at // UNIT_BYTES
    if taken == 0 or (at == raw_bytes and taken < taken_max and next_offset < most):
        return None
    views.append(stretch.cut(begin, end))
    return GetResult(_FOUND, next_offset, least, most, views, taken, total)


def _run_bytes(raw: bytes, raw_bytes: i64) -> i64:
    """The size of records that lie one behind the other in the log; 0 if there are gaps."""
    total: i64 = 0
    at: i64 = 0
    while at < raw_bytes:
        total += read_i64_be(raw, at + 8) >> 32
        at += UNIT_BYTES
    return total if total == _end_of(raw, raw_bytes) - read_i64_be(raw, 0) else 0


def _end_of(raw: bytes, raw_bytes: i64) -> i64:
    """Where in the log the record of the last unit ends."""
    return read_i64_be(raw, raw_bytes - UNIT_BYTES) + _size_at(raw, raw_bytes - UNIT_BYTES)


def _size_at(raw: bytes, at: i64) -> i64:
    """The size of the record whose unit begins there."""
    return read_i64_be(raw, at + 8) >> 32


def _outside(offset: int, least: int, most: int) -> tuple[GetStatus, int]:
    """The status and the next offset for one that is outside the queue."""
    if most == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < least:
        return GetStatus.OFFSET_TOO_SMALL, least
    if offset == most:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    return GetStatus.OFFSET_OVERFLOW_BADLY, most


class _Reader:
    """Takes units until there are enough."""

    __slots__ = (
        "_count_max", "_limits", "_log", "_predicate", "count", "is_behind_memory", "ranges",
        "removed", "size",
    )  # fmt: skip

    def __init__(
        self, log: CommitLog, count_max: int, limits: TransferLimits, predicate: Predicate | None
    ) -> None:
        self._log = log
        self._count_max = count_max
        self._limits = limits
        self._predicate = predicate
        self.ranges: list[tuple[int, int]] = []
        """Start and end in the log of records that follow each other there."""
        self.count = 0
        self.size = 0
        self.removed = 0
        self.is_behind_memory = False

    def take(self, units: list[tuple[int, int, int, int]]) -> int | None:
        """Take what fits; return which unit did not, None if all were looked at."""
        log = self._log
        log_min_offset = log.min_offset
        predicate = self._predicate
        ranges = self.ranges
        count, total = self.count, self.size
        start, end = ranges.pop() if ranges else (-1, -1)
        is_in_memory = False
        bytes_max, count_max = self._limits.disk_bytes, self._limits.disk_count
        stopped_at: int | None = None
        for log_offset, size, _, number in units:
            if log_offset < log_min_offset:
                self.removed += 1
                continue
            if not is_in_memory:
                # Later messages lie behind it: once one is in memory, the others are.
                is_in_memory = log.is_likely_in_memory(log_offset)
                if is_in_memory:
                    bytes_max, count_max = self._limits.memory_bytes, self._limits.memory_count
                else:
                    self.is_behind_memory = True
                count_max = min(count_max, self._count_max)
            if count and (count >= count_max or total + size > bytes_max):
                stopped_at = number
                break
            if predicate is not None and not predicate(log.read(log_offset, size)):
                continue
            if log_offset != end:
                if end >= 0:
                    ranges.append((start, end))
                start = end = log_offset
            end += size
            count += 1
            total += size
        if end >= 0:
            ranges.append((start, end))
        self.count, self.size = count, total
        return stopped_at

    def result(self, next_offset: int, least: int, most: int) -> GetResult:
        """What was taken of a queue from ``least`` to ``most``."""
        status = GetStatus.FOUND
        if not self.count:
            removed = GetStatus.MESSAGE_WAS_REMOVING
            status = removed if self.removed else GetStatus.NO_MATCHED_MESSAGE
        stretch = self._log.stretch
        views = [stretch.cut(begin, end) for begin, end in self.ranges]
        return GetResult(
            status, next_offset, least, most, views, self.count, self.size, self.is_behind_memory
        )
