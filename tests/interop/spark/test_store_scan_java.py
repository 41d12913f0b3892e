"""A store that Java's broker has written, scanned by Spark, is what Java's consumer reads of it."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from integration.spark.shared_session import end_session, start_session
from interop.peer import Peer, PeerUnavailableError
from interop.peer.outcome import skip_or_fail
from interop.stores.compare import body_digest
from interop.stores.java_view import JavaView, Message, look
from roketto.protocol.names import is_system_topic
from roketto.protocol.sysflags import COMPRESSED
from roketto.spark.columns import ddl, default_schema
from roketto.spark.store_scan import StoreDataSource

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.xdist_group("spark-java")]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = f"{ddl()}, logOffset bigint, storeSize int, sysFlag int"
_LOG_FIELDS = [
    ("logOffset", LongType()), ("storeSize", IntegerType()), ("sysFlag", IntegerType()),
]  # fmt: skip
CONFIG = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "600",
    "messageDelayLevel": "1s 2s 6s 1h 2h",
    "timerWheelEnable": "false",
}


class JavaStore(NamedTuple):
    """The store of a broker that is still at work, and what Java's clients have seen of it."""

    view: JavaView
    root: Path


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("spark"))
    try:
        yield session
    finally:
        end_session(session)


@pytest.fixture(scope="module", params=["5.5.0", "4.9.7"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaStore]:
    """Messages of every kind: alone, in batches, compressed, delayed, in transactions."""
    root = tmp_path_factory.mktemp("java") / "store"
    try:
        peer = Peer(request.param)
    except PeerUnavailableError as unavailable:
        skip_or_fail(unavailable)
    with peer:
        names = peer.name_server()
        paths = {"storePathRootDir": str(root), "storePathCommitLog": str(root / "commitlog")}
        broker = peer.broker([names.address], {**CONFIG, **paths, "brokerName": "java-a"})
        view = look(peer, names.address, broker, root, ["fill:Java:150:2500", "dump"])
        yield JavaStore(view, root)


def expected(message: Message) -> dict[str, Any]:
    """The row of a message, from what Java's consumer has printed of it."""
    return {
        "topic": message.topic,
        "brokerName": "java-a",
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "tags": message.properties.get("TAGS"),
        "keys": message.properties.get("KEYS"),
        "msgId": message.properties["UNIQ_KEY"],
        "body": message.body_digest,
        "flag": message.flag,
        "properties": message.properties,
        "bornTimestamp": EPOCH + timedelta(milliseconds=message.born_time_ms),
        "storeTimestamp": EPOCH + timedelta(milliseconds=message.store_time_ms),
        "reconsumeTimes": message.reconsume_times,
        "logOffset": message.log_offset,
        "storeSize": message.size,
        "sysFlag": message.sys_flag,
    }


def scanned(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a scan in the same words."""
    assert row["bornHost"].startswith("127.0.0.1:")
    found = {name: row[name] for name in row if name != "bornHost"}
    found["body"] = body_digest(bytes(row["body"]))
    found["properties"] = dict(row["properties"])
    found["sysFlag"] &= ~COMPRESSED
    for name in ("bornTimestamp", "storeTimestamp"):
        found[name] = row[name].astimezone(UTC)
    return found


def place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["queueId"], row["queueOffset"]


def scan(spark: SparkSession, path: Path, **options: str) -> list[dict[str, Any]]:
    """By Spark."""
    reader = spark.read.format("rocketmq-store").schema(COLUMNS).option("brokerName", "java-a")
    rows = reader.options(**options).load(str(path)).collect()
    return sorted((scanned(row.asDict()) for row in rows), key=place)


def read(path: Path, **options: str) -> list[dict[str, Any]]:
    """By what Spark calls, without the time that Spark takes."""
    source = StoreDataSource({"path": str(path), "brokerName": "java-a", **options})
    schema = StructType(
        [*default_schema().fields, *(StructField(*column) for column in _LOG_FIELDS)]
    )
    reader = source.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted((scanned(row) for batch in batches for row in batch.to_pylist()), key=place)


def test_scan_of_a_java_store_is_what_the_java_consumer_reads(
    spark: SparkSession, store: JavaStore, tmp_path: Path
) -> None:
    messages = [one for one in store.view.all_messages() if not is_system_topic(one.topic)]
    rows = sorted(map(expected, messages), key=place)
    assert len(rows) > 100
    assert len({row["topic"] for row in rows}) > 1
    # Messages that were delayed may have come since.
    ends: dict[str, dict[str, int]] = {}
    for (topic, queue_id), (_, end) in store.view.queues.items():
        ends.setdefault(topic, {})[str(queue_id)] = end
    ending = json.dumps(ends)
    assert scan(spark, store.root, endingOffsets=ending, minPartitions="2") == rows

    copy = tmp_path / "copy"
    shutil.copytree(store.root, copy)
    assert read(copy, endingOffsets=ending, minPartitions="5") == rows
    tag = next(row["tags"] for row in rows if row["tags"])
    tagged = read(copy, endingOffsets=ending, tags=tag)
    assert tagged == [row for row in rows if row["tags"] == tag]
    log = read(copy, source="commitlog")
    by_place = {row["logOffset"]: row for row in log}
    assert [by_place[row["logOffset"]] for row in rows] == rows
    assert len(log) > len(rows)
