"""The lite pull consumer: fetches ahead, hands out when it is polled, and commits what was handled.

No message is skipped: an offset is committed only when all messages before it were handed out, or
are not wanted. After a crash, and when another member takes over a queue, all that was handed out
since the last commit comes again.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from roketto.client.active_consumer import ActiveConsumer, IllegalConsumerError
from roketto.client.allocation import Averagely, Strategy
from roketto.client.client import Client
from roketto.client.errors import ClientClosedError, ClientError, RefusedError
from roketto.client.lite_assignment import LiteAssignment
from roketto.client.lite_limits import LiteLimits
from roketto.client.lite_rounds import LiteRounds, QueuesListener
from roketto.client.lite_stock import Stock
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore
from roketto.client.positions import FromWhere, start_offset
from roketto.client.pulling import Pulled, PullRequest, pull
from roketto.client.rebalance import Rebalance
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.client.subscription import ALL_TAGS, Sql, Subscription, make_subscription
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.running import ProcessQueueInfo
from roketto.protocol.codes import ResponseCode

__all__ = ["LiteLimits", "LitePullConsumer"]

log = logging.getLogger(__name__)

_HALF_AN_HOUR_MS: Final = 30 * 60 * 1000


class LitePullConsumer(ActiveConsumer):
    """Hands out messages of a group's queues when it is polled.

    async with LitePullConsumer("orders", "10.0.0.5:9876") as consumer:
        consumer.subscribe("Orders", "new || paid")     # or: consumer.assign(queues)
        while True:
            for message in await consumer.poll():
                handle(message)

    The group shares the queues of what it subscribes to; a consumer that is assigned queues reads
    these and no others. ``subscribe`` and ``assign`` may come before the start, and exclude each
    other.

    With ``auto_commit`` a poll says that what earlier ones gave was handled: that is committed
    every five seconds, and at the end. So one task polls, and handles what it got before it polls
    again; ``async for message in consumer`` does it one by one. Without it, ``commit`` says so.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Sequence[str] | None = None,
        *,
        client: Client | None = None,
        settings: ClientSettings | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
        strategy: Strategy | None = None,
        from_where: FromWhere = FromWhere.LAST,
        from_time_ms: int | None = None,
        auto_commit: bool = True,
        limits: LiteLimits | None = None,
        store: OffsetStore | None = None,
    ) -> None:
        """``from_where`` is for queues of which the group has no offset.

        ``from_time_ms`` goes with FromWhere.TIMESTAMP; it is half an hour ago if it is left out.
        """
        super().__init__(
            group, name_servers, client=client, settings=settings, model=model,
            from_where=from_where, store=store,
        )  # fmt: skip
        self.auto_commit = auto_commit
        self.limits = limits or LiteLimits()
        self._from_time_ms = wall_ms() - _HALF_AN_HOUR_MS if from_time_ms is None else from_time_ms
        self._wanted: dict[str, Subscription] = {}
        self._is_assigned = False
        """Whether queues are assigned, instead of shared."""
        self._stock = Stock(self.limits)
        self._assignment = LiteAssignment(
            self._stock, self.store, self._start_offset, self._pull, is_auto_commit=auto_commit
        )
        rebalance = Rebalance(self.client, self.group, strategy or Averagely(), model)
        self._rounds = LiteRounds(self.client, rebalance, self._assignment, self.store)
        self._commit_at_s = 0.0
        self._plain_brokers: set[str] = set()
        """Those that know no pulls of this kind."""

    # --- which messages ---------------------------------------------------------------------------

    def subscribe(
        self, topic: str, expression: str | Sql = ALL_TAGS, listener: QueuesListener | None = None
    ) -> None:
        """Want messages of a topic, of the queues that are this member's share.

        ``listener`` is called with the topic and these queues whenever they change.
        """
        if self._is_assigned:
            raise IllegalConsumerError(
                f"consumer {self.group} is assigned queues, and cannot subscribe to {topic} as"
                " well; use another one for that"
            )
        named = self._topic(topic)
        self._want(make_subscription(named, expression, wall_ms()))
        self._rounds.shared[named] = listener
        self._rounds.announce()

    def unsubscribe(self, topic: str) -> None:
        """Want no more messages of a topic."""
        named = self._topic(topic)
        if named in self._rounds.shared:
            del self._rounds.shared[named], self._wanted[named]
            self._assignment.change((), named)
            self._rounds.announce()

    def assign(
        self,
        queues: Collection[MessageQueue],
        expression: str | Sql | Mapping[str, str | Sql] = ALL_TAGS,
    ) -> None:
        """Read these queues, and no longer any others.

        ``expression`` says what is wanted of them, for all topics or for each by its name.
        """
        if self._rounds.shared:
            raise IllegalConsumerError(
                f"consumer {self.group} subscribes to {', '.join(self._rounds.shared)}, and cannot"
                " be assigned queues as well; use another one for that"
            )
        named = [self._named(queue) for queue in queues]
        wanted = [
            make_subscription(self._topic(topic), _expression_for(topic, expression), wall_ms())
            for topic in {queue.topic for queue in queues}
        ]
        self._is_assigned = True
        for subscription in wanted:
            self._want(subscription)
        self._assignment.change(named)
        self._rounds.announce()

    def assignment(self) -> set[MessageQueue]:
        """The queues that it has now."""
        return set(self._assignment.names)

    def watch_queues(self, topic: str, listener: QueuesListener) -> None:
        """Have ``listener`` called with a topic and all its queues whenever they change."""
        self._rounds.watched[self._topic(topic)] = listener
        self._rounds.announce()

    def _want(self, subscription: Subscription) -> None:
        known = self._wanted.get(subscription.topic)
        self._wanted[subscription.topic] = subscription
        if known is not None and not _is_same(known, subscription):
            for queue in self._assignment.queues:
                if queue.name.topic == subscription.topic:
                    queue.refetch()

    # --- messages ---------------------------------------------------------------------------------

    async def poll(
        self, timeout_ms: int | None = None, max_messages: int | None = None
    ) -> list[ReceivedMessage]:
        """The next messages; none if there were none in time.

        They are in the order of their queues, of one queue or of several. A poll that is cancelled
        has taken none. Left out, ``timeout_ms`` is 5 s and ``max_messages`` what one pull brings.
        """
        self._check_running()
        limits = self.limits
        wait_ms = limits.poll_timeout_ms if timeout_ms is None else timeout_ms
        count = limits.pull_count if max_messages is None else max_messages
        if wait_ms < 0 or count < 1:
            raise IllegalConsumerError(
                f"poll for {count} messages and {wait_ms} ms: it takes 1 message or more, and 0 ms"
                " or more"
            )
        self._settle()
        messages = self._stock.take(count)
        if messages or not wait_ms:
            return messages
        try:
            async with asyncio.timeout(wait_ms / 1000):
                while not messages:
                    await self._stock.arrived.wait()
                    self._check_running()
                    messages = self._stock.take(count)
        except TimeoutError:
            pass
        return messages

    def _settle(self) -> None:
        """Whoever polls is done with what it got before."""
        self._stock.settle()
        now_s = monotonic_s()
        if self.auto_commit and now_s >= self._commit_at_s:
            self._commit_at_s = now_s + self.limits.auto_commit_interval_ms / 1000
            self._assignment.commit_handed(self._assignment.names)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message; the end when the consumer is stopped."""
        try:
            while not (messages := await self.poll(max_messages=1)):
                pass
        except ClientClosedError:
            raise StopAsyncIteration from None
        return messages[0]

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Hand out nothing of these queues, from now on; those it does not have are passed over."""
        self._pause(queues, True)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on with them."""
        self._pause(queues, False)

    def _pause(self, queues: Collection[MessageQueue], is_paused: bool) -> None:
        for name in queues:
            queue = self._assignment.get(self._named(name))
            if queue is not None:
                queue.shelf.pause(is_paused)

    # --- where it is ------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message that is handed out; None before the queue has begun."""
        return self._assignment.owned(self._named(queue)).consume_offset

    async def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on at an offset; what was fetched ahead is forgotten.

        IllegalConsumerError if the queue does not have it, NotAssignedError if it is not here.
        """
        self._check_running()
        name = self._named(queue)
        self._assignment.owned(name)
        least = await self._positions.min_offset(name)
        most = await self._positions.max_offset(name)
        if not least <= queue_offset <= most:
            raise IllegalConsumerError(
                f"{name} has no offset {queue_offset}: it takes {least} to {most}"
            )
        self._assignment.owned(name).move(queue_offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still there."""
        self._assignment.owned(self._named(queue))
        queue_offset = await self.min_offset(queue)
        self._assignment.owned(self._named(queue)).move(queue_offset)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message."""
        self._assignment.owned(self._named(queue))
        queue_offset = await self.max_offset(queue)
        self._assignment.owned(self._named(queue)).move(queue_offset)

    async def committed(self, queue: MessageQueue) -> int | None:
        """What was last committed, by this consumer or its group; None if nothing was."""
        self._check_running()
        name = self._named(queue)
        is_mine = self._assignment.get(name) is not None
        found = await self.store.read(name, memory_first=is_mine)
        if self._assignment.get(name) is None:
            self.store.remove(name)  # it is others' to change
        return found

    async def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> None:
        """Say that messages are handled: all that were handed out, or those before an offset.

        ``offsets`` are queues with their offsets, queues alone, or all there are. Brokers have
        them when it returns, and ClientError says that one has not; with ``persist=False`` they
        are told within five seconds. Queues that others have got meanwhile are passed over.
        """
        self._check_running()
        if offsets is None:
            self._assignment.commit_handed(self._assignment.names)
            names = list(self._assignment.names)
        elif isinstance(offsets, Mapping):
            named = {self._named(queue): _checked(offset) for queue, offset in offsets.items()}
            self._assignment.commit(named)
            names = [name for name in named if self._assignment.get(name) is not None]
        else:
            names = [self._named(queue) for queue in offsets]
            self._assignment.commit_handed(names)
        if persist and (failed := await self.store.persist(names)):
            name, error = next(iter(failed.items()))
            raise ClientError(
                f"offsets of {len(failed)} of {len(names)} queues are not kept yet, and sent again"
                f" every few seconds; of {name}: {error}"
            ) from error

    # --- life -------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._assignment.start()
        self._rounds.start()

    async def _end(self) -> None:
        self._stock.arrived.set()  # whoever waits in a poll sees the end
        await self._rounds.stop()
        await self._assignment.close()

    async def _start_offset(self, queue: MessageQueue) -> int:
        return await start_offset(
            self.client, self.store, queue, self._from_where, self._from_time_ms, memory_first=True
        )

    async def _pull(self, queue: MessageQueue, queue_offset: int, broker_id: int) -> Pulled:
        is_lite = queue.broker_name not in self._plain_brokers
        request = self._request(queue, queue_offset, broker_id, is_lite)
        try:
            return await pull(self.client, request)
        except RefusedError as error:
            if not is_lite or error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
        log.info("broker %s is of before 5.0: it is pulled from as it understands it",
                 queue.broker_name)  # fmt: skip
        self._plain_brokers.add(queue.broker_name)
        return await pull(self.client, replace(request, is_lite=False))

    def _request(
        self, queue: MessageQueue, queue_offset: int, broker_id: int, is_lite: bool
    ) -> PullRequest:
        limits = self.limits
        return PullRequest(
            queue,
            self.group,
            self._wanted[queue.topic],
            queue_offset,
            count_max=limits.pull_count,
            suspend_ms=limits.suspend_ms,
            timeout_ms=limits.suspend_timeout_ms,
            is_lite=is_lite,
            sends_expression=True,
            broker_id=broker_id,
        )

    # --- what brokers ask -------------------------------------------------------------------------

    @property
    def topics(self) -> Collection[str]:
        return self._rounds.topics

    def _subscriptions(self) -> Collection[Subscription]:
        """Those of assigned queues are this consumer's alone, and not the group's."""
        return [self._wanted[topic] for topic in self._rounds.shared]

    def _filters(self) -> Collection[Subscription]:
        return self._wanted.values()

    def rebalance_soon(self) -> None:
        self._rounds.soon()

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        await self._assignment.reset(offsets)

    def _queue_infos(self) -> dict[MessageQueue, ProcessQueueInfo]:
        return {
            queue.name: queue.info(self.store.memory(queue.name) or 0)
            for queue in self._assignment.queues
        }


def _expression_for(topic: str, expression: str | Sql | Mapping[str, str | Sql]) -> str | Sql:
    return expression if isinstance(expression, str) else expression.get(topic, ALL_TAGS)


def _is_same(one: Subscription, other: Subscription) -> bool:
    return (one.expression, one.expression_type) == (other.expression, other.expression_type)


def _checked(consume_offset: int) -> int:
    if consume_offset < 0:
        raise IllegalConsumerError(
            f"offset {consume_offset} cannot be committed; it takes 0 or more"
        )
    return consume_offset
