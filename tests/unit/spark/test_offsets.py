"""Offsets of a stream: one text for one offset, and the same batch however often it is replayed."""

import json

import pytest

from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.offsets import OffsetError, StreamOffset, flatten, nest

A, B = MessageQueue("broker-a", 0, "T"), MessageQueue("broker-a", 10, "T")
C = MessageQueue("broker-b", 2, "S")


def through_spark(offset: StreamOffset) -> dict[str, object]:
    """As Spark hands it back: a text that was kept in a checkpoint."""
    value: dict[str, object] = json.loads(json.dumps(offset.to_json()))
    return value


def test_the_same_offset_is_the_same_text_in_any_order() -> None:
    one = StreamOffset({A: 1, B: 2, C: 3}, {B: 0, A: 0})
    other = StreamOffset({C: 3, B: 2, A: 1}, {A: 0, B: 0})
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
    assert json.dumps(through_spark(one)) == json.dumps(one.to_json())
    assert StreamOffset.parse(through_spark(one)) == one


def test_a_replayed_first_batch_reads_what_its_own_end_says() -> None:
    beginning = StreamOffset.beginning({A: 5, B: 7})
    end = beginning.followed_by({A: 9, B: 7}, {})
    looked_up_anew = StreamOffset.beginning({A: 100, B: 100})
    assert looked_up_anew.starts_of(StreamOffset.parse(through_spark(end))) == {A: 5, B: 7}


def test_a_first_batch_of_nothing_reads_nothing_when_replayed() -> None:
    beginning = StreamOffset.beginning({A: 5})
    assert StreamOffset.beginning({A: 100}).starts_of(beginning) == {A: 5}


def test_nothing_is_between_an_offset_and_itself() -> None:
    end = StreamOffset.beginning({A: 5}).followed_by({A: 9}, {})
    assert end.starts_of(StreamOffset.parse(through_spark(end))) == {A: 9}


def test_a_new_beginning_at_the_end_of_the_first_batch_reads_it_again() -> None:
    end = StreamOffset.beginning({A: 5}).followed_by({A: 9}, {})
    assert StreamOffset.beginning({A: 9}).starts_of(end) == {A: 5}


def test_later_batches_begin_where_the_one_before_has_ended() -> None:
    first = StreamOffset.beginning({A: 0}).followed_by({A: 3}, {})
    second = first.followed_by({A: 8, C: 6}, {C: 4})
    assert first.starts_of(second) == {A: 3, C: 4}
    assert second.starts_of(second.followed_by({A: 9, C: 6}, {})) == {A: 8, C: 6}
    assert "init" not in second.followed_by({A: 9, C: 6}, {}).to_json()


def test_a_stream_without_queues_begins_all_the_same() -> None:
    empty = StreamOffset.parse(through_spark(StreamOffset.beginning({})))
    assert empty.is_beginning
    assert empty.followed_by({A: 2}, {A: 1}).starts == {A: 1}


def test_queues_are_ordered_by_number_and_nested_by_name() -> None:
    assert json.dumps(nest({B: 2, A: 1})) == '{"T": {"broker-a": {"0": 1, "10": 2}}}'
    assert flatten(nest({A: 1, B: 2, C: 3})) == {A: 1, B: 2, C: 3}


@pytest.mark.parametrize(
    "value",
    [
        [], {"T": 1}, {"T": {"b": [1]}}, {"T": {"b": {"x": 1}}}, {"T": {"b": {"0": -1}}},
        {"T": {"b": {"0": 1.5}}}, {"T": {"b": {"0": True}}}, {"T": {"b": {"-1": 1}}},
    ],
)  # fmt: skip
def test_what_has_no_offsets_is_refused(value: object) -> None:
    with pytest.raises(OffsetError):
        flatten(value)


def test_the_offset_of_another_source_is_refused_with_a_remedy() -> None:
    with pytest.raises(OffsetError, match="use another location"):
        StreamOffset.parse({"index": 3})
