"""A program of its own: rows to a topic, back, by a view, and as streams to others; what it saw.

Where it runs there may be nothing of ours but what it is told to install: it imports only pyspark.
Its argument is a JSON object; see ``Task`` in ``elsewhere.py``. It prints another, see ``Seen``.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS = 1_000
QUERIES = {"spark.sql.shuffle.partitions": "2"}
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Tasks are shared out when all executors are there, and not before.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


def main(task: dict[str, Any]) -> None:
    spark = start(task)
    try:
        print(json.dumps(report(spark, task)))
    finally:
        spark.stop()


def start(task: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.appName("roundtrip")
    builder = builder.remote(task["remote"]) if task["remote"] else builder.master(task["master"])
    # A server of Connect has been configured already, but for what queries may change.
    for key, value in (QUERIES if task["remote"] else CONFIG | QUERIES | task["config"]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if task["install"]:
        import roketto.spark

        roketto.spark.install(spark)
    return spark


def report(spark: SparkSession, task: dict[str, Any]) -> dict[str, Any]:
    options = {"nameServer": task["names"]}
    first, second, third = task["topics"]
    rows = spark.range(ROWS).repartition(4).selectExpr("CAST(id AS STRING) AS body")
    rows.write.format("rocketmq").options(**options, topic=first).mode("append").save()
    read = spark.read.format("rocketmq").options(**options, topic=first, minPartitions="4")
    places = sorted(tuple(row) for row in read.load().mapInArrow(place, PLACE).collect())
    stream = spark.readStream.format("rocketmq").options(
        **options, topic=first, startingOffsets="earliest"
    )
    marked = stream.load().selectExpr("CONCAT(CAST(body AS STRING), '!') AS body")
    copying = marked.writeStream.format("rocketmq").options(**options, topic=second)
    run(copying, f"{task['folder']}/checkpoint")
    refusal = write_batches(marked, {**options, "topic": third}, task["folder"])
    return {
        "rows": bodies(read.load()),
        "viewed": viewed(spark, options, first),
        "copied": bodies(spark.read.format("rocketmq").options(**options, topic=second).load()),
        "refusal": refusal,
        "batched": bodies(spark.read.format("rocketmq").options(**options, topic=third).load()),
        "session": type(spark).__module__,
        "driver": os.getpid(),
        "driver_jvm": None if task["remote"] else jvm_of(spark),
        "places": places,
    }


def run(writer: DataStreamWriter, checkpoint: str) -> None:
    """Until all that there is now is read."""
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def write_batches(marked: DataFrame, options: dict[str, str], folder: str) -> str:
    """Write by our ``foreachBatch``; what it says where it has to be told whose batches these are.

    Whoever runs this has our package, and tasks need not.
    """
    from roketto.spark import rocketmq_batch_writer

    exactly_once = {**options, "delivery": "transactional"}
    try:
        writer = rocketmq_batch_writer(**exactly_once)
        run(marked.writeStream.foreachBatch(writer), f"{folder}/batches")
        return ""
    except StreamingQueryException as error:
        said = str(error)
    writer = rocketmq_batch_writer(**exactly_once, sinkId=options["topic"])
    run(marked.writeStream.foreachBatch(writer), f"{folder}/named-batches")
    return said


def viewed(spark: SparkSession, options: dict[str, str], topic: str) -> list[list[int]]:
    """What SQL says of a topic: of each queue its rows, and their numbers together."""
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW sent USING rocketmq"
        f" OPTIONS (nameServer '{options['nameServer']}', topic '{topic}')"
    )
    return [
        list(row)
        for row in spark.sql(
            "SELECT queueId, count(*), sum(CAST(CAST(body AS STRING) AS INT)) FROM sent"
            " GROUP BY queueId ORDER BY queueId"
        ).collect()
    ]


def bodies(read: DataFrame) -> list[str]:
    return sorted(row[0] for row in read.selectExpr("CAST(body AS STRING)").collect())


def jvm_of(spark: SparkSession) -> int:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


PLACE = "jvm LONG, worker LONG, roketto STRING, rows LONG"


def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a task runs: the JVM that is its executor, and where its worker has our package."""
    from importlib.machinery import PathFinder
    from pathlib import Path

    rows = sum(batch.num_rows for batch in batches)
    # What a source has brought along is not what the worker has by itself.
    found = PathFinder.find_spec("roketto", [path for path in sys.path if "luggage-" not in path])
    daemon = os.getppid()
    jvm = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    yield pa.RecordBatch.from_pydict(
        {
            "jvm": [jvm],
            "worker": [os.getpid()],
            "roketto": [str(found.origin) if found else ""],
            "rows": [rows],
        }
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
