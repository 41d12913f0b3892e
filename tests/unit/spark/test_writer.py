"""Writers refuse what they cannot do when they are made, and travel to executors."""

import pickle

import pytest

from roketto.spark.foreach import rocketmq_batch_writer
from roketto.spark.sink_options import SinkError
from roketto.spark.writer import BatchWriter, StreamWriter
from unit.spark.sink_types import struct

SCHEMA = struct(keys="string", body="binary")
GIVEN = {"nameServer": "10.0.0.5:9876", "topic": "Orders"}


def test_overwriting_a_topic_is_refused_and_complete_mode_is_not() -> None:
    with pytest.raises(SinkError, match="cannot be overwritten"):
        BatchWriter(GIVEN, SCHEMA, overwrite=True)
    assert isinstance(StreamWriter(GIVEN, SCHEMA, overwrite=True), StreamWriter)


def test_a_batch_write_with_a_sink_id_needs_a_batch_id() -> None:
    with pytest.raises(SinkError, match="sinkId is orders without batchId"):
        BatchWriter({**GIVEN, "sinkId": "orders"}, SCHEMA, overwrite=False)
    assert BatchWriter({**GIVEN, "sinkId": "orders", "batchId": "1"}, SCHEMA, overwrite=False)


def test_the_batches_of_a_stream_have_numbers_of_their_own() -> None:
    with pytest.raises(SinkError, match="numbers of their own"):
        StreamWriter({**GIVEN, "batchId": "1"}, SCHEMA, overwrite=False)
    with pytest.raises(ValueError, match="leave the option out"):
        rocketmq_batch_writer(**GIVEN, batchId="1")


def test_writers_travel_and_rows_outside_of_a_task_are_refused() -> None:
    writer = BatchWriter({**GIVEN, "delivery": "transactional"}, SCHEMA, overwrite=False)
    copy = pickle.loads(pickle.dumps(writer))
    with pytest.raises(SinkError, match="outside of a Spark task"):
        copy.write(iter([]))
