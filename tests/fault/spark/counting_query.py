"""A stateful query from topic to topic, as a driver of its own that somebody kills.

It counts messages ``key milliseconds`` by key and second, and writes each count once, when its
second is over: a message that is lost or counted twice, and a count that is written twice, show.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

RUNNING = "the query is running"
WINDOW_MS = 1_000


@dataclass(frozen=True, slots=True)
class Job:
    """What the driver is told, as JSON."""

    name_server: str
    source: str
    target: str
    delivery: str
    checkpoint: str
    rows_a_batch: int
    master: str = "local[2]"
    is_last: bool = False
    """Read what there is and end, instead of running on."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "fault.spark.counting_query", json.dumps(asdict(self))]


def start_session(master: str, folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def counts_of(messages: DataFrame) -> DataFrame:
    """Messages in, counts out, both as texts."""
    parts = messages.selectExpr("split(CAST(body AS STRING), ' ') AS parts")
    events = parts.selectExpr(
        "parts[0] AS key", "timestamp_millis(CAST(parts[1] AS BIGINT)) AS happened"
    )
    counted = (
        events.withWatermark("happened", "0 seconds")
        .groupBy(window("happened", f"{WINDOW_MS} milliseconds"), "key")
        .count()
    )
    return counted.selectExpr(
        "key AS keys", "concat_ws(' ', key, unix_millis(window.start), count) AS body"
    )


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    session = start_session(job.master, Path(job.checkpoint).parent)
    messages = (
        session.readStream.format("rocketmq")
        .schema("body binary")
        .option("nameServer", job.name_server)
        .option("topic", job.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job.rows_a_batch)
        .load()
    )
    writer = (
        counts_of(messages)
        .writeStream.format("rocketmq")
        .outputMode("append")
        .option("nameServer", job.name_server)
        .option("topic", job.target)
        .option("delivery", job.delivery)
        .option("checkpointLocation", job.checkpoint)
    )
    writer = writer.trigger(availableNow=True) if job.is_last else writer
    query = writer.start()
    print(RUNNING, flush=True)
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
