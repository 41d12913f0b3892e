"""What consumers report has Java's bytes, misspellings included."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import running
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    PopProcessQueueInfo,
)
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(running) == 4


@given(bodies(running))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_dropped_travels_misspelt() -> None:
    assert b'"droped":true' in encode_body(PopProcessQueueInfo(dropped=True))


def test_results_may_come_as_ordinals() -> None:
    result = decode_body(ConsumeMessageDirectlyResult, b'{"consumeResult":4}')
    assert result.consume_result is CMResult.CR_THROW_EXCEPTION
    assert result.auto_commit


def test_properties_that_are_no_strings_read_as_strings() -> None:
    info = decode_body(ConsumerRunningInfo, b'{"properties":{"a":1,"b":true}}')
    assert info.properties == {"a": "1", "b": "true"}
