"""Read messages of a queue: a range of units becomes views of the log, sent as they are.

Tags are compared by their hashes before a record is touched, neighbours in the log become one
view, and nothing is decoded unless a predicate asks for it. How much one read may take depends on
whether it probably comes from memory or from the disk: a consumer far behind must not make the
others wait for the disk.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

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


_FEW: Final = 64
"""Units that are unpacked at once: twice as many as most consumers ask for."""

_UNITS: Final = tuple([struct.Struct(">" + "qiq" * count) for count in range(_FEW + 1)])
_PLACES: Final = tuple([struct.Struct(">" + "qi8x" * count) for count in range(_FEW + 1)])
"""So many units, with their tags codes and without."""

_RUNS: Final = tuple(
    [struct.Struct(">qi8x" + "8xi8x" * (count - 2) + "qi8x") for count in range(_FEW + 1)]
)
"""Of so many units, two or more: the sizes, and before the first and the last also the offset."""

_PAIR: Final = struct.Struct(">qi8xq")
_OFFSET: Final = struct.Struct(">q")


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
    memory_count: int = 32
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
        views: list[memoryview],
        count: int = 0,
        size: int = 0,
        is_behind_memory: bool = False,
    ) -> None:
        self.status: GetStatus = status
        self.next_offset: int = next_offset
        self.min_offset: int = min_offset
        self.max_offset: int = max_offset
        self.views: list[memoryview] = views
        self.count: int = count
        self.size: int = size
        self.is_behind_memory: bool = is_behind_memory
        """Whether it had to be read from the disk, probably; consumers may be sent to a slave."""


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
    count = len(raw) // UNIT_BYTES
    if not 0 < count <= _FEW:
        return None
    start: int = _OFFSET.unpack_from(raw)[0]
    if start < log.min_offset or not log.is_likely_in_memory(start):
        return None
    fields: tuple[int, ...]
    if codes is None and 1 < count <= limits.memory_count and _has_neighbours(raw):
        # Records without a gap between them are as long as the way from the first to the end of
        # the last: then nothing is done for each unit.
        fields = _RUNS[count].unpack(raw)
        last = fields[count]
        size = last + fields[count + 1] - start
        if size <= limits.memory_bytes and sum(fields) == start + last + size:
            view = log.read(start, size)
            return GetResult(_FOUND, queue_offset + count, least, most, [view], count, size)
    step = 2 if codes is None else 3
    fields = (_PLACES if codes is None else _UNITS)[count].unpack(raw)
    bytes_max = limits.memory_bytes
    count_max = min(count_max, limits.memory_count)
    ranges: list[tuple[int, int]] = []
    begin = end = -1
    taken = total = at = 0
    while at < count:
        if codes is None or fields[step * at + 2] in codes:
            log_offset = fields[step * at]
            size = fields[step * at + 1]
            if taken and (taken >= count_max or total + size > bytes_max):
                break
            if log_offset != end:
                if end >= 0:
                    ranges.append((begin, end))
                begin = end = log_offset
            end += size
            taken += 1
            total += size
        at += 1
    if not taken or (at == count and taken < count_max and queue_offset + at < most):
        return None
    ranges.append((begin, end))
    views = log.segments.read_many(ranges)
    return GetResult(_FOUND, queue_offset + at, least, most, views, taken, total)


def _has_neighbours(raw: bytes) -> bool:
    """Whether the record of the second unit follows on that of the first."""
    start, size, following = _PAIR.unpack_from(raw)
    return bool(start + size == following)


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
        views = self._log.segments.read_many(self.ranges)
        return GetResult(
            status, next_offset, least, most, views, self.count, self.size, self.is_behind_memory
        )
