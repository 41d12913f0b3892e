"""Topic configurations have Java's bytes, its defaults, and its order of versions."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import topics
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.topics import (
    DataVersion,
    LogicQueueMappingItem,
    TopicConfig,
    TopicFilterType,
)
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(topics) == 11


@given(bodies(topics))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_missing_members_have_the_defaults_of_java() -> None:
    topic = decode_body(TopicConfig, b'{"topicName":"T"}')
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (16, 16, 6)
    assert topic.topic_filter_type is TopicFilterType.SINGLE_TAG
    item = decode_body(LogicQueueMappingItem, b"{}")
    assert (item.end_offset, item.time_of_start, item.time_of_end) == (-1, -1, -1)


def test_versions_are_equal_only_in_all_members() -> None:
    version = DataVersion(1, 2, 3)
    assert version == DataVersion(1, 2, 3)
    for other in (DataVersion(0, 2, 3), DataVersion(1, 0, 3), DataVersion(1, 2, 0)):
        assert version != other


def test_state_version_outranks_counter_outranks_timestamp() -> None:
    old = DataVersion(counter=1, state_version=0, timestamp=9)
    counted = DataVersion(counter=2, state_version=0, timestamp=1)
    later = DataVersion(counter=2, state_version=0, timestamp=5)
    elected = DataVersion(counter=0, state_version=1, timestamp=0)
    assert old.rank < counted.rank < later.rank < elected.rank
