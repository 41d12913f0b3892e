"""From offsets to tasks: ranges of queues, cut and put together as options say; pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from roketto.protocol.bodies.route import MessageQueue

__all__ = ["TASK_ROWS", "QueueRange", "RangesPartition", "plan", "share_rows"]

TASK_ROWS: Final = 20_000
"""The rows that cost as much time as a task with none: 13,000 were measured where they are thrown
away, and it is about twice as many where a second Python worker writes them."""


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """The messages of one queue from ``start`` up to, and without, ``end``."""

    topic: str
    broker_name: str
    queue_id: int
    start: int
    end: int

    @property
    def rows(self) -> int:
        """How many offsets it has."""
        return self.end - self.start

    @property
    def queue(self) -> MessageQueue:
        """The queue itself."""
        return MessageQueue(self.broker_name, self.queue_id, self.topic)

    def __str__(self) -> str:
        return (
            f"queue {self.queue_id} of {self.topic} on {self.broker_name}, offsets {self.start} to"
            f" {self.end}"
        )

    def pieces(self, rows_max: int) -> list["QueueRange"]:
        """The range in pieces of about the same size, none with more rows than that."""
        count = -(-self.rows // rows_max)
        cuts = [self.start + self.rows * number // count for number in range(count + 1)]
        return [
            QueueRange(self.topic, self.broker_name, self.queue_id, start, end)
            for start, end in pairwise(cuts)
        ]


class RangesPartition(InputPartition):
    """What one task reads: ranges, one after the other."""

    def __init__(self, ranges: tuple[QueueRange, ...]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


def plan(
    ranges: Iterable[QueueRange],
    *,
    partitions_min: int | None = None,
    partition_rows_max: int | None = None,
    partition_rows_min: int | None = None,
) -> list[RangesPartition]:
    """Partitions for these ranges: at least ``partitions_min`` if there are rows enough.

    Small ranges are read by one task until it has ``partition_rows_min`` rows. Without it tasks get
    larger with the whole, and more of them: where each of t tasks is a cost and all of them read at
    the same time, t is best at the root of how often the whole has the rows that a task costs. That
    is left where somebody wants many partitions.
    """
    whole = sorted(one for one in ranges if one.rows > 0)
    total = sum(one.rows for one in whole)
    if not total:
        return []
    rows_max = partition_rows_max or total
    if partitions_min is not None:
        rows_max = min(rows_max, -(-total // partitions_min))
    pieces = [piece for one in whole for piece in one.pieces(rows_max)]
    if partitions_min is not None:
        return [RangesPartition((piece,)) for piece in pieces]
    return _pack(pieces, partition_rows_min or math.isqrt(total * TASK_ROWS), rows_max)


def _pack(pieces: list[QueueRange], rows_min: int, rows_max: int) -> list[RangesPartition]:
    """Pieces together until there are enough rows, and never too many."""
    found: list[RangesPartition] = []
    some: list[QueueRange] = []
    rows = 0
    for piece in pieces:
        if some and (rows >= rows_min or rows + piece.rows > rows_max):
            found.append(RangesPartition(tuple(some)))
            some, rows = [], 0
        some.append(piece)
        rows += piece.rows
    found.append(RangesPartition(tuple(some)))
    return found


def share_rows(available: Mapping[MessageQueue, int], rows_max: int) -> dict[MessageQueue, int]:
    """How many rows of each queue may be read, in proportion to what it has; all together the most.

    Every queue comes to its turn: what is left after the whole shares goes to the largest rests,
    and these change with what is read.
    """
    total = sum(available.values())
    if total <= rows_max:
        return dict(available)
    shares = {queue: rows * rows_max // total for queue, rows in available.items()}
    left = rows_max - sum(shares.values())
    by_rest = sorted(available, key=lambda queue: (-(available[queue] * rows_max % total), queue))
    for queue in by_rest[:left]:
        shares[queue] += 1
    return shares
