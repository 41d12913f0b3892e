"""A request waits for the reply that names it, from whoever has consumed it, or for its time."""

import asyncio

import pytest

from roketto.client import replies as module
from roketto.client.client import Client
from roketto.client.errors import (
    ClientError,
    IllegalMessageError,
    ReplyTimeoutError,
    SendFailedError,
)
from roketto.client.message import Message
from roketto.client.received import ReceivedMessage
from roketto.client.replies import make_reply, replies_of
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.compression import compress
from roketto.protocol.headers.pushes import ReplyMessageRequest
from roketto.protocol.properties import decode_properties, encode_properties
from roketto.protocol.record import Record
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_ZSTD
from unit.client.core_rig import TOPIC
from unit.client.sending_rig import HELLO, A, SendRig, settle, stored


def received(properties: dict[str, str]) -> ReceivedMessage:
    return ReceivedMessage(Record(TOPIC, b"x", encode_properties(properties)), "broker-b")


def push(properties: str, body: bytes, sys_flag: int = 0) -> tuple[ReplyMessageRequest, bytes]:
    header = ReplyMessageRequest(
        producer_group="repliers", topic="c_REPLY_TOPIC", default_topic="TBW102",
        default_topic_queue_nums=4, queue_id=1, sys_flag=sys_flag, born_timestamp=5, flag=2,
        properties=properties, born_host="/10.0.0.7:81", store_host="nowhere",
        store_timestamp=6,
    )  # fmt: skip
    return header, body


def replying(client: Client, body: bytes, sys_flag: int = 0) -> bool:
    """A broker brings a reply to the last request; whether somebody waits for it."""
    take = client.inbound.on_reply
    assert take is not None
    properties = rig_properties[-1]
    return take(*push(properties, body, sys_flag))


rig_properties: list[str] = []


def asking(code: int = 0) -> SendRig:
    def answer(address: str, command: Command) -> Command:
        rig_properties.append((command.ext or {})["i"])
        return stored(command) if not code else command.answer(code)

    return SendRig(answer)


async def test_a_request_is_marked_and_its_reply_is_a_message() -> None:
    rig = asking()
    async with rig.producer as producer:
        request = asyncio.create_task(producer.request(HELLO, 2_000))
        await settle()
        properties = rig.properties()
        assert (properties["REPLY_TO_CLIENT"], properties["TTL"]) == (rig.client.id, "2000")
        assert len(properties["CORRELATION_ID"]) == 36
        packed = compress(b"yes" * 100, COMPRESSION_ZSTD)
        assert replying(rig.client, packed, COMPRESSED | COMPRESSION_ZSTD)
        reply = await request
    assert (reply.body, reply.flag, reply.born_host) == (b"yes" * 100, 2, "10.0.0.7:81")
    assert "ARRIVE_TIME" in reply.properties
    assert not replying(rig.client, b"again")  # nobody waits any more


async def test_brokers_are_told_of_the_client_before_the_first_request() -> None:
    """They bring the reply to clients that they know by a heartbeat."""
    rig = asking()
    async with rig.producer as producer:
        await producer.send(HELLO)
        before = len(rig.pool.sent)
        request = asyncio.create_task(producer.request(HELLO, 2_000))
        await settle()
        codes = [command.code for _, command in rig.pool.sent[before:]]
        assert codes[:-1] == [RequestCode.HEART_BEAT] * 2
        replying(rig.client, b"1")
        await request
        request = asyncio.create_task(producer.request(HELLO, 2_000))
        await settle()
        replying(rig.client, b"2")
        assert (await request).body == b"2"
        heartbeats = [c for _, c in rig.pool.sent if c.code == RequestCode.HEART_BEAT]
        assert len(heartbeats) == 2  # once is enough


async def test_nobody_replies_and_nothing_is_left_behind() -> None:
    rig = asking()
    async with rig.producer as producer:
        with pytest.raises(ReplyTimeoutError, match="nobody has replied"):
            await producer.request(HELLO, 300)  # of which the send on a busy machine takes some
        assert not replying(rig.client, b"too late")


async def test_a_request_that_is_not_stored_is_a_failed_send() -> None:
    rig = asking(ResponseCode.MESSAGE_ILLEGAL)
    async with rig.producer as producer:
        with pytest.raises(SendFailedError):
            await producer.request(HELLO, 2_000)


async def test_requests_without_a_reply_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAITING_MAX", 0)
    rig = asking()
    async with rig.producer as producer:
        with pytest.raises(ClientError, match="0 requests wait for a reply, the bound"):
            await producer.request(HELLO, 2_000)


async def test_producers_of_one_client_share_its_replies() -> None:
    rig = asking()
    assert replies_of(rig.client) is replies_of(rig.client)


async def test_a_reply_goes_first_to_the_broker_that_had_the_request() -> None:
    """Others may not know the client that asks."""
    rig = SendRig()
    rig.routes["c_REPLY_TOPIC"] = rig.routes[TOPIC]
    asked = {"CLUSTER": "c", "CORRELATION_ID": "17", "REPLY_TO_CLIENT": "me", "TTL": "9"}
    async with rig.producer as producer:
        for _ in range(4):
            await producer.send(make_reply(received(asked), b"yes"))
    assert A not in rig.addresses
    assert rig.sends[0][1].code == RequestCode.SEND_REPLY_MESSAGE_V2
    assert rig.header()["b"] == "c_REPLY_TOPIC"
    properties = decode_properties(rig.header()["i"].encode())
    del asked["CLUSTER"]
    assert {name: properties[name] for name in asked} == asked
    assert properties["MSG_TYPE"] == "reply"


@pytest.mark.parametrize("missing", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_what_did_not_ask_gets_no_reply(missing: str) -> None:
    asked = {"CLUSTER": "c", "CORRELATION_ID": "17", "REPLY_TO_CLIENT": "me"}
    del asked[missing]
    with pytest.raises(IllegalMessageError, match="asks for no reply"):
        make_reply(received(asked), b"yes")


async def test_a_reply_that_cannot_be_unpacked_is_not_taken() -> None:
    rig = asking()
    async with rig.producer as producer:
        request = asyncio.create_task(producer.request(Message(TOPIC, b"?"), 50))
        await settle()
        assert not replying(rig.client, b"not zlib", COMPRESSED)
        with pytest.raises(ReplyTimeoutError):
            await request
