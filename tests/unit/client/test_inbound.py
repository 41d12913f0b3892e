"""What brokers ask reaches the producer or consumer it is for, and is answered as Java does."""

import asyncio
from collections.abc import Mapping

import pytest

from roketto.client import inbound as module
from roketto.client.errors import ClientError
from roketto.client.inbound import Inbound
from roketto.client.message import MessageQueue
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from roketto.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import Header, encode_header
from roketto.protocol.headers.pushes import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
    NotifyConsumerIdsChangedRequest,
    ReplyMessageRequest,
)
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, encode_record
from roketto.remoting.connection import Connection, Reply, refuse_requests
from roketto.remoting.settings import ConnectionSettings
from unit.client.roles_rig import NotingConsumer, NotingProducer

BROKER = "10.0.0.1:10911"
QUEUE = MessageQueue("broker-a", 0, "T")


class InboundRig:
    def __init__(self) -> None:
        self.inbound = Inbound("10.0.0.9@i")
        self.producer = NotingProducer("p")
        self.consumer = NotingConsumer("c", ["T"])
        self.inbound.add_producer(self.producer)
        self.inbound.add_consumer(self.consumer)
        self.connection = Connection(refuse_requests, ConnectionSettings())
        self.connection.peer = BROKER

    def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Reply:
        fields = None if header is None else encode_header(header)
        return self.inbound.handle(self.connection, Command(code, fields, body))

    def answer(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        reply = self.ask(code, header, body)
        assert isinstance(reply, Command)
        return reply


def half_of(group: str) -> bytes:
    return encode_record(Record("T", b"half", encode_properties({"PGROUP": group})))


async def test_a_transaction_is_asked_of_the_producer_that_began_it() -> None:
    """Nobody gets an answer: the producer tells its end in a request of its own."""
    rig = InboundRig()
    header = CheckTransactionStateRequest(topic="T", half_queue_offset=5, log_offset=6)
    for group in ("p", "elsewhere"):
        assert rig.ask(RequestCode.CHECK_TRANSACTION_STATE, header, half_of(group)) is None
    ((address, request, half),) = rig.producer.noted
    assert (address, request.half_queue_offset, bytes(half.body)) == (BROKER, 5, b"half")


async def test_members_that_come_and_go_concern_their_group_only() -> None:
    rig = InboundRig()
    other = NotingConsumer("other")
    rig.inbound.add_consumer(other)
    for group in ("c", "nobody"):
        header = NotifyConsumerIdsChangedRequest(consumer_group=group)
        assert rig.ask(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header) is None
    assert (rig.consumer.noted, other.noted) == (["rebalance"], [])


async def test_an_operator_moves_a_group_and_sees_where_it_is() -> None:
    rig = InboundRig()
    body = encode_body(ResetOffsetBody(offset_table={QUEUE: 99}))
    for group in ("c", "nobody"):
        request = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, {"group": group}, body)
        assert rig.inbound.handle(rig.connection, request) is None
    await asyncio.sleep(0)
    assert rig.consumer.noted == [{QUEUE: 99}]
    for group, offsets in (("c", {QUEUE: 17}), ("nobody", {})):
        answer = rig.answer(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
            GetConsumerStatusRequest(topic="T", group=group),
        )
        found = decode_body(GetConsumerStatusBody, answer.body).message_queue_table
        assert (answer.code, found) == (0, offsets)


async def test_a_consumer_tells_how_it_is_with_its_stacks_if_that_is_wanted() -> None:
    rig = InboundRig()
    for jstack in (False, True):
        header = GetConsumerRunningInfoRequest(
            consumer_group="c", client_id="10.0.0.9@i", jstack_enable=jstack
        )
        answer = rig.answer(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        info = decode_body(ConsumerRunningInfo, answer.body)
        assert info.properties == {"group": "c"}
        assert ("test_a_consumer_tells_how_it_is" in (info.jstack or "")) is jstack
    header = GetConsumerRunningInfoRequest(consumer_group="x", client_id="10.0.0.9@i")
    answer = rig.answer(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "The Consumer Group <x> not exist in this consumer: 10.0.0.9@i",
    )


async def test_one_message_is_consumed_when_an_operator_wants_it() -> None:
    rig = InboundRig()
    header = ConsumeMessageDirectlyRequest(consumer_group="c", broker_name="broker-a")
    work = rig.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, half_of("p"))
    assert work is not None
    assert not isinstance(work, Command)
    answer = await work
    assert answer is not None
    result = decode_body(ConsumeMessageDirectlyResult, answer.body)
    assert result.consume_result is CMResult.CR_SUCCESS
    assert rig.consumer.noted == [(b"half", "broker-a")]
    header = ConsumeMessageDirectlyRequest(consumer_group="x")
    assert rig.answer(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, half_of("p")).code == 1


