"""Handles are those of Java, and what is none is refused."""

from base64 import urlsafe_b64encode

import pytest

from roketto.broker.recall import HANDLE_CHARS_MAX, Handle, make_handle, make_recall, parse_handle
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record

WAITING = {"REAL_TOPIC": "T", "UNIQ_KEY": "KEY", "TIMER_OUT_MS": "5000"}


def waiting(**properties: str) -> Record:
    return Record("rmq_sys_wheel_timer", b"x", encode_properties(properties))


def encode(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def test_a_handle_says_which_message_waits_where() -> None:
    handle = make_handle("broker-a", waiting(**WAITING))
    assert handle == encode("v1 T broker-a 5001 KEY")
    assert parse_handle(handle) == Handle("T", "broker-a", 5_001, "KEY")
    assert parse_handle(handle.rstrip("=")) == Handle("T", "broker-a", 5_001, "KEY")


@pytest.mark.parametrize("lacking", WAITING)
def test_a_message_that_nobody_can_name_has_no_handle(lacking: str) -> None:
    properties = {name: value for name, value in WAITING.items() if name != lacking}
    assert make_handle("broker-a", waiting(**properties)) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "?", "abc", "ä", encode("v2 T b 1 k"), encode("v1 T b 1"), "_w==",
        encode("v1 T b 1 k\x01"), encode("v1 T b 1 "),
        encode("v1 T b 1 k" + " k" * HANDLE_CHARS_MAX),
    ],
)  # fmt: skip
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="recall handle is invalid") as caught:
        parse_handle(text)
    assert caught.value.code == ResponseCode.ILLEGAL_OPERATION


def test_a_time_that_is_no_number_is_never() -> None:
    """As in Java: the handle can be read, its time is refused."""
    assert parse_handle(encode("v1 T b soon k")).deliver_ms == -1


def test_a_recall_is_a_message_for_the_same_slot() -> None:
    recall = make_recall(Handle("T", "broker-a", 5_001, "KEY"), "PG", 77, b"1" * 8, b"2" * 8)
    assert (recall.topic, recall.queue_id, bytes(recall.body)) == ("T", 0, b"0")
    assert recall.properties == {
        "TAGS": "_RECALL_TAG_", "TIMER_DEL_UNIQKEY": "KEY", "UNIQ_KEY": "KEY",
        "TIMER_DELIVER_MS": "5001", "BORN_TIMESTAMP": "77", "PGROUP": "PG",
    }  # fmt: skip
    odd = make_recall(Handle("T", "b", 1, "K"), "P\x02DELAY\x011", 77, b"1" * 8, b"2" * 8)
    assert "DELAY" not in odd.properties
    assert "PGROUP" not in make_recall(Handle("T", "b", 1, "K"), None, 7, b"", b"").properties
