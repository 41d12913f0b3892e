"""The streaming source on real Spark: nothing lost or repeated, whatever stops and starts."""

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from integration.spark.spark_rig import Rig
from patience import in_time
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.cluster import Cluster
from roketto.spark.listener import GroupOffsetListener
from roketto.spark.source_options import SourceOptions
from servers import broker, name_server

Name = Callable[[], str]
LOG_FILE_BYTES = 64 * 1024
STARTS_MAX = 5
SLOW_START = "Python worker failed to connect back"
SCHEMA = "topic string, queueId int, queueOffset long, body binary"


class Sink:
    """Gathers what a query writes, by batch; batches may be given again after a failure."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        self.fails_at: int | None = None

    def take(self, frame: DataFrame, batch_id: int) -> None:
        rows = frame.orderBy("queueId", "queueOffset").collect()
        self.batches[batch_id] = [bytes(row.body).decode() for row in rows]
        if batch_id == self.fails_at:
            raise ValueError("the sink fails as it was told to")

    @property
    def bodies(self) -> list[str]:
        return [body for batch in sorted(self.batches) for body in self.batches[batch]]


def start(
    spark: SparkSession,
    rig: Rig,
    sink: Sink,
    checkpoint: Path,
    options: dict[str, str],
    *,
    is_bounded: bool = True,
) -> StreamingQuery:
    frame = (
        spark.readStream.format("rocketmq").schema(SCHEMA).options(**rig.options(), **options)
    ).load()
    writer = frame.writeStream.foreachBatch(sink.take).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if is_bounded else writer).start()


def run(spark: SparkSession, rig: Rig, sink: Sink, checkpoint: Path, **options: str) -> None:
    """Read what there is, to its end."""
    assert failure_of(spark, rig, sink, checkpoint, **options) == ""


def failure_of(spark: SparkSession, rig: Rig, sink: Sink, checkpoint: Path, **options: str) -> str:
    """The same, and what the query says if it fails.

    Spark gives a Python process ten seconds to start, which a busy machine may not keep.
    """
    for _ in range(STARTS_MAX):
        query = start(spark, rig, sink, checkpoint, options)
        try:
            assert query.awaitTermination(120)
        except StreamingQueryException as error:
            if SLOW_START not in str(error):
                return str(error)
        else:
            return ""
    raise AssertionError("no Python process could be started in time")


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def committed(rig: Rig, topic: str, group: str) -> int | None:
    options = SourceOptions.of(rig.options(topic=topic), is_stream=False)
    return Cluster.of(options.connection).group_offset(group, MessageQueue("broker-a", 0, topic))


def test_available_now_goes_on_where_it_was_within_its_limits(
    spark: SparkSession, rig: Rig, topic_name: Name, tmp_path: Path
) -> None:
    topic, sink = rig.topic(topic_name()), Sink()
    rig.send(topic, numbers(0, 25))
    options = {"topic": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10",
               "group": f"g-{topic}", "commitOffsets": "true"}  # fmt: skip
    run(spark, rig, sink, tmp_path / "c", **options)
    assert [len(batch) for batch in sink.batches.values()] == [10, 10, 5]
    assert committed(rig, topic, f"g-{topic}") == 25, "the last batch is committed as well"
    rig.topic(topic, queues=2)
    rig.send(topic, ["new"], queue_id=1)
    rig.send(topic, ["25"], queue_id=0)
    run(spark, rig, sink, tmp_path / "c", **options)
    assert sorted(sink.bodies, key=str) == sorted([*numbers(0, 26), "new"])
    run(spark, rig, sink, tmp_path / "c", **options)
    assert len(sink.bodies) == 27


def test_a_first_batch_from_the_end_is_replayed_as_it_was(
    spark: SparkSession, rig: Rig, topic_name: Name, tmp_path: Path
) -> None:
    """Spark asks for a new beginning then, behind what came meanwhile; that must not count."""
    topic, sink = rig.topic(topic_name()), Sink()
    rig.send(topic, ["before"])
    options = {"topic": topic, "startingOffsets": "latest"}
    sink.fails_at = 0
    assert "fails as it was told" in failure_of(spark, rig, sink, tmp_path / "c", **options)
    rig.send(topic, numbers(0, 3))
    sink.fails_at = 1
    assert "fails as it was told" in failure_of(spark, rig, sink, tmp_path / "c", **options)
    rig.send(topic, numbers(3, 5))
    sink.fails_at = None
    run(spark, rig, sink, tmp_path / "c", **options)
    assert [sink.batches[0], sink.batches[1]] == [[], numbers(0, 3)]
    assert sink.bodies == numbers(0, 5)


def test_a_running_stream_finds_new_queues_and_shows_its_lag(
    spark: SparkSession, rig: Rig, topic_name: Name, tmp_path: Path
) -> None:
    topic, sink = rig.topic(topic_name()), Sink()
    group = f"g-{topic}"
    options = {"topic": topic, "startingOffsets": "earliest", "discoveryIntervalMs": "200"}
    listener = GroupOffsetListener(rig.options(topic=topic, group=group))
    spark.streams.addListener(listener)
    query = start(spark, rig, sink, tmp_path / "c", options, is_bounded=False)
    try:
        rig.send(topic, numbers(0, 5), queue_id=0)
        until(lambda: len(sink.bodies) == 5, query)
        rig.topic(topic, queues=3)
        rig.send(topic, ["added"], queue_id=2)
        until(lambda: "added" in sink.bodies, query)
        until(lambda: committed(rig, topic, group) == 5, query)
        progress = query.lastProgress
        assert progress is not None
        latest = progress.sources[0].latestOffset
        assert json.loads(latest)["q"][topic]["broker-a"]["0"] == 5
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    assert sorted(sink.bodies) == sorted([*numbers(0, 5), "added"])


def until(is_so: Callable[[], bool], query: StreamingQuery) -> None:
    deadline_s = time.monotonic() + 30
    while not is_so():
        assert query.isActive, query.exception()
        in_time(deadline_s, "it was not so in time")
        time.sleep(0.05)


def test_a_lost_commit_file_lets_the_same_batch_come_again(
    spark: SparkSession, rig: Rig, topic_name: Name, tmp_path: Path
) -> None:
    topic, sink = rig.topic(topic_name(), queues=2), Sink()
    options = {"topic": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "2000"}
    rig.send(topic, numbers(0, 20), queue_id=0)
    rig.send(topic, numbers(20, 30), queue_id=1)
    run(spark, rig, sink, tmp_path / "c", **options)
    assert len(sink.batches) > 1, "bytes limit a batch"
    last = max(sink.batches)
    before = dict(sink.batches)
    (tmp_path / "c" / "commits" / str(last)).unlink()
    (tmp_path / "c" / "commits" / f".{last}.crc").unlink(missing_ok=True)
    rig.send(topic, ["after"], queue_id=1)
    run(spark, rig, sink, tmp_path / "c", **options)
    assert {batch: sink.batches[batch] for batch in before} == before
    assert sorted(sink.bodies) == sorted([*numbers(0, 30), "after"])


def test_data_loss_ends_the_query_or_is_passed_over(
    spark: SparkSession, topic_name: Name, tmp_path: Path
) -> None:
    """The broker loses its store between two runs, so that the queue ends before the checkpoint."""
    topic, sink = topic_name(), Sink()
    folder = tmp_path / "rocketmq"
    folder.mkdir()
    with name_server(folder) as names:
        options = {"topic": topic, "startingOffsets": "earliest"}
        with broker(folder, [names.address]) as server:
            rig = Rig(names.address, server, folder)
            rig.topic(topic)
            rig.send(topic, numbers(0, 5))
            run(spark, rig, sink, tmp_path / "c", **options)
        shutil.rmtree(folder / "store")
        with broker(folder, [names.address]) as server:
            rig = Rig(names.address, server, folder)
            rig.topic(topic)
            rig.send(topic, ["new"])
            said = failure_of(spark, rig, sink, tmp_path / "c", **options)
            assert "was read up to 5, and ends at 1" in said
            tolerant = {**options, "failOnDataLoss": "false"}
            run(spark, rig, sink, tmp_path / "c", **tolerant)
            rig.send(topic, ["newer"])
            run(spark, rig, sink, tmp_path / "c", **tolerant)
    assert sink.bodies == [*numbers(0, 5), "newer"]


def test_messages_that_expire_unread_end_the_query_or_are_passed_over(
    spark: SparkSession, topic_name: Name, tmp_path: Path
) -> None:
    """The first files of the log go while nobody reads, as retention lets them."""
    topic, sink = topic_name(), Sink()
    folder = tmp_path / "rocketmq"
    folder.mkdir()
    config = {"mappedFileSizeCommitLog": str(LOG_FILE_BYTES)}
    with name_server(folder) as names:
        options = {"topic": topic, "startingOffsets": "earliest"}
        with broker(folder, [names.address], config) as server:
            rig = Rig(names.address, server, folder)
            rig.topic(topic)
            rig.send(topic, numbers(0, 3))
            run(spark, rig, sink, tmp_path / "c", **options)
            rig.send(topic, [f"{number:05}" * 200 for number in range(3, 200)])
        for path in sorted((folder / "store" / "commitlog").iterdir())[:2]:
            path.unlink()
        with broker(folder, [names.address], config) as server:
            rig = Rig(names.address, server, folder)
            said = failure_of(spark, rig, sink, tmp_path / "c", **options)
            assert re.search(r"offsets 3 to \d+ are gone, it has \d+ to 200", said), said
            run(spark, rig, sink, tmp_path / "c", **options, failOnDataLoss="false")
    left = [int(body[:5]) for body in sink.bodies[3:]]
    assert 50 < left[0] < 150
    assert left == list(range(left[0], 200))
