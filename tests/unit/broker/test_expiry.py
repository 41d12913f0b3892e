"""What has ended is passed by: consumers do not get it, and their offsets move on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roketto.broker.expiry import alive_in, mark_end, ttl_ms_of
from roketto.broker.handlers.pull import ROUTES as PULL_ROUTES
from roketto.broker.handlers.range_read import ROUTES as RANGE_ROUTES
from roketto.broker.handlers.send_back import send_back
from roketto.broker.pull_lane import PullLane
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, encode_record
from unit.broker.pull_rig import PullRig, offsets_of
from unit.broker.send_rig import PLAIN, SendRig

SUSPEND, SUBSCRIPTION = 2, 4
RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
EXPIRES = "__EXPIRES_MS"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path)
    give(rig, "1000")
    yield rig
    rig.close()


def give(rig: PullRig | SendRig, ttl_ms: str | None, topic: str = "T") -> None:
    attributes = {} if ttl_ms is None else {"message.ttl.ms": ttl_ms}
    config = TopicConfig(
        topic_name=topic, read_queue_nums=4, write_queue_nums=4, attributes=attributes
    )
    rig.context.topics.put(config)


def request(offset: int = 0, flag: int = SUBSCRIPTION, **more: Any) -> Command:
    ext = {
        "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": str(offset),
        "maxMsgNums": "32", "sysFlag": str(flag), "commitOffset": "0",
        "suspendTimeoutMillis": "15000", "subVersion": "0",
    }  # fmt: skip
    return Command(RequestCode.PULL_MESSAGE, {**ext, **more}, opaque=7)


def pull(rig: PullRig, offset: int = 0, **more: Any) -> tuple[int, list[int], int]:
    """The code, the offsets of the messages, and where to go on."""
    route = PULL_ROUTES[RequestCode.PULL_MESSAGE]
    answer = route(rig.context, rig.connection.as_connection, request(offset, **more))
    assert isinstance(answer, Command)
    assert answer.ext is not None
    return answer.code, offsets_of(answer), int(answer.ext["nextBeginOffset"])


# --- when a message ends --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "ttl_ms"),
    [(None, None), ("0", 0), ("1500", 1_500), ("-1", None), ("soon", None), ("9" * 19, None)],
)
def test_a_topic_says_how_long_its_messages_live(attribute: str | None, ttl_ms: int | None) -> None:
    """A table may say anything; what is no time is none."""
    attributes = {} if attribute is None else {"message.ttl.ms": attribute}
    assert ttl_ms_of(TopicConfig(topic_name="T", attributes=attributes)) == ttl_ms


@pytest.mark.parametrize(
    ("topic_ttl_ms", "own", "end_ms"),
    [
        (1_000, None, 6_000),
        (1_000, "300", 5_300),
        (1_000, "7000", 12_000),
        (1_000, "0", None),
        (1_000, "-5", 6_000),
        (1_000, "soon", 6_000),
        (1_000, "9" * 30, 6_000),
        (0, None, None),
        (0, "300", 5_300),
    ],
)
def test_a_message_says_it_itself_or_its_topic_does(
    topic_ttl_ms: int, own: str | None, end_ms: int | None
) -> None:
    """Counted from when it was stored, at 5,000; at its end it is over."""
    properties = {} if own is None else {"TTL": own}
    record = Record("T", b"x", encode_properties(properties), store_time_ms=5_000)
    view = memoryview(encode_record(record))

    def is_alive(now_ms: int) -> bool:
        alive = alive_in({"T": topic_ttl_ms}, "T", now_ms)
        assert alive is not None
        return alive.matches_record(view)

    if end_ms is None:
        assert is_alive(10**15)
    else:
        assert is_alive(end_ms - 1)
        assert not is_alive(end_ms)


@pytest.mark.parametrize(
    ("properties", "is_alive"),
    [
        ({"RETRY_TOPIC": "T", EXPIRES: "9001"}, True),
        ({"RETRY_TOPIC": "T", EXPIRES: "9000"}, False),
        ({"RETRY_TOPIC": "T", EXPIRES: "x"}, False),
        ({"RETRY_TOPIC": "T"}, False),
        ({"RETRY_TOPIC": "T", "TTL": "5000"}, True),
        ({"RETRY_TOPIC": "Other", "TTL": "1"}, True),
        ({}, True),
    ],
)
def test_a_retry_has_the_end_of_what_it_is_a_retry_of(
    properties: dict[str, str], is_alive: bool
) -> None:
    """Without a mark of it, and only for topics whose messages end, it counts from this copy."""
    record = Record("%RETRY%G", b"x", encode_properties(properties), store_time_ms=5_000)
    alive = alive_in({"T": 1_000}, "%RETRY%G", 9_000)
    assert alive is not None
    assert alive.matches_record(memoryview(encode_record(record))) == is_alive


def test_nobody_looks_at_other_topics() -> None:
    """Nor at dead letters."""
    assert alive_in({"T": 1_000}, "Other", 9_000) is None
    assert alive_in({"T": 1_000}, "%DLQ%G", 9_000) is None


def test_a_copy_of_a_copy_keeps_its_end() -> None:
    """However often a consumer gives it back."""
    original = Record("T", b"x", b"", store_time_ms=5_000)
    copy = Record("%RETRY%G", b"x", encode_properties({"RETRY_TOPIC": "T"}), store_time_ms=5_500)
    mark_end({"T": 1_000}, original, copy)
    again = Record("%RETRY%G", b"x", copy.properties_raw, store_time_ms=5_800)
    mark_end({"T": 1_000}, copy, again)
    assert again.get_property(EXPIRES) == "6000"
    other = Record("Other", b"x", b"", store_time_ms=5_000)
    mark_end({"T": 1_000}, other, other)
    assert other.get_property(EXPIRES) is None


# --- pulls ----------------------------------------------------------------------------------------


def test_a_pull_passes_by_what_has_ended(rig: PullRig) -> None:
    """First with the messages behind it, then with nothing, and its offset moves on."""
    rig.send(3)
    rig.now_ms += 999
    rig.send(2)
    assert pull(rig) == (0, [0, 1, 2, 3, 4], 5)
    rig.now_ms += 1
    assert pull(rig) == (0, [3, 4], 5)
    rig.now_ms += 1_000
    assert pull(rig) == (RETRY, [], 5)


def test_tags_and_expressions_count_as_well(rig: PullRig) -> None:
    """What is wanted and alive comes."""
    rig.send(tag="a")
    rig.send(tag="a", TTL="5000")
    rig.send(tag="b", TTL="5000")
    rig.now_ms += 2_000
    assert pull(rig, subscription="a") == (0, [1], 3)
    sql: dict[str, Any] = {"expressionType": "SQL92", "subscription": "TAGS = 'a'"}
    rig.join(SubscriptionData(topic="T", expression_type="SQL92", sub_string="TAGS = 'a'"))
    assert pull(rig, **sql) == (0, [1], 3)
    rig.now_ms += 4_000
    assert pull(rig, **sql) == (RETRY, [], 3)


def test_a_long_backlog_that_has_ended_is_passed_by_in_steps(rig: PullRig) -> None:
    """No pull looks at all of it."""
    rig.send(1_000)
    rig.now_ms += 1_000
    rig.send(1)
    code, found, at = pull(rig)
    assert (code, found) == (RETRY, [])
    assert 32 < at < 1_000
    assert pull(rig, at) == (0, [1_000], 1_001)


def test_topics_without_the_attribute_know_no_end(rig: PullRig) -> None:
    """A request of Java's has a TTL, and is delivered whenever somebody comes."""
    give(rig, None)
    rig.send(TTL="1")
    rig.now_ms += 10**9
    assert pull(rig) == (0, [0], 1)
    assert rig.context.topics.expiring == {}