async def test_a_reply_goes_to_whoever_waits_and_is_confirmed_in_any_case() -> None:
    rig = InboundRig()
    header = ReplyMessageRequest(
        producer_group="p", topic="c_REPLY_TOPIC", default_topic="TBW102",
        default_topic_queue_nums=4, queue_id=0, sys_flag=0, born_timestamp=1, flag=0,
        born_host="10.0.0.1:1", store_host="10.0.0.1:2",
    )  # fmt: skip
    push = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert rig.answer(push, header, b"late").code == 0
    taken: list[bytes] = []

    def take(request: ReplyMessageRequest, body: bytes) -> bool:
        taken.append(body)
        return True

    rig.inbound.on_reply = take
    assert rig.answer(push, header, b"in time").code == 0
    assert taken == [b"in time"]


async def test_what_is_not_known_is_refused_as_java_does() -> None:
    rig = InboundRig()
    answer = rig.answer(9_999)
    assert (answer.code, answer.remark) == (
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        " request type 9999 not supported",
    )


async def test_a_group_is_here_once_and_only_its_own_member_takes_it_away() -> None:
    rig = InboundRig()
    second, twin = NotingProducer("p"), NotingConsumer("c")
    with pytest.raises(ClientError) as raised:
        rig.inbound.add_producer(second)
    assert str(raised.value) == (
        "a producer of group p is here already; use it, or give this one a Client of its own"
    )
    with pytest.raises(ClientError, match="a consumer of group c is here already"):
        rig.inbound.add_consumer(twin)
    rig.inbound.add_producer(rig.producer)  # the same one again is nothing new
    assert not rig.inbound.remove_producer(second)
    assert not rig.inbound.remove_consumer(twin)
    assert (list(rig.inbound.producer_groups), len(rig.inbound.consumers)) == (["p"], 1)
    assert rig.inbound.remove_producer(rig.producer)
    assert rig.inbound.remove_consumer(rig.consumer)
    assert not rig.inbound.remove_consumer(rig.consumer)
    assert (list(rig.inbound.producer_groups), len(rig.inbound.consumers)) == ([], 0)


class SlowConsumer(NotingConsumer):
    """Never ends what it is asked."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.noted.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            self.noted.append("ended")


async def test_what_is_under_way_is_bounded_and_ends_with_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_TASKS_MAX", 2)
    inbound = Inbound("i")
    slow = SlowConsumer("slow")
    inbound.add_consumer(slow)
    connection = Connection(refuse_requests, ConnectionSettings())
    body = encode_body(ResetOffsetBody(offset_table={QUEUE: 1}))

    def ask() -> Reply:
        request = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, {"group": "slow"}, body)
        return inbound.handle(connection, request)

    for _ in range(2):
        ask()
    await asyncio.sleep(0)
    with pytest.raises(ClientError, match="2 requests of brokers are under way; ask again later"):
        ask()
    await inbound.close()
    assert slow.noted == ["begun", "begun", "ended", "ended"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_failure_of_what_was_asked_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class BadConsumer(NotingConsumer):
        async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
            raise ZeroDivisionError

    rig = InboundRig()
    rig.inbound.add_consumer(BadConsumer("bad"))
    body = encode_body(ResetOffsetBody(offset_table={QUEUE: 1}))
    request = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, {"group": "bad"}, body)
    assert rig.inbound.handle(rig.connection, request) is None
    await asyncio.sleep(0.001)
    assert [record.message for record in caplog.records] == ["what a broker has asked for failed"]
