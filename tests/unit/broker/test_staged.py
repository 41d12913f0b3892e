"""Pieces and steps are told again by their records, and by no others; what peers say is checked."""

import pytest

from roketto.broker.staged import (
    BEGUN,
    DECIDED,
    Step,
    check_batch_id,
    check_id,
    check_pieces,
    digest_of,
    make_piece,
    make_step,
    read_piece,
    read_step,
)
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.record import decode_record, encode_record

STEP = Step(DECIDED, "sink", 2**63 - 1, "query", b"{}")


def test_a_piece_is_told_again_by_its_record() -> None:
    record = make_piece("sink", 7, "T", 3, b"messages", 9)
    record.log_offset = 4_096
    stored = decode_record(encode_record(record))
    piece = read_piece(stored)
    assert piece is not None
    assert (piece.sink_id, piece.batch_id, piece.topic, piece.queue_id) == ("sink", 7, "T", 3)
    assert (piece.log_offset, piece.end, piece.messages) == (4_096, 4_096 + stored.size, 9)


def test_other_records_are_no_pieces() -> None:
    ordinary = make_piece("sink", 7, "T", 3, b"messages", 9)
    ordinary.topic = "T"
    assert read_piece(ordinary) is None
    for name in ("SINK_ID", "SINK_BATCH", "SINK_COUNT", "REAL_TOPIC", "REAL_QID"):
        record = make_piece("sink", 7, "T", 3, b"messages", 9)
        record.remove_property(name)
        assert read_piece(record) is None
        if name != "SINK_ID" and name != "REAL_TOPIC":
            record.set_property(name, "-5")
            assert read_piece(record) is None


def test_a_step_is_told_again_by_its_record_and_found_by_its_sink() -> None:
    record = decode_record(encode_record(make_step(STEP)))
    assert read_step(record) == STEP
    assert record.get_property("KEYS") == "sink"


def test_other_records_are_no_steps() -> None:
    for name in ("TAGS", "SINK_ID", "SINK_QUERY", "SINK_BATCH"):
        record = make_step(STEP)
        record.remove_property(name)
        assert read_step(record) is None
    record = make_step(STEP._replace(kind=BEGUN))
    record.topic = "T"
    assert read_step(record) is None
    assert read_step(make_step(STEP._replace(kind="dreamt"))) is None


@pytest.mark.parametrize("text", ["", " ", "a b", "a\x01b", "a\n", "\u00fc", "x" * 256])
def test_ids_that_no_record_could_keep_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="sinkId is") as error:
        check_id("sinkId", text)
    assert error.value.code == ResponseCode.INVALID_PARAMETER


def test_ids_of_queries_are_ids() -> None:
    check_id("sinkId", "0f7c1d2e-9a41-4d8b-8a55-1f2e3d4c5b6a/orders:1")
    check_batch_id(0)
    with pytest.raises(RequestError, match="batches count from 0"):
        check_batch_id(-1)


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([[1]], r"\[1\] is no piece"),
        ([[1, 2, 3]], "is no piece"),
        ([[-1, 2]], "is no piece"),
        ([[1, 0]], "is no piece"),
        ([[1, 2], [1, 2]], "the piece at 1 is there twice"),
    ],
)
def test_lists_that_name_no_pieces_are_refused(pieces: list[list[int]], reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        check_pieces(pieces)


def test_lists_of_pieces_are_told_apart_by_content_and_order() -> None:
    check_pieces([[0, 1], [1, 1]])
    lists: list[list[list[int]]] = [
        [],
        [[0, 1]],
        [[0, 1], [1, 1]],
        [[1, 1], [0, 1]],
        [[0, 11], [1, 1]],
    ]
    assert len({digest_of(pieces) for pieces in lists}) == len(lists)
    assert digest_of([[0, 1]]) == digest_of([[0, 1]])
