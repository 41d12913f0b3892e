"""Blocking: ``roketto.client.pull`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Collection, Sequence

from roketto.client.allocation import Strategy
from roketto.client.blocking.active_consumer import ActiveConsumer
from roketto.client.blocking.client import Client
from roketto.client.facade import inner_of
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore
from roketto.client.pull import RECONSUME_TIMES_MAX
from roketto.client.pull import PullConsumer as AsyncPullConsumer
from roketto.client.pulling import COUNT_MAX, Pulled
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.client.subscription import ALL_TAGS, Sql
from roketto.protocol.bodies.heartbeat import MessageModel

__all__ = ["PullConsumer"]


class PullConsumer(ActiveConsumer):
    """Pulls when it is told to, from where it is told to.

    with PullConsumer("audit", "10.0.0.5:9876") as consumer:
        for queue in consumer.fetch_subscribe_queues("Orders"):
            offset = consumer.committed(queue) or 0
            pulled = consumer.pull(queue, offset, 32, "new || paid")
            handle(pulled.messages)
            consumer.commit(queue, pulled.next_offset)

    ``topics`` are told to brokers, and their queues are shared by the members of the group
    (``fetch_own_queues``); whatever is not among them can be pulled all the same.
    """

    _inner: AsyncPullConsumer

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
        self._hold(
            AsyncPullConsumer(
                group,
                name_servers,
                client=inner_of(client),
                settings=settings,
                model=model,
                topics=topics,
                strategy=strategy,
                store=store,
            )
        )

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count: int = COUNT_MAX,
        expression: str | Sql = ALL_TAGS,
        *,
        block: bool = False,
        timeout_ms: int | None = None,
    ) -> Pulled:
        """What a queue has from an offset on; go on at ``next_offset`` of the answer."""
        return self._run(
            self._inner.pull(queue, offset, count, expression, block=block, timeout_ms=timeout_ms)
        )

    def send_back(
        self,
        message: ReceivedMessage,
        delay_level: int = 0,
        *,
        reconsume_times_max: int = RECONSUME_TIMES_MAX,
    ) -> None:
        """Let the group get a message again later, from its retry topic; ClientError if not."""
        self._run(
            self._inner.send_back(message, delay_level, reconsume_times_max=reconsume_times_max)
        )

    def fetch_own_queues(self, topic: str) -> list[MessageQueue]:
        """This member's share of the queues of a topic, as it is now; ClientError if unknown."""
        return self._run(self._inner.fetch_own_queues(topic))

    def committed(self, queue: MessageQueue, *, memory_first: bool = False) -> int | None:
        """What was last committed for the group; None if nothing was."""
        return self._run(self._inner.committed(queue, memory_first=memory_first))

    def commit(self, queue: MessageQueue, consume_offset: int) -> None:
        """All before this offset is handled; ClientError if that could not be kept."""
        self._run(self._inner.commit(queue, consume_offset))

    @property
    def topics(self) -> Collection[str]:
        return self._call(lambda: self._inner.topics)
