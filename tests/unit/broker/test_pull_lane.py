"""The quick lane of pulls answers what the ordinary way does, and leaves the rest to it."""

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec
import pytest

from roketto.broker.dispatch import Dispatcher
from roketto.broker.pull_lane import PullLane
from roketto.broker.stats import Statistics
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import COMPACT, frame_prefix
from roketto.store.errors import TableFullError
from roketto.store.reading import TransferLimits
from unit.broker.pull_rig import PullRig, offsets_of

FIELDS = {
    "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
    "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "15000", "subscription": "*",
    "subVersion": "0", "expressionType": "TAG", "maxMsgBytes": "2147483647",
}  # fmt: skip
BY_HEARTBEAT = {"sysFlag": "2", "subscription": ""}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    """Ten messages in queue 0, one of them after another queue's, and a group that has pulled."""
    rig = PullRig(tmp_path / "store")
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", group_sys_flag=3))
    rig.join()
    rig.send(6, tag="a")
    rig.send(3, queue_id=1)
    rig.send(4, tag="b")
    yield rig
    rig.close()


def frame_of(fields: Mapping[str, object], opaque: object = 7, **members: object) -> memoryview:
    """A frame as FastJSON would write it, sorted, without its length field."""
    header = {"code": 11, "extFields": dict(sorted(fields.items())), "flag": 0, "language": "JAVA",
              "opaque": opaque, "serializeTypeCurrentRPC": "JSON", "version": 505,
              **members}  # fmt: skip
    text = msgspec.json.encode(header)
    return memoryview(frame_prefix(0, len(text), 0) + text)[4:]


def ordinary(rig: PullRig, frame: memoryview) -> bytes:
    """What a connection would write for this frame without a lane."""
    answer = Dispatcher(rig.context).handle(rig.connection.as_connection, decode_command(frame))
    assert isinstance(answer, Command)
    return encode_command(answer)


def quick(rig: PullRig, frame: memoryview, lane: PullLane | None = None) -> bytes | None:
    """What a lane that has seen its kind writes; None, with nothing written, if that is nothing."""
    lane = lane or PullLane(rig.context)
    data = b"before" + frame + b"behind"
    for _ in range(2):
        if lane.answer(rig.connection.as_connection, data, 6, 6 + len(frame)):
            return rig.connection.take_written()
    assert rig.connection.written == b""
    return None


def noted(rig: PullRig) -> tuple[object, ...]:
    """All that a pull leaves behind."""
    context, stats = rig.context, rig.context.stats
    offsets = context.offsets
    return (
        offsets.get("T", "G", 0), offsets.pulled("T", "G", 0), counted(stats),
        list(context.groups.groups), len(rig.polls),
    )  # fmt: skip


def counted(stats: Statistics) -> list[object]:
    """All that statistics know, but for how long it took."""
    groups = {
        (topic, group): (taken.get.times, taken.get.count, taken.get.size)
        for topic, found in stats.topics.items()
        for group, taken in found.groups.items()
    }
    total = stats.get.times, stats.get.count, stats.get.size, stats.get_missed
    return [dict(stats.requests), dict(stats.refusals), groups, total]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"queueOffset": "4", "maxMsgNums": "1"},
        {"maxMsgNums": "0"},
        {"maxMsgNums": "-5", "subVersion": "-1", "requestSource": "2"},
        {"subscription": "a"},
        {"subscription": "b || c", "expressionType": ""},
        {"queueId": "1"},
        {"sysFlag": "7", "commitOffset": "5", "queueOffset": "5"},
        BY_HEARTBEAT,
        {**BY_HEARTBEAT, "sysFlag": "3", "commitOffset": "4", "subVersion": "1"},
        {"nsd": "true", "bname": "broker-a"},
    ],
)
def test_both_ways_answer_and_note_the_same(tmp_path: Path, change: dict[str, str]) -> None:
    """Byte for byte, on two brokers that have seen the same."""
    frame = frame_of({**FIELDS, **change}, opaque=2**29)
    results = []
    for way in (ordinary, quick):
        rig = PullRig(tmp_path / way.__name__)
        rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, topic_sys_flag=2))
        rig.context.groups.put(SubscriptionGroupConfig(group_name="G", group_sys_flag=3))
        rig.join()
        rig.send(6, tag="a")
        rig.send(3, queue_id=1)
        rig.send(4, tag="b")
        results.append((way(rig, frame), noted(rig)))
        rig.close()
    assert results[0] == results[1]