def test_a_pull_that_waits_is_not_answered_with_nothing(rig: PullRig) -> None:
    """A retry that has ended before it comes wakes nobody up for good; the next message does."""
    give(rig, None, "%RETRY%G")
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    asked = request(0, SUBSCRIPTION | SUSPEND, topic="%RETRY%G")
    route = PULL_ROUTES[RequestCode.PULL_MESSAGE]
    assert route(rig.context, rig.connection.as_connection, asked) is None
    more: dict[str, Any] = {"topic": "%RETRY%G", "RETRY_TOPIC": "T"}
    rig.send(**more | {EXPIRES: str(rig.now_ms)})
    rig.turn()
    assert rig.connection.replies == []
    assert len(rig.polls) == 1
    rig.send(**more | {EXPIRES: str(rig.now_ms + 1)})
    rig.turn()
    ((_, answer),) = rig.connection.replies
    assert offsets_of(answer) == [1]


def test_bulk_reads_show_what_has_ended(rig: PullRig) -> None:
    """They are for archives."""
    rig.send(2)
    rig.now_ms += 5_000
    ext = {"topic": "T", "queueId": "0", "queueOffset": "0"}
    route = RANGE_ROUTES[RequestCode.READ_RANGE]
    answer = route(rig.context, rig.connection.as_connection, Command(RequestCode.READ_RANGE, ext))
    assert isinstance(answer, Command)
    assert offsets_of(answer) == [0, 1]


