"""A producer sends where it is told or in turn, knows its bounds, and leaves nothing behind."""

import asyncio
import logging
from dataclasses import replace

import pytest

from roketto.client.client import Client
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    IllegalMessageError,
    NotStartedError,
    SendFailedError,
    TopicNotFoundError,
)
from roketto.client.marked import mark
from roketto.client.message import Message, MessageQueue, SendResult
from roketto.client.producer import Producer
from roketto.client.send_settings import BatchSettings, SendSettings
from roketto.client.settings import ClientSettings, Credentials
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.record import Record
from roketto.protocol.signing import verify
from unit.client.core_rig import TOPIC
from unit.client.sending_rig import HELLO, SendRig


async def test_queues_take_turns() -> None:
    rig = SendRig()
    async with rig.producer as producer:
        queues = [(await producer.send(HELLO)).queue for _ in range(8)]
        everything = await producer.fetch_publish_queues(TOPIC)
    assert sorted(queues) == sorted(everything * 2)
    assert len(everything) == 4


async def test_the_user_sees_no_namespace_and_brokers_do() -> None:
    rig = SendRig(namespace="ns")
    seen: list[MessageQueue] = []

    def select(queues: object, message: Message, arg: object) -> MessageQueue:
        assert isinstance(queues, tuple)
        seen.extend(queues)
        chosen: MessageQueue = queues[1]
        return chosen

    async with rig.producer as producer:
        result = await producer.send(HELLO, selector=select)
        assert result.queue == MessageQueue("broker-a", 1, TOPIC)
        await producer.send(HELLO, queue=MessageQueue("broker-a", 1, f"ns%{TOPIC}"))
        assert producer.group == "ns%orders"
    assert {queue.topic for queue in seen} == {TOPIC}
    assert [rig.header(number)["b"] for number in range(2)] == [f"ns%{TOPIC}"] * 2
    assert rig.header()["a"] == "ns%orders"


async def test_a_queue_of_another_topic_is_none_of_the_message() -> None:
    rig = SendRig()
    other = MessageQueue("broker-a", 0, "Other")
    async with rig.producer as producer:
        with pytest.raises(IllegalMessageError, match="give a queue of its topic"):
            await producer.send(HELLO, queue=other)
        with pytest.raises(IllegalMessageError, match="give a queue of its topic"):
            await producer.send(HELLO, selector=lambda queues, message, arg: None)  # type: ignore[arg-type, return-value] # as users do
        with pytest.raises(IllegalMessageError, match="give one of them"):
            await producer.send(HELLO, queue=other, selector=lambda queues, m, a: other)
    assert rig.sends == []


async def test_a_batch_goes_as_one_request_and_keeps_its_queue() -> None:
    rig = SendRig()
    queue = MessageQueue("broker-b", 1, TOPIC)
    async with rig.producer as producer:
        result = await producer.send_batch([HELLO, replace(HELLO, body=b"you")], queue=queue)
        with pytest.raises(IllegalMessageError, match="at least one"):
            await producer.send_batch([])
        with pytest.raises(IllegalMessageError, match="of its topic"):
            await producer.send_batch([HELLO], queue=MessageQueue("broker-b", 1, "Other"))
    assert result.queue == queue
    assert result.message_id.count(",") == 1
    assert [command.code for _, command in rig.sends] == [RequestCode.SEND_BATCH_MESSAGE]


async def test_requests_are_signed_with_the_body() -> None:
    rig = SendRig()
    settings = replace(rig.client.settings, credentials=Credentials("ak", "sk"))
    rig.client.calls._settings = settings
    async with rig.producer as producer:
        await producer.send(HELLO)
    command = rig.sends[0][1]
    verify("sk", command.ext or {}, command.body, command.version)


async def test_brokers_know_it_from_start_to_stop() -> None:
    rig = SendRig()
    producer = Producer("early", client=rig.client, topics=[TOPIC])
    await producer.start()
    await producer.start()  # once is enough
    heartbeats = [c for _, c in rig.pool.sent if c.code == RequestCode.HEART_BEAT]
    assert len(heartbeats) == 2
    assert b'"groupName":"early"' in bytes(heartbeats[0].body)
    await producer.stop()
    await producer.stop()
    leaves = [c for _, c in rig.pool.sent if c.code == RequestCode.UNREGISTER_CLIENT]
    assert [(c.ext or {})["producerGroup"] for c in leaves] == ["early"] * 2


