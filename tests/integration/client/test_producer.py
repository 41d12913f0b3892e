"""The producer with our servers: what is sent is there, whole, and what cannot be sent is said."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from integration.client.pull_rig import until
from roketto.client.batching import split_result
from roketto.client.client import Client
from roketto.client.errors import (
    BrokerNotFoundError,
    IllegalMessageError,
    RefusedError,
    ReplyTimeoutError,
    SendFailedError,
    TopicNotFoundError,
    UnreachableError,
)
from roketto.client.hooks import SendContext
from roketto.client.message import Message, MessageQueue
from roketto.client.producer import Producer
from roketto.client.pulling import PullRequest, pull
from roketto.client.received import ReceivedMessage
from roketto.client.replies import make_reply
from roketto.client.selectors import HashSelector, hash_of_key
from roketto.client.send_settings import BatchSettings, Compression, SendSettings
from roketto.client.settings import ClientSettings
from roketto.client.subscription import make_subscription
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.topics import CreateTopicRequest
from servers import ServerProcess, broker, name_server

NUMBERS = itertools.count()
LONG = b"compressible " * 2_000


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Path]]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    config = {"recallMessageEnable": "true", "maxMessageSize": "100000"}
    with name_server(folder) as names, broker(folder, [names.address], config):
        yield names, folder


@pytest.fixture
async def producer(servers: tuple[ServerProcess, Path]) -> AsyncIterator[Producer]:
    async with Producer("orders", servers[0].address) as made:
        yield made


def new_topic() -> str:
    return f"Sent{next(NUMBERS)}"


async def read(client: Client, topic: str) -> list[ReceivedMessage]:
    """All messages of a topic, queue by queue."""
    found: list[ReceivedMessage] = []
    wanted = make_subscription(client.wrap(topic), "*", 0)
    for queue in (await client.routes.refresh(client.wrap(topic))).subscribe_queues:
        at = 0
        while True:
            request = PullRequest(queue, "TOOLS_CONSUMER", wanted, at, sends_expression=True)
            pulled = await pull(client, request)
            found += pulled.messages
            if pulled.next_offset == at:
                break
            at = pulled.next_offset
    return found


async def read_when(client: Client, topic: str, count: int) -> list[ReceivedMessage]:
    """The same when there are so many."""

    async def is_there() -> bool:
        try:
            return len(await read(client, topic)) >= count
        except TopicNotFoundError:
            return False

    await until(is_there)
    return await read(client, topic)


async def test_everything_of_a_message_arrives(producer: Producer) -> None:
    topic = new_topic()
    message = Message(
        topic, "订单".encode(), tags="新", keys=["订单-17", "k2"], flag=42,
        properties={"国家": "中国", "emoji": "🚀", "quote": '"\\'},
    )  # fmt: skip
    result = await producer.send(message)
    assert result.is_ok
    (got,) = await read_when(producer.client, topic, 1)
    assert (got.body.decode(), got.tags, got.keys, got.flag) == (
        "订单",
        "新",
        ["订单-17", "k2"],
        42,
    )
    assert {name: got.properties[name] for name in message.properties} == message.properties
    assert (got.message_id, got.offset_id) == (result.message_id, result.offset_id)
    assert (got.queue, got.queue_offset) == (result.queue, result.queue_offset)
    assert abs(got.born_time_ms - wall_ms()) < 60_000


async def test_queues_are_used_in_turn_or_by_key(producer: Producer) -> None:
    topic = new_topic()
    results = [await producer.send(Message(topic, b"x")) for _ in range(8)]
    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]
    keyed = [await producer.send(Message(topic, b"x", sharding_key="user-7")) for _ in range(3)]
    assert {result.queue.queue_id for result in keyed} == {hash_of_key("user-7", 4)}
    selected = await producer.send(Message(topic, b"x"), selector=HashSelector(), arg=7)
    assert selected.queue.queue_id == hash_of_key("7", 4)
    queue = MessageQueue("broker-a", 2, topic)
    assert (await producer.send(Message(topic, b"x"), queue=queue)).queue == queue
    assert queue in await producer.fetch_publish_queues(topic)


@pytest.mark.parametrize("compression", list(Compression))
async def test_compressed_bodies_arrive_as_they_were(
    servers: tuple[ServerProcess, Path], compression: Compression
) -> None:
    topic = new_topic()
    settings = SendSettings(compression=compression)
    async with Producer("packers", servers[0].address, sending=settings) as producer:
        await producer.send(Message(topic, LONG))
        (got,) = await read_when(producer.client, topic, 1)
    assert got.body == LONG
    assert got.record.size < len(LONG) // 4  # so it was stored small


async def test_a_batch_is_stored_in_order_in_one_queue(producer: Producer) -> None:
    topic = new_topic()
    messages = [Message(topic, b"%d" % number, keys=f"k{number}") for number in range(10)]
    whole = await producer.send_batch(messages)
    got = await read_when(producer.client, topic, 10)
    assert [message.body for message in got] == [message.body for message in messages]
    for result, message in zip(split_result(whole, 10), got, strict=True):
        assert (result.queue, result.queue_offset) == (message.queue, message.queue_offset)
        assert (result.message_id, result.offset_id) == (message.message_id, message.offset_id)


async def test_automatic_batches_give_each_message_its_place(
    servers: tuple[ServerProcess, Path],
) -> None:
    topic = new_topic()
    settings = SendSettings(batches=BatchSettings())
    async with Producer("batchers", servers[0].address, sending=settings) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % number)) for number in range(200))
        )
        got = {message.body: message for message in await read_when(producer.client, topic, 200)}
    for number, result in enumerate(results):
        message = got[b"%d" % number]
        assert (result.message_id, result.queue) == (message.message_id, message.queue)
        assert (result.queue_offset, result.offset_id) == (message.queue_offset, message.offset_id)
    assert len({result.queue for result in results}) == 1  # all came together


async def test_many_at_once_are_all_stored_once(producer: Producer) -> None:
    topic = new_topic()

    async def send(first: int) -> None:
        for number in range(first, first + 20):
            await producer.send(Message(topic, b"%d" % number))

    await asyncio.gather(*(send(first) for first in range(0, 640, 20)))
    got = await read_when(producer.client, topic, 640)
    assert sorted(int(message.body) for message in got) == list(range(640))


async def test_one_way_messages_arrive_too(producer: Producer) -> None:
    topic = new_topic()
    for number in range(50):
        await producer.send_one_way(Message(topic, b"%d" % number))
    got = await read_when(producer.client, topic, 50)
    assert sorted(int(message.body) for message in got) == list(range(50))


async def test_delayed_messages_come_later_unless_they_are_recalled(producer: Producer) -> None:
    topic = new_topic()
    began_ms = wall_ms()
    await producer.send(Message(topic, b"level", delay_level=1))
    await producer.send(Message(topic, b"timer", delay_ms=1_000))
    recalled = await producer.send(Message(topic, b"never", delay_ms=2_000))
    assert recalled.recall_handle is not None
    assert await producer.recall(topic, recalled.recall_handle) == recalled.message_id
    assert await read(producer.client, topic) == []
    got = await read_when(producer.client, topic, 2)
    assert {message.body for message in got} == {b"level", b"timer"}
    assert all(message.store_time_ms - began_ms >= 900 for message in got)
    with pytest.raises(IllegalMessageError, match="use the recall_handle"):
        await producer.recall(topic, "none")


async def test_a_request_is_answered_by_whoever_consumes_it(
    servers: tuple[ServerProcess, Path], producer: Producer
) -> None:
    """Also right after another send, when brokers have had no heartbeat of the client yet."""
    topic = new_topic()
    await producer.send(Message(topic, b"before"))

    async def reply() -> None:
        async with Producer("repliers", servers[0].address) as replier:
            for message in await read_when(replier.client, topic, 2):
                if message.body == b"ping":
                    result = await replier.send(make_reply(message, b"pong" * 2_000))
                    assert result.is_ok

    replying = asyncio.create_task(reply())
    answer = await producer.request(Message(topic, b"ping"), 10_000)
    assert answer.body == b"pong" * 2_000  # it was compressed on its way
    await replying
    with pytest.raises(ReplyTimeoutError):
        await producer.request(Message(topic, b"anybody?"), 100)


async def test_a_namespace_is_seen_by_brokers_only(servers: tuple[ServerProcess, Path]) -> None:
    topic = new_topic()
    settings = ClientSettings(name_servers=servers[0].address, namespace="tenant")
    async with Producer("orders", settings=settings) as producer:
        result = await producer.send(Message(topic, b"x"))
        assert result.queue.topic == topic
        (got,) = await read_when(producer.client, topic, 1)
        assert (got.record.topic, got.properties["INSTANCE_ID"]) == (f"tenant%{topic}", "tenant")


async def test_refusals_say_who_and_why(producer: Producer) -> None:
    topic = new_topic()
    queue = (await producer.send(Message(topic, b"x"))).queue
    with pytest.raises(SendFailedError) as caught:
        await producer.send(Message(topic, b"x"), queue=MessageQueue("broker-a", 99, topic))
    (refused,) = caught.value.attempts
    assert isinstance(refused, RefusedError)
    assert "99" in refused.remark
    with pytest.raises(SendFailedError) as too_large:  # for this broker; the client would send it
        await producer.send(Message(topic, Random(7).randbytes(100_001)), queue=queue)
    assert isinstance(too_large.value.attempts[0], RefusedError)
    for bad in (Message(topic, b""), Message("no blanks", b"x"), Message("", b"x")):
        with pytest.raises(IllegalMessageError):
            await producer.send(bad)


async def test_a_topic_that_cannot_be_written_has_no_queues(producer: Producer) -> None:
    topic = new_topic()
    address = (await producer.send(Message(new_topic(), b"x"))).queue.broker_name
    request = CreateTopicRequest(
        topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=4,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    master = await producer.client.routes.master_of(address)
    answer = await producer.client.calls.ask(master, RequestCode.UPDATE_AND_CREATE_TOPIC, request)
    assert answer.code == 0, answer.remark

    async def is_refused() -> bool:
        try:
            await producer.client.routes.refresh(topic)
        except TopicNotFoundError:  # it has not been registered yet
            return False
        with pytest.raises(TopicNotFoundError, match="can be written"):
            await producer.send(Message(topic, b"x"))
        return True

    await until(is_refused)


class FailedAttempts:
    """Keeps what was tried in vain."""

    def __init__(self) -> None:
        self.contexts: list[SendContext] = []

    def before(self, context: SendContext) -> None:
        pass

    def after(self, context: SendContext) -> None:
        if context.error is not None:
            self.contexts.append(context)


async def test_when_a_broker_is_killed_the_other_one_gets_everything(
    servers: tuple[ServerProcess, Path], tmp_path: Path
) -> None:
    """Every send is acknowledged, though some attempts fail, and what was acknowledged is there."""
    names, _ = servers
    failed = FailedAttempts()
    topic = new_topic()
    with broker(tmp_path, [names.address], {"brokerName": "broker-b"}) as second:
        async with Producer("survivors", names.address) as producer:
            producer.hooks.add(failed)
            client = producer.client

            async def has_both() -> bool:
                queues = (await client.routes.refresh("TBW102")).publish_queues
                return {queue.broker_name for queue in queues} == {"broker-a", "broker-b"}

            await until(has_both)
            before = [await producer.send(Message(topic, b"x")) for _ in range(8)]
            assert {result.queue.broker_name for result in before} == {"broker-a", "broker-b"}
            second.popen.kill()
            second.popen.wait()
            began_s = monotonic_s()
            sends = (producer.send(Message(topic, b"%d" % number)) for number in range(64))
            after = await asyncio.gather(*sends)
            assert {result.queue.broker_name for result in after} == {"broker-a"}
            assert monotonic_s() - began_s < 3.0
            assert {context.queue.broker_name for context in failed.contexts} == {"broker-b"}
            with pytest.raises(SendFailedError) as caught:
                await producer.send(Message(topic, b"x"), queue=MessageQueue("broker-b", 0, topic))
            # Its route may be known to be gone by now.
            assert isinstance(caught.value.attempts[0], UnreachableError | BrokerNotFoundError)
            assert "broker-b" in str(caught.value)

            async def has_one() -> bool:
                queues = (await client.routes.refresh(topic)).publish_queues
                return {queue.broker_name for queue in queues} == {"broker-a"}

            await until(has_one)
            got = [int(m.body) for m in await read(client, topic) if m.body != b"x"]
            assert sorted(got) == list(range(64))
