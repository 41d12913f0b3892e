"""The sink of the data source ``rocketmq``: writers of batch queries and of streams.

Executors call ``write`` with the Arrow batches of one partition. What the driver does when all have
ended, in ``commit``, matters for transactional delivery only: rows are invisible until then.

For each batch of a stream Spark starts two processes that make a writer, one to plan the batch and
one to commit it. So what only tasks need, or only transactions, is imported where it is used.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from roketto.spark.row_schema import SinkSchema
from roketto.spark.sink_options import AT_LEAST_ONCE, TRANSACTIONAL, SinkError, SinkOptions
from roketto.spark.task_context import Identity
from roketto.spark.written import Written

__all__ = ["BatchWriter", "StreamWriter"]

log = logging.getLogger(__name__)


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame to topics; ``df.write.format("rocketmq")`` makes it.

    df.write.format("rocketmq").mode("append").options(nameServer="...", topic="Orders").save()

    One instance is made on the driver and copied to executors and back to ``commit``.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = SinkOptions.of(options)
        if overwrite:
            raise SinkError(
                "a topic cannot be overwritten, only appended to: use mode('append'), or delete the"
                " topic first (mqadmin deleteTopic)"
            )
        if self._options.sink_id is not None and self._options.batch_id is None:
            raise SinkError(
                f"option sinkId is {self._options.sink_id} without batchId, which tells a batch"
                " that is repeated from a new one: give both, or none"
            )
        self._task = _Task(self._options, SinkSchema(schema, self._options.topic))
        self._own_id = f"batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one partition."""
        if self._options.delivery == AT_LEAST_ONCE:
            return self._task.write(iterator, None)
        return self._task.write(iterator, Identity.of_batch(self._options, self._own_id))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All partitions are written: let them be consumed."""
        self._task.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A partition could not be written."""
        self._task.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream to topics; ``df.writeStream.format("rocketmq")`` makes it.

    df.writeStream.format("rocketmq").options(
        nameServer="...", topic="Totals", delivery="transactional", checkpointLocation="..."
    ).start()

    Spark makes instances anew for each batch. In output mode complete all results are written again
    with each batch: a topic keeps them all. Update is for ``rocketmq_batch_writer``.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = SinkOptions.of(options)
        if self._options.batch_id is not None:
            raise SinkError(
                f"option batchId is {self._options.batch_id}, and the batches of a stream have"
                " numbers of their own: leave it out"
            )
        self._task = _Task(self._options, SinkSchema(schema, self._options.topic))

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one partition of a batch."""
        if self._options.delivery == AT_LEAST_ONCE:
            return self._task.write(iterator, None)
        return self._task.write(iterator, Identity.of_stream(self._options))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All partitions of a batch are written: let them be consumed."""
        self._task.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """A partition could not be written; the batch is repeated when the query goes on."""
        self._task.abort(messages)


class _Task:
    """What both writers do; it travels to executors."""

    def __init__(self, options: SinkOptions, schema: SinkSchema) -> None:
        self._options = options
        self._schema = schema

    def write(self, batches: Iterator[Any], identity: Identity | None) -> Written:
        from roketto.spark.worker_heap import settle_worker
        from roketto.spark.writing import write_rows

        try:
            return write_rows(self._options, self._schema, batches, identity)
        finally:
            settle_worker()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        tasks = [message for message in messages if isinstance(message, Written)]
        if self._options.delivery != TRANSACTIONAL or not tasks:
            return
        assert len(tasks) == len(messages), "a batch is committed when all tasks have ended"
        from roketto.spark.commits import commit_tasks

        commit_tasks(self._options, tasks, keeps_order=self._schema.is_ordered)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        rows = sum(message.row_count for message in messages if isinstance(message, Written))
        if self._options.delivery == TRANSACTIONAL:
            log.warning("a write was given up; %d rows are not published", rows)
        else:
            log.warning(
                "a write was given up after %d rows; these stay, and come again with a retry", rows
            )
