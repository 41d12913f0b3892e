"""The sink writes to Java's brokers: at least once, and exactly once by half messages."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from integration.admin.admin_rig import make_topic
from integration.spark.conftest import end_session, start_session
from integration.spark.topic_content import read_topic
from interop.broker.cluster import JavaCluster
from interop.peer import Peer, PeerUnavailableError
from interop.peer.outcome import skip_or_fail
from roketto.admin.api import Admin
from roketto.remoting.loop import run
from roketto.spark.cluster import close_clusters

VERSIONS = [
    pytest.param(version, marks=[pytest.mark.peer, pytest.mark.slow])
    for version in ("5.5.0", "4.9.7")
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("spark"))
    try:
        session.range(4).mapInArrow(lambda batches: batches, "id long").collect()
        yield session
    finally:
        end_session(session)


@pytest.fixture(scope="module", params=VERSIONS)
def names(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("java")
    try:
        peer = Peer(request.param)
    except PeerUnavailableError as unavailable:
        skip_or_fail(unavailable)
    with peer, JavaCluster(peer, folder) as cluster:
        yield cluster.name_server


@pytest.fixture(autouse=True)
def no_clients_left() -> Iterator[None]:
    yield
    close_clusters()


def topic_of(names: str, name: str, queues: int) -> str:
    async def work() -> None:
        async with Admin(names) as admin:
            await make_topic(admin, name, queues, brokers=1)

    run(work())
    return name


def numbers_in(names: str, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in read_topic(names, topic))


def test_rows_reach_a_java_broker_with_all_columns(spark: SparkSession, names: str) -> None:
    topic = topic_of(names, "SparkPlain", 4)
    frame = spark.range(5_000).selectExpr(
        "CAST(id AS STRING) AS body", "concat('k', id) AS keys", "'blue' AS tags",
        "map('n', CAST(id AS STRING)) AS properties", "CAST(id % 7 AS STRING) AS shardingKey",
    )  # fmt: skip
    frame.write.format("rocketmq").mode("append").options(nameServer=names, topic=topic).save()
    found = read_topic(names, topic)
    assert Counter(int(message.body) for message in found) == Counter(range(5_000))
    for message in found[::101]:
        number = message.body.decode()
        assert (message.keys, message.tags) == ([f"k{number}"], "blue")
        assert message.properties["n"] == number


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))
    return lines.selectExpr("value AS body", "value AS shardingKey")


def test_a_stream_that_repeats_its_last_batch_is_written_once(
    spark: SparkSession, names: str, tmp_path: Path
) -> None:
    topic = topic_of(names, "SparkOnce", 2)
    (tmp_path / "input").mkdir()
    for number in range(2):
        path = tmp_path / "input" / f"{number}.txt"
        numbers = range(number * 500, number * 500 + 500)
        path.write_text("".join(f"{one}\n" for one in numbers))
        os.utime(path, (number + 1, number + 1))  # Spark reads the oldest first

    def run_query() -> None:
        writer = stream_of(spark, tmp_path / "input").writeStream.format("rocketmq")
        query = (
            writer.options(nameServer=names, topic=topic, delivery="transactional")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        query.stop()

    run_query()
    assert numbers_in(names, topic) == Counter(range(1_000))
    commits = tmp_path / "checkpoint" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink(missing_ok=True)
    (tmp_path / "input" / "2.txt").write_text("1000\n")
    run_query()
    assert numbers_in(names, topic) == Counter(range(1_001))


def test_rows_of_a_write_that_fails_are_not_delivered(spark: SparkSession, names: str) -> None:
    topic = topic_of(names, "SparkNone", 2)
    rows = spark.range(100).selectExpr("IF(id = 99, '', CAST(id AS STRING)) AS body").coalesce(1)
    with pytest.raises(Exception, match="body has 0 bytes"):
        rows.repartition(2).write.format("rocketmq").mode("append").options(
            nameServer=names, topic=topic, delivery="transactional"
        ).save()
    assert read_topic(names, topic) == []
