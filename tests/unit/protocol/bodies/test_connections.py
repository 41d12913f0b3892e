"""Connections have Java's bytes."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import connections
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(connections) == 8


@given(bodies(connections))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)
