"""Requests are signed with all they have, and what goes wrong is said with whose address it is."""

import hmac
from base64 import b64encode

import pytest

from roketto.client.calls import Calls, expect_success, read_body, read_header
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    NoNameServerError,
    RefusedError,
    UnreachableError,
    UnreadableError,
)
from roketto.client.name_servers import NameServers
from roketto.client.settings import ClientSettings, Credentials
from roketto.protocol.bodies.route import TopicList
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import SignatureError
from roketto.protocol.headers.clients import HeartbeatRequest
from roketto.protocol.headers.offsets import GetMaxOffsetRequest, GetMaxOffsetResponse
from roketto.protocol.signing import verify
from roketto.remoting.errors import (
    ConnectError,
    ConnectionLostError,
    RemotingError,
    RequestTimeoutError,
    TooManyRequestsError,
)
from unit.client.core_rig import MASTER, TOPIC, Answer, Rig, ScriptedPool

MAX_OFFSET = RequestCode.GET_MAX_OFFSET


class CallsRig:
    """Calls whose servers are a function; one-way requests are taken as long as it ``reads``."""

    def __init__(
        self, answer: Answer | None = None, settings: ClientSettings | None = None
    ) -> None:
        self.reads = True
        self.pool = TellingPool(answer or (lambda address, command: command.answer()), self)
        names = NameServers(self.pool, "names:9876", environment={})
        self.calls = Calls(self.pool, names, settings or ClientSettings())

    @property
    def last(self) -> Command:
        return self.pool.sent[-1][1]


class TellingPool(ScriptedPool):
    def __init__(self, answer: Answer, rig: CallsRig) -> None:
        super().__init__(answer)
        self._rig = rig

    async def send_one_way(self, address: str, command: Command) -> bool:
        self.sent.append((address, command))
        return self._rig.reads


def request() -> GetMaxOffsetRequest:
    return GetMaxOffsetRequest(topic=TOPIC, queue_id=3)


async def test_every_kind_of_request_is_signed_and_carries_the_namespace() -> None:
    """As Java's hooks do for all: answered, one-way, heartbeats, and to name servers."""
    credentials = Credentials("ak", "sk", "token")
    settings = ClientSettings(credentials=credentials, namespace_v2="blue")
    rig = CallsRig(settings=settings)
    calls = rig.calls
    await calls.ask(MASTER, MAX_OFFSET, request())
    await calls.ask(MASTER, RequestCode.HEART_BEAT, HeartbeatRequest(), b"{...}")
    await calls.tell(MASTER, RequestCode.END_TRANSACTION, request(), b"body")
    await calls.ask_names(RequestCode.GET_ROUTEINFO_BY_TOPIC, request())
    await calls.ask(MASTER, RequestCode.GET_ALL_TOPIC_CONFIG)  # has no header
    await calls.send(MASTER, calls.sign(Command(310, {"b": TOPIC}, b"hello")))
    assert len(rig.pool.sent) == 6
    for address, command in rig.pool.sent:
        ext = command.ext or {}
        assert (ext["nsd"], ext["ns"]) == ("true", "blue"), address
        assert (ext["AccessKey"], ext["SecurityToken"]) == ("ak", "token")
        verify("sk", ext, command.body, command.version)
        with pytest.raises(SignatureError):
            verify("sk", {**ext, "more": "added later"}, command.body, command.version)


async def test_a_signature_covers_the_values_in_the_order_of_their_names_and_the_body() -> None:
    """As AclClientRPCHook: AccessKey before a and b, nothing between them, then the body."""
    rig = CallsRig(settings=ClientSettings(credentials=Credentials("RocketMQ", "12345678")))
    await rig.calls.send(MASTER, rig.calls.sign(Command(310, {"b": "T", "a": "g"}, b"hello")))
    signed = hmac.digest(b"12345678", b"RocketMQgThello", "sha1")
    assert rig.last.ext == {
        "a": "g", "b": "T", "AccessKey": "RocketMQ", "Signature": b64encode(signed).decode(),
    }  # fmt: skip


async def test_without_credentials_nothing_is_added() -> None:
    rig = CallsRig()
    await rig.calls.ask(MASTER, MAX_OFFSET, request())
    assert rig.last.ext == {"topic": TOPIC, "queueId": "3", "committed": "true"}


