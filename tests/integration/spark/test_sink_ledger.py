"""Decisions outlive whoever has made them: a driver that dies at any step is taken over from."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from integration.spark.spark_rig import Rig
from integration.spark.topic_content import read_topic
from roketto.spark.cluster import Cluster
from roketto.spark.commits import open_ledger, settle
from roketto.spark.half import HalfDecision, HalfOutlet, half_marks, merge_halves
from roketto.spark.half_ledger import HalfLedger
from roketto.spark.packing import Packer
from roketto.spark.row_ids import FreshIds
from roketto.spark.row_schema import SinkSchema
from roketto.spark.rows import RowEncoder
from roketto.spark.sending import Sender, Targets
from roketto.spark.sink_options import SinkError, SinkOptions
from roketto.spark.staged_ledger import Decision, StagedLedger, find_masters, merge_pieces
from roketto.spark.staging import StageOutlet
from roketto.spark.task_context import Identity
from roketto.spark.written import STAGED, Piece, Written

SCHEMA = SinkSchema(StructType([StructField("body", StringType())]), "any")


def options_of(rig: Rig, topic: str) -> SinkOptions:
    given = rig.options(topic=topic, batchBytes="1024", sendTimeoutMs="20000")
    return SinkOptions.of(given)


def stage(
    cluster: Cluster, options: SinkOptions, sink_id: str, batch_id: int, numbers: range
) -> tuple[Piece, ...]:
    targets = Targets(cluster, must_exist=True)
    encoder = RowEncoder(SCHEMA, FreshIds("10.0.0.7"), targets.queues, topic=options.topic)
    packer = Packer(options.batch_bytes)
    with Sender(cluster, options, StageOutlet(sink_id, batch_id), targets) as sender:
        parts, _ = encoder.encode(pa.record_batch({"body": pa.array(map(str, numbers))}))
        for part in parts:
            sender.send(packer.add(part))
        sender.send(packer.flush())
        return tuple(sender.finish())


def numbers_in(rig: Rig, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in read_topic(rig.names, topic))


def test_a_driver_that_dies_after_its_decision_is_taken_over_from(
    rig: Rig, topic_name: Callable[[], str]
) -> None:
    topic = rig.topic(topic_name(), queues=2)
    options = options_of(rig, topic)
    cluster = Cluster.of(options.connection)
    client = cluster.client
    sink_id = f"sink-{topic}"

    def ledger() -> StagedLedger:
        found = cluster.run(open_ledger(cluster, client, options, sink_id))
        assert isinstance(found, StagedLedger)
        return found

    pieces = stage(cluster, options, sink_id, 3, range(200))
    assert len(pieces) > 2
    assert numbers_in(rig, topic) == Counter()
    first = Decision(3, "query", merge_pieces([pieces]))
    assert cluster.run(ledger().decide(first)) == (first, True)
    # It dies here. Another one has staged the batch again, and finds what was decided.
    again = stage(cluster, options, sink_id, 3, range(200))
    identity = Identity(sink_id, "query", 3, 0)
    for _ in range(2):
        tasks = [Written(STAGED, 200, identity, pieces=again)]
        cluster.run(settle(ledger(), tasks, keeps_order=False))
        assert numbers_in(rig, topic) == Counter(range(200))
    assert cluster.run(ledger().read()).batch_id == 3
    later = Decision(3, "query", merge_pieces([again]))
    assert cluster.run(ledger().decide(later)) == (first, False)
    with pytest.raises(SinkError, match="query"):
        cluster.run(ledger().decide(Decision(4, "other-query", {})))


def test_half_messages_that_are_delivered_are_found_before_they_are_committed_again(
    rig: Rig, topic_name: Callable[[], str]
) -> None:
    topic = rig.topic(topic_name(), queues=2)
    options = options_of(rig, topic)
    cluster = Cluster.of(options.connection)
    client = cluster.client
    masters = cluster.run(find_masters(client, topic))
    ledger = HalfLedger(client, options, masters, f"sink-{topic}")
    assert cluster.run(ledger.read()) == HalfDecision()
    targets = Targets(cluster, must_exist=True)
    group = options.producer_group
    encoder = RowEncoder(
        SCHEMA, FreshIds("10.0.0.7"), targets.queues, topic=topic, marks=half_marks(group),
        is_alone=True,
    )  # fmt: skip
    _, singles = encoder.encode(pa.record_batch({"body": pa.array(map(str, range(300)))}))
    with Sender(cluster, options, HalfOutlet(group), targets) as sender:
        sender.send(singles)
        halves = sender.finish()
    assert numbers_in(rig, topic) == Counter()
    decision = HalfDecision(0, "query", merge_halves([halves]))
    assert cluster.run(ledger.decide(decision)) == (decision, True)
    some = HalfDecision(0, "query", merge_halves([halves[:100]]))
    cluster.run(ledger.publish(some, is_fresh=True, keeps_order=False))
    # It dies here, in the middle of its commits.
    recorded, is_new = cluster.run(ledger.decide(HalfDecision(0, "query", {})))
    assert (recorded, is_new) == (decision, False)
    for keeps_order in (True, False):
        cluster.run(
            asyncio.wait_for(ledger.publish(recorded, is_fresh=False, keeps_order=keeps_order), 30)
        )
        assert numbers_in(rig, topic) == Counter(range(300))
    following = HalfDecision(1, "query", {})
    assert cluster.run(ledger.decide(following)) == (following, True)
    assert cluster.run(ledger.read()).batch_id == 1
