"""Hooks write down what producers and consumers do, as Java's do, and leave out what Java does."""

import re

import pytest

from roketto.client.listeners import ConsumeContext, Consumed, ConsumeResult, Verdict
from roketto.client.message import Message, MessageQueue
from roketto.client.producer import Producer
from roketto.client.received import ReceivedMessage
from roketto.client.trace import (
    ConsumeHook,
    ConsumeTracer,
    ListenerTracer,
    TraceDispatcher,
    TraceRole,
    tracing,
)
from roketto.client.trace_record import (
    ConsumeCode,
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    TraceKind,
    TransactionState,
    encode_trace,
)
from roketto.client.transaction import TransactionProducer
from roketto.protocol.codes import RequestCode
from roketto.protocol.names import TRACE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from unit.client.core_rig import GROUP, MASTER, TOPIC, route_data
from unit.client.transaction_rig import TransactionRig, ask

QUEUE = MessageQueue("broker-a", 0, TOPIC)


@pytest.fixture
def rig() -> TransactionRig:
    made = TransactionRig()
    made.routes[TRACE_TOPIC] = route_data({"broker-a": {0: MASTER}}, queues=1)
    return made


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Trace]:
    """What dispatchers were given, one behind the other."""
    found: list[Trace] = []
    append = TraceDispatcher.append

    def note(dispatcher: TraceDispatcher, given: list[Trace]) -> bool:
        found.extend(given)
        return append(dispatcher, given)

    monkeypatch.setattr(TraceDispatcher, "append", note)
    return found


async def test_sends_are_written_down_with_what_the_broker_said(
    rig: TransactionRig, traces: list[Trace]
) -> None:
    async with Producer(GROUP, client=rig.client) as producer:
        async with tracing(producer):
            result = await producer.send(Message(TOPIC, b"12345", tags="new", keys=["k1", "k2"]))
            rig.send_code = 10
            await producer.send(Message(TOPIC, b"x", delay_level=2))
            rig.send_code = 0
            await producer.send_one_way(Message(TOPIC, b"x"))
            await producer.send(Message(TRACE_TOPIC, b"x"))
        await producer.send(Message(TOPIC, b"no more"))
    first, second = traces
    assert isinstance(first, PubTrace)
    assert isinstance(second, PubTrace)
    assert (first.message_id, first.offset_id) == (result.message_id, result.offset_id)
    assert (first.tags, first.keys, first.body_bytes) == ("new", "k1 k2", 5)
    assert (first.group, first.topic, first.store_host) == (GROUP, TOPIC, MASTER)
    assert (first.region_id, first.kind, first.is_success) == (
        "DefaultRegion", TraceKind.NORMAL, True,
    )  # fmt: skip
    assert (second.kind, second.is_success, second.tags) == (TraceKind.DELAYED, False, None)
    text = encode_trace(first).replace("\x01", " ")
    assert re.fullmatch(
        rf"Pub \d+ DefaultRegion {GROUP} {TOPIC} \w+ new k1 k2 {MASTER} 5 \d+ 0 \w+ true\x02", text
    )


async def test_transactions_are_written_down_with_their_ends(
    rig: TransactionRig, traces: list[Trace]
) -> None:
    async with (
        TransactionProducer(GROUP, client=rig.client, check=lambda _: None) as producer,
        tracing(producer),
    ):
        async with producer.transaction(Message(TOPIC, b"x", tags="t")) as sent:
            pass
        await ask(rig, producer, rig.half("THEIRS", KEYS="k"))
        await ask(rig, producer, rig.half("THEIRS", TRACE_ON="false"))
    half, end, checked = traces
    assert isinstance(half, PubTrace)
    assert half.kind is TraceKind.HALF
    assert isinstance(end, EndTransactionTrace)
    assert (end.message_id, end.transaction_id) == (sent.message_id, sent.message_id)
    assert (end.state, end.is_from_check, end.tags) == (TransactionState.COMMIT, False, "t")
    assert (end.kind, end.store_host) == (TraceKind.COMMIT, MASTER)
    assert isinstance(checked, EndTransactionTrace)
    assert (checked.state, checked.is_from_check) == (TransactionState.UNKNOWN, True)
    assert (checked.message_id, checked.keys) == ("THEIRS", "k")


def received(message_id: str, **properties: str) -> ReceivedMessage:
    raw = encode_properties({"UNIQ_KEY": message_id, "MSG_REGION": "R", **properties})
    return ReceivedMessage(Record(TOPIC, b"x", raw, reconsume_times=3), "broker-a")


async def test_what_is_consumed_is_written_down_before_and_after(
    rig: TransactionRig, traces: list[Trace]
) -> None:
    dispatcher = TraceDispatcher(rig.client, GROUP, TraceRole.CONSUME)
    hook: ConsumeHook = ConsumeTracer(dispatcher)
    messages = [received("A", KEYS="k"), received("B", TRACE_ON="false"), received("C")]
    token = hook.before(messages, GROUP, QUEUE)
    hook.after(token, ConsumeCode.TIME_OUT, is_success=True)
    before, second, after, _ = traces
    assert isinstance(before, SubBeforeTrace)
    assert isinstance(after, SubAfterTrace)
    assert (before.message_id, before.keys, before.retry_times) == ("A", "k", 3)
    assert (before.group, before.region_id, second.message_id) == (GROUP, "R", "C")
    assert before.request_id == after.request_id
    assert (after.message_id, after.code, after.is_success) == ("A", ConsumeCode.TIME_OUT, True)
    assert (after.group, after.region_id, after.topic) == (GROUP, "R", TOPIC)
    del traces[:]
    token = hook.before([received("B", TRACE_ON="false")], GROUP, QUEUE)
    hook.after(token, ConsumeCode.SUCCESS)
    assert traces == []


async def test_consumers_of_a_cloud_leave_time_and_group_out(
    rig: TransactionRig, traces: list[Trace]
) -> None:
    hook = ConsumeTracer(TraceDispatcher(rig.client, GROUP, TraceRole.CONSUME, is_cloud=True))
    hook.after(hook.before([received("A")], GROUP, QUEUE), ConsumeCode.EXCEPTION)
    assert encode_trace(traces[1]).endswith("\x01false\x01null\x012\x01\x02")


@pytest.mark.parametrize(
    ("result", "verdict", "code", "is_success"),
    [
        (ConsumeResult.SUCCESS, Verdict.SUCCESS, 0, True),
        (ConsumeResult.COMMIT, Verdict.TIME_OUT, 1, True),
        (None, Verdict.EXCEPTION, 2, False),
        (None, Verdict.RETURNNULL, 3, False),
        (ConsumeResult.LATER, Verdict.FAILED, 4, False),
    ],
)
async def test_calls_of_listeners_are_written_down_with_their_verdicts(
    rig: TransactionRig,
    traces: list[Trace],
    result: ConsumeResult | None,
    verdict: Verdict,
    code: int,
    is_success: bool,
) -> None:
    hook = ListenerTracer(TraceDispatcher(rig.client, GROUP, TraceRole.CONSUME))
    consumed = Consumed(GROUP, [received("A")], ConsumeContext(QUEUE))
    hook.before(consumed)
    consumed.result = result
    consumed.error = ValueError() if verdict is Verdict.EXCEPTION else None
    consumed.is_late = verdict is Verdict.TIME_OUT
    assert consumed.verdict is verdict
    hook.after(consumed)
    after = traces[1]
    assert isinstance(after, SubAfterTrace)
    assert (after.code, after.is_success) == (code, is_success)
    assert rig.sent(RequestCode.SEND_MESSAGE_V2) == []
