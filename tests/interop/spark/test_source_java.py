"""The source reads from Java's brokers by pulls: batches, streams, filters, groups, views."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from integration.spark.shared_session import end_session, start_session
from integration.spark.spark_rig import AnyRig
from interop.broker.cluster import JavaCluster
from interop.peer import Peer, PeerUnavailableError
from interop.peer.outcome import skip_or_fail
from roketto.client.message import Message
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.cluster import Cluster, close_clusters
from roketto.spark.source_options import SourceOptions

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.xdist_group("spark-java")]

COUNT = 5_000
OLD = "4.9.7"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("spark"))
    try:
        yield session
    finally:
        end_session(session)


@pytest.fixture(scope="module", params=["5.5.0", OLD])
def rig(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyRig]:
    """Java's name server and broker."""
    try:
        peer = Peer(request.param)
    except PeerUnavailableError as unavailable:
        skip_or_fail(unavailable)
    with peer, JavaCluster(peer, tmp_path_factory.mktemp("java")) as cluster:
        yield AnyRig(cluster.name_server)


@pytest.fixture
def is_old(request: pytest.FixtureRequest) -> bool:
    """Whether the rig's broker is of 4.9."""
    return bool(request.node.callspec.params["rig"] == OLD)


@pytest.fixture(autouse=True)
def no_clients_left(no_leaks: None) -> Iterator[None]:
    yield
    close_clusters()


def load(spark: SparkSession, rig: AnyRig, **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**rig.options(), **options).load()


def bodies(frame: DataFrame) -> list[str]:
    rows = frame.select("queueId", "queueOffset", "body").orderBy("queueId", "queueOffset")
    return [bytes(row.body).decode() for row in rows.collect()]


def cluster_of(rig: AnyRig, topic: str) -> Cluster:
    options = SourceOptions.of(rig.options(topic=topic), is_stream=False)
    return Cluster.of(options.connection)


def test_a_java_broker_is_known_by_its_refusal_of_bulk_reads(rig: AnyRig) -> None:
    topic = rig.topic("SparkKind")
    cluster = cluster_of(rig, topic)
    [queue] = cluster.queues(topic)
    address = cluster.run(cluster.client.routes.master_of(queue.broker_name))
    assert not cluster.is_ours(address)


def test_a_batch_is_all_that_was_sent_with_all_its_columns(
    spark: SparkSession, rig: AnyRig
) -> None:
    topic = rig.topic("SparkBatch", queues=2)
    long = "压缩 compressed " * 1_000
    rig.send(topic, [str(number) for number in range(COUNT)], queue_id=0)
    [sent] = rig.send(topic, [Message(topic, long.encode(), tags="标签", keys=["k"],
                                      properties={"城": "京"})], queue_id=1)  # fmt: skip
    frame = load(spark, rig, topic=topic, minPartitions="3")
    assert frame.rdd.getNumPartitions() >= 3
    assert bodies(frame) == [*(str(number) for number in range(COUNT)), long]
    row = frame.where("queueId = 1").first()
    assert row is not None
    assert (row.tags, row["keys"], row.msgId, row.properties["城"]) == (
        "标签", "k", sent.message_id, "京"
    )  # fmt: skip


def test_filters_run_on_a_java_broker(spark: SparkSession, rig: AnyRig) -> None:
    topic = rig.topic("SparkFilters")
    rig.send(topic, [Message(topic, str(number).encode(), tags="Aa" if number % 2 else "BB",
                             properties={"n": str(number)}) for number in range(100)])  # fmt: skip
    odd = [str(number) for number in range(1, 100, 2)]
    assert bodies(load(spark, rig, topic=topic, tags="Aa")) == odd
    assert bodies(load(spark, rig, topic=topic, sql92="n > 96")) == ["97", "98", "99"]


def test_a_stream_goes_on_where_it_was_and_keeps_its_group(
    spark: SparkSession, rig: AnyRig, tmp_path: Path
) -> None:
    topic = rig.topic("SparkStream", queues=2)
    found: list[str] = []

    def take(frame: DataFrame, batch_id: int) -> None:
        found.extend(bodies(frame))

    def run() -> None:
        options = {"topic": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100",
                   "group": "spark-java", "commitOffsets": "true"}  # fmt: skip
        stream = spark.readStream.format("rocketmq").options(**rig.options(), **options).load()
        writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        assert query.awaitTermination(120)

    rig.send(topic, [f"a{number}" for number in range(150)], queue_id=0)
    run()
    rig.send(topic, [f"b{number}" for number in range(50)], queue_id=1)
    run()
    expected = [f"a{number}" for number in range(150)] + [f"b{number}" for number in range(50)]
    assert sorted(found) == sorted(expected)
    queues = [MessageQueue("broker-a", number, topic) for number in range(2)]
    assert cluster_of(rig, topic).group_offsets("spark-java", queues) == {
        queues[0]: 150, queues[1]: 50
    }  # fmt: skip


def test_a_view_of_a_topic_is_asked_by_sql(spark: SparkSession, rig: AnyRig) -> None:
    topic = rig.topic("SparkView", queues=2)
    for number in range(20):
        tag = "hot" if number % 4 else "cold"
        rig.send(topic, [Message(topic, str(number).encode(), tags=tag)], queue_id=number % 2)
    spark.sql(f"""
        CREATE OR REPLACE TEMPORARY VIEW java_orders USING rocketmq
        OPTIONS (nameServer '{rig.names}', topic '{topic}')
    """)
    found = spark.sql("""
        SELECT tags, count(*) AS orders, sum(CAST(CAST(body AS STRING) AS INT)) AS total
        FROM java_orders WHERE queueId = 0 GROUP BY tags ORDER BY tags
    """).collect()
    assert [tuple(row) for row in found] == [("cold", 5, 40), ("hot", 5, 50)]
    spark.catalog.dropTempView("java_orders")


def test_times_find_their_offsets_on_a_java_broker(spark: SparkSession, rig: AnyRig) -> None:
    topic = rig.topic("SparkTimes")
    for number in range(20):
        rig.send(topic, [str(number)])
        time.sleep(0.002)  # so that no two have the same time
    rows = load(spark, rig, topic=topic).orderBy("queueOffset").collect()
    chosen = rows[10].storeTimestamp
    time_ms = str(round(chosen.timestamp() * 1000))
    later = [bytes(row.body).decode() for row in rows if row.storeTimestamp >= chosen]
    assert bodies(load(spark, rig, topic=topic, startingTimestamp=time_ms)) == later
    earlier = [bytes(row.body).decode() for row in rows if row.storeTimestamp < chosen]
    assert bodies(load(spark, rig, topic=topic, endingTimestamp=time_ms)) == earlier


def test_of_one_millisecond_the_first_message_is_found(
    spark: SparkSession, rig: AnyRig, is_old: bool
) -> None:
    """Or, of a broker of 4.9, any of them, as docs/spark.md says."""
    topic = rig.topic("SparkMoment")
    rig.send(topic, [str(number) for number in range(40)])
    rows = load(spark, rig, topic=topic).orderBy("queueOffset").collect()
    chosen = rows[20].storeTimestamp
    time_ms = str(round(chosen.timestamp() * 1000))
    then = [row.queueOffset for row in rows if row.storeTimestamp == chosen]
    found = load(spark, rig, topic=topic, startingTimestamp=time_ms).select("queueOffset")
    offsets = sorted(row.queueOffset for row in found.collect())
    assert offsets == list(range(offsets[0], 40))
    assert offsets[0] in (then if is_old else then[:1])
