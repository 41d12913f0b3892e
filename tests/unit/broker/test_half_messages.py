"""Half messages keep what their producer sent, and where it is meant to go."""

import pytest

from roketto.broker.half_messages import (
    as_asked,
    as_committed,
    as_committed_plain,
    as_given_up,
    as_resumed,
    asked_times,
    first_link,
    immunity_ms,
    is_marked,
    make_half,
    real_queue_end,
    renew,
)
from roketto.protocol.crc import encode_crc_property, without_crc
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_record, encode_record

SENT = {"UNIQ_KEY": "U1", "TRAN_MSG": "true", "PGROUP": "PG", "KEYS": "k"}


def half(**properties: str) -> Record:
    """A half message that was read from the store: behind its properties is their checksum."""
    record = Record(
        "T", b"body", encode_properties(SENT | properties), queue_id=3, flag=7, sys_flag=4 | 2,
        born_time_ms=1_000, born_host=b"born4711", store_host=b"store911", reconsume_times=1,
    )  # fmt: skip
    make_half(record)
    record.properties_raw += encode_crc_property(5)
    record.queue_offset, record.log_offset, record.store_time_ms = 8, 640, 1_005
    return record


def test_a_half_message_waits_in_the_half_topic_without_bits() -> None:
    """With the bits of a prepared message it would be in no queue; all others stay."""
    made = half()
    assert (made.topic, made.queue_id, made.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 2)
    assert made.get_property("REAL_TOPIC") == "T"
    assert made.get_property("REAL_QID") == "3"
    assert made.get_property("__transactionId__") == "U1"


def test_a_message_without_an_id_has_no_transaction_id() -> None:
    record = Record("T", b"body", encode_properties({"TRAN_MSG": "true"}))
    make_half(record)
    assert record.get_property("__transactionId__") is None


def test_a_committed_message_is_what_was_sent() -> None:
    """It names the half message; what only the half message needed is gone."""
    committed = as_committed(renewed_once())
    assert committed is not None
    assert (committed.topic, committed.queue_id, committed.sys_flag) == ("T", 3, 8 | 2)
    assert (bytes(committed.body), committed.flag, committed.born_time_ms) == (b"body", 7, 1_000)
    assert (committed.born_host, committed.store_host) == (b"born4711", b"store911")
    assert committed.prepared_log_offset == 900
    assert committed.properties == {
        **SENT, "__transactionId__": "U1", "TRANSACTION_CHECK_TIMES": "1",
    }  # fmt: skip


@pytest.mark.parametrize("has_crc", [False, True])
def test_a_plain_half_message_is_committed_from_its_bytes(has_crc: bool) -> None:
    """All that the ordinary way would make of it."""
    record = half()
    if not has_crc:
        record.properties_raw = without_crc(record.properties_raw)
    raw = encode_record(record)
    plain = as_committed_plain(raw, "T", 3, real_queue_end("T", 3))
    ordinary = as_committed(decode_record(raw))
    assert plain is not None
    assert ordinary is not None
    assert encode_record(plain) == encode_record(ordinary)
    assert (plain.flag, plain.reconsume_times, plain.prepared_log_offset) == (7, 1, 640)


def test_what_is_not_plain_is_not_committed_from_its_bytes() -> None:
    """Another queue, an IPv6 host, a long topic, and bytes that are no whole record."""
    real = real_queue_end("T", 3)
    record = half()
    raw = encode_record(record)
    assert as_committed_plain(raw, "T", 3, real_queue_end("T", 4)) is None
    assert as_committed_plain(raw[:100], "T", 3, real) is None
    assert as_committed_plain(raw.replace(real, b""), "T", 3, real) is None
    assert as_committed_plain(b"\0" * 200, "T", 3, real) is None
    for body_bytes in (-1, 10_000):
        other = raw[:84] + body_bytes.to_bytes(4, "big", signed=True) + raw[88:]
        assert as_committed_plain(other, "T", 3, real) is None
    record.born_host = b"b" * 20
    assert as_committed_plain(encode_record(record), "T", 3, real) is None
    record = half()
    record.topic = "T" * 200
    assert as_committed_plain(encode_record(record), "T", 3, real) is None


def renewed_once() -> Record:
    link = renew(half())
    link.queue_offset, link.log_offset = 12, 900
    return link


def test_each_link_counts_and_names_the_first() -> None:
    """However often a transaction was asked about, and whatever its producer made of these."""
    first = half(TRANSACTION_CHECK_TIMES="x")
    assert (asked_times(first), first_link(first)) == (0, 8)
    link = renewed_once()
    assert (asked_times(link), first_link(link)) == (1, 8)
    assert (link.topic, link.queue_id, link.flag, link.sys_flag) == (first.topic, 0, 7, 2)
    again = renew(link)
    assert (asked_times(again), first_link(again)) == (2, 8)


def test_a_producer_is_asked_about_its_message_at_the_place_of_the_link() -> None:
    asked = as_asked(renewed_once())
    assert asked is not None
    assert (asked.topic, asked.queue_id, asked.queue_offset, asked.log_offset) == ("T", 3, 12, 900)
    assert asked.get_property("PGROUP") == "PG"


def test_what_is_given_up_goes_where_operators_find_it() -> None:
    given_up = as_given_up(half())
    assert (given_up.topic, given_up.queue_id) == ("TRANS_CHECK_MAX_TIME_TOPIC", 0)
    assert (bytes(given_up.body), given_up.reconsume_times) == (b"body", 1)
    assert given_up.get_property("REAL_TOPIC") == "T"


@pytest.mark.parametrize("lost", ["REAL_TOPIC", "REAL_QID"])
def test_a_half_message_that_is_for_no_queue_goes_nowhere(lost: str) -> None:
    """What another program left in the topic does not end a broker."""
    damaged = half()
    damaged.remove_property(lost)
    assert as_committed(damaged) is None
    assert as_asked(damaged) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("60", 60_000), ("0", 0), ("", None), ("-5", None), ("x", None)]
)
def test_a_producer_may_ask_not_to_be_asked_for_a_while(text: str, expected: int | None) -> None:
    """In seconds; what is no number counts as nothing, as in Java."""
    assert immunity_ms(half(CHECK_IMMUNITY_TIME_IN_SECONDS=text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("TRUE", True), ("false", False), ("", False)]
)
def test_the_mark_of_a_transaction_is_a_property(text: str, expected: bool) -> None:
    assert is_marked(Record("T", b"x", encode_properties({"TRAN_MSG": text}))) is expected


def test_a_message_without_the_mark_is_in_no_transaction() -> None:
    assert not is_marked(Record("T", b"x"))


def test_a_message_that_was_given_up_begins_as_it_was_sent() -> None:
    """Nobody was asked about it, and it is no link of the transaction that it was."""
    given_up = as_given_up(renewed_once())
    resumed = as_resumed(given_up)
    assert resumed is not None
    assert (resumed.topic, resumed.queue_id, resumed.reconsume_times) == ("T", 3, 0)
    assert (bytes(resumed.body), resumed.flag, resumed.born_time_ms) == (b"body", 7, 1_000)
    assert resumed.properties == {**SENT, "__transactionId__": "U1"}
    given_up.remove_property("REAL_QID")
    assert as_resumed(given_up) is None
