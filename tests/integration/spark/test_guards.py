"""What of Spark our design rests on, its faults among it: an upgrade that changes it is noticed."""

import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from integration.spark.elsewhere import run_program
from integration.spark.spark_rig import Rig
from patience import in_time
from roketto.spark.source import RocketMQDataSource
from roketto.spark.stream_reader import StreamReader

ROWS = 500
"""Of each of two queues."""
_WAIT_S = 60.0


# --- filters --------------------------------------------------------------------------------------


def two_queues() -> type[DataSource]:
    """A source that reads only the queue that a filter asks for; pickled by value."""

    class QueueReader(DataSourceReader):
        def __init__(self) -> None:
            self.queue: object = None

        def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
            for one in filters:
                if isinstance(one, EqualTo) and one.attribute == ("queueId",):
                    self.queue = one.value
                else:
                    yield one

        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(queue) for queue in (0, 1) if self.queue in (None, queue)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            queues = pa.array([partition.value] * 500, pa.int32())
            offsets = pa.array(range(500), pa.int32())
            columns = [queues, offsets]
            yield pa.RecordBatch.from_arrays(columns, names=["queueId", "queueOffset"])

    class TwoQueues(DataSource):
        @classmethod
        def name(cls) -> str:
            return "two-queues"

        def schema(self) -> str:
            return "queueId INT, queueOffset INT"

        def reader(self, schema: StructType) -> DataSourceReader:
            return QueueReader()

    return TwoQueues


def by_queue(frame: DataFrame) -> dict[int, int]:
    return {row["queueId"]: row["count"] for row in frame.groupBy("queueId").count().collect()}


def in_turn(frame: DataFrame) -> tuple[int, int]:
    """One queue, then all of them."""
    return frame.where("queueId = 1").count(), frame.count()


def union(load: Callable[[], DataFrame]) -> dict[int, int]:
    return by_queue(load().where("queueId = 1").union(load().where("queueId = 0")))


def self_join(load: Callable[[], DataFrame]) -> dict[int, int]:
    """Rows of one queue, each with those of all queues that have its offset."""
    one, both = load().where("queueId = 1").alias("one"), load().alias("both")
    return by_queue(one.join(both, "queueOffset").select("both.queueId"))


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    option = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(option, "true")
    yield spark
    spark.conf.unset(option)


def test_pushed_filters_mix_up_the_queries_of_a_dataframe(pushing: SparkSession) -> None:
    """A fault of Spark, for which our source leaves filters to Spark unless it is told otherwise.

    If this fails, Spark has learned it: filters may be pushed by default.
    """
    pushing.dataSource.register(two_queues())

    def load() -> DataFrame:
        return pushing.read.format("two-queues").load()

    one = load()
    assert in_turn(one) == (ROWS, ROWS), "the second one should be both queues"
    two = load()
    assert union(lambda: two) == {0: 2 * ROWS}, "one queue is read twice, the other one never"
    three = load()
    joined = self_join(lambda: three)
    assert joined == {0: 2 * ROWS, 1: 2 * ROWS}, "both sides are read without a filter"
    assert union(load) == {0: ROWS, 1: ROWS}, "a load for each query is right"
    assert self_join(load) == {0: ROWS, 1: ROWS}


def test_our_source_answers_every_query_of_a_dataframe(
    pushing: SparkSession, rig: Rig, topic_name: Callable[[], str]
) -> None:
    topic = rig.topic(topic_name(), queues=2)
    for queue_id in (0, 1):
        rig.send(topic, [f"{number}" for number in range(20)], queue_id)
    frame = pushing.read.format("rocketmq").options(**rig.options(topic=topic)).load()
    assert in_turn(frame) == (20, 40)
    assert union(lambda: frame) == {0: 20, 1: 20}
    assert self_join(lambda: frame) == {0: 20, 1: 20}


# --- streams --------------------------------------------------------------------------------------


def still_stream(offsets: Sequence[dict[str, int]], log: str = "") -> type[DataSource]:
    """A stream without data that says these offsets by turns, and notes when it is asked."""

    class StillReader(DataSourceStreamReader):
        def __init__(self) -> None:
            self.turn = 0

        def initialOffset(self) -> dict[str, int]:
            return {"a": 0, "b": 0}

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:
            self.turn += 1
            if log:
                with Path(log).open("a") as file:
                    file.write(".")
            return offsets[self.turn % len(offsets)]

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return iter(())

    class StillStream(DataSource):
        @classmethod
        def name(cls) -> str:
            return "still-stream"

        def schema(self) -> str:
            return "number INT"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return StillReader()

    return StillStream


def batches_of(stream: DataFrame, folder: Path, is_done: Callable[[Any], bool]) -> list[int]:
    """Numbers of the batches that a query runs until something is so."""
    query = (
        stream.writeStream.format("noop").option("checkpointLocation", str(folder / "cp")).start()
    )
    try:
        deadline = time.monotonic() + _WAIT_S
        while not is_done(query):
            assert query.isActive, query.exception()
            in_time(deadline, f"no progress: {query.lastProgress}")
            time.sleep(0.05)
        return sorted({progress.batchId for progress in query.recentProgress})
    finally:
        query.stop()


