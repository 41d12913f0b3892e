"""Streams are written to topics; a batch that is repeated shows twice with at-least-once only."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from integration.spark.spark_rig import Rig
from integration.spark.topic_content import read_topic
from roketto.spark.foreach import rocketmq_batch_writer


class Stream:
    """Numbers in files, which become a stream batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.input = folder / "input"
        self.input.mkdir()
        self.checkpoint = folder / "checkpoint"
        self._spark = spark
        self._files = 0

    def add(self, *numbers: int) -> None:
        text = "".join(f"{number}\n" for number in numbers)
        path = self.input / f"{self._files}.txt"
        path.write_text(text)
        os.utime(path, (self._files + 1, self._files + 1))  # Spark reads the oldest first
        self._files += 1

    def read(self) -> DataFrame:
        lines = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        return lines.load(str(self.input))

    def run(self, writer: Any) -> None:
        """Until all files are read."""
        query = (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(60)
        finally:
            query.stop()

    def forget_last_commit(self) -> None:
        commits = self.checkpoint / "commits"
        last = max((path for path in commits.glob("[0-9]*")), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def sink(frame: DataFrame, rig: Rig, **options: str) -> Any:
    return frame.writeStream.format("rocketmq").options(**rig.options(**options))


def numbers_in(rig: Rig, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in read_topic(rig.names, topic))


@pytest.mark.parametrize("delivery", ["at-least-once", "idempotent", "transactional"])
def test_a_batch_that_is_repeated_is_written_again_at_least_once_and_not_otherwise(
    stream: Stream, rig: Rig, topic_name: Callable[[], str], delivery: str
) -> None:
    """Idempotent rows are sent again, and left out by a topic that knows their ids."""
    window = {"dedup.window.seconds": "600"} if delivery == "idempotent" else {}
    topic = rig.topic(topic_name(), queues=2, attributes=window)
    rows = stream.read().selectExpr("value AS body", "value AS shardingKey")
    stream.add(1, 2, 3)
    stream.add(4, 5, 6)
    stream.run(sink(rows, rig, topic=topic, delivery=delivery))
    assert numbers_in(rig, topic) == Counter(range(1, 7))
    stream.forget_last_commit()
    stream.add(7)
    stream.run(sink(rows, rig, topic=topic, delivery=delivery))
    twice = [4, 5, 6] if delivery == "at-least-once" else []
    assert numbers_in(rig, topic) == Counter(range(1, 8)) + Counter(twice)


def test_update_mode_goes_by_foreach_batch_and_is_exactly_once_as_well(
    stream: Stream, rig: Rig, topic_name: Callable[[], str]
) -> None:
    topic = rig.topic(topic_name())
    counts = stream.read().groupBy("value").count().selectExpr(
        "value AS keys", "CAST(count AS STRING) AS body"
    )  # fmt: skip
    writer = rocketmq_batch_writer(**rig.options(topic=topic, delivery="transactional"))
    stream.add(1, 1, 2)
    stream.add(2)
    stream.run(counts.writeStream.outputMode("update").foreachBatch(writer))
    stream.forget_last_commit()
    stream.run(counts.writeStream.outputMode("update").foreachBatch(writer))
    found = sorted((message.keys[0], int(message.body)) for message in read_topic(rig.names, topic))
    assert found == [("1", 2), ("2", 1), ("2", 2)]


def test_a_sink_belongs_to_one_checkpoint(
    stream: Stream, rig: Rig, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    topic = rig.topic(topic_name())
    rows = stream.read().selectExpr("value AS body")
    options = {"topic": topic, "delivery": "transactional", "sinkId": f"sink-{topic}"}
    stream.add(1)
    stream.run(sink(rows, rig, **options))
    stream.checkpoint = tmp_path / "another"
    with pytest.raises(StreamingQueryException, match="give it another sinkId"):
        stream.run(sink(rows, rig, **options))
    assert numbers_in(rig, topic) == Counter([1])
