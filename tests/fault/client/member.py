"""A consumer of ours under watch: it tells a log what it sees, commits and begins with.

It has an offset store of its own that tells what it is told. So it is known where a member begins
with a queue, and what it may let a broker know of it, at the moment when that is decided.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from fault.client.cluster import Cluster, fresh
from fault.client.group_log import LIMITS, LITE, LITE_AUTO, ORDERLY, POLLED_MAX, TUNING, GroupLog
from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.lite_pull import LitePullConsumer
from roketto.client.message import MessageQueue
from roketto.client.offset_store import BrokerOffsets
from roketto.client.positions import FromWhere
from roketto.client.push import PushConsumer
from roketto.client.push_tuning import PushTuning
from roketto.client.received import ReceivedMessage

WORK_S: Final = 0.003
"""How long a message takes, and some take much longer: others overtake them."""

Work = Callable[[ReceivedMessage], Awaitable[None]]


class WatchedOffsets(BrokerOffsets):
    """An offset store that tells a log whatever it might tell a broker."""

    def __init__(self, client: Client, group: str, topic: str, member: "Member") -> None:
        super().__init__(client, group)
        self._topic = topic
        self._member = member

    def update(self, queue: MessageQueue, consume_offset: int, *, increase_only: bool) -> None:
        super().update(queue, consume_offset, increase_only=increase_only)
        self._note(queue)

    def freeze(self, queue: MessageQueue, consume_offset: int) -> None:
        super().freeze(queue, consume_offset)
        self._note(queue)

    def _note(self, queue: MessageQueue) -> None:
        known = self.memory(queue)
        if known is not None and queue.topic == self._topic:
            self._member.log.commit(queue, known)

    def remove(self, queue: MessageQueue) -> None:
        super().remove(queue)
        self._member.log.end(queue, self._member)

    async def read(self, queue: MessageQueue, *, memory_first: bool = True) -> int | None:
        start = await super().read(queue, memory_first=memory_first)
        if queue.topic == self._topic:
            self._member.log.begin(queue, self._member, start or 0)
        return start


class Member:
    """One consumer of a group; ``work`` is what it does with a message after it has seen it.

    await member.start()
    await member.stop()
    await member.crash()        # nothing that it says from now on is heard
    """

    def __init__(
        self,
        cluster: Cluster,
        log: GroupLog,
        group: str,
        topic: str,
        *,
        instance: str | None = None,
        tuning: PushTuning = TUNING,
        work: Work | None = None,
    ) -> None:
        self.log = log
        self.instance = instance or fresh("member")
        self.topic = topic
        client = Client(cluster.settings(instance_name=self.instance))
        self.store = WatchedOffsets(client, group, topic, self)
        self.consumer = self._make(client, group, tuning)
        self._work = work
        self._polling: asyncio.Task[None] | None = None

    def _make(
        self, client: Client, group: str, tuning: PushTuning
    ) -> PushConsumer | LitePullConsumer:
        if self.log.kind in (LITE, LITE_AUTO):
            consumer = LitePullConsumer(
                group, client=client, from_where=FromWhere.FIRST,
                auto_commit=self.log.kind == LITE_AUTO, limits=LIMITS, store=self.store,
            )  # fmt: skip
            consumer.subscribe(self.topic)
            return consumer
        return PushConsumer(
            group, client=client, topics={self.topic: "*"}, listener=self._listen,
            in_order=self.log.kind == ORDERLY, from_where=FromWhere.FIRST, tuning=tuning,
            store=self.store,
        )  # fmt: skip

    @property
    def queues(self) -> Collection[MessageQueue]:
        """Those of the topic that it has now."""
        consumer = self.consumer
        found = consumer.queues if isinstance(consumer, PushConsumer) else consumer.assignment()
        return [queue for queue in found if queue.topic == self.topic]

    async def start(self) -> None:
        await self.consumer.start()
        if isinstance(self.consumer, LitePullConsumer):
            self._polling = asyncio.create_task(self._poll(self.consumer))

    async def stop(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self.consumer.stop()
        self.log.leave(self)

    async def crash(self) -> None:
        """Cut it off, and then clean up behind it: no word of it reaches anybody."""
        pool = self.consumer.client.pool
        pool._closed = True
        for connection in tuple(pool._connections.values()):
            connection.abort("the consumer has crashed")
        await self.stop()

    async def check(self) -> None:
        """Raise what has ended its loop."""
        if self._polling is not None and self._polling.done():
            await self._polling

    async def _listen(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult:
        for message in messages:
            await self._see(message)
        return ConsumeResult.SUCCESS

    async def _see(self, message: ReceivedMessage) -> None:
        self.log.see(self, message, self.store.memory(message.queue))
        self.log.busy += 1
        try:
            await (self._work or work)(message)
        finally:
            self.log.busy -= 1

    async def _poll(self, consumer: LitePullConsumer) -> None:
        """Handle what polls give, and commit it; who cannot commit goes on, and tries again."""
        while True:
            for message in await consumer.poll(1_000, POLLED_MAX):
                await self._see(message)
            if consumer.auto_commit:
                continue
            try:
                await consumer.commit()
            except ClientError:
                await asyncio.sleep(0.05)


async def work(message: ReceivedMessage) -> None:
    """What a member does unless it is told otherwise."""
    is_slow = message.queue_offset % 16 == 0
    await asyncio.sleep(WORK_S * (12 if is_slow else 1))
