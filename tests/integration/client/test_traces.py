"""Traces with our servers: what was sent and consumed is in the trace topic, as Java writes it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from integration.client.pull_rig import PullRig, name, queue
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.message import Message
from roketto.client.positions import FromWhere, Positions
from roketto.client.pull import PullConsumer
from roketto.client.push import PushConsumer
from roketto.client.received import ReceivedMessage
from roketto.client.trace import ListenerTracer, TraceDispatcher, TraceRole, tracing
from roketto.client.trace_record import (
    ConsumeCode,
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceKind,
    decode_traces,
)
from roketto.client.transaction import TransactionProducer, TransactionState
from roketto.protocol.names import TRACE_TOPIC
from servers import broker, name_server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    config = {"traceTopicEnable": "true"}
    with name_server(folder) as names, broker(folder, [names.address], config) as server:
        yield names.address, server.address


@pytest.fixture
async def rig(servers: tuple[str, str]) -> AsyncIterator[PullRig]:
    async with PullRig(*servers) as made:
        yield made


async def last_trace(rig: PullRig) -> ReceivedMessage:
    end = await Positions(rig.client).max_offset(queue(TRACE_TOPIC))
    async with PullConsumer(name(), client=rig.client) as consumer:
        return (await consumer.pull(queue(TRACE_TOPIC), end - 1)).messages[-1]


async def test_traces_of_sends_and_transactions_are_in_the_trace_topic(rig: PullRig) -> None:
    """A message, a half message and its end, with the ids that operators look for as keys."""
    topic = await rig.topic()
    group = name()
    async with (
        TransactionProducer(group, rig.names, confirms_end=True) as producer,
        tracing(producer) as dispatcher,
    ):
        plain = await producer.send(Message(topic, b"123"))
        async with producer.transaction(Message(topic, b"x", tags="t", keys=["k1"])) as sent:
            pass
        await dispatcher.flush()
    message = await last_trace(rig)
    assert message.keys == [plain.message_id, sent.message_id, "k1"]
    first, half, ended = decode_traces(message.body.decode())
    assert isinstance(first, PubTrace)
    assert (first.message_id, first.kind, first.body_bytes) == (
        plain.message_id, TraceKind.NORMAL, 3,
    )  # fmt: skip
    assert isinstance(half, PubTrace)
    assert (half.message_id, half.kind, half.is_success) == (sent.message_id, TraceKind.HALF, True)
    assert (half.group, half.topic, half.tags, half.keys) == (group, topic, "t", "k1")
    assert (half.offset_id, half.store_host) == (sent.sent.offset_id, rig.address)
    assert isinstance(ended, EndTransactionTrace)
    assert (ended.message_id, ended.state) == (sent.message_id, TransactionState.COMMIT)


async def test_traces_of_consumers_are_in_the_trace_topic(rig: PullRig) -> None:
    topic = await rig.topic()
    group = name()
    await rig.send(topic, ["x"], UNIQ_KEY="ID17", KEYS="k1 k2")
    consumed = asyncio.Event()

    async def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        consumed.set()
        return ConsumeResult.SUCCESS

    async with TraceDispatcher(rig.client, group, TraceRole.CONSUME) as dispatcher:
        async with PushConsumer(
            group, client=rig.client, topics={topic: "*"}, listener=listener,
            from_where=FromWhere.FIRST, hooks=[ListenerTracer(dispatcher)],
        ):  # fmt: skip
            async with asyncio.timeout(10):
                await consumed.wait()
        await dispatcher.flush()
    message = await last_trace(rig)
    assert message.keys == ["ID17", "k1", "k2"]
    before, after = decode_traces(message.body.decode())
    assert isinstance(before, SubBeforeTrace)
    assert isinstance(after, SubAfterTrace)
    assert (before.group, before.message_id, before.keys) == (group, "ID17", "k1 k2")
    assert (before.region_id, before.retry_times) == ("DefaultRegion", 0)
    assert (after.request_id, after.message_id) == (before.request_id, "ID17")
    assert (after.is_success, after.code, after.group) == (True, ConsumeCode.SUCCESS, group)
