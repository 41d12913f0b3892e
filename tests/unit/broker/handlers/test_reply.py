"""A reply reaches the client that asked, and the replier learns whether it did."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from roketto.broker.handlers.reply import ROUTES
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.pushes import ReplyMessageRequest
from roketto.protocol.headers.send import SendMessageV2Request, send_request_from_v2
from roketto.protocol.properties import decode_properties
from roketto.remoting.connection import Connection
from roketto.remoting.errors import RequestTimeoutError
from unit.broker.send_rig import PLAIN, HoldingConnection, SendRig

TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = PLAIN | {"REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "c1", "MSG_TYPE": "reply"}


class Asker(HoldingConnection):
    """A client that waits for replies."""

    def __init__(self, code: int = 0, *, is_silent: bool = False) -> None:
        super().__init__("10.0.0.7:60000")
        self.code = code
        self.is_silent = is_silent
        self.pushed: list[Command] = []

    async def request(self, command: Command, timeout_ms: int) -> Command:
        self.pushed.append(command)
        if self.is_silent:
            raise RequestTimeoutError(self.peer, f"no answer within {timeout_ms} ms")
        return Command(self.code, remark="busy")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    yield rig
    rig.close()


def connect(rig: SendRig, monkeypatch: pytest.MonkeyPatch, asker: Asker) -> Asker:
    found = {"asker": cast("Connection", asker)}
    monkeypatch.setattr(rig.context.clients, "producer", found.get)
    return asker


async def reply(rig: SendRig, request: Command) -> Command | None:
    handler = ROUTES[RequestCode(request.code)]
    work = handler(rig.context, rig.connection.as_connection, request)
    assert work is not None
    assert not isinstance(work, Command)
    return await work


def reply_request(rig: SendRig, properties: dict[str, str] | None = None) -> Command:
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    return rig.request(
        TOPIC, b"answer", REPLY if properties is None else properties, code=code, e="0"
    )


async def test_the_asker_gets_the_reply_and_the_store_too(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field by field as Java pushes it."""
    asker = connect(rig, monkeypatch, Asker())
    answer = await reply(rig, reply_request(rig))
    assert answer is not None
    stored = rig.record(TOPIC, 0)
    assert answer.code == 0
    assert answer.ext == {
        "msgId": stored.offset_id, "queueId": "0", "queueOffset": "0",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    (pushed,) = asker.pushed
    assert pushed.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert bytes(pushed.body) == stored.body == b"answer"
    header = decode_header(ReplyMessageRequest, pushed.ext)
    assert (header.topic, header.producer_group, header.flag) == (TOPIC, "PG", 7)
    assert (header.born_host, header.store_host) == ("10.0.0.9:50000", "10.0.0.1:10911")
    assert header.store_timestamp == rig.now_ms
    properties = decode_properties((header.properties or "").encode())
    assert properties.pop("PUSH_REPLY_TIME") == str(rig.now_ms)
    assert properties == stored.properties
    assert properties["CORRELATION_ID"] == "c1"


async def test_the_full_names_of_the_old_request_mean_the_same(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 324."""
    asker = connect(rig, monkeypatch, Asker())
    header = send_request_from_v2(decode_header(SendMessageV2Request, reply_request(rig).ext))
    request = Command(RequestCode.SEND_REPLY_MESSAGE, encode_header(header), b"answer")
    answer = await reply(rig, request)
    assert answer is not None
    assert answer.code == 0
    assert len(asker.pushed) == 1


async def test_replies_need_not_be_stored(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """storeReplyMessageEnable=false; the id is then one that clients can read."""
    connect(rig, monkeypatch, Asker())
    rig.config.store_reply_message_enable = False
    answer = await reply(rig, reply_request(rig))
    assert answer is not None
    assert answer.ext is not None
    assert (answer.ext["msgId"], answer.ext["queueOffset"]) == ("0", "0")
    assert rig.records(TOPIC, 0) == []


@pytest.mark.parametrize(
    ("asker", "text"),
    [
        (Asker(1), "push reply message to asker fail: it answered 1, busy"),
        (Asker(is_silent=True), "push reply message to asker fail"),
        (None, "channel of <asker> not found"),
    ],
)
async def test_a_reply_that_did_not_arrive_is_an_error_and_kept(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch, asker: Asker | None, text: str
) -> None:
    """Code 1 with the reason, and where the reply is."""
    if asker is not None:
        connect(rig, monkeypatch, asker)
    answer = await reply(rig, reply_request(rig))
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert text in (answer.remark or "")
    assert answer.ext is not None
    assert answer.ext["msgId"] == rig.record(TOPIC, 0).offset_id


async def test_a_reply_to_nobody_is_an_error(rig: SendRig) -> None:
    """It lacks the property that names the client."""
    answer = await reply(rig, reply_request(rig, PLAIN))
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "reply message properties[REPLY_TO_CLIENT] is null" in (answer.remark or "")


async def test_a_store_that_takes_nothing_does_not_spoil_a_reply(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asker has it, which is what counts."""
    connect(rig, monkeypatch, Asker())
    rig.store.gate.hold("the disk is full")
    answer = await reply(rig, reply_request(rig))
    assert answer is not None
    assert answer.code == 0
    assert answer.ext is not None
    assert answer.ext["msgId"] == "0"


def test_what_may_not_be_sent_to_is_not_replied_to(rig: SendRig) -> None:
    """The checks of every send."""
    request = reply_request(rig)
    assert request.ext is not None
    request.ext["b"] = "SCHEDULE_TOPIC_XXXX"
    with pytest.raises(RequestError) as caught:
        rig.handle(request, ROUTES[RequestCode.SEND_REPLY_MESSAGE_V2])
    assert caught.value.code == ResponseCode.NO_PERMISSION


async def test_sync_flush_answers_when_the_reply_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asker does not wait for that."""
    rig = SendRig(tmp_path, is_sync=True)
    asker = connect(rig, monkeypatch, Asker())
    assert await reply(rig, reply_request(rig)) is None
    assert len(asker.pushed) == 1
    assert rig.connection.held == 1
    rig.close()


def test_every_reply_request_has_a_route() -> None:
    """Two codes."""
    assert set(ROUTES) == {324, 325}
