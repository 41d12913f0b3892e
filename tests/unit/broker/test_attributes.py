"""Attributes of topics: changes are read as Java reads them, and only known ones are taken."""

import pytest

from roketto.broker.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, change, parse_changes
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (None, {}),
        ("", {}),
        ("+a=1", {"+a": "1"}),
        ("+a=1,-b,+c=x.y", {"+a": "1", "-b": "", "+c": "x.y"}),
        ("+a=1=2", {"+a": "1"}),
    ],
)
def test_changes_are_read(text: str | None, changes: dict[str, str]) -> None:
    """A sign, a key, and a value behind a plus; of several values the first counts, as in Java."""
    assert parse_changes(text) == changes


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a=1", "add/alter attribute format is wrong"),
        ("-a=1", "add/alter attribute format is wrong"),
        ("+a", "delete attribute format is wrong"),
        ("+a=", "attribute '+a' has no value"),
        ("+a=1,+a=2", "key duplication"),
        ("+a=1,", "delete attribute format is wrong"),
    ],
)
def test_changes_in_another_form_are_refused(text: str, reason: str) -> None:
    """With the words of Java, and the code."""
    with pytest.raises(RequestError, match=reason.replace("+", "[+]")) as caught:
        parse_changes(text)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_a_new_topic_gets_what_is_added() -> None:
    """Stored without the sign."""
    changes = {"+message.type": "FIFO", "+queue.type": "SimpleCQ", "+cleanup.policy": "DELETE"}
    assert change(TOPIC_ATTRIBUTES, None, changes) == {
        "message.type": "FIFO",
        "queue.type": "SimpleCQ",
        "cleanup.policy": "DELETE",
    }


def test_an_existing_topic_keeps_what_is_not_named() -> None:
    """One is replaced, one removed, one stays; what was before is not touched."""
    before = {"message.type": "FIFO", "reserve.time": "5", "queue.type": "SimpleCQ"}
    changes = {"+message.type": "DELAY", "-reserve.time": ""}
    after = change(TOPIC_ATTRIBUTES, before, changes)
    assert after == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    assert before["message.type"] == "FIFO"


@pytest.mark.parametrize("value", ["-1", "0", "9223372036854775807"])
def test_numbers_are_taken_within_their_bounds(value: str) -> None:
    """A reserve time in hours."""
    assert change(TOPIC_ATTRIBUTES, {}, {"+reserve.time": value}) == {"reserve.time": value}


@pytest.mark.parametrize(
    ("current", "changes", "reason"),
    [
        (None, {"+color": "red"}, "unsupported key: 'color'; known are queue.type"),
        (None, {"-message.type": ""}, "only add attribute is supported while creating topic"),
        ({}, {"-message.type": ""}, "attempt to delete a nonexistent key"),
        ({}, {"+queue.type": "SimpleCQ"}, "attempt to update an unchangeable attribute"),
        ({"queue.type": "SimpleCQ"}, {"-queue.type": ""}, "an unchangeable attribute"),
        (None, {"+message.type": "ODD"}, "message.type is 'ODD'; value is not in set"),
        (None, {"+queue.type": "BatchCQ"}, "this broker does not have such topics"),
        (None, {"+cleanup.policy": "COMPACTION"}, "this broker does not have such topics"),
        (None, {"+reserve.time": "-2"}, "reserve.time is '-2'; write an integer of -1"),
        (None, {"+reserve.time": "9223372036854775808"}, "write an integer of -1"),
        (None, {"+reserve.time": "1" * 5_000}, "write an integer of -1"),
        (None, {"+dedup.window.seconds": "-1"}, "write an integer of 0..86400"),
        (None, {"+dedup.window.seconds": "86401"}, "write an integer of 0..86400"),
        (None, {"+message.ttl.ms": "-1"}, "message.ttl.ms is '-1'; write an integer of 0.."),
        (None, {"+message.ttl.ms": "1" * 19}, "write an integer of 0.."),
        (None, {"+dedup.by": "TAGS"}, "value is not in set: ['KEYS', 'UNIQ_KEY']"),
        (None, {"message.type": "FIFO"}, "wrong format key: 'message.type'"),
        (None, {"+": "x"}, "wrong format key"),
        (None, {"+a-b": "x"}, "wrong format key"),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}, "duplication"),
    ],
)
def test_changes_that_cannot_be_are_refused(
    current: dict[str, str] | None, changes: dict[str, str], reason: str
) -> None:
    """Each says what would do."""
    with pytest.raises(RequestError) as caught:
        change(TOPIC_ATTRIBUTES, current, changes)
    assert reason in caught.value.reason
    assert len(caught.value.reason) < 300


def test_a_dedup_window_may_be_given_and_taken_away_at_any_time() -> None:
    """Attributes of ours, beside Java's."""
    on = change(TOPIC_ATTRIBUTES, {}, {"+dedup.window.seconds": "600", "+dedup.by": "KEYS"})
    assert on == {"dedup.window.seconds": "600", "dedup.by": "KEYS"}
    off = change(TOPIC_ATTRIBUTES, on, {"-dedup.window.seconds": "", "+dedup.by": "UNIQ_KEY"})
    assert off == {"dedup.by": "UNIQ_KEY"}


def test_topics_may_be_of_priorities() -> None:
    """A type of 5.5."""
    changes = {"+message.type": "PRIORITY"}
    assert change(TOPIC_ATTRIBUTES, {}, changes) == {"message.type": "PRIORITY"}


def test_groups_have_one_attribute() -> None:
    """Of Java's 5.5 that which is not about light topics."""
    assert change(GROUP_ATTRIBUTES, None, {}) == {}
    assert change(GROUP_ATTRIBUTES, {}, {"+priority.factor": "0"}) == {"priority.factor": "0"}
    with pytest.raises(RequestError, match=r"write an integer of 0\.\.100"):
        change(GROUP_ATTRIBUTES, None, {"+priority.factor": "101"})
    with pytest.raises(RequestError, match=r"known are priority\.factor"):
        change(GROUP_ATTRIBUTES, None, {"+a": "1"})