def test_offsets_in_another_order_are_new_data_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It compares their text: so ours have one order only, that of their names."""
    spark.dataSource.register(still_stream([{"a": 1, "b": 1}, {"b": 1, "a": 1}]))
    stream = spark.readStream.format("still-stream").load()
    batches = batches_of(stream, tmp_path, lambda query: len(query.recentProgress) >= 3)
    assert batches[:3] == [0, 1, 2]


def counted_source(log: str) -> type[DataSource]:
    """Ours, with a note each time that it is asked for what is new."""

    class CountedReader(StreamReader):
        def latestOffset(self, start: Any, limit: Any) -> Any:
            with Path(log).open("a") as file:
                file.write(".")
            return super().latestOffset(start, limit)

    class CountedSource(RocketMQDataSource):
        @classmethod
        def name(cls) -> str:
            return "rocketmq-counted"

        def streamReader(self, schema: StructType) -> StreamReader:
            made = super().streamReader(schema)
            made.__class__ = CountedReader
            return made

    return CountedSource


def calls_of(stream: DataFrame, folder: Path, log: Path) -> tuple[int, list[int]]:
    """How often an idle stream is asked in a second, and the batches that it ran."""
    counted: list[int] = []

    def is_done(query: Any) -> bool:
        if not query.recentProgress:
            return False
        time.sleep(0.5)  # the batch has just ended
        before = log.stat().st_size
        time.sleep(1.0)
        counted.append(log.stat().st_size - before)
        return True

    batches = batches_of(stream, folder, is_done)
    return counted[0], batches


def test_our_stream_is_not_asked_without_end_when_idle(
    spark: SparkSession, rig: Rig, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    """Spark asks a source some seventy times a second; ours waits before it says that nothing came.

    Nor does it take the offsets of an idle stream for new ones.
    """
    topic = rig.topic(topic_name(), queues=2)
    rig.send(topic, ["one", "two"])
    log = tmp_path / "ours"
    spark.dataSource.register(counted_source(str(log)))
    options = rig.options(topic=topic, startingOffsets="earliest")
    stream = spark.readStream.format("rocketmq-counted").options(**options).load()
    calls, batches = calls_of(stream, tmp_path / "1", log)
    assert 1 <= calls <= 4
    assert batches == [0]


def test_spark_asks_an_idle_stream_without_end(spark: SparkSession, tmp_path: Path) -> None:
    """So the test above would see it."""
    log = tmp_path / "still"
    spark.dataSource.register(still_stream([{"a": 1, "b": 1}], str(log)))
    stream = spark.readStream.format("still-stream").load()
    calls, batches = calls_of(stream, tmp_path, log)
    assert calls > 15
    assert batches == [0]


# --- sinks ----------------------------------------------------------------------------------------


def test_a_python_sink_refuses_the_update_mode(
    spark: SparkSession, rig: Rig, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    """What Spark cannot do with it: ``rocketmq_batch_writer`` is there for that."""
    topic = rig.topic(topic_name())
    counts = (
        spark.readStream.format("rate").load().groupBy("value").count()
        .selectExpr("CAST(value AS STRING) AS body")
    )  # fmt: skip
    options = rig.options(topic=topic, checkpointLocation=str(tmp_path))
    writing = counts.writeStream.format("rocketmq").options(**options).outputMode("update")
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        writing.start().awaitTermination(60)


# --- packages -------------------------------------------------------------------------------------

TINY = """
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.datasource import InputPartition

class Tiny(DataSource):
    @classmethod
    def name(cls):
        return "tiny"
    def schema(self):
        return "number INT"
    def reader(self, schema):
        return Reader()
    def streamReader(self, schema):
        return StreamReader()

class Reader(DataSourceReader):
    def read(self, partition):
        yield (7,)

class StreamReader(DataSourceStreamReader):
    def initialOffset(self):
        return {"offset": 0}
    def latestOffset(self):
        return {"offset": 1}
    def partitions(self, start, end):
        return [InputPartition(0)]
    def read(self, partition):
        yield (8,)
"""

SUBMITTED = """
import sys
from pyspark import cloudpickle
from pyspark.sql import SparkSession
import tiny_source

spark = SparkSession.builder.getOrCreate()
if sys.argv[1] == "by-value":
    cloudpickle.register_pickle_by_value(tiny_source)
spark.dataSource.register(tiny_source.Tiny)
print("batch", spark.read.format("tiny").load().collect())
query = spark.readStream.format("tiny").load().writeStream.format("noop")
try:
    query.trigger(availableNow=True).start().awaitTermination()
    print("stream ended")
except Exception as error:
    print("stream", " ".join(str(error).split()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["by-name", "by-value"])
def test_files_given_to_submit_do_not_reach_streams(tmp_path: Path, way: str) -> None:
    """A package in ``--py-files`` is on executors, and not where a stream is planned.

    What is pickled by value is everywhere: that is why ``install(spark)`` does it so.
    """
    with zipfile.ZipFile(tmp_path / "files.zip", "w") as archive:
        archive.writestr("tiny_source.py", TINY)
    (tmp_path / "submitted.py").write_text(SUBMITTED)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    said = run_program(
        [str(submit), "--master", "local[2]", "--conf", "spark.ui.enabled=false",
         "--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.log.level=ERROR",
         "--py-files", str(tmp_path / "files.zip"), str(tmp_path / "submitted.py"), way],
        tmp_path, {"PYSPARK_DRIVER_PYTHON": sys.executable},
    )  # fmt: skip
    assert "batch [Row(number=7)]" in said
    assert ("No module named 'tiny_source'" in said) == (way == "by-name")
    assert ("stream ended" in said) == (way == "by-value")
