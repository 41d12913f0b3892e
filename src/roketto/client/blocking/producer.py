"""Blocking: ``roketto.client.producer`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Iterable, Sequence

from roketto.client.blocking.client import Client
from roketto.client.facade import LivingFacade, inner_of
from roketto.client.hooks import SendHooks
from roketto.client.message import Message, MessageQueue, SendResult
from roketto.client.producer import Producer as AsyncProducer
from roketto.client.received import ReceivedMessage
from roketto.client.selectors import Selector
from roketto.client.send_settings import SendSettings
from roketto.client.settings import ClientSettings

__all__ = ["Producer"]


class Producer(LivingFacade[AsyncProducer]):
    """Sends messages, from ``start`` to ``stop``; any number of threads may use it at once.

    with Producer("orders", "127.0.0.1:9876") as producer:
        result = producer.send(Message("Orders", b"...", keys=["17"]))
        reply = producer.request(Message("Prices", b"tea?"), timeout_ms=2_000)

    With ``client`` it shares the connections of others; without, it has its own. Routes of
    ``topics`` are asked for at the start, so that the first send need not.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Sequence[str] | None = None,
        *,
        client: Client | None = None,
        settings: ClientSettings | None = None,
        sending: SendSettings | None = None,
        topics: Iterable[str] = (),
    ) -> None:
        self._hold(
            AsyncProducer(
                group,
                name_servers,
                client=inner_of(client),
                settings=settings,
                sending=sending,
                topics=topics,
            )
        )

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def sending(self) -> SendSettings:
        return self._inner.sending

    @property
    def hooks(self) -> SendHooks:
        """Those who look at each send, or forbid it."""
        return self._call(lambda: self._inner.hooks)

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: object = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send a message, and return when it is stored."""
        return self._run(
            self._inner.send(
                message, queue=queue, selector=selector, arg=arg, timeout_ms=timeout_ms
            )
        )

    def send_one_way(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: object = None,
    ) -> None:
        """Hand a message to the network. Nobody says whether it is stored, and it may be lost."""
        self._run(self._inner.send_one_way(message, queue=queue, selector=selector, arg=arg))

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic with one request; all are stored, or none is."""
        return self._run(self._inner.send_batch(messages, queue=queue, timeout_ms=timeout_ms))

    def request(
        self,
        message: Message,
        timeout_ms: int | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: object = None,
    ) -> ReceivedMessage:
        """Send a message that asks, and return what a consumer of it replies."""
        return self._run(
            self._inner.request(message, timeout_ms, queue=queue, selector=selector, arg=arg)
        )

    def recall(self, topic: str, handle: str) -> str:
        """Take back a delayed message by the ``recall_handle`` of its result; its id."""
        return self._run(self._inner.recall(topic, handle))

    def fetch_publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be sent to, as its name server knows them now."""
        return self._run(self._inner.fetch_publish_queues(topic))
