"""Offset tables have Java's bytes, with integers and whole objects as keys."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import offsets
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from roketto.protocol.bodies.route import MessageQueue
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip, golden


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(offsets) == 16


@given(bodies(offsets))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


QUEUE = MessageQueue("b", 0, "T")


def test_reset_body_has_bare_object_keys_as_the_go_client_needs() -> None:
    text = encode_body(ResetOffsetBody({QUEUE: 5}))
    assert text == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'


def test_object_keys_may_come_as_strings() -> None:
    text = b'{"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":5}}'
    assert decode_body(ResetOffsetBody, text) == ResetOffsetBody({QUEUE: 5})


def test_entry_whose_key_is_an_unresolvable_reference_is_dropped() -> None:
    text = golden("forms-4.9.7.tsv")["reference through an object key"]
    assert "$ref" in text
    status = decode_body(GetConsumerStatusBody, text.encode())
    assert status == GetConsumerStatusBody({"c": {QUEUE: 5}}, {})
