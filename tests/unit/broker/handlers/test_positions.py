"""Copies, corrections and times of offsets, and the tables that slaves fetch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.delay_levels import DelayLevels
from roketto.broker.delays import Delays
from roketto.broker.handlers import positions as handlers
from roketto.protocol.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    QueryCorrectionOffsetBody,
)
from roketto.protocol.bodies.stats import QueryConsumeTimeSpanBody, QueueTimeSpan
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import ResponseCode
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.files import Files
from unit.broker.clients_rig import ClientsRig, route
from unit.broker.pull_rig import START_MS

CLONE = route(handlers.ROUTES, 314)
CORRECT = route(handlers.ROUTES, 308)
SPAN = route(handlers.ROUTES, 303)
OFFSETS = route(handlers.ROUTES, 43)
DELAYS = route(handlers.ROUTES, 45)
LONG_MAX = 2**63 - 1


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    rig.context.topics.put(TopicConfig(topic_name="U", read_queue_nums=1, write_queue_nums=1))
    yield rig
    rig.close()


def commit(rig: ClientsRig, group: str, topic: str, *offsets: int) -> None:
    for queue_id, offset in enumerate(offsets):
        rig.context.offsets.commit(topic, group, queue_id, offset)


# --- copies ---------------------------------------------------------------------------------------


def clone(rig: ClientsRig, **more: object) -> dict[str, dict[int, int]]:
    """The offsets of the copy, by topic."""
    answer = rig.ask(CLONE, {"srcGroup": "G", "destGroup": "H", **more})
    assert (answer.code, answer.body) == (0, b"")
    offsets = rig.context.offsets
    return {topic: dict(offsets.offsets(topic, "H")) for topic in offsets.topics_of("H")}


def test_a_group_takes_the_place_of_another(rig: ClientsRig) -> None:
    """In one topic, or in all of them, for which Java does nothing."""
    commit(rig, "G", "T", 3, 4)
    commit(rig, "G", "U", 5)
    commit(rig, "G", "Gone", 6)
    commit(rig, "H", "T", 9, 9, 9)
    assert clone(rig, topic="T") == {"T": {0: 3, 1: 4}}
    assert clone(rig, topic="Gone") == {"T": {0: 3, 1: 4}}
    assert clone(rig) == {"T": {0: 3, 1: 4}, "U": {0: 5}}


@pytest.mark.parametrize(("offline", "topics"), [("false", ["T"]), ("true", ["T", "U"])])
def test_topics_that_are_consumed_no_more_are_copied_on_demand(
    rig: ClientsRig, offline: str, topics: list[str]
) -> None:
    """The group is online and subscribes to T alone."""
    commit(rig, "G", "T", 3)
    commit(rig, "G", "U", 5)
    rig.join()
    assert sorted(clone(rig, offline=offline, topic=" ")) == topics


def test_a_group_that_may_not_be_made_gets_no_offsets(rig: ClientsRig) -> None:
    """They would only fill the table."""
    rig.config.auto_create_subscription_group = False
    commit(rig, "G", "T", 3)
    said = {"srcGroup": "G", "destGroup": "H", "topic": "T"}
    assert rig.refuse(CLONE, said) == (
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "Group H not exist!",
    )


# --- corrections ----------------------------------------------------------------------------------


def corrected(rig: ClientsRig, **more: object) -> dict[int, int]:
    said = {"topic": "T", "compareGroup": "G", **more}
    return rig.read(QueryCorrectionOffsetBody, CORRECT, said).correction_offsets


def test_the_smallest_offset_of_the_other_groups_corrects(rig: ClientsRig) -> None:
    """Where the group itself is behind all of them there is nothing to correct."""
    rig.send(9, queue_id=0)
    rig.send(9, queue_id=1)
    commit(rig, "G", "T", 5, 2)
    commit(rig, "H", "T", 4, 6, 8)
    commit(rig, "I", "T", 7, 3)
    assert corrected(rig, filterGroups="G") == {0: 4, 1: LONG_MAX, 2: 8}
    assert corrected(rig, filterGroups="G,H") == {0: LONG_MAX, 1: LONG_MAX}
    assert corrected(rig) == {0: 4, 1: 2, 2: 8}
    assert corrected(rig, compareGroup="nobody", filterGroups="") == {0: 4, 1: 2, 2: 8}


def test_offsets_of_messages_that_are_gone_correct_nothing(rig: ClientsRig) -> None:
    """Nor does a group that is alone, at which Java fails."""
    rig.send(9)
    queue = rig.store.queue("T", 0)
    assert queue is not None
    queue.queue_offset_min = 5
    commit(rig, "H", "T", 4)
    commit(rig, "I", "T", 6)
    assert corrected(rig) == {0: 6}
    commit(rig, "G", "T", 7)
    assert corrected(rig, filterGroups="G,H,I") == {0: LONG_MAX}
    assert corrected(rig, topic="Nowhere") == {}


def test_groups_that_are_left_out_keep_their_offsets(rig: ClientsRig) -> None:
    """Java's broker forgets them, in every topic."""
    commit(rig, "H", "T", 4)
    commit(rig, "H", "U", 4)
    corrected(rig, filterGroups="H")
    assert rig.context.offsets.topics_of("H") == ["T", "U"]


