"""Traces of messages: who sent and who consumed them, when and how, in a topic of their own.

Producers and consumers write down what they do, by the hooks that are here. Nothing waits for that,
and what is too much is dropped: traces never hold up what they are about. Operators read them with
``mqadmin queryMsgTraceById``; brokers need ``traceTopicEnable``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from roketto.client.hooks import SendContext
from roketto.client.listeners import Consumed, ConsumeResult
from roketto.client.message import MessageQueue
from roketto.client.producer import Producer
from roketto.client.received import ReceivedMessage
from roketto.client.trace_dispatcher import TraceDispatcher, TraceRole
from roketto.client.trace_record import (
    ConsumeCode,
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceKind,
)
from roketto.client.transaction import TransactionProducer
from roketto.client.transaction_ends import EndContext
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.names import TRACE_TOPIC

__all__ = [
    "ConsumeHook", "ConsumeTracer", "EndTracer", "ListenerTracer", "SendTracer", "TraceDispatcher",
    "TraceRole", "tracing",
]  # fmt: skip


# --- producers ------------------------------------------------------------------------------------


@asynccontextmanager
async def tracing(
    producer: Producer, *, topic: str = TRACE_TOPIC, batch_max: int = 10, is_cloud: bool = False
) -> AsyncIterator[TraceDispatcher]:
    """Trace what a producer that is started sends, until the block ends.

    async with Producer("orders") as producer, tracing(producer):
        await producer.send(Message("Orders", b"..."))
    """
    dispatcher = TraceDispatcher(
        producer.client, producer.group, TraceRole.PRODUCE,
        topic=topic, batch_max=batch_max, is_cloud=is_cloud,
    )  # fmt: skip
    sends, ends = SendTracer(dispatcher), EndTracer(dispatcher)
    async with dispatcher:
        producer.hooks.add(sends)
        if isinstance(producer, TransactionProducer):
            producer.end_hooks.append(ends)
        try:
            yield dispatcher
        finally:
            producer.hooks.remove(sends)
            if isinstance(producer, TransactionProducer):
                producer.end_hooks.remove(ends)


class SendTracer:
    """A hook that writes down each send that was answered."""

    def __init__(self, dispatcher: TraceDispatcher) -> None:
        self._dispatcher = dispatcher

    def before(self, context: SendContext) -> None:
        """Nothing is known yet."""

    def after(self, context: SendContext) -> None:
        result, dispatcher = context.result, self._dispatcher
        if result is None or not result.is_traced or not dispatcher.is_traced(context.topic):
            return
        trace = PubTrace(
            time_ms=context.begun_ms,
            region_id=result.region_id,
            group=dispatcher.client.unwrap(context.group),
            topic=context.topic,
            message_id=result.message_id,
            tags=context.properties.get(names.TAGS),
            keys=context.properties.get(names.KEYS),
            store_host=context.address,
            body_bytes=context.body_bytes,
            cost_ms=int(context.latency_ms),
            kind=TraceKind(context.kind.value),
            offset_id=result.offset_id,
            is_success=result.is_ok,
        )
        dispatcher.append((trace,))


class EndTracer:
    """A hook that writes down how transactions ended."""

    def __init__(self, dispatcher: TraceDispatcher) -> None:
        self._dispatcher = dispatcher

    def __call__(self, context: EndContext) -> None:
        if not context.is_traced or not self._dispatcher.is_traced(context.topic):
            return
        trace = EndTransactionTrace(
            time_ms=wall_ms(),
            region_id=context.region_id,
            group=context.group,
            topic=context.topic,
            message_id=context.message_id,
            tags=context.tags,
            keys=context.keys,
            store_host=context.address,
            transaction_id=context.transaction_id,
            state=context.state,
            is_from_check=context.is_from_check,
        )
        self._dispatcher.append((trace,))


# --- consumers ------------------------------------------------------------------------------------


class ConsumeHook(Protocol):
    """Whoever consumes messages calls it around that. It must not wait."""

    def before(
        self, messages: Sequence[ReceivedMessage], group: str, queue: MessageQueue
    ) -> object:
        """Messages are about to be consumed; what is returned is given to ``after``."""

    def after(self, token: object, result: ConsumeCode, is_success: bool | None = None) -> None:
        """They were. What took too long may be a success all the same."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is known when messages are about to be consumed."""

    traces: Sequence[SubBeforeTrace]
    messages: int
    """With those that are not traced."""
    time_ms: int


class ConsumeTracer:
    """A ConsumeHook that writes down what was consumed, and how."""

    def __init__(self, dispatcher: TraceDispatcher) -> None:
        self._dispatcher = dispatcher

    def before(
        self, messages: Sequence[ReceivedMessage], group: str, queue: MessageQueue
    ) -> object:
        dispatcher = self._dispatcher
        client = dispatcher.client
        traced = [
            message
            for message in messages
            if message.record.get_property(names.TRACE_ON) != "false"
            and dispatcher.is_traced(message.topic)
        ]
        if not traced:
            return None
        now_ms = wall_ms()
        request_id = client.unique_ids.next_id(now_ms)
        region_id = traced[-1].record.get_property(names.MSG_REGION)
        traces = [
            SubBeforeTrace(
                time_ms=now_ms,
                region_id=region_id,
                group=client.unwrap(group),
                request_id=request_id,
                message_id=message.message_id,
                retry_times=message.reconsume_times,
                keys=message.record.get_property(names.KEYS),
                topic=message.topic,
            )
            for message in traced
        ]
        dispatcher.append(traces)
        return _Begun(traces, len(messages), now_ms)

    def after(self, token: object, result: ConsumeCode, is_success: bool | None = None) -> None:
        if not isinstance(token, _Begun):
            return
        is_local = not self._dispatcher.is_cloud
        self._dispatcher.append(
            [
                SubAfterTrace(
                    request_id=begun.request_id,
                    message_id=begun.message_id,
                    cost_ms=(wall_ms() - token.time_ms) // token.messages,
                    is_success=result is ConsumeCode.SUCCESS if is_success is None else is_success,
                    keys=begun.keys,
                    code=result,
                    time_ms=wall_ms() if is_local else None,
                    group=begun.group if is_local else None,
                    region_id=begun.region_id,
                    topic=begun.topic,
                )
                for begun in token.traces
            ]
        )


class ListenerTracer:
    """The same for consumers with listeners, which have hooks of their own (listeners.py)."""

    def __init__(self, dispatcher: TraceDispatcher) -> None:
        self._tracer = ConsumeTracer(dispatcher)

    def before(self, consumed: Consumed) -> None:
        consumed.props[_TOKEN] = self._tracer.before(
            consumed.messages, consumed.group, consumed.context.queue
        )

    def after(self, consumed: Consumed) -> None:
        is_success = consumed.result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
        code = _CODES[consumed.verdict.value]
        self._tracer.after(consumed.props.get(_TOKEN), code, is_success)


_TOKEN: Final = "trace"  # noqa: S105 (no secret: the name of a property)
_CODES: Final = {
    "SUCCESS": ConsumeCode.SUCCESS,
    "TIME_OUT": ConsumeCode.TIME_OUT,
    "EXCEPTION": ConsumeCode.EXCEPTION,
    "RETURNNULL": ConsumeCode.RETURN_NULL,
    "FAILED": ConsumeCode.FAILED,
}
