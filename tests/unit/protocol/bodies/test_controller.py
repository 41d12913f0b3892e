"""Controller bodies have Java's bytes."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import controller
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.controller import EpochEntry
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(controller) == 5


@given(bodies(controller))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_open_epoch_ends_at_the_largest_long() -> None:
    text = encode_body(EpochEntry(epoch=1, start_offset=100))
    assert text == b'{"endOffset":9223372036854775807,"epoch":1,"startOffset":100}'
