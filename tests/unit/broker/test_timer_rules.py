"""A timer message waits for the slot that ends when it is due, and comes back with all it had."""

import pytest

from roketto.broker.timer_rules import (
    asks_for_time,
    deliver_ms,
    is_recalled,
    out_ms,
    release,
    roll,
    roll_slot,
    slot_of,
    wait,
)
from roketto.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.protocol.sysflags import COMPRESSED, TRANSACTION_COMMIT
from roketto.store.put_status import PutRefusedError, PutStatus

NOW_MS = 1_700_000_000_000


def record(topic: str = "T", **properties: str) -> Record:
    return Record(topic, b"x", encode_properties(properties), queue_id=3)


def test_a_message_asks_for_its_time_once() -> None:
    """Not again when it has waited, or waits."""
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        assert asks_for_time(record(**{name: "1"}))
        assert not asks_for_time(record(**{name: "1", "TIMER_OUT_MS": "1"}))
        assert not asks_for_time(record(TIMER_TOPIC, **{name: "1"}))
    assert not asks_for_time(record(TIMER_DEL_UNIQKEY="key"))


def test_seconds_come_before_milliseconds_and_both_before_a_time() -> None:
    """Java's order."""
    absolute = {"TIMER_DELIVER_MS": "77"}
    both = absolute | {"TIMER_DELAY_MS": "5"}
    assert deliver_ms(record(**absolute), NOW_MS) == 77
    assert deliver_ms(record(**both), NOW_MS) == NOW_MS + 5
    assert deliver_ms(record(**both, TIMER_DELAY_SEC="2"), NOW_MS) == NOW_MS + 2000
    assert deliver_ms(record(TIMER_DELAY_MS="-5"), NOW_MS) == NOW_MS - 5


@pytest.mark.parametrize("text", ["x", "1.5", " 1", "1" * 20, "0x1"])
def test_what_is_no_number_is_illegal(text: str) -> None:
    with pytest.raises(PutRefusedError, match="TIMER_DELAY_SEC is ") as caught:
        deliver_ms(record(TIMER_DELAY_SEC=text), NOW_MS)
    assert caught.value.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL


@pytest.mark.parametrize(
    ("deliver", "slot"), [(7_001, 7_000), (7_999, 7_000), (8_000, 7_000), (8_001, 8_000)]
)
def test_a_slot_ends_when_its_messages_are_due_or_after(deliver: int, slot: int) -> None:
    """Java's rule."""
    assert slot_of(deliver, 1000) == slot
    assert slot + 1000 >= deliver


def test_a_message_waits_and_comes_back() -> None:
    """With the properties that Java's consumers see, at its place, and it names its original."""
    message = record(TIMER_DELAY_SEC="5", KEYS="k")
    message.sys_flag = COMPRESSED | TRANSACTION_COMMIT
    wait(message, 9_000)
    assert (message.topic, message.queue_id, out_ms(message)) == (TIMER_TOPIC, 0, 9_000)
    message.log_offset, message.size = 1_000, 200
    copy = release(message, 4_000, 10_001)
    assert copy is not None
    assert (copy.topic, copy.queue_id, copy.body, copy.sys_flag) == ("T", 3, b"x", COMPRESSED)
    assert copy.prepared_log_offset == 1_200
    assert copy.properties == {
        "TIMER_DELAY_SEC": "5", "KEYS": "k", "TIMER_OUT_MS": "9000", "REAL_TOPIC": "T",
        "REAL_QID": "3", "TIMER_ENQUEUE_MS": "4000", "TIMER_DEQUEUE_MS": "10001",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "x", "-1", str(1 << 63)])
def test_a_message_without_a_slot_is_none(text: str) -> None:
    assert out_ms(record(TIMER_OUT_MS=text)) is None


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "T"},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": "T", "REAL_QID": "9999999999"},
        {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
        {"REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "0"},
        {"REAL_TOPIC": TIMER_TOPIC, "REAL_QID": "0"},
    ],
)
def test_a_message_that_says_of_no_queue_cannot_come_back(properties: dict[str, str]) -> None:
    assert release(record(TIMER_TOPIC, **properties), 1, 2) is None


def test_a_message_that_is_due_later_than_the_window_rolls() -> None:
    """By the whole window, or by half of it if less than a third would be left."""
    base, window = 100_000, 30
    assert roll_slot(base + 29_000, base, 1000, window) is None
    assert roll_slot(base + 30_000, base, 1000, window) == base + 15_000
    assert roll_slot(base + 39_000, base, 1000, window) == base + 15_000
    assert roll_slot(base + 40_000, base, 1000, window) == base + 30_000
    assert roll_slot(base + 999_000, base, 1000, window) == base + 30_000


def test_a_message_that_rolls_counts_how_often() -> None:
    """It stays in the queue of timers, and names its original."""
    message = record(TIMER_TOPIC, TIMER_OUT_MS="9000", REAL_TOPIC="T", REAL_QID="3")
    message.log_offset, message.size = 1_000, 200
    once = roll(message, 9_000, 1, 2)
    twice = roll(once, 9_500, 3, 4)
    assert (once.topic, once.queue_id, once.prepared_log_offset) == (TIMER_TOPIC, 0, 1_200)
    assert once.get_property("TIMER_ROLL_TIMES") == "1"
    assert twice.get_property("TIMER_ROLL_TIMES") == "2"
    assert out_ms(twice) == 9_500
    assert twice.get_property("TIMER_DEQUEUE_MS") == "4"
    odd = record(TIMER_TOPIC, TIMER_ROLL_TIMES="often")
    assert roll(odd, 1, 1, 1).get_property("TIMER_ROLL_TIMES") == "1"


def test_a_message_is_recalled_by_its_key_with_or_without_its_topic() -> None:
    """As 5.5 and 5.3 write it."""
    message = record(TIMER_TOPIC, UNIQ_KEY="key", REAL_TOPIC="T")
    assert is_recalled(message, {"key": "T"}) == "key"
    assert is_recalled(message, {"T+key": "T"}) == "T+key"
    assert is_recalled(message, {"U+key": "U", "other": "T"}) is None
    assert is_recalled(record(TIMER_TOPIC, REAL_TOPIC="T"), {"key": "T"}) is None
