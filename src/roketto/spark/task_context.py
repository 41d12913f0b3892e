"""Which batch of which query a task writes: what Spark tells the tasks of a stream."""

from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext

from roketto.spark.sink_options import SinkError, SinkOptions

__all__ = ["Identity"]

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
NO_QUERY: Final = "batch"
"""The query id of writes that belong to no stream."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who writes: by this brokers tell a repeated batch from a new one."""

    sink_id: str
    query_id: str
    batch_id: int
    partition_id: int

    @classmethod
    def of_stream(cls, options: SinkOptions) -> "Identity":
        """That of this task of a stream; SinkError if Spark does not tell it."""
        context = _context()
        batch_id = context.getLocalProperty(_BATCH_ID)
        query_id = context.getLocalProperty(_QUERY_ID)
        if not batch_id or not query_id:
            raise SinkError(
                f"delivery={options.delivery} needs the number of the batch, and Spark tells this"
                f" task none ({_BATCH_ID} is {batch_id!r}, {_QUERY_ID} is {query_id!r}): write with"
                " foreachBatch(rocketmq_batch_writer(...)), or use delivery=at-least-once"
            )
        return cls(options.sink_id or query_id, query_id, int(batch_id), context.partitionId())

    @classmethod
    def of_batch(cls, options: SinkOptions, own_id: str) -> "Identity":
        """That of this task of a batch write; ``own_id`` is what the driver has called it.

        With a batch id it is a batch of somebody who may repeat it, such as foreachBatch.
        """
        context = _context()
        if options.batch_id is None:
            return cls(own_id, NO_QUERY, 0, context.partitionId())
        query_id = context.getLocalProperty(_QUERY_ID)
        sink_id = options.sink_id or query_id
        if not sink_id:
            raise SinkError(
                f"option batchId is {options.batch_id}, and nothing says whose batch that is: give"
                " option sinkId, too"
            )
        return cls(sink_id, query_id or NO_QUERY, options.batch_id, context.partitionId())


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("rows are written outside of a Spark task; use DataFrame.write")
    return context
