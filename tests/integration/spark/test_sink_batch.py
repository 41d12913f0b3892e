"""DataFrames are written to topics: each column where it belongs, all rows, and all or none."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from integration.spark.spark_rig import Rig
from integration.spark.topic_content import read_topic
from patience import in_time
from roketto.admin.api import Admin
from roketto.client.selectors import hash_of_key

ROWS = 30_000
TOLD_S = 30.0
"""Whatever nobody can mend by waiting is told within this, also on a busy machine. It is a quarter
of what sinks try again for by default (sendTimeoutMs)."""


def write(frame: DataFrame, rig: Rig, **options: str) -> None:
    frame.write.format("rocketmq").mode("append").options(**rig.options(**options)).save()


def refusal(frame: DataFrame, rig: Rig, **options: str) -> str:
    """What a write says that fails; LateError if it took long to find out."""
    deadline_s = time.monotonic() + TOLD_S
    with pytest.raises(PySparkException) as caught:
        write(frame, rig, **options)
    in_time(deadline_s, f"it took more than {TOLD_S} s to say: {caught.value}")
    return str(caught.value)


def test_every_column_arrives_and_every_row_exactly_once(
    spark: SparkSession, rig: Rig, topic_name: Callable[[], str]
) -> None:
    topic = rig.topic(topic_name(), queues=4)
    frame = spark.range(ROWS).selectExpr(
        "CAST(id AS STRING) AS body", "concat('key', id) AS keys",
        "IF(id % 2 = 0, 'even', NULL) AS tags", "concat('shard', id % 100) AS shardingKey",
        "map('number', CAST(id AS STRING)) AS properties", "CAST(id % 3 AS INT) AS flag",
    )  # fmt: skip
    write(frame, rig, topic=topic, batchBytes="100000")
    found = read_topic(rig.names, topic)
    assert sorted(int(message.body) for message in found) == list(range(ROWS))
    assert len({message.message_id for message in found}) == ROWS
    for message in found[::97]:
        number = int(message.body)
        assert message.keys == [f"key{number}"]
        assert message.tags == ("even" if number % 2 == 0 else None)
        assert message.properties["number"] == str(number)
        assert message.record.flag == number % 3
    for message in found:
        assert message.record.queue_id == hash_of_key(f"shard{int(message.body) % 100}", 4)


def test_rows_choose_topics_and_queues_and_when_they_are_delivered(
    spark: SparkSession, rig: Rig, topic_name: Callable[[], str]
) -> None:
    one, other = rig.topic(topic_name(), queues=2), rig.topic(topic_name(), queues=3)
    later = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [(one, 1, "a", None, None), (other, 2, "b", None, None), (other, None, "c", None, None),
            (one, 0, "d", None, later), (one, 0, "e", 5, None)]  # fmt: skip
    schema = "topic string, queueId int, body string, delayLevel int, deliverTimestamp timestamp"
    write(spark.createDataFrame(rows, schema), rig)
    found = {
        message.body: message for name in (one, other) for message in read_topic(rig.names, name)
    }
    places = {body: (message.topic, message.record.queue_id) for body, message in found.items()}
    assert places[b"a"] == (one, 1)
    assert places[b"b"] == (other, 2)
    assert places[b"c"][0] == other
    assert b"e" not in found, "its time has not come"


def test_transactional_rows_are_visible_all_together_or_not_at_all(
    spark: SparkSession, rig: Rig, topic_name: Callable[[], str]
) -> None:
    topic = rig.topic(topic_name(), queues=2)
    numbers = spark.range(2_000).repartition(2)
    broken = numbers.selectExpr(
        "IF(id = 1999, raise_error('the last row'), CAST(id AS STRING)) AS body"
    )
    assert "the last row" in refusal(broken, rig, topic=topic, delivery="transactional")
    assert read_topic(rig.names, topic) == []
    write(numbers.selectExpr("CAST(id AS STRING) AS body"), rig, topic=topic,
          delivery="transactional")  # fmt: skip
    found = Counter(int(message.body) for message in read_topic(rig.names, topic))
    assert found == Counter(range(2_000))


def test_a_repeated_batch_is_stored_once_where_the_topic_leaves_out_what_it_has(
    spark: SparkSession, rig: Rig, topic_name: Callable[[], str]
) -> None:
    topic = rig.topic(topic_name())
    frame = spark.range(500).selectExpr("CAST(id AS STRING) AS body").coalesce(1)
    options = {"topic": topic, "delivery": "idempotent", "sinkId": "nightly", "batchId": "7"}
    said = refusal(frame, rig, **options)
    assert f"-t {topic} -a +dedup.window.seconds=600" in said

    async def deduplicate(admin: Admin) -> None:
        await admin.topics.create(
            topic, read_queues=1, write_queues=1, attributes={"dedup.window.seconds": "600"}
        )

    rig.admin(deduplicate)
    for _ in range(2):
        write(frame, rig, **options)
    assert len(read_topic(rig.names, topic)) == 500
    write(frame, rig, **{**options, "batchId": "8"})
    assert len(read_topic(rig.names, topic)) == 1_000


def test_mistakes_are_told_within_seconds_and_with_the_remedy(
    spark: SparkSession, rig: Rig, topic_name: Callable[[], str]
) -> None:
    frame = spark.createDataFrame([("x",)], "body string")
    topic = rig.topic(topic_name())
    assert "did you mean 'delivery'" in refusal(frame, rig, topic=topic, delivry="transactional")
    assert "Give option topic" in refusal(frame, rig)
    wrong = frame.withColumnRenamed("body", "value")
    assert "which a message has no place for" in refusal(wrong, rig, topic=topic)
    missing = refusal(frame, rig, topic="NoSuchTopic", delivery="transactional")
    assert "NoSuchTopic" in missing
    assert "create it" in missing
    assert "body has 0 bytes" in refusal(spark.createDataFrame([("",)], "body string"), rig,
                                         topic=topic)  # fmt: skip
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        frame.write.format("rocketmq").mode("overwrite").options(**rig.options(topic=topic)).save()
    gone = {"nameServer": "127.0.0.1:9", "topic": topic, "sendTimeoutMs": "500"}
    assert "127.0.0.1:9" in refusal(frame, rig, **gone)