async def test_it_is_of_use_only_between_start_and_stop() -> None:
    rig = SendRig()
    producer = rig.producer
    with pytest.raises(NotStartedError):
        await producer.send(HELLO)
    async with producer:
        await producer.send(HELLO)
    for call in (producer.send(HELLO), producer.send_batch([HELLO]), producer.request(HELLO)):
        with pytest.raises(ClientClosedError):
            await call
    with pytest.raises(ClientClosedError):
        await producer.start()


async def test_a_start_that_fails_lets_the_client_go() -> None:
    """A group can be registered once with a client."""
    rig = SendRig()
    async with rig.producer:
        second = Producer("orders", client=rig.client)
        with pytest.raises(ClientError, match="is here already"):
            await second.start()
        with pytest.raises(TopicNotFoundError):
            await Producer("third", client=rig.client, topics=["Missing"]).start()
    with pytest.raises(ClientClosedError):  # so the last one who used it has stopped it
        rig.client.check_started()


async def test_stopping_waits_for_what_is_under_way() -> None:
    rig = SendRig()
    await rig.producer.start()
    await rig.producer.send(HELLO)
    rig.pool.gate.clear()
    send = asyncio.create_task(rig.producer.send(HELLO))
    await asyncio.sleep(0)
    stop = asyncio.create_task(rig.producer.stop())
    await asyncio.sleep(0.005)
    assert not stop.done()
    rig.pool.gate.set()
    await stop
    assert send.done()
    assert isinstance(send.result(), SendResult)


async def test_a_route_that_does_not_come_in_time_is_no_send() -> None:
    rig = SendRig()

    async def never(topic: str) -> None:
        await asyncio.sleep(60)

    async with rig.producer as producer:
        rig.client.routes.refresh = never  # type: ignore[assignment, method-assign] # a name server that hangs
        with pytest.raises(SendFailedError, match="has not told the topic's route within 20 ms"):
            await producer.send(HELLO, timeout_ms=20)


@pytest.mark.parametrize("group", ["", "DEFAULT_PRODUCER", "no blanks", "x" * 121])
def test_bad_groups_are_refused(group: str) -> None:
    with pytest.raises(IllegalMessageError):
        Producer(group)


def test_a_client_has_its_settings_already() -> None:
    with pytest.raises(ClientError, match="give it one of them"):
        Producer("orders", "127.0.0.1:9876", client=Client())
    own = Producer("orders", "10.0.0.5:9876", settings=ClientSettings(unit_name="u"))
    assert own.client.names.addresses == ["10.0.0.5:9876"]
    assert own.client.settings.unit_name == "u"


async def test_those_who_derive_from_it_send_what_users_cannot() -> None:
    """The seam of transactions: a half message, and what to do when a broker asks about it."""
    asked: list[str] = []

    class Transactional(Producer):
        async def send_half(self, message: Message) -> SendResult:
            return await self._send_alone(mark(message, {"TRAN_MSG": "true", "PGROUP": self.group}))

        def check_transaction(
            self, address: str, request: CheckTransactionStateRequest, half: Record
        ) -> None:
            asked.append(address)

    rig = SendRig(make=Transactional, sending=SendSettings(batches=BatchSettings()))
    producer = rig.producer
    assert isinstance(producer, Transactional)
    async with producer:
        await producer._send_alone(HELLO)
        assert rig.sends[-1][1].code == RequestCode.SEND_MESSAGE_V2  # never in a batch
        await producer.send_half(HELLO)
    assert (rig.header()["f"], rig.properties()["PGROUP"]) == ("4", "orders")


async def test_a_plain_producer_has_no_transactions(caplog: pytest.LogCaptureFixture) -> None:
    request = CheckTransactionStateRequest(topic=TOPIC, half_queue_offset=0, log_offset=0)
    with caplog.at_level(logging.WARNING):
        SendRig().producer.check_transaction("10.0.0.1:1", request, Record(TOPIC, b""))
    assert "asks producer group orders about a transaction" in caplog.text


async def test_settings_of_sends_are_used() -> None:
    rig = SendRig(sending=SendSettings(timeout_ms=1_234, template_topic="Like", template_queues=3))
    async with rig.producer as producer:
        await producer.send(HELLO)
        assert 1_200 <= rig.pool.timeouts_ms[0] <= 1_234
    assert (rig.header()["c"], rig.header()["d"]) == ("Like", "3")