def test_answers_name_the_broker_to_ask_next(rig: PullRig) -> None:
    """Where slaves may be read from, that of the group."""
    rig.config.slave_read_enable = True
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", broker_id=5))
    frame = frame_of(dict(FIELDS))
    assert quick(rig, frame) == ordinary(rig, frame)


def test_a_lane_knows_what_it_was_asked_before(rig: PullRig) -> None:
    """Offsets are those of each pull, whatever is remembered, and others are not taken for it."""
    lane = PullLane(rig.context, known_max=2)
    for offset in ("0", "3", "9"):
        for change in ({}, {"queueId": "1", "queueOffset": "1"}, {"subscription": "b"}):
            frame = frame_of({**FIELDS, "queueOffset": offset, **change})
            assert quick(rig, frame, lane) == ordinary(rig, frame)
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", consume_enable=False))
    assert quick(rig, frame, lane) is None


def test_a_reset_is_left_to_the_ordinary_way(rig: PullRig) -> None:
    """Others are not slowed down by it."""
    lane = PullLane(rig.context)
    frame, other = frame_of(dict(FIELDS)), frame_of({**FIELDS, "queueId": "1"})
    assert quick(rig, frame, lane) is not None
    rig.context.offsets.reset("T", "G", 0, 3)
    assert quick(rig, frame, lane) is None
    assert quick(rig, other, lane) is not None
    assert b"OFFSET_RESET" in ordinary(rig, frame)
    assert quick(rig, frame, lane) is not None


def test_texts_that_could_be_divided_otherwise_are_left_alone(rig: PullRig) -> None:
    """What is remembered of one pull is never taken for another."""
    lane = PullLane(rig.context)
    rig.context.topics.put(TopicConfig(topic_name="0", read_queue_nums=1))
    assert quick(rig, frame_of(dict(FIELDS)), lane) is not None
    other = {**FIELDS, "consumerGroup": "G\nT", "topic": "0", "queueId": "32"}
    assert quick(rig, frame_of(other), lane) is None


@pytest.mark.parametrize("body_bytes", [10, 5_000])
def test_messages_of_several_segments_and_places_follow_each_other(
    tmp_path: Path, body_bytes: int
) -> None:
    """Small pieces are joined, large ones are not; the wire cannot tell."""
    rig = PullRig(tmp_path / "store", segment_bytes=20_000)
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    for number in range(24):
        rig.send(queue_id=number % 2, FILL="x" * body_bytes)
    frame = frame_of(dict(FIELDS))
    answer = quick(rig, frame)
    assert answer is not None
    assert answer == ordinary(rig, frame)
    assert offsets_of(decode_command(memoryview(answer)[4:])) == list(range(12))
    rig.close()


def test_how_much_is_sent_at_once_may_change(rig: PullRig) -> None:
    """The bounds of the broker count, not what was remembered."""
    lane, frame = PullLane(rig.context), frame_of(dict(FIELDS))
    assert quick(rig, frame, lane) == ordinary(rig, frame)
    rig.store.limits = TransferLimits(memory_count=3)
    answer = quick(rig, frame, lane)
    assert answer is not None
    assert answer == ordinary(rig, frame)
    assert offsets_of(decode_command(memoryview(answer)[4:])) == [0, 1, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"consumerGroup": "unknown"}, {"topic": "unknown"}, {"queueId": "4"}, {"queueId": "-1"},
        {"queueId": "1.0"}, {"queueId": ""}, {"queueId": "2"}, {"queueOffset": "10"},
        {"queueOffset": "11"}, {"queueOffset": "-1"}, {"queueOffset": "x"}, {"queueOffset": ""},
        {"queueOffset": "1" * 19}, {"commitOffset": "-1"}, {"commitOffset": ""},
        {"commitOffset": "1" * 19}, {"maxMsgNums": "x"}, {"sysFlag": str(2**31)},
        {"maxMsgBytes": "x"}, {"requestSource": "1e3"}, {"subscription": "c"},
        {"subscription": "x > 1", "expressionType": "SQL92"}, {"subscription": "|| ||"},
        {**BY_HEARTBEAT, "subVersion": "2"}, {**BY_HEARTBEAT, "queueId": "3"},
        {"queueId": 0}, {"subscription": None}, {"topic": None},
        {"subscription": " || ".join(map(str, range(500))) + " || b"},
        {"sysFlag": "5", "commitOffset": "7", "queueOffset": "10"},
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_alone(rig: PullRig, change: dict[str, object]) -> None:
    """Nothing is committed, counted, parked or made, and the ordinary way decides."""
    before = noted(rig)
    assert quick(rig, frame_of({**FIELDS, **change})) is None
    assert noted(rig) == before