# --- times ----------------------------------------------------------------------------------------


def span(rig: ClientsRig, queue_id: int = 0, topic: str = "T") -> QueueTimeSpan:
    body = rig.read(QueryConsumeTimeSpanBody, SPAN, {"topic": topic, "group": "G"})
    assert len(body.consume_time_span_set) == 4
    found = body.consume_time_span_set[queue_id]
    assert found.message_queue is not None
    assert (found.message_queue.topic, found.message_queue.queue_id) == (topic, queue_id)
    assert found.message_queue.broker_name == rig.config.broker_name
    return found


def test_the_times_of_a_queue_are_told(rig: ClientsRig) -> None:
    """Its first and last message, the last that was consumed, and how long the next has waited."""
    for second in range(5):
        rig.now_ms = START_MS + 1_000 * second
        rig.send()
    rig.now_ms = START_MS + 10_000
    commit(rig, "G", "T", 2)
    found = span(rig)
    assert found.min_time_stamp == START_MS
    assert found.max_time_stamp == START_MS + 4_000
    assert found.consume_time_stamp == START_MS + 1_000
    assert found.delay_time == 8_000
    assert found.min_time_stamp_str is not None
    assert found.min_time_stamp_str.endswith(":20:000")
    commit(rig, "G", "T", 5)
    assert (span(rig).consume_time_stamp, span(rig).delay_time) == (START_MS + 4_000, 0)


def test_without_offset_or_messages_there_is_no_delay_to_speak_of(rig: ClientsRig) -> None:
    """A group that has consumed nothing has waited for the first; Java counts from 1970."""
    rig.send()
    rig.now_ms = START_MS + 3_000
    found = span(rig)
    assert (found.consume_time_stamp, found.delay_time) == (START_MS, 3_000)
    empty = span(rig, 1)
    assert (empty.min_time_stamp, empty.max_time_stamp, empty.consume_time_stamp) == (-1, -1, -1)
    assert empty.delay_time == 0
    assert rig.refuse(SPAN, {"topic": "Nowhere", "group": "G"}) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "topic[Nowhere] not exist",
    )


# --- tables ---------------------------------------------------------------------------------------


def test_slaves_fetch_the_offsets_of_all_groups(rig: ClientsRig) -> None:
    """With their version, and which topics each group has."""
    commit(rig, "G", "T", 3, 4)
    body = rig.read(ConsumerOffsetSerializeWrapper, OFFSETS, {})
    assert body.offset_table == {"T@G": {0: 3, 1: 4}}
    assert body.group_topic_map == {"G": ["T"]}
    assert body.data_version is not None


def test_slaves_fetch_how_far_each_delay_level_is(rig: ClientsRig, tmp_path: Path) -> None:
    table = DelayOffsetTable(Files(), tmp_path / "delays")
    table.put(3, 17)
    put = rig.store.append
    rig.context.delays = Delays(table, DelayLevels("1s"), rig.store, put, lambda record: None)
    assert rig.read(DelayOffsetSerializeWrapper, DELAYS, {}).offset_table == {3: 17}


def test_a_table_that_no_frame_holds_is_refused(
    rig: ClientsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a reason, instead of a frame that closes the connection."""
    monkeypatch.setattr(handlers, "FRAME_BYTES_MAX", 64 * 1024 + 10)
    commit(rig, "G", "T", 3)
    code, reason = rig.refuse(OFFSETS, {})
    assert code == ResponseCode.SYSTEM_ERROR
    assert "a frame holds 10" in reason
