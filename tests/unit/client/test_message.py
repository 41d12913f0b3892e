"""Messages are checked before they leave, and what arrives is read as Java reads it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from roketto.client.errors import IllegalMessageError
from roketto.client.message import Message, MessageQueue, SendResult, SendStatus

UNIQ = "0A0000010007000000014700000000AB"


def test_fields_become_the_properties_that_brokers_know() -> None:
    message = Message(
        "T", b"x", tags="a", keys=["k1", "k2"], properties={"country": "CH"}, sharding_key="s",
        priority=3, message_id=UNIQ, wait_for_store=False,
    )  # fmt: skip
    assert message.to_properties() == {
        "country": "CH", "TAGS": "a", "KEYS": "k1 k2", "__SHARDINGKEY": "s", "UNIQ_KEY": UNIQ,
        "_SYS_MSG_PRIORITY_": "3", "WAIT": "false",
    }  # fmt: skip
    assert Message("T", b"x", keys="k1 k2").to_properties() == {"KEYS": "k1 k2", "WAIT": "true"}
    assert Message("T", b"x", keys=iter(["one"])).to_properties()["KEYS"] == "one"


def test_a_message_is_delivered_at_one_time_only() -> None:
    assert Message("T", b"x", delay_level=3).to_properties()["DELAY"] == "3"
    assert Message("T", b"x", delay_ms=50).to_properties()["TIMER_DELAY_MS"] == "50"
    when = datetime(2030, 1, 1, tzinfo=UTC)
    later = Message("T", b"x").deliver_at(when)
    assert later.to_properties()["TIMER_DELIVER_MS"] == str(int(when.timestamp() * 1000))
    assert later.is_delayed
    assert not Message("T", b"x").is_delayed


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"delay_level": 1, "delay_ms": 1}, "has delay_level and delay_ms; give one of them"),
        ({"delay_ms": -1}, "for T has delay_ms -1; it takes 0 or more"),
        (
            {"keys": ["a b"]},
            r"a key of a message for T has a blank, .* in \('a b',\)",
        ),
        ({"keys": [1]}, r"the keys of a message for T are \(1,\); each takes a text"),
        ({"properties": {"TAGS": "a"}}, "property TAGS is the client's own"),
        ({"properties": {"UNIQ_KEY": "a"}}, "property UNIQ_KEY is the client's own"),
        ({"properties": {"INSTANCE_ID": "a"}}, "property INSTANCE_ID is the client's own"),
        ({"properties": {"a": ""}}, "property 'a' is ''; neither may be empty"),
        ({"properties": {"": "a"}}, "property '' is 'a'; neither may be empty"),
        ({"properties": {"a": 1}}, "property 'a' is 1; both take a text"),
        ({"properties": {"a": "b\x01c"}}, "property 'a' has a character 0x01 or 0x02"),
        ({"properties": {"INNER_MULTI_DISPATCH": "a/b"}}, "its queues take no slash"),
        ({"tags": "a\x02"}, "property 'TAGS' has a character 0x01 or 0x02"),
        ({"message_id": ""}, "takes 1 to 255 of ASCII without spaces"),
        ({"message_id": "two words"}, "takes 1 to 255 of ASCII without spaces"),
        ({"message_id": "x" * 256}, "256 characters; it takes 1 to 255"),
    ],
)
def test_properties_that_no_broker_would_keep_are_refused(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(IllegalMessageError, match=reason):
        Message("T", b"x", **fields).to_properties()


@pytest.mark.parametrize(
    ("topic", "body", "reason"),
    [
        ("", b"x", "topic"),
        ("no blanks", b"x", "no blanks"),
        ("x" * 128, b"x", "127"),
        ("SCHEDULE_TOPIC_XXXX", b"x", "is the system's; clients do not send to it"),
        ("T", b"", "the body of a message for T has 0 bytes; it takes 1 to 10"),
        ("T", b"x" * 11, "the body of a message for T has 11 bytes; it takes 1 to 10"),
        ("T", "text", "the body of a message for T is str; it takes bytes: encode it"),
    ],
)
def test_what_no_broker_would_take_is_not_sent(topic: str, body: Any, reason: str) -> None:
    with pytest.raises(IllegalMessageError, match=reason):
        Message(topic, body).check(10)
    Message("T", b"x" * 10).check(10)
    spare: Any = bytearray(b"x")
    Message("T", spare).check(10)


def test_only_what_is_safe_is_ok() -> None:
    queue = MessageQueue("broker-a", 0, "T")
    found = {status: SendResult(status, "id", queue, 1).is_ok for status in SendStatus}
    assert [status.name for status, is_ok in found.items() if is_ok] == ["SEND_OK"]
