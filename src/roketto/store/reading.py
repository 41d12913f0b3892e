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

from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import ConsumeQueue, scan

Predicate = Callable[[memoryview], bool]
"""Whether the record in a view is wanted; for filters that look at properties."""

_UNITS_SCANNED_LEAST: Final = 800
"""Units looked at where not each of them counts: as many as Java's maxFilterMessageSize holds."""

_UNITS_AT_ONCE: Final = 1_024
"""What is read of a queue at once where a whole range of it is wanted: no more than a few are read
in vain when the bytes are used up."""


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


@dataclass(slots=True)
class GetResult:
    """The answer to one read. ``views`` hold ``count`` records, back to back."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    views: list[memoryview]
    count: int = 0
    size: int = 0
    is_behind_memory: bool = False
    """Whether it had to be read from the disk, probably; consumers may be sent to a slave."""


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
    least, most = queue.queue_offset_min, queue.queue_offset_max
    refused = _check_offset(queue_offset, least, most)
    if refused is not None:
        return GetResult(*refused, least, most, [])
    raw = queue.read(queue_offset, count_max)
    is_gone = int.from_bytes(raw[:8]) < log.min_offset
    if is_gone or codes is not None or predicate is not None:
        raw = queue.read(queue_offset, max(_UNITS_SCANNED_LEAST, count_max))
    units = scan(raw, codes)
    reader = _Reader(log, count_max, limits or TransferLimits(), predicate)
    stopped_at = reader.take(units)
    scanned = len(raw) // 20 if stopped_at is None else stopped_at
    return GetResult(
        reader.status(),
        queue_offset + scanned,
        least,
        most,
        [log.read(start, end - start) for start, end in reader.ranges],
        reader.count,
        reader.size,
        reader.is_behind_memory,
    )


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
    refused = _check_offset(queue_offset, least, most)
    if refused is not None:
        return GetResult(*refused, least, most, [])
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
    return GetResult(
        reader.status(),
        at,
        least,
        most,
        [log.read(start, end - start) for start, end in reader.ranges],
        reader.count,
        reader.size,
        reader.is_behind_memory,
    )


def _check_offset(offset: int, least: int, most: int) -> tuple[GetStatus, int] | None:
    """The status and the next offset for one that is outside the queue."""
    if most == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < least:
        return GetStatus.OFFSET_TOO_SMALL, least
    if offset == most:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > most:
        return GetStatus.OFFSET_OVERFLOW_BADLY, most
    return None


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
        self.ranges: list[list[int]] = []
        """Start and end in the log of records that follow each other there."""
        self.count = 0
        self.size = 0
        self.removed = 0
        self.is_behind_memory = False

    def take(self, units: list[tuple[int, int, int, int]]) -> int | None:
        """Take what fits; return which unit did not, None if all were looked at."""
        log_min_offset = self._log.min_offset
        for log_offset, size, _, number in units:
            if log_offset < log_min_offset:
                self.removed += 1
                continue
            if not self._has_room(log_offset, size):
                return number
            if self._predicate is not None and not self._predicate(
                self._log.read(log_offset, size)
            ):
                continue
            self._add(log_offset, size)
        return None

    def status(self) -> GetStatus:
        if self.count:
            return GetStatus.FOUND
        return GetStatus.MESSAGE_WAS_REMOVING if self.removed else GetStatus.NO_MATCHED_MESSAGE

    def _has_room(self, log_offset: int, size: int) -> bool:
        limits = self._limits
        if self._log.is_likely_in_memory(log_offset):
            bytes_max, count_max = limits.memory_bytes, limits.memory_count
        else:
            bytes_max, count_max = limits.disk_bytes, limits.disk_count
            self.is_behind_memory = True
        return not self.count or (
            self.count < min(count_max, self._count_max) and self.size + size <= bytes_max
        )

    def _add(self, log_offset: int, size: int) -> None:
        if self.ranges and self.ranges[-1][1] == log_offset:
            self.ranges[-1][1] += size
        else:
            self.ranges.append([log_offset, log_offset + size])
        self.count += 1
        self.size += size
