"""Spark scans the files of a broker of ours, at work and stopped: SQL, projection, errors."""

import time
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from integration.spark.spark_rig import Rig
from roketto.client.message import Message
from servers import broker, name_server

COUNT = 1_200
SMALL_FILES = {"mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "2000"}


class Site(NamedTuple):
    """A store of which the broker has stopped, and what it said while it was at work."""

    root: Path
    live_log: list[int]
    live_queues: list[int]


def load(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return spark.read.format("rocketmq-store").options(**options).load(str(root))


@pytest.fixture(scope="module")
def site(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("scanned")
    root = folder / "store"
    with name_server(folder) as names, broker(folder, [names.address], SMALL_FILES) as server:
        rig = Rig(names.address, server, folder)
        topic = rig.topic("Orders", queues=2)
        for queue_id in (0, 1):
            numbers = range(queue_id, COUNT, 2)
            messages = [
                Message(topic, b"%d" % n, tags=f"Tag{n % 3}", keys=[f"k{n}"]) for n in numbers
            ]
            rig.send(topic, messages, queue_id=queue_id)
        live = [numbers_in(load(spark, root, source=source, topic=topic))
                for source in ("commitlog", "queues")]  # fmt: skip
    return Site(root, *live)


def numbers_in(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


def test_store_at_work_shows_all_that_was_acknowledged(site: Site) -> None:
    assert site.live_log == list(range(COUNT))
    assert site.live_queues == list(range(COUNT))


def test_sql_on_a_store_gives_every_message_once(spark: SparkSession, site: Site) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW stored USING `rocketmq-store`"
        f" OPTIONS (storePath '{site.root}', topic 'Orders', brokerName 'broker-a',"
        " maxRecordsPerPartition '500')"
    )
    rows = spark.sql(
        "SELECT queueId, count(*) AS n, count(DISTINCT queueOffset) AS offsets,"
        " count(DISTINCT msgId) AS ids, sum(CAST(CAST(body AS string) AS int)) AS total,"
        " min(queueOffset) AS low, max(queueOffset) AS high, min(brokerName) AS broker"
        " FROM stored GROUP BY queueId ORDER BY queueId"
    ).collect()
    half = COUNT // 2
    for queue_id, row in enumerate(rows):
        total = sum(range(queue_id, COUNT, 2))
        assert tuple(row) == (queue_id, half, half, half, total, 0, half - 1, "broker-a")
    by_tag = spark.sql("SELECT tags, count(*) AS n FROM stored GROUP BY tags ORDER BY tags")
    assert [tuple(row) for row in by_tag.collect()] == [(f"Tag{n}", COUNT // 3) for n in range(3)]
    keys = spark.sql("SELECT keys, properties['KEYS'] AS same FROM stored LIMIT 5").collect()
    assert all(row.keys == row.same for row in keys)
    assert spark.table("stored").rdd.getNumPartitions() == 3


def test_schema_of_the_user_is_all_that_is_read(spark: SparkSession, site: Site) -> None:
    reader = spark.read.format("rocketmq-store").option("topic", "Orders").option("tags", "Tag1")
    frame = reader.schema("logOffset bigint, body binary, tags string").load(str(site.root))
    rows = frame.orderBy("logOffset").collect()
    assert len(rows) == COUNT // 3
    assert {row.tags for row in rows} == {"Tag1"}
    assert frame.columns == ["logOffset", "body", "tags"]


def test_raw_properties_are_a_text_and_no_properties_no_column(
    spark: SparkSession, site: Site
) -> None:
    raw = load(spark, site.root, properties="raw", topic="Orders")
    first = raw.orderBy("queueId", "queueOffset").first()
    assert first is not None
    assert "TAGS\x01Tag0\x02" in first.properties
    assert "properties" not in load(spark, site.root, properties="none").columns


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topic": "Order"}, "did you mean Orders?"),
        ({"topik": "Orders"}, "did you mean 'topic'?"),
        ({"topic": "Orders", "startingOffsets": '{"Orders":{"0":99999}}'}, "99999 is asked for"),
        ({"topic": "Orders", "properties": "json"}, "write one of map, raw, none"),
    ],
)
def test_wrong_option_is_told_within_seconds(
    spark: SparkSession, site: Site, options: dict[str, str], told: str
) -> None:
    began_s = time.monotonic()
    with pytest.raises(PySparkException) as caught:
        load(spark, site.root, **options).count()
    assert told in str(caught.value)
    assert time.monotonic() - began_s < 30  # two cores, shared with other tests


def test_unknown_column_is_told_with_the_nearest(spark: SparkSession, site: Site) -> None:
    reader = spark.read.format("rocketmq-store").schema("queueOfset bigint")
    with pytest.raises(PySparkException, match="did you mean queueOffset"):
        reader.load(str(site.root)).count()


def test_topic_without_messages_is_an_empty_table(spark: SparkSession, site: Site) -> None:
    late = load(spark, site.root, topic="Orders", startingOffsets="latest")
    assert late.count() == 0