def test_the_quick_lane_of_pulls_passes_by_what_has_ended(rig: PullRig) -> None:
    """By the same read."""
    rig.send(1)
    rig.now_ms += 1_000
    rig.send(1)
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    rig.join()
    header = (
        b'{"code":11,"extFields":{"queueId":"0","maxMsgNums":"32","sysFlag":"2",'
        b'"suspendTimeoutMillis":"15000","commitOffset":"0","topic":"T","queueOffset":"0",'
        b'"expressionType":"TAG","subVersion":"1","consumerGroup":"G"},"flag":0,"language":"JAVA",'
        b'"opaque":7,"serializeTypeCurrentRPC":"JSON","version":505}'
    )
    frame = len(header).to_bytes(4) + header
    lane = PullLane(rig.context)
    lane.answer(rig.connection.as_connection, frame, 0, len(frame))
    assert lane.answer(rig.connection.as_connection, frame, 0, len(frame))
    assert b'"nextBeginOffset":"2"' in rig.connection.written
    assert rig.connection.written.count(b"TAGS\x01t") == 1


# --- topics and retries ---------------------------------------------------------------------------


def test_topics_that_change_or_go_change_what_ends(rig: PullRig) -> None:
    """Also those that are in the table when a broker starts."""
    give(rig, "5")
    assert rig.context.topics.expiring == {"T": 5}
    give(rig, "0", "Other")
    assert rig.context.topics.expiring == {"T": 5, "Other": 0}
    again = type(rig.context.topics)(rig.context.topics._table, rig.config, rig.clock_ms)
    assert again.expiring == {"T": 5, "Other": 0}
    rig.context.topics.remove("T")
    give(rig, None, "Other")
    assert rig.context.topics.expiring == {}


def test_what_is_given_back_ends_with_its_original(tmp_path: Path) -> None:
    """Its copy waits for its time with the mark."""
    rig = SendRig(tmp_path)
    give(rig, "60000")
    rig.send(properties=PLAIN)
    original = rig.record()
    rig.pass_ms(20_000)
    ext = {"offset": str(original.log_offset), "group": "G", "delayLevel": "1"}
    rig.handle(Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext), send_back)
    waiting = rig.record("SCHEDULE_TOPIC_XXXX", 0)
    assert waiting.get_property(EXPIRES) == str(original.store_time_ms + 60_000)
    rig.close()
