"""The push consumer: gets messages of its group's topics, and calls a listener with them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.allocation import Averagely, Strategy
from roketto.client.client import Client
from roketto.client.concurrent import ConcurrentConsumption
from roketto.client.consumption import Consumption
from roketto.client.errors import ClientClosedError, ClientError, NotStartedError
from roketto.client.iteration import Iteration, OpenMessage
from roketto.client.listeners import (
    ConsumeContext,
    ConsumeHook,
    Listener,
    ListenerCalls,
    NotBegunError,
)
from roketto.client.message import MessageQueue
from roketto.client.offset_store import (
    BrokerOffsets,
    LocalOffsets,
    OffsetStore,
    local_offsets_path,
)
from roketto.client.orderly import OrderlyConsumption
from roketto.client.owned_queue import NoSlots, OwnedQueue, PushParts, Turns
from roketto.client.owned_queues import OwnedQueues
from roketto.client.positions import FromWhere
from roketto.client.pull_loop import PullLoop
from roketto.client.push_rounds import PushRounds, QueuesListener
from roketto.client.push_subscriptions import PushSubscriptions
from roketto.client.push_tuning import PushTuning
from roketto.client.queue_locks import QueueLocks
from roketto.client.rates import Rates
from roketto.client.rebalance import Rebalance
from roketto.client.received import ReceivedMessage
from roketto.client.running_info import direct_message, direct_result, make_running_info
from roketto.client.send_back import SendBack
from roketto.client.settings import ClientSettings
from roketto.client.subscription import ALL_TAGS, Sql, Subscription
from roketto.clock import wall_ms
from roketto.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel
from roketto.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import check_group, retry_topic
from roketto.protocol.record import Record

__all__ = ["PushConsumer"]

log = logging.getLogger(__name__)

_NOT_A_GROUP: Final = "DEFAULT_CONSUMER"
"""What Java calls a group that nobody has named, and refuses."""
_HALF_AN_HOUR_MS: Final = 30 * 60 * 1000
_OTHERS_S: Final = 0.5
"""How long a member waits with queues that another may have had: until it has kept its offsets."""


class PushConsumer:
    """A member of a consumer group; started once, with ``async with`` or start() and stop().

    async def listen(messages, context):
        for message in messages:
            print(message.body)
        return ConsumeResult.SUCCESS

    async with PushConsumer("orders", topics={"Orders": "new || paid"}, listener=listen):
        await asyncio.Event().wait()

    A listener may be a plain function, too, and runs in a thread then. Without one:

    async with PushConsumer("orders", topics={"Orders": "*"}) as consumer:
        async for message in consumer:      # the one before is consumed
            print(message.body)             # given back if this raises or leaves the loop

    Messages are delivered at least once. The members of a CLUSTERING group share the queues; those
    of a BROADCASTING one all get everything, and a message that they cannot consume does not come
    again. ``in_order`` keeps the order of each queue; what cannot be consumed is tried again until
    it is. ``from_where`` counts where the group has not been before; TIMESTAMP goes with
    ``from_time_ms``, which is half an hour ago unless it is given. Names have no namespace here,
    but for those of queues.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Sequence[str] | None = None,
        *,
        topics: Mapping[str, str | Sql] | None = None,
        listener: Listener | None = None,
        in_order: bool = False,
        model: MessageModel = MessageModel.CLUSTERING,
        from_where: FromWhere = FromWhere.LAST,
        from_time_ms: int | None = None,
        strategy: Strategy | None = None,
        tuning: PushTuning | None = None,
        store: OffsetStore | None = None,
        offsets_folder: Path | None = None,
        hooks: Sequence[ConsumeHook] = (),
        on_queues: QueuesListener | None = None,
        client: Client | None = None,
        settings: ClientSettings | None = None,
    ) -> None:
        self.client = client = _make_client(group, name_servers, client, settings, model)
        self.group = client.wrap(_checked_group(group))
        """With the namespace, as brokers know it."""
        self._from_where = from_where
        self._from_time_ms = wall_ms() - _HALF_AN_HOUR_MS if from_time_ms is None else from_time_ms
        self._strategy = strategy or Averagely()
        self._iteration = Iteration() if listener is None else None
        tuning = tuning or PushTuning()
        if self._iteration is not None:
            listener = self._iteration.listen
            tuning = replace(tuning, batch_max=1)
        assert listener is not None
        self._parts = parts = PushParts(
            client=client,
            group=self.group,
            model=model,
            in_order=in_order,
            tuning=tuning,
            store=store or self._own_store(model, offsets_folder),
            calls=ListenerCalls(
                self.group, listener, threads_max=tuning.concurrency,
                timeout_s=tuning.consume_timeout_s, hooks=hooks,
            ),
            slots=self._iteration or (Turns(tuning.concurrency) if in_order else NoSlots()),
            send_back=SendBack(client, self.group, tuning.reconsume_limit(in_order)),
            rates=Rates(),
        )  # fmt: skip
        self._subscriptions = PushSubscriptions(client, self.group, model, topics or {})
        self._locks = QueueLocks(client, self.group)
        self._locks.on_lost = self._lost
        self._queues = OwnedQueues(parts, self._locks, self._run_loop)
        self._consumption: Consumption = (
            OrderlyConsumption(parts, self._locks)
            if in_order
            else ConcurrentConsumption(parts, lambda: self._queues)
        )
        self._rounds = PushRounds(
            client, Rebalance(client, self.group, self._strategy, model), self._queues,
            self._subscriptions, on_queues,
        )  # fmt: skip
        self._renewing: asyncio.Task[None] | None = None
        self._started_ms = 0
        self._is_stopped = False
        self._is_paused = False

    def _own_store(self, model: MessageModel, folder: Path | None) -> OffsetStore:
        if model is MessageModel.BROADCASTING:
            return LocalOffsets(local_offsets_path(self.client.id, self.group, folder))
        return BrokerOffsets(self.client, self.group)

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin; a consumer is started once. RefusedError if a broker refuses a filter."""
        if self._started_ms:
            raise IllegalConsumerError(f"consumer {self.group} was started before; make a new one")
        self._started_ms = wall_ms()
        try:
            await self.client.start()
            await self._parts.store.load()
            for topic in self.topics:
                await self._find_route(topic)
            await self._subscriptions.check_all()
            await self.client.add_consumer(self)
            self._subscriptions.mark_told()
        except BaseException:
            await self.stop()
            raise
        self._consumption.start()
        self._rounds.start()
        if self._parts.needs_locks:
            renewal = self._locks.renew(lambda: self._queues)
            self._renewing = asyncio.get_running_loop().create_task(renewal)

    async def _find_route(self, topic: str) -> None:
        try:
            await self.client.routes.get(topic)
        except ClientError as error:
            level = logging.DEBUG if topic == retry_topic(self.group) else logging.WARNING
            log.log(level, "group %s waits for its topic: %s", self.group, error)

    async def stop(self) -> None:
        """End: wait for listeners, keep offsets, give back locks, take leave. Once is enough."""
        if not self._started_ms or self._is_stopped:
            return
        self._is_stopped = True
        try:
            await self._end()
            if any(consumer is self for consumer in self.client.inbound.consumers):
                await self.client.remove_consumer(self)
        finally:
            self._parts.calls.close()
            await self.client.stop()

    async def _end(self) -> None:
        await self._rounds.stop()
        await self._queues.stop_pulling()
        if self._iteration is not None:
            self._iteration.close()
        await self._consumption.stop()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._queues.give_up()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _check_running(self) -> None:
        if self._is_stopped:
            raise ClientClosedError(f"consumer {self.group} was stopped; make a new one")
        if not self._started_ms:
            raise NotStartedError(
                f"consumer {self.group} is not started: use it with `async with`, or await its"
                " start() first"
            )

    # --- what users call --------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[OpenMessage]:
        """Messages one after the other, of a consumer without a listener (iteration.py)."""
        if self._iteration is None:
            raise IllegalConsumerError(
                f"consumer {self.group} has a listener, which gets all messages; make one without"
            )
        if not self._is_stopped:
            self._check_running()
        return self._iteration.messages()

    async def subscribe(self, topic: str, expression: str | Sql = ALL_TAGS) -> None:
        """Want messages of a topic, or others than before; RefusedError if a broker refuses it."""
        if not self._started_ms:
            self._subscriptions.add(topic, expression)
            return
        self._check_running()
        if self._subscriptions.get(topic) is not None:
            # What is being pulled is chosen in the old way: it is not mixed with the new one.
            await self.unsubscribe(topic)
        wanted = self._subscriptions.add(topic, expression)
        try:
            await self._find_route(wanted.topic)
            await self._subscriptions.check(wanted)
        except BaseException:
            self._subscriptions.remove(topic)
            raise
        await self._subscriptions.tell()
        self.rebalance_soon()

    async def unsubscribe(self, topic: str) -> None:
        """Want nothing of a topic any more; its queues are given up."""
        self._subscriptions.remove(topic)
        if self._started_ms:
            self._check_running()
            await self._queues.keep_topics(self.topics)
            await self._subscriptions.tell()

    def pause(self) -> None:
        """Pull nothing more; what is here is consumed."""
        self._is_paused = True

    def resume(self) -> None:
        """Pull again."""
        self._is_paused = False
        self.rebalance_soon()

    @property
    def queues(self) -> list[MessageQueue]:
        """Those of the group that this consumer has now."""
        return self._queues.names()

    # --- what its loops call ----------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def count_max(self) -> int:
        return self._parts.tuning.count_max(len(self._queues))

    @property
    def mib_max(self) -> int:
        return self._parts.tuning.mib_max(len(self._queues))

    def wanted(self, topic: str) -> Subscription | None:
        return self._subscriptions.told(topic)

    def submit(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        self._consumption.submit(queue, messages)

    async def relock(self, queue: OwnedQueue) -> None:
        await self._locks.lock([queue])

    async def move(self, queue: MessageQueue, consume_offset: int) -> None:
        await self._queues.move(queue, consume_offset)
        self.rebalance_soon()

    def heartbeat_soon(self) -> None:
        self._rounds.heartbeat_soon()

    def _lost(self, queue: OwnedQueue) -> None:
        self._queues.lose(queue)
        self.rebalance_soon()

    async def _run_loop(self, queue: OwnedQueue, is_shared: bool) -> None:
        delay_s = _OTHERS_S if is_shared and not self._parts.needs_locks else 0.0
        loop = PullLoop(self._parts, queue, self, self._from_where, self._from_time_ms, delay_s)
        await loop.run()

    # --- what brokers ask -------------------------------------------------------------------------

    @property
    def topics(self) -> Collection[str]:
        """Those it is subscribed to, with that of its retries, as brokers know them."""
        return list(self._subscriptions.topics)

    def describe(self) -> ConsumerData:
        return ConsumerData(
            consume_from_where=self._from_where.value,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            group_name=self.group,
            message_model=self._parts.model,
            subscription_data_set=self._subscriptions.data(),
        )

    def disconnected(self, broker_name: str) -> None:
        self._queues.doubt(broker_name)

    def rebalance_soon(self) -> None:
        self._rounds.soon()

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        await self._queues.reset(offsets)
        self.rebalance_soon()

    def offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return self._parts.store.offsets(topic)

    def running_info(self) -> ConsumerRunningInfo:
        return make_running_info(
            self._parts, self._queues, self._subscriptions.data(), started_ms=self._started_ms,
            from_where=self._from_where, timestamp_ms=self._from_time_ms,
            strategy_name=self._strategy.name,
        )  # fmt: skip

    async def consume_directly(
        self, record: Record, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        parts = self._parts
        message = direct_message(parts, record, broker_name)
        try:
            async with asyncio.timeout(parts.tuning.consume_timeout_s):
                consumed = await parts.calls.run([message], ConsumeContext(message.queue))
        except (NotBegunError, TimeoutError) as error:
            raise ClientError(
                f"{message!r} was not consumed: nobody iterates over the consumer, or took longer"
                f" than {parts.tuning.consume_timeout_s:g} s"
            ) from error
        return direct_result(consumed, in_order=parts.in_order)


def _make_client(
    group: str,
    name_servers: str | Sequence[str] | None,
    client: Client | None,
    settings: ClientSettings | None,
    model: MessageModel,
) -> Client:
    if client is None:
        settings = settings or ClientSettings()
        if name_servers is not None:
            settings = replace(settings, name_servers=name_servers)
        return Client(settings, keeps_instance=model is MessageModel.BROADCASTING)
    if name_servers is not None or settings is not None:
        raise IllegalConsumerError(
            f"consumer {group} is given a client, and settings that only a new one would have; give"
            " it one of them"
        )
    return client


def _checked_group(group: str) -> str:
    try:
        check_group(group)
    except IllegalNameError as error:
        raise IllegalConsumerError(error.reason) from error
    if group == _NOT_A_GROUP:
        raise IllegalConsumerError(f"group {group} is the name of no group; choose another")
    return group
