"""What a table of a newer RocketMQ says beyond ours is written again, where it was."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.groups import SimpleSubscriptionData, SubscriptionGroupWrapper
from roketto.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from roketto.protocol.errors import BodyError
from roketto.store.unknown_members import (
    Unknown,
    find_unknown,
    forget_unknown,
    merge_unknown,
    parse_tree,
)

TOPIC = (
    b'{"attributes":{},"order":false,"perm":6,"readQueueNums":16,"shape":{"a":[1,{"b":null}]},'
    b'"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":16}'
)
TABLE = (
    b'{"alpha":[1,2],"dataVersion":{"counter":1,"origin":"x","stateVersion":0,"timestamp":5},'
    b'"topicConfigTable":{"T":' + TOPIC + b'},"zulu":1.5}'
)


def read(text: bytes) -> tuple[TopicConfigSerializeWrapper, Unknown | None]:
    table = decode_body(TopicConfigSerializeWrapper, text)
    return table, find_unknown(parse_tree(text), table)


def test_unknown_members_of_every_level_are_written_in_their_places() -> None:
    """Byte for byte: Java orders members by name, and so does what was merged."""
    table, unknown = read(TABLE)
    assert encode_body(merge_unknown(table, unknown)) == TABLE


def test_a_table_that_we_know_all_of_is_left_alone() -> None:
    """Nothing is kept, and the value is written as it is."""
    known = TopicConfigSerializeWrapper(topic_config_table={"T": TopicConfig(topic_name="T")})
    table, unknown = read(encode_body(known))
    assert unknown is None
    assert merge_unknown(table, unknown) is table


def test_changes_of_known_members_are_written_with_the_unknown() -> None:
    """Also if the whole entry was replaced; entries that are gone take theirs with them."""
    table, unknown = read(TABLE)
    table.topic_config_table["T"] = TopicConfig(topic_name="T", perm=4)
    text = encode_body(merge_unknown(table, unknown))
    assert b'"perm":4,"readQueueNums":16,"shape":{"a":[1,{"b":null}]}' in text
    del table.topic_config_table["T"]
    text = encode_body(merge_unknown(table, unknown))
    assert b"shape" not in text
    assert b"alpha" in text


def test_what_is_forgotten_does_not_come_back() -> None:
    """An entry that was removed and made anew is another one; ways that lead nowhere are fine."""
    table, unknown = read(TABLE)
    forget_unknown(unknown, "topicConfigTable", "other")
    forget_unknown(unknown, "nothing", "of", "that")
    forget_unknown(None, "topicConfigTable", "T")
    assert encode_body(merge_unknown(table, unknown)) == TABLE
    forget_unknown(unknown, "topicConfigTable", "T")
    assert b"shape" not in encode_body(merge_unknown(table, unknown))


GROUP = (
    b'{"subscriptionGroupTable":{"G":{"groupName":"G","subscriptionDataSet":'
    b'[{"new":1,"topic":"A"},null,{"topic":"B"},{"new":3,"topic":"C"}]}}}'
)


def test_an_item_of_a_list_keeps_its_unknown_members_until_it_changes() -> None:
    """Wherever it stands by then."""
    table = decode_body(SubscriptionGroupWrapper, GROUP)
    unknown = find_unknown(parse_tree(GROUP), table)
    items = table.subscription_group_table["G"].subscription_data_set
    assert items is not None
    items.reverse()
    items[2] = SimpleSubscriptionData(topic="D")
    text = encode_body(merge_unknown(table, unknown))
    assert b'[{"new":3,"topic":"C","version":0},{"topic":"B","version":0},{"topic":"D"' in text


@pytest.mark.parametrize(
    "text",
    [
        b'{"subscriptionGroupTable":{"$ref":"$"}}',
        b'{"subscriptionGroupTable":{"G":{"groupName":"G"},"H":{"$ref":"$.subscriptionGroupTable.G"}}}',
        b'{"subscriptionGroupTable":{"G":{"subscriptionDataSet":{"$ref":"$"}}}}',
        b'{"subscriptionGroupTable":{"G":null}}',
        b'{{"a":1}:2}',
    ],
)
def test_references_nulls_and_object_keys_are_no_members(text: bytes) -> None:
    """Old versions of FastJSON write an object that comes twice as a path."""
    try:
        table = decode_body(SubscriptionGroupWrapper, text)
    except BodyError:
        table = SubscriptionGroupWrapper()
    assert find_unknown(parse_tree(text), table) is None


def test_the_tree_of_java_s_dialect_is_read_either_way() -> None:
    """Plain JSON, integer keys, and what only the tolerant parser takes."""
    assert parse_tree(b'{"a":{"0":1}}') == {"a": {"0": 1}}
    assert parse_tree(b'{"a":{0:1}}') == {"a": {"0": 1}}
    assert parse_tree(b"{'a':{0:1,}}") == {"a": {"0": 1}}


def test_a_member_too_deep_to_be_written_is_not_read() -> None:
    """As a BodyError, so that the backup is tried, and not when the table is saved."""
    tree: object = 1
    for _ in range(2_000):
        tree = [tree]
    with pytest.raises(BodyError, match="deep nests too deep"):
        find_unknown({"dataVersion": {"deep": tree}}, TopicConfigSerializeWrapper())  # type: ignore[dict-item]
    text = b'{"deep":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    with pytest.raises(BodyError, match="nests deeper than"):
        parse_tree(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=8).map(lambda name: f"x{name}"), json_values, max_size=4))
def test_any_unknown_members_survive_reading_and_writing(members: dict[str, object]) -> None:
    """Of the table and of a topic, whatever they are."""
    topic = {"topicName": "T", **members}
    text = msgspec.json.encode({"topicConfigTable": {"T": topic}, **members})
    table, unknown = read(text)
    written = msgspec.json.decode(encode_body(merge_unknown(table, unknown)))
    assert written.items() >= members.items()
    assert written["topicConfigTable"]["T"].items() >= members.items()
