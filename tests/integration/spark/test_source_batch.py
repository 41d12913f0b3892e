"""The batch source on real Spark: every message with all its columns, by every way to choose it."""

import json
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from integration.spark.spark_rig import Rig
from roketto.client.message import Message
from roketto.clock import wall_ms
from roketto.spark.cluster import Cluster, MessageQueue
from roketto.spark.source_options import SourceOptions

Name = Callable[[], str]


def load(spark: SparkSession, rig: Rig, schema: str = "", **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").options(**rig.options(), **options)
    return (reader.schema(schema) if schema else reader).load()


def bodies(frame: DataFrame) -> list[bytes]:
    return [bytes(row.body) for row in frame.select("queueId", "queueOffset", "body").orderBy(
        "queueId", "queueOffset").collect()]  # fmt: skip


def offsets(topic: str, queues: object) -> str:
    return json.dumps({topic: {"broker-a": queues}})


def failure_of(frame: Callable[[], DataFrame]) -> str:
    """What a query says when it fails, which it must."""
    with pytest.raises(Exception) as failed:
        frame().collect()
    return str(failed.value)


def test_all_columns_are_what_the_client_has_sent(
    spark: SparkSession, rig: Rig, topic_name: Name
) -> None:
    topic = rig.topic(topic_name(), queues=2)
    long = "压缩的正文 compressed " * 3_000
    sent = [
        Message(topic, "你好 世界".encode(), tags="标签", keys=["订单-1", "k2"],
                properties={"城市": "北京"}, flag=7),
        Message(topic, long.encode()),
        Message(topic, b"\x00\xff binary", keys="one"),
    ]  # fmt: skip
    began_ms = wall_ms()
    results = rig.send(topic, sent, queue_id=1)
    rows = load(spark, rig, topic=topic).orderBy("queueOffset").collect()
    assert [bytes(row.body) for row in rows] == [message.body for message in sent]
    first: Row = rows[0]
    assert (first.topic, first.brokerName, first.queueId, first.queueOffset) == (
        topic, "broker-a", 1, 0
    )  # fmt: skip
    assert (first.tags, first["keys"], first.flag, first.reconsumeTimes) == (
        "标签", "订单-1 k2", 7, 0
    )  # fmt: skip
    assert first.properties["城市"] == "北京"
    assert first.msgId == results[0].message_id
    assert first.bornHost.startswith("127.0.0.1:")
    for when in (first.bornTimestamp, first.storeTimestamp):
        assert abs(when.timestamp() * 1000 - began_ms) < 60_000
    assert (rows[1].tags, rows[1]["keys"]) == (None, None)


def test_a_schema_is_a_projection_and_wrong_ones_say_what_is_right(
    spark: SparkSession, rig: Rig, topic_name: Name
) -> None:
    topic = rig.topic(topic_name())
    rig.send(topic, [Message(topic, b"a", tags="x", properties={"p": "1"})])
    two = load(spark, rig, "body binary, queueOffset long", topic=topic)
    assert [tuple(row) for row in two.collect()] == [(bytearray(b"a"), 0)]
    raw = load(spark, rig, topic=topic, properties="raw").select("properties").first()
    assert raw is not None
    assert "p\x011\x02" in raw[0]
    assert "properties" not in load(spark, rig, topic=topic, properties="none").columns
    said = failure_of(lambda: load(spark, rig, "boddy binary", topic=topic))
    assert "boddy" in said
    assert "did you mean body" in said
    assert "is asked for as bigint" in failure_of(
        lambda: load(spark, rig, "body long", topic=topic)
    )


def test_filters_run_on_the_broker_and_exactly(
    spark: SparkSession, rig: Rig, topic_name: Name
) -> None:
    topic = rig.topic(topic_name())
    tags = ["Aa", "BB", "c", None]  # the first two have the same hash
    rig.send(topic, [Message(topic, str(number).encode(), tags=tags[number % 4],
                             properties={"n": str(number)}) for number in range(12)])  # fmt: skip
    assert bodies(load(spark, rig, topic=topic, tags="Aa || c")) == [
        str(number).encode() for number in range(12) if number % 4 in (0, 2)
    ]
    only = load(spark, rig, "body binary, queueId int, queueOffset long", topic=topic,
                subExpression="Aa")  # fmt: skip
    assert bodies(only) == [b"0", b"4", b"8"]
    found = load(spark, rig, topic=topic, sql92="n BETWEEN 3 AND 5 OR TAGS = 'c'")
    assert bodies(found) == [b"2", b"3", b"4", b"5", b"6", b"10"]


def test_offsets_times_and_groups_choose_where_to_begin_and_end(
    spark: SparkSession, rig: Rig, topic_name: Name
) -> None:
    topic = rig.topic(topic_name(), queues=2)
    rig.send(topic, ["0", "1", "2"], queue_id=0)
    rig.send(topic, ["a"], queue_id=1)
    rows = load(spark, rig, topic=topic).where("queueId = 0").orderBy("queueOffset").collect()
    begin = offsets(topic, {"0": 1, "1": -2})
    end = offsets(topic, {"0": 2, "1": -1})
    between = load(spark, rig, topic=topic, startingOffsets=begin, endingOffsets=end)
    assert bodies(between) == [b"1", b"a"]
    last_ms = int(rows[2].storeTimestamp.timestamp() * 1000)
    older = [row for row in rows if row.storeTimestamp < rows[2].storeTimestamp]
    before = load(spark, rig, topic=topic, queueIds="0", endingTimestamp=str(last_ms))
    assert bodies(before) == [bytes(row.body) for row in older]
    later = load(spark, rig, topic=topic, queueIds="0", startingTimestamp=str(last_ms))
    assert bodies(later) == [bytes(row.body) for row in rows[len(older) :]]
    connection = SourceOptions.of(rig.options(topic=topic), is_stream=False).connection
    queue = MessageQueue("broker-a", 0, topic)
    Cluster.of(connection).commit_group_offset(f"g-{topic}", queue, 2)
    grouped = load(spark, rig, topic=topic, startingOffsets=f"group:g-{topic}")
    assert bodies(grouped) == [b"2", b"a"]


def test_one_queue_is_read_by_many_tasks_and_many_queues_by_one(
    spark: SparkSession, rig: Rig, topic_name: Name
) -> None:
    topic = rig.topic(topic_name(), queues=4)
    for queue_id in range(4):
        rig.send(topic, [f"{queue_id}-{number}" for number in range(10)], queue_id=queue_id)
    expected = [f"{queue_id}-{number}".encode() for queue_id in range(4) for number in range(10)]
    for count, options in [
        (1, {}),
        (4, {"minRecordsPerPartition": "1"}),
        (8, {"minPartitions": "8"}),
        (12, {"maxRecordsPerPartition": "4"}),
    ]:
        frame = load(spark, rig, topic=topic, **options)
        assert frame.rdd.getNumPartitions() == count, options
        assert bodies(frame) == expected


def test_topics_by_list_pattern_and_assignment(
    spark: SparkSession, rig: Rig, topic_name: Name
) -> None:
    names = [rig.topic(f"{topic_name()}Many", queues=2) for _ in range(2)]
    for name in names:
        rig.send(name, [f"{name}/0"], queue_id=0)
        rig.send(name, [f"{name}/1"], queue_id=1)
    everything = sorted(f"{name}/{queue}".encode() for name in names for queue in (0, 1))
    assert sorted(bodies(load(spark, rig, subscribe=",".join(names)))) == everything
    assert sorted(bodies(load(spark, rig, subscribePattern="SparkTopic.*Many"))) == everything
    assigned = load(spark, rig, assign=offsets(names[0], [1]))
    assert bodies(assigned) == [f"{names[0]}/1".encode()]
    assert bodies(spark.read.format("rocketmq").options(**rig.options()).load(names[1])) == [
        f"{names[1]}/0".encode(), f"{names[1]}/1".encode()
    ]  # fmt: skip


def test_a_temporary_view_answers_sql(spark: SparkSession, rig: Rig, topic_name: Name) -> None:
    topic = rig.topic(topic_name())
    rig.send(topic, [Message(topic, b"1", tags="a"), Message(topic, b"2", tags="b"),
                     Message(topic, b"3", tags="a")])  # fmt: skip
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING rocketmq"
        f" OPTIONS (nameServer '{rig.names}', topic '{topic}')"
    )
    query = "SELECT tags, sum(CAST(CAST(body AS string) AS int)) FROM orders GROUP BY tags"
    assert {tuple(row) for row in spark.sql(query).collect()} == {("a", 4), ("b", 2)}


