"""Offsets over the wire: asking, committing, and what operators see, with Java's codes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import offsets as handlers
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import ConsumeStats
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import ResponseCode
from roketto.store.commitlog import CommitLog
from unit.broker.clients_rig import ClientsRig, route
from unit.broker.pull_rig import START_MS

QUERY = route(handlers.ROUTES, 14)
UPDATE = route(handlers.ROUTES, 15)
STATS = route(handlers.ROUTES, 208)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    rig.context.groups.find("G")
    yield rig
    rig.close()


def where(queue_id: int = 0, **more: object) -> dict[str, object]:
    return {"consumerGroup": "G", "topic": "T", "queueId": queue_id, **more}


def query(rig: ClientsRig, queue_id: int = 0, **more: object) -> int:
    answer = rig.ask(QUERY, where(queue_id, **more))
    assert answer.code == 0
    assert answer.ext is not None
    return int(answer.ext["offset"])


# --- asking ---------------------------------------------------------------------------------------


def test_a_committed_offset_is_answered(rig: ClientsRig) -> None:
    """Whatever the queue has."""
    assert rig.ask(UPDATE, where(commitOffset=9)).code == 0
    assert query(rig) == 9


def test_a_new_group_reads_a_young_queue_from_its_beginning(rig: ClientsRig) -> None:
    """Its first message is still in memory; and so the client's consumeFromWhere has no say."""
    rig.send()
    assert query(rig) == 0
    assert query(rig, setZeroIfNotFound="true") == 0


def test_a_client_may_refuse_the_zero(rig: ClientsRig) -> None:
    """setZeroIfNotFound=false: then 22, whatever the queue has."""
    rig.send()
    code, reason = rig.refuse(QUERY, where(setZeroIfNotFound="false"))
    assert code == ResponseCode.QUERY_NOT_FOUND
    assert reason == "Not found, do not set to zero, maybe this group boot first"


def test_nothing_is_known_of_an_empty_queue(rig: ClientsRig) -> None:
    """No message, no zero: the client decides. The topic may even be unknown."""
    expected = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    assert rig.refuse(QUERY, where()) == (ResponseCode.QUERY_NOT_FOUND, expected)
    assert rig.refuse(QUERY, where(topic="Unknown")) == (ResponseCode.QUERY_NOT_FOUND, expected)


def test_a_long_queue_is_not_read_from_its_beginning(
    rig: ClientsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first message is on the disk only: a new group must not read it all."""
    rig.send()
    monkeypatch.setattr(CommitLog, "is_likely_in_memory", lambda *_: False)
    code, _ = rig.refuse(QUERY, where())
    assert code == ResponseCode.QUERY_NOT_FOUND


# --- committing -----------------------------------------------------------------------------------


def test_unknown_groups_and_topics_commit_nothing(rig: ClientsRig) -> None:
    """26 and 17; a commit makes no group."""
    said = where(commitOffset=1)
    assert rig.refuse(UPDATE, said | {"consumerGroup": "H"}) == (
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "Group H not exist!",
    )
    assert rig.refuse(UPDATE, said | {"topic": "U"}) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "Topic U not exist!",
    )
    assert rig.context.groups.get("H") is None


@pytest.mark.parametrize(("queue_id", "offset"), [(0, -1), (-1, 5), (4, 5), (2**31 - 1, 5)])
def test_nonsense_is_answered_and_moves_nothing(
    rig: ClientsRig, queue_id: int, offset: int
) -> None:
    """Java answers 0 and stores it; here a group keeps its place and the table its size."""
    rig.ask(UPDATE, where(0, commitOffset=3))
    assert rig.ask(UPDATE, where(queue_id, commitOffset=offset)).code == 0
    assert rig.context.offsets.offsets("T", "G") == {0: 3}


def test_a_queue_that_its_topic_no_longer_has_is_still_consumed(rig: ClientsRig) -> None:
    """An operator has made the topic smaller; what is in the queue counts."""
    rig.send(queue_id=3)
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1))
    rig.ask(UPDATE, where(3, commitOffset=1))
    assert query(rig, 3) == 1


def test_a_commit_from_before_a_reset_moves_nothing(rig: ClientsRig) -> None:
    """As in Java, whoever commits is told so; and where to go on is the reset."""
    rig.context.offsets.reset("T", "G", 0, 3)
    answer = rig.ask(UPDATE, where(commitOffset=9))
    assert (answer.code, answer.remark) == (0, "Offset has been previously reset")
    assert query(rig) == 3


# --- operators ------------------------------------------------------------------------------------


def stats(rig: ClientsRig, **said: object) -> ConsumeStats:
    return rig.read(ConsumeStats, STATS, {"consumerGroup": "G", **said})


def test_progress_shows_every_queue_of_the_topics_of_a_group(rig: ClientsRig) -> None:
    """Both ends, what was sent but not committed, and when the last message came."""
    rig.send(3)
    rig.ask(UPDATE, where(commitOffset=2))
    rig.context.offsets.note_pulled("T", "G", 0, 3)
    table = stats(rig).offset_table
    assert len(table) == 4
    shown = table[MessageQueue(rig.config.broker_name, 0, "T")]
    assert (shown.broker_offset, shown.consumer_offset, shown.pull_offset) == (3, 2, 3)
    assert shown.last_timestamp == START_MS
    empty = table[MessageQueue(rig.config.broker_name, 1, "T")]
    assert (empty.broker_offset, empty.consumer_offset, empty.last_timestamp) == (0, 0, 0)


def test_progress_of_one_topic_shows_it_also_without_offsets(rig: ClientsRig) -> None:
    """A group that has consumed nothing has all before it; unknown topics are left out."""
    rig.send()
    assert len(stats(rig, topic="T").offset_table) == 4
    assert stats(rig, topic="U").offset_table == {}
    assert stats(rig).offset_table == {}


def test_progress_leaves_out_topics_that_a_group_no_longer_subscribes_to(rig: ClientsRig) -> None:
    """While it is online; a list of topics is shown whatever it subscribes to."""
    rig.context.topics.put(TopicConfig(topic_name="U", read_queue_nums=1, write_queue_nums=1))
    rig.ask(UPDATE, where(commitOffset=1))
    rig.ask(UPDATE, where(topic="U", commitOffset=1))
    rig.join(group="G")
    assert {queue.topic for queue in stats(rig).offset_table} == {"T"}
    assert stats(rig, topic="U").offset_table == {}
    assert {queue.topic for queue in stats(rig, topicList="T;U;").offset_table} == {"T", "U"}


def test_a_message_that_is_gone_has_no_time(rig: ClientsRig) -> None:
    """The offset is behind what the queue has."""
    rig.ask(UPDATE, where(commitOffset=7))
    shown = stats(rig).offset_table[MessageQueue(rig.config.broker_name, 0, "T")]
    assert (shown.consumer_offset, shown.last_timestamp) == (7, 0)
