"""Resets while a group consumes: by the broker, and by telling clients, with Java's codes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import pull
from roketto.broker.handlers import resets as handlers
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.offsets import ResetOffsetBody, ResetOffsetBodyForC
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import LanguageCode, RequestCode, ResponseCode
from roketto.protocol.command import Command
from unit.broker.clients_rig import ClientsRig, route
from unit.broker.fake_connection import FakeConnection
from unit.broker.peers import Consumer, Peer
from unit.broker.pull_rig import START_MS

RESET = route(handlers.ROUTES, 222)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    """Five messages, a second apart, in each of two queues of T."""
    rig = ClientsRig(tmp_path)
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
    rig.context.groups.find("G")
    for second in range(5):
        rig.now_ms = START_MS + 1_000 * second
        for queue_id in (0, 1):
            rig.send(queue_id=queue_id)
    yield rig
    rig.close()


def said(**more: object) -> dict[str, object]:
    return {"group": "G", "topic": "T", "timestamp": START_MS + 2_000, "isForce": "true", **more}


def reset(rig: ClientsRig, **more: object) -> dict[int, int]:
    """The answer: queue -> offset, all of them of this broker and topic."""
    table = rig.read(ResetOffsetBody, RESET, said(**more)).offset_table
    assert {(queue.broker_name, queue.topic) for queue in table} == {(rig.config.broker_name, "T")}
    return {queue.queue_id: offset for queue, offset in table.items()}


# --- by the broker --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {0: 2, 1: 2}),
        ({"isForce": "false"}, {0: 2, 1: 2}),
        ({"timestamp": 0}, {0: 0, 1: 0}),
        ({"timestamp": START_MS + 2_001}, {0: 3, 1: 3}),
        ({"timestamp": START_MS + 9_000}, {0: 5, 1: 5}),
        ({"timestamp": -1}, {0: 5, 1: 5}),
        ({"queueId": 1}, {1: 2}),
        ({"queueId": 1, "offset": -1}, {1: 2}),
        ({"queueId": 1, "offset": 4}, {1: 4}),
        ({"queueId": 1, "offset": 6}, {1: 6}),
        ({"queueId": -1, "offset": 4}, {0: 2, 1: 2}),
    ],
)
def test_queues_are_reset_by_time_to_the_end_or_to_an_offset(
    rig: ClientsRig, more: dict[str, object], expected: dict[int, int]
) -> None:
    """Forwards, too, whatever isForce says: so does Java's broker."""
    rig.context.offsets.commit("T", "G", 0, 1)
    assert reset(rig, **more) == expected
    for queue_id in (0, 1):
        has_reset = rig.context.offsets.has_reset("T", "G", queue_id)
        assert has_reset == (queue_id in expected)
    for queue_id, offset in expected.items():
        assert rig.context.offsets.get("T", "G", queue_id) == offset


@pytest.mark.parametrize(
    ("more", "code", "reason"),
    [
        ({"topic": "U"}, ResponseCode.TOPIC_NOT_EXIST, "Topic U does not exist"),
        ({"group": "H"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group H does not exist"),
        (
            {"queueId": 0, "offset": 7},
            ResponseCode.SYSTEM_ERROR,
            "Target offset 7 not in consume queue range [0-5]",
        ),
        (
            {"queueId": 2, "offset": 0},
            ResponseCode.INVALID_PARAMETER,
            "topic T has no queue 2, but 0..1",
        ),
    ],
)
def test_what_cannot_be_reset_is_refused(
    rig: ClientsRig, more: dict[str, object], code: int, reason: str
) -> None:
    """And nothing is changed."""
    assert rig.refuse(RESET, said(**more)) == (code, reason)
    assert not rig.context.offsets.offsets("T", "G")


def test_offsets_below_the_first_message_are_refused(rig: ClientsRig) -> None:
    """Old messages go; the range is that of now."""
    queue = rig.store.queue("T", 0)
    assert queue is not None
    queue.queue_offset_min = 3
    code, reason = rig.refuse(RESET, said(queueId=0, offset=2))
    assert code == ResponseCode.SYSTEM_ERROR
    assert reason == "Target offset 2 not in consume queue range [3-5]"


def test_an_empty_queue_is_reset_to_its_beginning(rig: ClientsRig) -> None:
    """A topic without queues cannot be reset."""
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=3))
    assert reset(rig, timestamp=-1) == {0: 5, 1: 5, 2: 0}
    assert reset(rig, queueId=2, offset=1) == {2: 1}
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=0, write_queue_nums=0))
    assert rig.refuse(RESET, said()) == (ResponseCode.SYSTEM_ERROR, "No queues to reset.")


def test_pulls_that_wait_are_woken(rig: ClientsRig) -> None:
    """In Java they hear of it when their fifteen seconds are over."""
    connection = FakeConnection()
    fields = {
        "consumerGroup": "G", "topic": "T", "queueId": "1", "queueOffset": "5", "maxMsgNums": "32",
        "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000", "subscription": "*",
        "subVersion": "0",
    }  # fmt: skip
    asked = Command(RequestCode.PULL_MESSAGE, fields, opaque=7)
    handler = pull.ROUTES[RequestCode.PULL_MESSAGE]
    assert handler(rig.context, connection.as_connection, asked) is None
    reset(rig)
    rig.turn()
    ((_, answer),) = connection.replies
    assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert answer.ext is not None
    assert answer.ext["nextBeginOffset"] == "2"