async def test_answers_are_read_or_refused_or_unreadable() -> None:
    """With the code and the words of the server; bytes that are nothing are said to be so."""
    answers = {
        "good:1": Command(0, {"offset": "17"}, b'{"topicList":["T"]}'),
        "no:1": Command(ResponseCode.NO_PERMISSION, remark="not you"),
        "mute:1": Command(ResponseCode.SYSTEM_ERROR),
        "odd:1": Command(0, {"offset": "many"}, b"\xff\x00{"),
    }
    rig = CallsRig(lambda address, command: answers[address])
    calls = rig.calls
    assert (await calls.ask_for(GetMaxOffsetResponse, "good:1", MAX_OFFSET)).queue_offset == 17
    assert (await calls.ask_for_body(TopicList, "good:1", 206)).topic_list == ["T"]
    with pytest.raises(RefusedError, match=r"no:1 refuses with code 16 \(NO_PERMISSION\): not you"):
        await calls.ask_for(GetMaxOffsetResponse, "no:1", MAX_OFFSET)
    with pytest.raises(RefusedError, match="without a reason"):
        await calls.ask_for_body(TopicList, "mute:1", 206)
    with pytest.raises(UnreadableError, match="odd:1 has answered with what cannot be read"):
        await calls.ask_for(GetMaxOffsetResponse, "odd:1", MAX_OFFSET)
    with pytest.raises(UnreadableError, match="odd:1 has answered with what cannot be read"):
        await calls.ask_for_body(TopicList, "odd:1", 206)
    assert expect_success("good:1", answers["good:1"]) == {"offset": "17"}
    assert read_header(GetMaxOffsetResponse, "good:1", answers["good:1"]).queue_offset == 17
    with pytest.raises(UnreadableError):
        read_body(TopicList, "odd:1", answers["odd:1"])


async def test_a_time_of_its_own_or_that_of_the_settings() -> None:
    rig = CallsRig(settings=ClientSettings(request_timeout_ms=1_234))
    times: list[int] = []
    inner = rig.pool.request

    async def note(address: str, command: Command, timeout_ms: int) -> Command:
        times.append(timeout_ms)
        return await inner(address, command, timeout_ms)

    rig.pool.request = note  # type: ignore[method-assign] # looks over its shoulder
    await rig.calls.ask(MASTER, 1)
    await rig.calls.ask(MASTER, 1, timeout_ms=7)
    await rig.calls.ask_names(1, timeout_ms=8)
    await rig.calls.ask_names(1)
    assert times == [1_234, 7, 8, 1_234]


@pytest.mark.parametrize(
    ("error", "is_sent", "is_timeout", "is_doubtful"),
    [
        (ConnectError(MASTER, "refused"), False, False, True),
        (ConnectionLostError(MASTER, "connection lost"), True, False, True),
        (RequestTimeoutError(MASTER, "no answer"), True, True, True),
        (TooManyRequestsError(MASTER, "65535 requests"), False, False, False),
    ],
)
async def test_an_error_knows_whether_the_request_may_have_arrived(
    error: RemotingError, is_sent: bool, is_timeout: bool, is_doubtful: bool
) -> None:
    """And whose address it is; where the server may be gone, somebody is told."""

    def fail(address: str, command: Command) -> Command:
        raise error

    rig = CallsRig(fail)
    doubted: list[str] = []
    rig.calls.on_unreachable = doubted.append
    rig.calls.describe = lambda address: f"the broker at {address}"
    with pytest.raises(UnreachableError, match=f"^the broker at {MASTER}: ") as raised:
        await rig.calls.ask(MASTER, 1)
    found = raised.value
    assert (found.address, found.is_sent, found.is_timeout) == (MASTER, is_sent, is_timeout)
    assert found.__cause__ is error
    assert doubted == ([MASTER] if is_doubtful else [])


async def test_a_broker_at_a_wrong_address_is_named_with_who_says_so_and_what_to_do() -> None:
    def refuse(address: str, command: Command) -> Command:
        raise ConnectError(address, "cannot connect: Connection refused")

    rig = Rig(refuse)
    await rig.client.routes.get(TOPIC)
    with pytest.raises(UnreachableError) as raised:
        await rig.client.calls.ask(MASTER, 1)
    assert str(raised.value) == (
        "broker broker-a at 10.0.0.1:10911 (as name server names says): cannot connect: Connection"
        " refused; if that is not where it runs, set brokerIP1 there to an address that clients can"
        " reach"
    )
    with pytest.raises(UnreachableError) as raised:
        await rig.client.calls.ask("h:1", 1)  # nobody advertises it: there is nothing to set
    assert str(raised.value) == "h:1: cannot connect: Connection refused"


async def test_what_is_told_to_nobody_is_an_error() -> None:
    rig = CallsRig()
    await rig.calls.tell(MASTER, 1)
    rig.reads = False
    with pytest.raises(
        UnreachableError, match=f"^{MASTER} does not read what it is sent"
    ) as raised:
        await rig.calls.tell(MASTER, 1)
    assert not raised.value.is_sent


async def test_after_it_was_closed_nothing_is_asked() -> None:
    rig = CallsRig()
    rig.calls.close("client c was stopped; make a new one")
    for call in (
        rig.calls.ask(MASTER, 1),
        rig.calls.ask_for(GetMaxOffsetResponse, MASTER, 1),
        rig.calls.tell(MASTER, 1),
        rig.calls.ask_names(1),
    ):
        with pytest.raises(ClientClosedError, match=r"^client c was stopped; make a new one$"):
            await call
    assert rig.pool.sent == []


async def test_errors_of_name_servers_are_not_those_of_brokers() -> None:
    def fail(address: str, command: Command) -> Command:
        raise ConnectError(address, "refused")

    rig = CallsRig(fail)
    doubted: list[str] = []
    rig.calls.on_unreachable = doubted.append
    with pytest.raises(NoNameServerError):
        await rig.calls.ask_names(1)
    assert doubted == []
    assert issubclass(NoNameServerError, ClientError)
