"""Heartbeats have Java's bytes, and those of other clients are read."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import heartbeat
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip, golden


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(heartbeat) == 5


@given(bodies(heartbeat))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_numbers_as_strings_and_enums_as_ordinals_are_read() -> None:
    text = b"""{"clientID":"c","consumerDataSet":[{"consumeType":1,"messageModel":"1",
        "consumeFromWhere":0,"groupName":"g","subscriptionDataSet":[{"codeSet":["12",13],
        "subVersion":"1700000000000000000","topic":"T","unknown":{}}]}]}"""
    subscription = SubscriptionData(
        code_set=[12, 13], sub_version=1_700_000_000_000_000_000, topic="T"
    )
    consumer = ConsumerData(
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        ConsumeType.CONSUME_PASSIVELY,
        "g",
        MessageModel.CLUSTERING,
        [subscription],
    )
    assert decode_body(HeartbeatData, text) == HeartbeatData("c", [consumer])


def test_unknown_enum_names_read_as_none() -> None:
    consumer = decode_body(ConsumerData, b'{"consumeType":"NOPE","groupName":"g"}')
    assert consumer == ConsumerData(group_name="g")


def test_second_occurrence_of_one_object_is_resolved() -> None:
    text = golden("forms-4.9.7.tsv")["reference to a member"]
    assert "$ref" in text
    heartbeat = decode_body(HeartbeatData, text.encode())
    first, second = heartbeat.consumer_data_set
    assert first.subscription_data_set == second.subscription_data_set
    assert first.subscription_data_set[0].topic == "T"