def test_what_is_wrong_is_told_in_words_within_seconds(
    spark: SparkSession, rig: Rig, topic_name: Name
) -> None:
    topic = rig.topic(topic_name())
    rig.send(topic, ["0", "1"])
    beyond = offsets(topic, {"0": 9})
    for options, said in [
        ({"topic": "NoSuchTopic"}, "NoSuchTopic"),
        ({"topik": topic}, "did you mean 'topic'"),
        ({"topic": topic, "startingOffsets": beyond}, "begins at 9"),
        ({"topic": topic, "nameServer": "127.0.0.1:1", "fetchOffset.numRetries": "0"},
         "no name server answers"),
        ({"topic": topic, "sql92": "a >"}, "SUBSCRIPTION_PARSE_FAILED"),
    ]:  # fmt: skip
        began_ms = wall_ms()
        reader = spark.read.format("rocketmq").options(**{**rig.options(), **options})
        text = failure_of(reader.load)
        assert said in text, text[-2000:]
        assert wall_ms() - began_ms < 20_000
    clipped = load(spark, rig, topic=topic, startingOffsets=beyond, failOnDataLoss="false")
    assert bodies(clipped) == []


def test_an_empty_topic_has_no_rows(spark: SparkSession, rig: Rig, topic_name: Name) -> None:
    assert load(spark, rig, topic=rig.topic(topic_name(), queues=3)).count() == 0
