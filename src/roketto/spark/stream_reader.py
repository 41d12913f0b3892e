"""The streaming source: offsets that replays cannot change, limits, groups that see their lag."""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from roketto.client.errors import ClientError
from roketto.clock import monotonic_s
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.availability import Availability
from roketto.spark.cluster import Cluster
from roketto.spark.columns import Column
from roketto.spark.loss import report_loss
from roketto.spark.offsets import StreamOffset
from roketto.spark.places import chosen_queues, find_start, retrying
from roketto.spark.planner import QueueRange, RangesPartition, plan, share_rows
from roketto.spark.reading import read_ranges
from roketto.spark.sampling import bytes_per_row
from roketto.spark.source_options import SourceOptions

__all__ = ["StreamReader"]

log = logging.getLogger(__name__)

_POLL_FIRST_S: Final = 0.02
_POLL_MAX_S: Final = 0.1
"""How often brokers are asked whether something came: 10 ms are too often for 64 queues."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes one on the driver, which lives as long as the query, and copies of it for tasks.

    reader = StreamReader(options, asked_columns(schema, "map"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    for partition in reader.partitions(start, end): ...
    """

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = list(columns)
        self._availability = Availability(options)
        self._beginning: dict[str, Any] | None = None
        self._batch_s: float | None = None
        self._committed: dict[MessageQueue, int] = {}

    # --- offsets ----------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new stream begins; Spark asks more than once, and is told the same."""
        if self._beginning is None:
            options = self._options
            cluster = Cluster.of(options.connection)

            def find() -> dict[MessageQueue, int]:
                return find_start(cluster, options, chosen_queues(cluster, options))

            self._beginning = StreamOffset.beginning(retrying(options, find)).to_json()
        return self._beginning

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what there is now, and end."""
        retrying(self._options, self._availability.freeze)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What limits a batch; all limits of the options count whichever is named here."""
        options = self._options
        if options.trigger_rows_max is not None:
            return ReadMaxRows(options.trigger_rows_max)
        if options.trigger_bytes_max is not None:
            return ReadMaxBytes(options.trigger_bytes_max)
        if options.trigger_rows_min is not None:
            return ReadMinRows(options.trigger_rows_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself if nothing came for a while.

        Spark asks a hundred times a second if it is answered at once. Whatever is before ``start``
        has gone through the sink, so the group is told here that it is done.
        """
        offset = StreamOffset.parse(start)
        self._commit(offset)
        has_limits = not isinstance(limit, ReadAllAvailable)
        deadline_s = monotonic_s() + self._options.wait_ms / 1000
        pause_s = _POLL_FIRST_S
        while True:
            found = self._next(offset, has_limits)
            left_s = deadline_s - monotonic_s()
            if found is not None or self._availability.is_frozen or left_s <= 0:
                break
            threading.Event().wait(min(pause_s, left_s))
            pause_s = min(pause_s * 2, _POLL_MAX_S)
        if found is None:
            return start
        self._batch_s = monotonic_s()
        return found.to_json()

    def _next(self, offset: StreamOffset, has_limits: bool) -> StreamOffset | None:
        """The end of a batch, None if there is nothing to be read yet."""
        positions = offset.positions
        ends, new = self._availability.look(positions)
        starts = {**positions, **new}
        rows = {queue: max(0, end - starts[queue]) for queue, end in ends.items()}
        total = sum(rows.values())
        is_shorter = any(ends[queue] < position for queue, position in positions.items())
        if not total and not is_shorter:
            return None
        if has_limits and not self._is_enough(total):
            return None
        if has_limits:
            rows = self._limited(rows, starts)
        reached = {queue: min(end, starts[queue] + rows[queue]) for queue, end in ends.items()}
        return offset.followed_by(reached, new)

    def _is_enough(self, total: int) -> bool:
        """Whether there are rows enough for a batch, or it has been waited for them long enough."""
        options = self._options
        least = options.trigger_rows_min
        if least is None or total >= least or self._availability.is_frozen:
            return True
        if self._batch_s is None:
            return True
        return monotonic_s() - self._batch_s >= options.trigger_delay_ms / 1000

    def _limited(
        self, rows: Mapping[MessageQueue, int], starts: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        options = self._options
        found = dict(rows)
        if options.trigger_bytes_max is not None:
            average = bytes_per_row(
                Cluster.of(options.connection),
                options,
                {queue: starts[queue] for queue, count in rows.items() if count},
            )
            found = share_rows(found, max(1, int(options.trigger_bytes_max / average)))
        if options.trigger_rows_max is not None:
            found = share_rows(found, options.trigger_rows_max)
        return found

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of all queues, from which the progress of a query shows how far it is behind."""
        latest = self._availability.latest
        return StreamOffset(latest).to_json() if latest else None

    # --- batches ----------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What a batch reads; it follows from the two offsets alone, however often it is asked."""
        last = StreamOffset.parse(end)
        starts = StreamOffset.parse(start).starts_of(last)
        ranges = []
        for queue, position in last.positions.items():
            if starts[queue] > position:
                report_loss(
                    self._options.fails_on_data_loss,
                    f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} was read up to"
                    f" {starts[queue]}, and the batch ends at {position}",
                )
            elif starts[queue] < position:
                ranges.append(
                    QueueRange(
                        queue.topic, queue.broker_name, queue.queue_id, starts[queue], position
                    )
                )
        return list(
            plan(
                ranges,
                partitions_min=self._options.partitions_min,
                partition_rows_max=self._options.partition_rows_max,
                partition_rows_min=self._options.partition_rows_min,
            )
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a partition, in a task."""
        if isinstance(partition, RangesPartition):
            yield from read_ranges(self._options, self._columns, partition.ranges)

    # --- groups -----------------------------------------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        """All before ``end`` is done; Spark says so one batch late, and not of the last one."""
        self._commit(StreamOffset.parse(end))

    def _commit(self, offset: StreamOffset) -> None:
        """Tell brokers where the group is; what they do not keep now is told with the next."""
        options = self._options
        if not options.commits or offset.is_beginning:
            return
        new = {
            queue: position
            for queue, position in offset.positions.items()
            if self._committed.get(queue) != position
        }
        if not new:
            return
        try:
            Cluster.of(options.connection).commit_group_offsets(options.group, new)
        except ClientError as error:
            log.warning("offsets are told again with the next batch: %s", error)
        else:
            self._committed |= new
