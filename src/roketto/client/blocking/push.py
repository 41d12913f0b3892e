"""Blocking: ``roketto.client.push`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from roketto.client.allocation import Strategy
from roketto.client.blocking.client import Client
from roketto.client.facade import LivingFacade, OpenMessage, inner_of
from roketto.client.listeners import ConsumeHook, Listener
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore
from roketto.client.positions import FromWhere
from roketto.client.push import PushConsumer as AsyncPushConsumer
from roketto.client.push_rounds import QueuesListener
from roketto.client.push_tuning import PushTuning
from roketto.client.settings import ClientSettings
from roketto.client.subscription import ALL_TAGS, Sql
from roketto.protocol.bodies.heartbeat import MessageModel

__all__ = ["PushConsumer"]


class PushConsumer(LivingFacade[AsyncPushConsumer]):
    """A member of a consumer group; started once, with ``with`` or start() and stop().

    def listen(messages, context):
        for message in messages:
            print(message.body)
        return ConsumeResult.SUCCESS

    with PushConsumer("orders", topics={"Orders": "new || paid"}, listener=listen):
        threading.Event().wait()

    A listener may be a plain function, too, and runs in a thread then. Without one:

    with PushConsumer("orders", topics={"Orders": "*"}) as consumer:
        for message in consumer:      # the one before is consumed
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
        self._hold(
            AsyncPushConsumer(
                group,
                name_servers,
                topics=topics,
                listener=listener,
                in_order=in_order,
                model=model,
                from_where=from_where,
                from_time_ms=from_time_ms,
                strategy=strategy,
                tuning=tuning,
                store=store,
                offsets_folder=offsets_folder,
                hooks=hooks,
                on_queues=on_queues,
                client=inner_of(client),
                settings=settings,
            )
        )

    @property
    def group(self) -> str:
        return self._inner.group

    def __iter__(self) -> Iterator[OpenMessage]:
        """Messages one after the other, of a consumer without a listener (iteration.py)."""
        return self._iterate(self._inner.__aiter__, OpenMessage)

    def subscribe(self, topic: str, expression: str | Sql = ALL_TAGS) -> None:
        """Want messages of a topic, or others than before; RefusedError if a broker refuses it."""
        self._run_early(self._inner.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Want nothing of a topic any more; its queues are given up."""
        self._run_early(self._inner.unsubscribe(topic))

    def pause(self) -> None:
        """Pull nothing more; what is here is consumed."""
        self._call(self._inner.pause)

    def resume(self) -> None:
        """Pull again."""
        self._call(self._inner.resume)

    @property
    def queues(self) -> list[MessageQueue]:
        """Those of the group that this consumer has now."""
        return self._call(lambda: self._inner.queues)

    @property
    def is_paused(self) -> bool:
        return self._call(lambda: self._inner.is_paused)

    @property
    def topics(self) -> Collection[str]:
        """Those it is subscribed to, with that of its retries, as brokers know them."""
        return self._call(lambda: self._inner.topics)
