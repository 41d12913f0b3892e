"""The rules of delay levels: how a message is put off, how it comes back, and when."""

import pytest

from roketto.broker.delay_levels import (
    DelayLevels,
    Wait,
    level_of,
    release,
    schedule,
)
from roketto.protocol.errors import RequestError
from roketto.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record

LEVELS = DelayLevels("1s 5s")


def record(**properties: str) -> Record:
    return Record("T", b"body", encode_properties(properties), 3)


@pytest.mark.parametrize(
    ("text", "level"), [("3", 3), ("+3", 3), ("-1", -1), ("0", 0), ("2147483647", 2147483647)]
)
def test_a_level_is_read_as_java_parses_it(text: str, level: int) -> None:
    """A sign and digits."""
    assert level_of(record(DELAY=text)) == level


def test_a_message_without_a_level_has_level_zero() -> None:
    """Most messages."""
    assert level_of(record()) == 0


@pytest.mark.parametrize("text", ["x", "1.5", " 1", "2147483648", "-2147483649", "9" * 5000])
def test_a_level_that_java_does_not_parse_is_an_error(text: str) -> None:
    """Which shows the value, but not all of a long one."""
    with pytest.raises(RequestError) as caught:
        level_of(record(DELAY=text))
    assert caught.value.code == 1
    assert len(caught.value.reason) < 200


def test_what_is_put_off_comes_back_as_it_was() -> None:
    """Only place and time of storing are new, and the copy says of what it is one."""
    message = record(TAGS="a", DELAY="2")
    message.flag, message.sys_flag, message.born_time_ms, message.reconsume_times = 1, 1, 5, 2
    schedule(message, 2, LEVELS)
    assert (message.topic, message.queue_id) == (SCHEDULE_TOPIC, 1)
    message.log_offset, message.size = 0, 300
    copy = release(message)
    assert copy is not None
    assert (copy.topic, copy.queue_id, copy.body) == ("T", 3, b"body")
    assert copy.properties == {"TAGS": "a", "DELAY": "2", "REAL_TOPIC": "T", "REAL_QID": "3"}
    assert (copy.flag, copy.sys_flag, copy.born_time_ms, copy.reconsume_times) == (1, 1, 5, 2)
    assert copy.prepared_log_offset == 300


def test_the_place_of_an_earlier_wait_is_replaced() -> None:
    """A message that is retried has been here before."""
    message = record(DELAY="1", REAL_TOPIC="Old", REAL_QID="9")
    schedule(message, 1, LEVELS)
    assert message.properties["REAL_TOPIC"] == "T"
    assert message.properties["REAL_QID"] == "3"


def test_a_level_above_the_last_is_the_last() -> None:
    """Its property says so, which the queue's unit is computed from."""
    message = record(DELAY="7")
    schedule(message, 7, LEVELS)
    assert (message.queue_id, message.properties["DELAY"]) == (1, "2")


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "T"},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
    ],
)
def test_a_message_that_says_of_no_queue_cannot_come_back(properties: dict[str, str]) -> None:
    """Nor one of the half messages, which Java drops, too."""
    assert release(record(**properties)) is None


# --- when -----------------------------------------------------------------------------------------


def test_a_message_is_due_at_its_time_and_not_before() -> None:
    """By the wall clock."""
    wait = Wait(5_000)
    assert wait.remaining_s(0, 1, 10_000, 5_000, 0.0) == 5.0
    assert wait.remaining_s(0, 1, 10_000, 9_999, 0.0) == 0.001
    assert wait.remaining_s(0, 1, 10_000, 10_000, 0.0) <= 0


def test_a_clock_that_was_set_back_delays_once_more_and_not_forever() -> None:
    """Those that wait wait together; one that comes later has its own time."""
    wait = Wait(5_000)
    assert wait.remaining_s(0, 3, 1_010_000, 10_000, 50.0) == 5.0
    assert wait.remaining_s(0, 4, 1_010_000, 12_000, 52.0) == 3.0
    for offset in (0, 1, 2):
        assert wait.remaining_s(offset, 4, 1_010_000, 15_000, 55.0) <= 0
    assert wait.remaining_s(3, 4, 1_010_000, 15_000, 55.0) == 5.0


def test_a_clock_that_is_right_again_counts_again() -> None:
    """Whoever is due by it is due."""
    wait = Wait(5_000)
    assert wait.remaining_s(0, 1, 1_010_000, 10_000, 50.0) == 5.0
    assert wait.remaining_s(0, 1, 1_010_000, 1_010_000, 51.0) <= 0
