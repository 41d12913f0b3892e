"""A sink for ``foreachBatch``: output mode update, or several sinks of one query."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["rocketmq_batch_writer"]

_FORMAT = "rocketmq"


def rocketmq_batch_writer(**options: object) -> "Callable[[DataFrame, int], None]":
    """What writes each batch that it is given, with the options of the sink.

    totals.writeStream.outputMode("update").foreachBatch(
        rocketmq_batch_writer(nameServer="10.0.0.5:9876", topic="Totals", delivery="transactional")
    ).option("checkpointLocation", "...").start()

    A batch that is repeated has the same number, so that transactional and idempotent delivery
    write it once, as the stream's own sink does. Where a query has several such sinks give each a
    ``sinkId``; else the query's id is it.
    """
    given = {name: str(value) for name, value in options.items()}
    if any(name.lower() == "batchid" for name in given):
        raise ValueError("batchId is what foreachBatch tells; leave the option out")

    def write(batch: "DataFrame", batch_id: int) -> None:
        writer = batch.write.format(_FORMAT).mode("append")
        writer.options(**given, batchId=str(batch_id)).save()

    return write
