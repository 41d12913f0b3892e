"""The topic table counts its pairs and drops exactly the encoded answers that a change touches."""

import pytest

from roketto.namesrv.topics import TopicTable
from roketto.protocol.bodies.route import QueueData
from roketto.protocol.bodies.topics import TopicQueueMappingInfo


@pytest.fixture
def topics() -> TopicTable:
    """Topic T on brokers a and b, U on a; every answer is encoded."""
    table = TopicTable()
    for topic, broker in (("T", "a"), ("T", "b"), ("U", "a")):
        table.put(topic, QueueData(broker, 6, 4, 0, 4))
    remember(table)
    return table


def remember(table: TopicTable) -> None:
    for topic in table.names():
        table.answers.old[topic] = table.answers.standard[topic] = b"{}"


def remembered(table: TopicTable) -> set[str]:
    assert table.answers.old.keys() == table.answers.standard.keys()
    return set(table.answers.old)


def test_same_queues_again_keep_the_answer(topics: TopicTable) -> None:
    topics.put("T", QueueData("a", 6, 4, 0, 4))
    assert remembered(topics) == {"T", "U"}


def test_changed_queues_drop_the_answer_of_their_topic(topics: TopicTable) -> None:
    topics.put("T", QueueData("a", 6, 8, 0, 8))
    assert remembered(topics) == {"U"}


def test_new_mapping_drops_the_answer_of_its_topic(topics: TopicTable) -> None:
    topics.put_mapping("U", "a", TopicQueueMappingInfo(bname="a"))
    assert remembered(topics) == {"T"}


def test_deleted_topic_drops_its_answer(topics: TopicTable) -> None:
    topics.delete("T", ("a",))
    assert remembered(topics) == {"U"}
    assert topics.names() == ["T", "U"]
    topics.delete("T")
    assert topics.names() == ["U"]


def test_deleting_the_unknown_changes_nothing(topics: TopicTable) -> None:
    topics.delete("X")
    topics.delete("T", ("nobody",))
    assert remembered(topics) == {"T", "U"}
    assert topics.entry_count == 3


def test_lost_broker_drops_the_answers_of_its_topics(topics: TopicTable) -> None:
    topics.drop_broker("b")
    assert remembered(topics) == {"U"}
    topics.drop_broker("a")
    assert topics.names() == []


def test_mappings_stay_while_another_broker_holds_the_topic(topics: TopicTable) -> None:
    topics.put_mapping("T", "a", TopicQueueMappingInfo(bname="a"))
    topics.drop_broker("a")
    assert topics.mappings("T") is not None
    topics.drop_broker("b")
    assert topics.mappings("T") is None


def test_mappings_survive_the_deletion_of_a_topic_whose_broker_stays(topics: TopicTable) -> None:
    topics.put_mapping("U", "a", TopicQueueMappingInfo(bname="a"))
    topics.delete("U")
    assert topics.mappings("U") is not None


def test_wiped_permission_drops_answers_only_where_it_changes(topics: TopicTable) -> None:
    topics.put("U", QueueData("a", 4, 4, 0, 4))
    remember(topics)
    assert topics.clear_write("a") == 2
    assert remembered(topics) == {"U"}
    assert [topics.queues(topic)["a"].perm for topic in ("T", "U")] == [4, 4]
    assert topics.queues("T")["b"].perm == 6


def test_added_permission_is_read_and_write_whatever_it_was(topics: TopicTable) -> None:
    topics.put("U", QueueData("a", 1, 4, 0, 4))
    assert topics.allow_write("a") == 2
    assert [topics.queues(topic)["a"].perm for topic in ("T", "U")] == [6, 6]
    assert topics.allow_write("nobody") == 0


def test_entries_are_counted(topics: TopicTable) -> None:
    assert topics.entry_count == 3
    topics.put("T", QueueData("a", 4, 4, 0, 4))
    assert topics.entry_count == 3
    topics.delete("T", ("a",))
    assert topics.entry_count == 2
    topics.drop_broker("a")
    assert topics.entry_count == 1


def test_mappings_are_counted_too(topics: TopicTable) -> None:
    assert topics.count_new("a", ["T", "V"], ["T", "V"]) == 3
    for _ in range(2):
        topics.put_mapping("U", "a", TopicQueueMappingInfo(bname="a"))
    assert topics.entry_count == 4
    assert topics.count_new("a", ["T"], ["U"]) == 0
    topics.drop_broker("a")
    assert topics.entry_count == 1


def test_flags_of_the_first_broker_decide(topics: TopicTable) -> None:
    topics.put("T", QueueData("b", 6, 4, 3, 4))
    topics.put("U", QueueData("a", 6, 4, 2, 4))
    topics.put("V", QueueData("a", 6, 4, 3, 4))
    assert topics.names_with_flags(1, 1) == ["V"]
    assert topics.names_with_flags(2, 2) == ["U", "V"]
    assert topics.names_with_flags(3, 2) == ["U"]
