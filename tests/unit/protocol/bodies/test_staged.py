"""Decisions, pieces and the table of sinks are the JSON that docs/staged.md shows."""

import msgspec
import pytest
from hypothesis import given

from roketto.protocol.bodies import staged
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.staged import NEVER, SinkEntry, StagedDecision, StagedPieces
from roketto.protocol.errors import BodyError
from unit.protocol.bodies.families import bodies, check_round_trip


@given(bodies(staged))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_pieces_are_pairs_of_a_place_and_a_size() -> None:
    decision = StagedDecision({"broker-a": [[4096, 512], [4608, 90]], "broker-b": []})
    text = b'{"pieces":{"broker-a":[[4096,512],[4608,90]],"broker-b":[]}}'
    assert encode_body(decision) == text
    assert decode_body(StagedDecision, text) == decision
    assert decode_body(StagedPieces, b'{"pieces": [[0, 1]]}') == StagedPieces([[0, 1]])


@pytest.mark.parametrize("text", [b"", b"[]", b'{"pieces":7}', b'{"pieces":[["x",1]]}'])
def test_what_is_no_list_of_pieces_is_refused(text: bytes) -> None:
    with pytest.raises(BodyError):
        decode_body(StagedPieces, text)


def test_a_sink_has_done_nothing_unless_it_is_said() -> None:
    entry = SinkEntry()
    assert {entry.decided_batch_id, entry.begun_batch_id, entry.published_batch_id} == {NEVER}
    assert not entry.has_pieces_here
