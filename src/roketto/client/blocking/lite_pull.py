"""Blocking: ``roketto.client.lite_pull`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Self

from roketto.client.allocation import Strategy
from roketto.client.blocking.active_consumer import ActiveConsumer
from roketto.client.blocking.client import Client
from roketto.client.facade import inner_of
from roketto.client.lite_limits import LiteLimits
from roketto.client.lite_pull import LitePullConsumer as AsyncLitePullConsumer
from roketto.client.lite_rounds import QueuesListener
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore
from roketto.client.positions import FromWhere
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.client.subscription import ALL_TAGS, Sql
from roketto.protocol.bodies.heartbeat import MessageModel

__all__ = ["LitePullConsumer"]


class LitePullConsumer(ActiveConsumer):
    """Hands out messages of a group's queues when it is polled.

    with LitePullConsumer("orders", "10.0.0.5:9876") as consumer:
        consumer.subscribe("Orders", "new || paid")     # or: consumer.assign(queues)
        while True:
            for message in consumer.poll():
                handle(message)

    The group shares the queues of what it subscribes to; a consumer that is assigned queues reads
    these and no others. ``subscribe`` and ``assign`` may come before the start, and exclude each
    other.

    With ``auto_commit`` a poll says that what earlier ones gave was handled: that is committed
    every five seconds, and at the end. So one thread polls, and handles what it got before it polls
    again; ``for message in consumer`` does it one by one. Without it, ``commit`` says so.
    """

    _inner: AsyncLitePullConsumer

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
        self._hold(
            AsyncLitePullConsumer(
                group,
                name_servers,
                client=inner_of(client),
                settings=settings,
                model=model,
                strategy=strategy,
                from_where=from_where,
                from_time_ms=from_time_ms,
                auto_commit=auto_commit,
                limits=limits,
                store=store,
            )
        )

    @property
    def auto_commit(self) -> bool:
        return self._inner.auto_commit

    @property
    def limits(self) -> LiteLimits:
        return self._inner.limits

    def subscribe(
        self, topic: str, expression: str | Sql = ALL_TAGS, listener: QueuesListener | None = None
    ) -> None:
        """Want messages of a topic, of the queues that are this member's share."""
        self._call(self._inner.subscribe, topic, expression, listener)

    def unsubscribe(self, topic: str) -> None:
        """Want no more messages of a topic."""
        self._call(self._inner.unsubscribe, topic)

    def assign(
        self,
        queues: Collection[MessageQueue],
        expression: str | Sql | Mapping[str, str | Sql] = ALL_TAGS,
    ) -> None:
        """Read these queues, and no longer any others."""
        self._call(self._inner.assign, queues, expression)

    def assignment(self) -> set[MessageQueue]:
        """The queues that it has now."""
        return self._call(self._inner.assignment)

    def watch_queues(self, topic: str, listener: QueuesListener) -> None:
        """Have ``listener`` called with a topic and all its queues whenever they change."""
        self._call(self._inner.watch_queues, topic, listener)

    def poll(
        self, timeout_ms: int | None = None, max_messages: int | None = None
    ) -> list[ReceivedMessage]:
        """The next messages; none if there were none in time."""
        return self._run(self._inner.poll(timeout_ms, max_messages))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        """The next message; the end when the consumer is stopped."""
        return self._next(self._inner.__anext__())

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Hand out nothing of these queues, from now on; those it does not have are passed over."""
        self._call(self._inner.pause, queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on with them."""
        self._call(self._inner.resume, queues)

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message that is handed out; None before the queue has begun."""
        return self._call(self._inner.position, queue)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on at an offset; what was fetched ahead is forgotten."""
        self._run(self._inner.seek(queue, queue_offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still there."""
        self._run(self._inner.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message."""
        self._run(self._inner.seek_to_end(queue))

    def committed(self, queue: MessageQueue) -> int | None:
        """What was last committed, by this consumer or its group; None if nothing was."""
        return self._run(self._inner.committed(queue))

    def commit(
        self,
        offsets: Mapping[MessageQueue, int] | Collection[MessageQueue] | None = None,
        *,
        persist: bool = True,
    ) -> None:
        """Say that messages are handled: all that were handed out, or those before an offset."""
        self._run(self._inner.commit(offsets, persist=persist))

    @property
    def topics(self) -> Collection[str]:
        return self._call(lambda: self._inner.topics)
