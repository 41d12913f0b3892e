"""The parts of a push consumer around a scripted client, for tests of each of them."""

import asyncio
from collections.abc import Callable
from typing import Any

from roketto.client.listeners import ConsumeContext, ConsumeResult, Listener, ListenerCalls
from roketto.client.message import MessageQueue
from roketto.client.offset_store import BrokerOffsets
from roketto.client.owned_queue import NoSlots, OwnedQueue, PushParts, Slots, Turns
from roketto.client.push_tuning import PushTuning
from roketto.client.rates import Rates
from roketto.client.received import ReceivedMessage
from roketto.client.send_back import SendBack
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.names import retry_topic
from roketto.protocol.record import Record
from unit.client.core_rig import GROUP, MASTER, TOPIC, Rig, route_data, unreachable

SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.LATER


class Broker:
    """A broker that takes everything, until it is told otherwise."""

    def __init__(self) -> None:
        self.is_down = False
        self.refuses: dict[int, int] = {}
        """Request code -> the code that it answers."""
        self.held_by_others: set[MessageQueue] = set()

    def __call__(self, address: str, command: Command) -> Command:
        if self.is_down:
            raise unreachable(address)
        if command.code in self.refuses:
            return command.answer(self.refuses[command.code], remark="refused")
        if command.code == RequestCode.LOCK_BATCH_MQ:
            asked = decode_body(LockBatchRequestBody, command.body).mq_set
            held = [name for name in asked if name not in self.held_by_others]
            return command.answer(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=held)))
        return command.answer()


class PushRig:
    """``parts`` for a listener, and the broker behind them."""

    def __init__(
        self,
        listener: Listener | None = None,
        *,
        in_order: bool = False,
        model: MessageModel = MessageModel.CLUSTERING,
        namespace: str = "",
        slots: Slots | None = None,
        **tuning: Any,
    ) -> None:
        self.broker = Broker()
        self.rig = Rig(self.broker, namespace)
        self.rig.routes[retry_topic(GROUP)] = route_data({"broker-a": {0: MASTER}}, queues=2)
        client = self.rig.client
        made = PushTuning(**tuning)
        self.store = BrokerOffsets(client, GROUP)
        self.parts = PushParts(
            client=client,
            group=GROUP,
            model=model,
            in_order=in_order,
            tuning=made,
            store=self.store,
            calls=ListenerCalls(
                GROUP, listener or succeed, threads_max=made.concurrency,
                timeout_s=made.consume_timeout_s,
            ),
            slots=slots or (Turns(made.concurrency) if in_order else NoSlots()),
            send_back=SendBack(client, GROUP, made.reconsume_limit(in_order)),
            rates=Rates(),
        )  # fmt: skip

    async def know_routes(self) -> None:
        await self.parts.client.routes.get(TOPIC)

    def codes(self) -> list[int]:
        """What was asked, in order, but for routes."""
        return [
            command.code
            for _, command in self.rig.pool.sent
            if command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC
        ]


async def succeed(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
    return SUCCESS


def name(queue_id: int = 0, topic: str = TOPIC) -> MessageQueue:
    return MessageQueue("broker-a", queue_id, topic)


def message(queue_offset: int, body: bytes = b"x", **fields: Any) -> ReceivedMessage:
    record = Record(
        TOPIC, body, queue_offset=queue_offset, log_offset=1000 + queue_offset, **fields
    )
    return ReceivedMessage(record, "broker-a")


def filled(*offsets: int, queue_id: int = 0) -> tuple[OwnedQueue, list[ReceivedMessage]]:
    """A queue with messages at these offsets."""
    queue = OwnedQueue(name(queue_id))
    messages = [message(offset, str(offset).encode()) for offset in offsets]
    queue.messages.put(messages)
    return queue, messages


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that happens at once, in a few turns of the loop."""
    for _ in range(2_000):
        if is_so():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")
