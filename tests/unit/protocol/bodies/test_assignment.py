"""Assignments have Java's bytes; no list and an empty list stay apart."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import assignment
from roketto.protocol.bodies.assignment import QueryAssignmentResponseBody
from roketto.protocol.bodies.base import decode_body, encode_body
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(assignment) == 4


@given(bodies(assignment))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_no_list_and_an_empty_list_are_different_answers() -> None:
    assert encode_body(QueryAssignmentResponseBody()) == b"{}"
    assert encode_body(QueryAssignmentResponseBody([])) == b'{"messageQueueAssignments":[]}'
    assert decode_body(QueryAssignmentResponseBody, b"{}").message_queue_assignments is None