# --- by telling clients ---------------------------------------------------------------------------


@pytest.fixture
def old(rig: ClientsRig) -> ClientsRig:
    rig.config.use_server_side_reset_offset = False
    for queue_id, offset in ((0, 4), (1, 1)):
        rig.context.offsets.commit("T", "G", queue_id, offset)
    return rig


def connect(
    rig: ClientsRig, language: int = LanguageCode.JAVA, version: int = 479, name: str = "c"
) -> Peer:
    """A consumer of the group joins."""
    peer = Peer()
    heartbeat = Command(RequestCode.HEART_BEAT, language=language, version=version)
    member = rig.context.clients.member(peer, name, heartbeat)
    rig.context.clients.register_consumer(
        Consumer("G").data(), member, without_sub=False, should_notify=False
    )
    return peer


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {0: 2, 1: 2}),
        ({"isForce": "false"}, {0: 2, 1: 1}),
        ({"timestamp": -1, "isForce": "false"}, {0: 4, 1: 1}),
        ({"timestamp": -1}, {0: 5, 1: 5}),
        ({"queueId": 0}, {0: 2}),
    ],
)
def test_members_are_told_and_commit_themselves(
    old: ClientsRig, more: dict[str, object], expected: dict[int, int]
) -> None:
    """Unless it is forced, nobody goes forward. The broker's own offsets stay for now."""
    members = [connect(old, name="c1"), connect(old, name="c2")]
    assert reset(old, **more) == expected
    for peer in members:
        (told,) = peer.sent
        assert told.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        assert told.ext == {
            "group": "G", "topic": "T", "queueId": "-1", "isForce": "false",
            "timestamp": str(said(**more)["timestamp"]),
        }  # fmt: skip
        table = decode_body(ResetOffsetBody, told.body).offset_table
        assert {queue.queue_id: offset for queue, offset in table.items()} == expected
    assert old.context.offsets.offsets("T", "G") == {0: 4, 1: 1}


@pytest.mark.parametrize(
    ("member", "asker", "is_for_c"),
    [
        (LanguageCode.JAVA, LanguageCode.JAVA, False),
        (LanguageCode.JAVA, LanguageCode.CPP, False),
        (LanguageCode.CPP, LanguageCode.JAVA, True),
        (LanguageCode.PYTHON, LanguageCode.CPP, True),
        (LanguageCode.GO, LanguageCode.JAVA, False),
    ],
)
def test_clients_in_cpp_are_told_in_a_form_that_they_read(
    old: ClientsRig, member: int, asker: int, is_for_c: bool
) -> None:
    """Those that say so, and, if the operator does, all that are not in Java."""
    peer = connect(old, member)
    fields = {name: str(value) for name, value in said().items()}
    answer = RESET(old.context, Peer(), Command(222, fields, language=asker))
    assert isinstance(answer, Command)
    assert len(decode_body(ResetOffsetBody, answer.body).offset_table) == 2
    (told,) = peer.sent
    if is_for_c:
        rows = decode_body(ResetOffsetBodyForC, told.body).offset_table
        assert [(row.topic, row.queue_id, row.offset) for row in rows] == [("T", 0, 2), ("T", 1, 2)]
    else:
        assert len(decode_body(ResetOffsetBody, told.body).offset_table) == 2


def test_a_group_that_is_offline_cannot_be_told(old: ClientsRig) -> None:
    """206, on which Java's tool writes the offsets itself."""
    code, reason = old.refuse(RESET, said())
    assert code == ResponseCode.CONSUMER_NOT_ONLINE
    assert reason == (
        "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: "
        f"{START_MS + 2_000}"
    )


def test_a_group_without_offsets_cannot_be_told(old: ClientsRig) -> None:
    """Java's words, with the queue that has none."""
    connect(old)
    old.context.offsets.remove_group("G")
    code, reason = old.refuse(RESET, said())
    assert code == ResponseCode.SYSTEM_ERROR
    assert reason.startswith("THe consumer group <G> not exist")
    assert old.refuse(RESET, said(topic="U"))[0] == ResponseCode.TOPIC_NOT_EXIST


def test_no_member_is_told_if_one_is_too_old(old: ClientsRig) -> None:
    """Half a reset would be worse than none."""
    members = [connect(old, name="c1"), connect(old, version=27, name="c2")]
    code, reason = old.refuse(RESET, said())
    assert code == ResponseCode.SYSTEM_ERROR
    assert reason == "the client does not support this feature. version=V3_0_6"
    assert [peer.sent for peer in members] == [[], []]


def test_a_member_that_does_not_read_is_named_in_the_log(
    old: ClientsRig, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are told."""
    dead, alive = connect(old, name="dead"), connect(old, name="alive")
    dead.closed = True
    reset(old)
    assert "'dead' of group G could not be told" in caplog.text
    assert len(alive.sent) == 1
