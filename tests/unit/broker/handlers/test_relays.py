"""Operators reach consumers by way of the broker, and are told why when they do not."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import relays as handlers
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.offsets import GetConsumerStatusBody
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.record import decode_record
from roketto.remoting.errors import ConnectionLostError, RequestTimeoutError
from unit.broker.clients_rig import ClientsRig, route
from unit.broker.peers import Consumer, Peer

INFO = route(handlers.ROUTES, 307)
DIRECTLY = route(handlers.ROUTES, 309)
STATUS = route(handlers.ROUTES, 223)
LATE = RequestTimeoutError("10.0.0.1:1", "no answer within 10000 ms")
LOST = ConnectionLostError("10.0.0.1:1", "it broke")


class Member(Peer):
    """A consumer that answers with what it was made with."""

    def __init__(self, answer: Command | Exception) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[tuple[Command, int]] = []

    async def request(self, command: Command, timeout_ms: int) -> Command:
        self.asked.append((command, timeout_ms))
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path, index_enable=True)
    yield rig
    rig.close()


def connect(
    rig: ClientsRig, answer: Command | Exception, client_id: str = "c", version: int = 479
) -> Member:
    peer = Member(answer)
    member = rig.context.clients.member(peer, client_id, Command(34, language=0, version=version))
    rig.context.clients.register_consumer(
        Consumer("G").data(), member, without_sub=False, should_notify=False
    )
    return peer


async def ask(rig: ClientsRig, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    handler = route(handlers.ROUTES, code)
    work = handler(rig.context, Peer(), Command(code, fields, body, opaque=7))
    assert asyncio.iscoroutine(work)
    answer = await work
    assert isinstance(answer, Command)
    assert answer.opaque == 7
    return answer


async def refused(rig: ClientsRig, code: int, fields: dict[str, str]) -> tuple[int, str]:
    with pytest.raises(RequestError) as caught:
        await ask(rig, code, fields)
    return caught.value.code, caught.value.reason


# --- how it is ------------------------------------------------------------------------------------


WHO = {"consumerGroup": "G", "clientId": "c"}


async def test_a_consumer_tells_how_it_is(rig: ClientsRig) -> None:
    """Question and answer are passed on as they are, but for who asks."""
    said = Command(5, {"a": "b"}, b"{}", remark="so so")
    peer = connect(rig, said)
    fields = {**WHO, "jstackEnable": "true", "AccessKey": "k", "Signature": "s"}
    answer = await ask(rig, 307, fields, b"body")
    ((asked, timeout_ms),) = peer.asked
    assert asked.code == RequestCode.GET_CONSUMER_RUNNING_INFO
    assert (asked.ext, asked.body) == ({**WHO, "jstackEnable": "true"}, b"body")
    assert timeout_ms == 10_000
    assert (answer.code, answer.ext, answer.body, answer.remark) == (5, {"a": "b"}, b"{}", "so so")


async def test_consumers_that_are_not_there_are_named(rig: ClientsRig) -> None:
    """1, as in Java; so is one that is too old to understand."""
    assert await refused(rig, 307, WHO) == (
        ResponseCode.SYSTEM_ERROR,
        "The Consumer <G> <c> not online",
    )
    connect(rig, Command(0), "old", version=61)
    assert (await refused(rig, 307, WHO))[1] == "The Consumer <G> <c> not online"
    code, reason = await refused(rig, 307, WHO | {"clientId": "old"})
    assert code == ResponseCode.SYSTEM_ERROR
    assert reason == (
        "The Consumer <old> Version <V3_1_7> too low to finish, please upgrade it to"
        " V3_1_8_SNAPSHOT"
    )


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (LATE, ResponseCode.CONSUME_MSG_TIMEOUT, "consumer <G> <c> Timeout: "),
        (LOST, ResponseCode.SYSTEM_ERROR, "invoke consumer <G> <c> Exception: "),
    ],
)
async def test_silence_and_a_lost_connection_are_told_apart(
    rig: ClientsRig, error: Exception, code: int, reason: str
) -> None:
    """207 and 1."""
    connect(rig, error)
    found_code, found = await refused(rig, 307, WHO)
    assert found_code == code
    assert found.startswith(reason)


# --- consume this ---------------------------------------------------------------------------------


def message_id(rig: ClientsRig) -> str:
    rig.send(KEYS="k")
    (place,) = rig.store.query("T", "k", 1, 0, 1 << 62)
    return rig.store.record_at(place).offset_id


async def test_a_consumer_is_given_the_message(rig: ClientsRig) -> None:
    """Whole, with the flags of its topic and of the group."""
    rig.context.topics.put(TopicConfig(topic_name="T", topic_sys_flag=2))
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", group_sys_flag=3))
    peer = connect(rig, Command(0, body=b'{"consumeResult":"CR_SUCCESS"}'))
    fields = {**WHO, "topic": "T", "msgId": message_id(rig)}
    answer = await ask(rig, 309, fields)
    assert (answer.code, answer.body) == (0, b'{"consumeResult":"CR_SUCCESS"}')
    ((asked, _),) = peer.asked
    assert asked.code == RequestCode.CONSUME_MESSAGE_DIRECTLY
    assert asked.ext == {
        **fields, "brokerName": rig.config.broker_name, "topicSysFlag": "2", "groupSysFlag": "3",
    }  # fmt: skip
    record = decode_record(asked.body)
    assert (record.topic, record.size) == ("T", len(asked.body))


async def test_flags_of_what_is_unknown_are_left_out(rig: ClientsRig) -> None:
    """The message comes all the same."""
    rig.config.auto_create_subscription_group = False
    peer = connect(rig, Command(0))
    fields = {**WHO, "topic": "Nowhere", "msgId": message_id(rig)}
    await ask(rig, 309, fields)
    ((asked, _),) = peer.asked
    assert asked.ext == {**fields, "brokerName": rig.config.broker_name}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({}, "no msgId"),
        ({"msgId": "odd"}, "odd"),
        ({"msgId": "7F00000100002A9F00000000000F4240"}, "can not find message by the offset"),
    ],
)
async def test_messages_that_are_not_there_are_not_consumed(
    rig: ClientsRig, message: dict[str, str], reason: str
) -> None:
    peer = connect(rig, Command(0))
    code, found = await refused(rig, 309, WHO | message)
    assert code == ResponseCode.SYSTEM_ERROR
    assert reason in found
    assert peer.asked == []


async def test_nobody_in_particular_is_nobody(rig: ClientsRig) -> None:
    """Without a client id there is no consumer to ask."""
    connect(rig, Command(0))
    fields = {"consumerGroup": "G", "msgId": message_id(rig)}
    assert (await refused(rig, 309, fields))[1] == "The Consumer <G> <null> not online"


# --- where they stand -----------------------------------------------------------------------------


def standing(offset: int) -> Command:
    body = GetConsumerStatusBody(message_queue_table={MessageQueue("b", 0, "T"): offset})
    return Command(0, body=encode_body(body))


async def stands(rig: ClientsRig, **more: str) -> dict[str, list[int]]:
    answer = await ask(rig, 223, {"group": "G", "topic": "T", **more})
    assert answer.code == 0
    table = decode_body(GetConsumerStatusBody, answer.body).consumer_table
    return {client: list(offsets.values()) for client, offsets in table.items()}


async def test_members_tell_where_they_stand(
    rig: ClientsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that answer, some at a time; or one of them."""
    monkeypatch.setattr(handlers, "ASKED_AT_ONCE", 2)
    peers = [connect(rig, standing(n), f"c{n}") for n in range(3)]
    connect(rig, LATE, "late")
    connect(rig, Command(1), "unwilling")
    connect(rig, Command(0), "empty")
    connect(rig, Command(0, body=b"[1"), "odd")
    assert await stands(rig) == {"c0": [0], "c1": [1], "c2": [2]}
    asked, timeout_ms = peers[0].asked[0]
    assert asked.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    assert (asked.ext, timeout_ms) == ({"group": "G", "topic": "T"}, 5_000)
    assert await stands(rig, clientAddr="c1") == {"c1": [1]}
    assert await stands(rig, clientAddr="c9") == {}
    assert [len(peer.asked) for peer in peers] == [1, 2, 1]


async def test_who_is_offline_or_too_old_stands_nowhere(rig: ClientsRig) -> None:
    """1, with Java's words."""
    fields = {"group": "G", "topic": "T"}
    assert await refused(rig, 223, fields) == (
        ResponseCode.SYSTEM_ERROR,
        "No Any Consumer online in the consumer group: [G]",
    )
    connect(rig, standing(1), "old", version=27)
    assert await refused(rig, 223, fields) == (
        ResponseCode.SYSTEM_ERROR,
        "the client does not support this feature. version=V3_0_6",
    )
