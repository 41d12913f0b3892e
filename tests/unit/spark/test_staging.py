"""Staged batches, the client's side: requests, answers, and the order of what is published."""

import pytest

from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.staged import StageBatchResponse
from roketto.spark.packing import Parcel
from roketto.spark.sink_options import SinkError
from roketto.spark.staged_ledger import _pieces, merge_pieces
from roketto.spark.staging import StageOutlet
from roketto.spark.written import Piece

QUEUE = MessageQueue("broker-a", 3, "Orders")
PARCEL = Parcel("Orders", None, b"...", 2)


def answer(count: int, code: int = 0) -> Command:
    header = StageBatchResponse(log_offset=512, size=99, message_count=count, queue_id=3)
    return Command(code, encode_header(header))


def test_a_stage_request_names_the_sink_the_batch_and_the_queue() -> None:
    command = StageOutlet("sink-7", 12).command(PARCEL, QUEUE, "broker-a")
    assert command.code == RequestCode.STAGE_BATCH
    assert command.body == b"..."
    assert command.ext == {
        "sinkId": "sink-7", "batchId": "12", "topic": "Orders", "queueId": "3",
        "bname": "broker-a",
    }  # fmt: skip


def test_an_answer_says_where_the_piece_is_even_if_it_is_not_flushed_yet() -> None:
    outlet = StageOutlet("sink-7", 12)
    expected = Piece("broker-a", 512, 99)
    assert outlet.read(PARCEL, QUEUE, "10.0.0.5:10911", answer(2)) == expected
    unsafe = answer(2, ResponseCode.FLUSH_DISK_TIMEOUT)
    assert outlet.read(PARCEL, QUEUE, "10.0.0.5:10911", unsafe) == expected
    with pytest.raises(SinkError, match="staged 1 messages of 2"):
        outlet.read(PARCEL, QUEUE, "10.0.0.5:10911", answer(1))


def test_pieces_are_published_in_the_order_of_tasks_and_of_their_rows() -> None:
    tasks = [
        [Piece("b", 70, 1), Piece("a", 50, 2), Piece("b", 20, 3)],
        [],
        [Piece("a", 10, 4)],
    ]
    assert merge_pieces(tasks) == {"a": [[50, 2], [10, 4]], "b": [[70, 1], [20, 3]]}


@pytest.mark.parametrize("body", [b"[]", b"{}", b"nonsense", b'{"pieces":{"a":[[1]]}}'])
def test_a_decision_that_cannot_be_read_is_told_with_its_broker(body: bytes) -> None:
    assert _pieces("10.0.0.5:10911", Command(0, None, b'{"pieces":{"a":[[1,2]]}}')) == {
        "a": [[1, 2]]
    }
    with pytest.raises(SinkError, match=r"10\.0\.0\.5:10911 has recorded"):
        _pieces("10.0.0.5:10911", Command(0, None, body))