def test_sql_filters_are_left_alone(rig: PullRig) -> None:
    """They take their time, and it should not be taken twice where they find nothing."""
    sql = "TAGS = 'b'"
    rig.join(SubscriptionData(topic="T", sub_string=sql, expression_type="SQL92", sub_version=2))
    assert quick(rig, frame_of({**FIELDS, **BY_HEARTBEAT})) is None


def test_who_may_not_read_is_left_alone(rig: PullRig) -> None:
    """Brokers, groups, topics and pull consumers that are forbidden; the ordinary way says why."""
    frame = frame_of(dict(FIELDS))
    rig.config.broker_permission = 2
    assert quick(rig, frame) is None
    rig.config.broker_permission = 6
    rig.config.reject_pull_consumer_enable = True
    assert quick(rig, frame_of({**FIELDS, "consumerGroup": "H"})) is None
    assert quick(rig, frame) is not None
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", consume_enable=False))
    assert quick(rig, frame) is None
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    rig.context.topics.put(TopicConfig(topic_name="T", perm=2))
    assert quick(rig, frame) is None


def test_a_queue_that_cannot_be_read_is_left_to_the_ordinary_way(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the disk says, the connection lives on and gets an answer."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    before = noted(rig)
    for method in ("queue", "get"):
        with monkeypatch.context() as patched:
            patched.setattr(rig.store, method, fail)
            assert quick(rig, frame_of(dict(FIELDS))) is None
    assert noted(rig) == before


def test_a_commit_that_fails_is_left_to_the_ordinary_way(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is answered and nothing counted."""

    def refuse(*_: object) -> None:
        raise TableFullError("too many offsets")

    monkeypatch.setattr(rig.context.offsets, "commit", refuse)
    before = noted(rig)
    assert quick(rig, frame_of({**FIELDS, "sysFlag": "5", "commitOffset": "3"})) is None
    assert noted(rig) == before


def test_frames_of_another_kind_are_left_alone(rig: PullRig) -> None:
    """Other requests, answers, one-way pulls, other serialisations, bodies, lengths that lie."""
    plain = frame_of(dict(FIELDS))
    text = bytes(plain[4:])
    others = [
        frame_of(dict(FIELDS), code=361),
        frame_of(dict(FIELDS), flag=1),
        frame_of(dict(FIELDS), flag=2),
        frame_of(dict(FIELDS), opaque="7"),
        frame_of(dict(FIELDS), opaque=-(2**31)),
        frame_of(dict(FIELDS), opaque=2**31 - 1),
        memoryview(frame_prefix(COMPACT, len(text), 0) + text)[4:],
        memoryview(frame_prefix(0, len(text), 2) + text + b"{}")[4:],
        memoryview(frame_prefix(0, 11, 0) + b'{"code":11,')[4:],
        memoryview((len(plain) + 9).to_bytes(4) + text),
        memoryview(b"\0\0\0\0"),
    ]
    unsorted = text.replace(b'"commitOffset":"0",', b"").replace(
        b'"topic"', b'"commitOffset":"0","topic"'
    )
    bad_texts = [
        unsorted,
        text.replace(b'"opaque":7', b'"opaque":07'),
        text.replace(b',"opaque":7', b""),
        text.replace(b'"opaque":7,', b'"opaque":7}'),
        text.replace(b'"JAVA"', b'"JA\nVA"'),
        text.replace(b'"JAVA"', b'"JA\xffVA"'),
        text.replace(b'"queueOffset":"0",', b""),
        text.replace(b'"commitOffset":"0",', b""),
        text[: text.index(b'"queueOffset":"0') + 16],
    ]
    others += [memoryview(frame_prefix(0, len(bad), 0) + bad)[4:] for bad in bad_texts]
    twice = text[:-1] + b',"code":361}'
    others.append(memoryview(frame_prefix(0, len(twice), 0) + twice)[4:])
    before = noted(rig)
    assert [quick(rig, frame) for frame in others] == [None] * len(others)
    assert noted(rig) == before


# --- pulls that wait ------------------------------------------------------------------------------

WAITING = {"sysFlag": "7", "commitOffset": "7", "queueOffset": "10"}
"""At the end of queue 0, with an offset to commit."""


def answered(rig: PullRig) -> list[bytes]:
    """What has come for pulls that waited, whichever way."""
    replies = [encode_command(answer) for _, answer in rig.connection.replies]
    rig.connection.replies.clear()
    written = rig.connection.take_written()
    return [*replies, written] if written else replies


def wait(rig: PullRig, fields: Mapping[str, object]) -> None:
    """Let a pull of a known kind be parked by a lane."""
    assert quick(rig, frame_of({**FIELDS, **fields})) == b""
    assert len(rig.polls) == 1


def wait_ordinarily(rig: PullRig, fields: Mapping[str, object]) -> None:
    request = decode_command(frame_of({**FIELDS, **fields}))
    assert Dispatcher(rig.context).handle(rig.connection.as_connection, request) is None


def arrive(rig: PullRig) -> None:
    rig.send(1, tag="c")
    rig.send(2, tag="a")


def reset(rig: PullRig) -> None:
    rig.context.offsets.reset("T", "G", 0, 3)
    rig.polls.wake_queue("T", 0)


def forbid(rig: PullRig) -> None:
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", consume_enable=False))
    arrive(rig)


def stall(rig: PullRig) -> None:
    rig.connection.is_write_stalled = True
    arrive(rig)


def expire(rig: PullRig) -> None:
    rig.now_s += 16
    rig.polls.expire(rig.now_s)


def leave(rig: PullRig) -> None:
    arrive(rig)
    rig.connection.closed = True


def prioritize(rig: PullRig) -> None:
    rig.context.topics.prioritized.add("T")
    arrive(rig)


def lose_disk(rig: PullRig) -> None:
    arrive(rig)
    rig.store.limits = cast("TransferLimits", None)


@pytest.mark.parametrize("fields", [{}, {"subscription": "a"}, {**BY_HEARTBEAT, "sysFlag": "3"}])
@pytest.mark.parametrize(
    "event", [arrive, reset, forbid, stall, expire, leave, prioritize, lose_disk, PullRig.turn]
)
def test_pulls_that_wait_are_answered_alike_on_both_ways(
    tmp_path: Path,
    event: Callable[[PullRig], None],
    fields: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By what comes, by what an operator does, at the end of their time, or not at all."""
    caplog.set_level(logging.CRITICAL)
    results = []
    for way in (wait_ordinarily, wait):
        rig = PullRig(tmp_path / way.__name__)
        rig.context.groups.put(SubscriptionGroupConfig(group_name="G", group_sys_flag=3))
        rig.join()
        rig.send(10)
        way(rig, {**WAITING, **fields})
        before = noted(rig)
        event(rig)
        rig.turn()
        results.append((answered(rig), before, noted(rig)))
        rig.store.limits = TransferLimits()
        rig.close()
    assert results[0] == results[1]


def test_a_pull_that_waits_is_passed_by_what_it_does_not_want(rig: PullRig) -> None:
    """Its tags are compared with those of each message."""
    wait(rig, {**WAITING, "subscription": "b"})
    rig.send(2, tag="a")
    assert not rig.soon
    rig.send(1, tag="b")
    rig.turn()
    [answer] = answered(rig)
    assert offsets_of(decode_command(memoryview(answer)[4:])) == [12]


def test_a_pull_that_is_woken_in_vain_waits_for_the_rest_of_its_time(rig: PullRig) -> None:
    """Nobody starts anew."""
    wait(rig, WAITING)
    rig.now_s += 10
    rig.polls.wake_queue("T", 0)
    rig.turn()
    assert answered(rig) == []
    rig.now_s += 6
    rig.polls.expire(rig.now_s)
    [answer] = answered(rig)
    assert decode_command(memoryview(answer)[4:]).code == ResponseCode.PULL_NOT_FOUND


def test_who_may_not_wait_is_left_to_the_ordinary_way(rig: PullRig) -> None:
    """Where there are too many, or nobody waits for messages, it is answered."""
    frame = frame_of({**FIELDS, **WAITING})
    rig.config.long_polling_enable = False
    assert quick(rig, frame) is None
    rig.config.long_polling_enable = True
    rig.polls.close()
    assert quick(rig, frame) is None
