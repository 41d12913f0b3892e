"""The pull consumer: the caller chooses queue and offset of every pull, and keeps the offsets."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from roketto.client.active_consumer import ActiveConsumer, IllegalConsumerError
from roketto.client.allocation import Averagely, Strategy
from roketto.client.calls import expect_success
from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore
from roketto.client.pulling import COUNT_MAX, Pulled, PullRequest, PullStatus, pull
from roketto.client.rebalance import Rebalance
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.client.subscription import ALL_TAGS, Sql, Subscription, make_subscription
from roketto.clock import wall_ms
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.send import ConsumerSendMsgBackRequest

__all__ = ["PullConsumer", "PullStatus", "Pulled"]

RECONSUME_TIMES_MAX: Final = 16
"""How often a message is given back before it goes to the dead letters."""

_SUSPEND_MS: Final = 20_000
_SUSPEND_TIMEOUT_MS: Final = 30_000
_PULL_TIMEOUT_MS: Final = 10_000
_SEND_BACK_TIMEOUT_MS: Final = 3_000
"""Java's brokerSuspendMaxTimeMillis, consumerTimeoutMillisWhenSuspend, consumerPullTimeoutMillis,
and what its pull consumer gives a message that is sent back."""


class PullConsumer(ActiveConsumer):
    """Pulls when it is told to, from where it is told to.

    async with PullConsumer("audit", "10.0.0.5:9876") as consumer:
        for queue in await consumer.fetch_subscribe_queues("Orders"):
            offset = await consumer.committed(queue) or 0
            pulled = await consumer.pull(queue, offset, 32, "new || paid")
            handle(pulled.messages)
            await consumer.commit(queue, pulled.next_offset)

    ``topics`` are told to brokers, and their queues are shared by the members of the group
    (``fetch_own_queues``); whatever is not among them can be pulled all the same.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Sequence[str] | None = None,
        *,
        client: Client | None = None,
        settings: ClientSettings | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
        topics: Collection[str] = (),
        strategy: Strategy | None = None,
        store: OffsetStore | None = None,
    ) -> None:
        super().__init__(
            group, name_servers, client=client, settings=settings, model=model, store=store
        )
        self._registered = [make_subscription(self._topic(topic)) for topic in topics]
        self._rebalance = Rebalance(self.client, self.group, strategy or Averagely(), model)
        self._met = {subscription.topic for subscription in self._registered}

    # --- messages ---------------------------------------------------------------------------------

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count: int = COUNT_MAX,
        expression: str | Sql = ALL_TAGS,
        *,
        block: bool = False,
        timeout_ms: int | None = None,
    ) -> Pulled:
        """What a queue has from an offset on; go on at ``next_offset`` of the answer.

        With ``block`` the broker waits up to 20 s for a message if there is none. Without messages
        the status says why: NO_NEW, NO_MATCHED, or OFFSET_ILLEGAL.
        """
        self._check_running()
        if offset < 0 or count < 1:
            raise IllegalConsumerError(
                f"pull of {count} messages from offset {offset} of {queue}: it takes 1 message or"
                " more, and offset 0 or more"
            )
        named = await self._meet(queue)
        limit_ms = _SUSPEND_TIMEOUT_MS if block else _PULL_TIMEOUT_MS
        request = PullRequest(
            named,
            self.group,
            make_subscription(named.topic, expression, wall_ms()),
            offset,
            count_max=count,
            suspend_ms=_SUSPEND_MS if block else 0,
            timeout_ms=limit_ms if timeout_ms is None else timeout_ms,
            sends_expression=True,
        )
        return await pull(self.client, request)

    async def send_back(
        self,
        message: ReceivedMessage,
        delay_level: int = 0,
        *,
        reconsume_times_max: int = RECONSUME_TIMES_MAX,
    ) -> None:
        """Let the group get a message again later, from its retry topic; ClientError if not.

        ``delay_level`` 0 leaves it to the broker how much later; below zero it goes to the dead
        letters at once.
        """
        self._check_running()
        request = ConsumerSendMsgBackRequest(
            log_offset=message.log_offset,
            group=self.group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.record.topic,
            max_reconsume_times=reconsume_times_max,
            target_broker_name=message.broker_name,
        )
        address = await self.client.routes.master_of(message.broker_name, message.record.topic)
        answer = await self.client.calls.ask(
            address, RequestCode.CONSUMER_SEND_MSG_BACK, request, timeout_ms=_SEND_BACK_TIMEOUT_MS
        )
        expect_success(address, answer)

    # --- where it is ------------------------------------------------------------------------------

    async def fetch_own_queues(self, topic: str) -> list[MessageQueue]:
        """This member's share of the queues of a topic, as it is now; ClientError if unknown.

        Shares change whenever members come and go: ask again from time to time.
        """
        self._check_running()
        queues = await self._rebalance.assign(self._topic(topic))
        if queues is None:
            raise ClientError(
                f"the share of group {self.group} in {topic} cannot be told now; ask again later"
            )
        return queues

    async def committed(self, queue: MessageQueue, *, memory_first: bool = False) -> int | None:
        """What was last committed for the group; None if nothing was."""
        self._check_running()
        return await self.store.read(await self._meet(queue), memory_first=memory_first)

    async def commit(self, queue: MessageQueue, consume_offset: int) -> None:
        """All before this offset is handled; ClientError if that could not be kept."""
        self._check_running()
        if consume_offset < 0:
            raise IllegalConsumerError(
                f"offset {consume_offset} of {queue} cannot be committed; it takes 0 or more"
            )
        named = await self._meet(queue)
        self.store.update(named, consume_offset, increase_only=False)
        for error in (await self.store.persist([named])).values():
            raise ClientError(f"offset {consume_offset} of {named} is not kept: {error}") from error

    async def _meet(self, queue: MessageQueue) -> MessageQueue:
        """Let the brokers of a topic know the group when it is first used: not all make it then."""
        named = self._named(queue)
        if named.topic not in self._met:
            await self.client.routes.get(named.topic)
            await self.client.send_heartbeats()
            self._met.add(named.topic)
        return named

    # --- what brokers ask -------------------------------------------------------------------------

    @property
    def topics(self) -> Collection[str]:
        return [subscription.topic for subscription in self._registered]

    def _subscriptions(self) -> Collection[Subscription]:
        return self._registered

    def rebalance_soon(self) -> None:
        """Nothing: the caller asks for its share when it wants to know."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """What is in memory counts no longer; the caller sees it when it asks what is committed."""
        for queue in offsets:
            self.store.remove(queue)

    async def _begin(self) -> None:
        """Nothing runs between two pulls."""

    async def _end(self) -> None:
        """Whatever was committed is kept already."""
