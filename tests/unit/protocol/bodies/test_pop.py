"""Batch acknowledgements have Java's bytes, its aliases and its bit sets."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.bodies import pop
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.pop import (
    BatchAck,
    BatchAckMessageRequestBody,
    pack_offsets,
    unpack_offsets,
)
from roketto.protocol.errors import BodyError
from roketto.protocol.limits import ACK_BITS_MAX
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(pop) == 1


@given(bodies(pop))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_long_names_are_read_too() -> None:
    text = (
        b'{"acks":[{"bitSet":"CQI=","consumerGroup":"CG","invisibleTime":5,"popTime":4,"queueId":1,'
        b'"retry":"0","reviveQueueId":2,"startOffset":3,"topic":"T"}],"brokerName":"b"}'
    )
    ack = BatchAck("CQI=", "CG", 5, 4, 1, "0", 2, 3, "T")
    assert decode_body(BatchAckMessageRequestBody, text) == BatchAckMessageRequestBody([ack], "b")


def test_bits_are_those_of_java() -> None:
    assert pack_offsets([0, 3, 9]) == "CQI="
    assert unpack_offsets("CQI=") == [0, 3, 9]
    assert pack_offsets([]) == ""
    assert unpack_offsets("") == []


@given(st.sets(st.integers(0, 2000)))
def test_any_offsets_survive(offsets: set[int]) -> None:
    assert unpack_offsets(pack_offsets(offsets)) == sorted(offsets)


def test_largest_set_is_read_again() -> None:
    assert unpack_offsets(pack_offsets([ACK_BITS_MAX - 1])) == [ACK_BITS_MAX - 1]


@pytest.mark.parametrize("offset", [-1, ACK_BITS_MAX])
def test_offsets_outside_the_bound_are_refused(offset: int) -> None:
    with pytest.raises(BodyError, match=r"is outside 0\.\.1048575; ack it alone"):
        pack_offsets([offset])


@pytest.mark.parametrize("text", ["?", "CQI", "CQI=CQI=", "\u00e9", "CQ I="])
def test_text_that_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(BodyError, match="is no Base64"):
        unpack_offsets(text)


def test_set_with_too_many_bits_is_refused() -> None:
    text = base64.b64encode(bytes(ACK_BITS_MAX // 8 + 8)).decode()
    with pytest.raises(BodyError, match="holds more than 1048576 bits"):
        unpack_offsets(text)
