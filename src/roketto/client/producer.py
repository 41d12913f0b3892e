"""Sends messages: one, many, with or without an answer, as a request, and takes them back."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Self

from roketto.client.batching import Batcher
from roketto.client.client import Client
from roketto.client.delivery import Delivery
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    IllegalMessageError,
    SendFailedError,
)
from roketto.client.hooks import SendHooks
from roketto.client.marked import MarkedMessage, mark
from roketto.client.message import Message, MessageQueue, SendResult
from roketto.client.recall import recall
from roketto.client.received import ReceivedMessage
from roketto.client.replies import replies_of, request_marks
from roketto.client.selectors import Selector, hash_of_key
from roketto.client.send_settings import SendSettings
from roketto.client.sending import Item, Preparation
from roketto.client.settings import ClientSettings
from roketto.client.targets import Target, Targets
from roketto.clock import monotonic_s
from roketto.protocol import property_names as names
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.names import check_group
from roketto.protocol.record import Record

__all__ = ["Producer"]

log = logging.getLogger(__name__)

_NOT_A_GROUP: Final = "DEFAULT_PRODUCER"
"""What Java calls a group that nobody has named, and refuses."""


class Producer:
    """Sends messages, from ``start`` to ``stop``; any number of coroutines may use it at once.

    async with Producer("orders", "127.0.0.1:9876") as producer:
        result = await producer.send(Message("Orders", b"...", keys=["17"]))
        reply = await producer.request(Message("Prices", b"tea?"), timeout_ms=2_000)

    With ``client`` it shares the connections of others; without, it has its own. Routes of
    ``topics`` are asked for at the start, so that the first send need not.

    For those who derive from it: ``_send_alone`` sends one message as ``send`` does, but never in a
    batch. Give it a ``MarkedMessage`` (marked.py) for properties that users do not set: a half
    message is ``mark(message, {"TRAN_MSG": "true", "PGROUP": self.group})``. ``check_transaction``
    is called when a broker asks about one. Whoever wants to know of each send adds a hook to
    ``hooks``.
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
        if client is None:
            settings = settings or ClientSettings()
            if name_servers is not None:
                settings = replace(settings, name_servers=name_servers)
            client = Client(settings)
        elif name_servers is not None or settings is not None:
            raise ClientError(
                f"producer {group} is given a client, and settings that only a new one would have;"
                " give it one of them"
            )
        self.client = client
        self.group = client.wrap(_checked_group(group))
        """As brokers know it: with the namespace."""
        self.sending = sending = sending or SendSettings()
        self._topics = list(topics)
        self._targets = Targets(client, sending.template_topic, sending.template_queues)
        self._preparation = Preparation(
            self.group, sending, client.unique_ids, client.settings.namespace
        )
        self._delivery = Delivery(client, self.group, sending)
        self._batcher: Batcher | None = None
        if sending.batches is not None:
            self._batcher = Batcher(self._send_items, sending.batches, sending.body_bytes_max)
        self._introduced: set[str] = set()
        self._is_open = False
        self._is_closed = False

    @property
    def hooks(self) -> SendHooks:
        """Those who look at each send, or forbid it."""
        return self._delivery.hooks

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Let brokers know it; ClientError if a producer of its group is there already."""
        if self._is_closed:
            raise ClientClosedError(f"producer {self.group} was stopped; make a new one")
        if self._is_open:
            return
        await self.client.start()
        try:
            for topic in self._topics:
                await self._targets.find(topic)
            await self.client.add_producer(self)
        except BaseException:
            await self.client.stop()
            raise
        self._delivery.start()
        self._is_open = True

    async def stop(self) -> None:
        """Send what waits, let what is under way end, and take leave of brokers."""
        if not self._is_open:
            return
        self._is_open, self._is_closed = False, True
        try:
            if self._batcher is not None:
                await self._batcher.close()
            await self._delivery.stop()
            await self.client.remove_producer(self)
        finally:
            await self.client.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError(f"producer {self.group} was stopped; make a new one")
        self.client.check_started()
        raise ClientError(f"producer {self.group} is not started: await its start() first")

    def check_transaction(
        self, address: str, request: CheckTransactionStateRequest, half: Record
    ) -> None:
        """A broker asks about a transaction, which a plain producer has none of."""
        log.warning(
            "%s asks producer group %s about a transaction of %s; it makes none, and some other"
            " member of the group does", address, self.group, half.topic,
        )  # fmt: skip

    # --- one message ------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: object = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send a message, and return when it is stored.

        It goes to ``queue``, or to the one that ``selector`` finds for ``arg``, or to that of its
        ``sharding_key``: then there is one attempt. Otherwise queues take turns, and there are
        retries. IllegalMessageError: nobody would take it. TopicNotFoundError: there is nobody.
        SendFailedError: nobody has.
        """
        batcher = self._batcher
        if batcher is not None and timeout_ms is None and batcher.takes(message):
            return await self._send_batched(batcher, message, queue, selector, arg)
        deadline_s, limit_ms = self._begin(timeout_ms)
        target = self._targets.known(message.topic)
        if target is None:
            target = await self._find(message.topic, deadline_s, limit_ms)
        outgoing = self._preparation.prepare(message, target.name)
        chosen = queue
        if queue is not None or selector is not None or message.sharding_key is not None:
            chosen = self._choose(message, target, queue, selector, arg)
        broker_name = message.broker_name if isinstance(message, MarkedMessage) else ""
        return await self._delivery.send(
            outgoing, target, chosen, deadline_s, limit_ms, broker_name
        )

    async def _send_batched(
        self,
        batcher: Batcher,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: object,
    ) -> SendResult:
        deadline_s, limit_ms = self._begin(None)
        target = self._targets.known(message.topic)
        if target is None:
            target = await self._find(message.topic, deadline_s, limit_ms)
        item = self._preparation.item(message)
        return await batcher.add(item, self._choose(message, target, queue, selector, arg))

    async def _send_alone(
        self,
        message: Message,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: object = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        limit_ms = self.sending.timeout_ms if timeout_ms is None else timeout_ms
        return await Producer.send(
            self, message, queue=queue, selector=selector, arg=arg, timeout_ms=limit_ms
        )

    async def send_one_way(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: object = None,
    ) -> None:
        """Hand a message to the network. Nobody says whether it is stored, and it may be lost."""
        deadline_s, limit_ms = self._begin(None)
        target = self._targets.known(message.topic)
        if target is None:
            target = await self._find(message.topic, deadline_s, limit_ms)
        outgoing = self._preparation.prepare(message, target.name)
        chosen = self._choose(message, target, queue, selector, arg)
        await self._delivery.send_one_way(outgoing, target, chosen, deadline_s, limit_ms)

    def _begin(self, timeout_ms: int | None) -> tuple[float, int]:
        """When a send that begins now has to end, and how long that is."""
        if not self._is_open:
            self._check_open()
        limit_ms = self.sending.timeout_ms if timeout_ms is None else timeout_ms
        return monotonic_s() + limit_ms / 1000, limit_ms

    async def _find(self, topic: str, deadline_s: float, timeout_ms: int) -> Target:
        try:
            async with asyncio.timeout(deadline_s - monotonic_s()):
                return await self._targets.find(topic)
        except TimeoutError:
            raise SendFailedError(
                f"a message for {topic} was not sent: {self.client.names.current} has not told the"
                f" topic's route within {timeout_ms} ms",
                [],
            ) from None

    def _choose(
        self,
        message: Message,
        target: Target,
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: object,
    ) -> MessageQueue | None:
        """The queue that a message must go to; None if any will do."""
        if queue is None:
            if selector is None:
                key = message.sharding_key
                return None if key is None else target.queues[hash_of_key(key, len(target.queues))]
            queue = selector(target.queues, message, arg)
        elif selector is not None:
            raise IllegalMessageError(
                f"a message for {message.topic} has a queue and a selector; give one of them"
            )
        if not isinstance(queue, MessageQueue) or self._targets.name_of(queue.topic) != target.name:
            raise IllegalMessageError(
                f"a message for {message.topic} cannot go to {queue!r}; give a queue of its topic"
            )
        return queue

    # --- many messages ----------------------------------------------------------------------------

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic with one request; all are stored, or none is.

        ``message_id`` and ``offset_id`` of the result are those of all, with commas between them;
        ``queue_offset`` is that of the first. ``batching.split_result`` makes one for each.
        """
        deadline_s, limit_ms = self._begin(timeout_ms)
        items = [self._preparation.item(message) for message in messages]
        return await self._send_together(items, queue, deadline_s, limit_ms)

    async def _send_together(
        self, items: list[Item], queue: MessageQueue | None, deadline_s: float, limit_ms: int
    ) -> SendResult:
        if not items:
            raise IllegalMessageError("a batch has no message; give it at least one")
        first = items[0].message
        target = self._targets.known(first.topic)
        if target is None:
            target = await self._find(first.topic, deadline_s, limit_ms)
        outgoing = self._preparation.batch(items, target.name)
        chosen = queue and self._choose(first, target, queue, None, None)
        return await self._delivery.send(outgoing, target, chosen, deadline_s, limit_ms)

    async def _send_items(self, items: list[Item], queue: MessageQueue | None) -> SendResult:
        """Send what has come together by itself; also while the producer stops."""
        limit_ms = self.sending.timeout_ms
        deadline_s = monotonic_s() + limit_ms / 1000
        if len(items) > 1:
            return await self._send_together(items, queue, deadline_s, limit_ms)
        message = items[0].message
        target = self._targets.known(message.topic)
        if target is None:
            target = await self._find(message.topic, deadline_s, limit_ms)
        outgoing = self._preparation.prepare(message, target.name)
        return await self._delivery.send(outgoing, target, queue, deadline_s, limit_ms)

    # --- requests, and what else there is ---------------------------------------------------------

    async def request(
        self,
        message: Message,
        timeout_ms: int | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: object = None,
    ) -> ReceivedMessage:
        """Send a message that asks, and return what a consumer of it replies.

        ReplyTimeoutError if it is stored and nobody replies in time.
        """
        deadline_s, limit_ms = self._begin(timeout_ms)
        await self._introduce(message.topic, deadline_s, limit_ms)
        marks = request_marks(self.client.id, limit_ms)
        try:
            with replies_of(self.client).expect(marks[names.CORRELATION_ID]) as waiting:
                left_ms = int((deadline_s - monotonic_s()) * 1000)
                await self._send_alone(mark(message, marks), queue, selector, arg, left_ms)
                return await waiting.reply(deadline_s - monotonic_s())
        except ClientError:
            self._introduced.clear()  # a broker that was started again does not know us
            raise

    async def _introduce(self, topic: str, deadline_s: float, limit_ms: int) -> None:
        """Let the topic's brokers know this client, to which they are to bring the reply."""
        target = self._targets.known(topic) or await self._find(topic, deadline_s, limit_ms)
        addresses = set(target.masters.values())
        if not addresses <= self._introduced:
            await self.client.send_heartbeats()
            self._introduced |= addresses

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a delayed message by the ``recall_handle`` of its result; its id.

        RefusedError if it is too late, or its broker does not do that (recallMessageEnable).
        """
        _, limit_ms = self._begin(None)
        return await recall(self.client, self.group, topic, handle, limit_ms)

    async def fetch_publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be sent to, as its name server knows them now."""
        deadline_s, limit_ms = self._begin(None)
        if self._targets.known(topic) is not None:
            await self.client.routes.refresh(self._targets.name_of(topic))
        return list((await self._find(topic, deadline_s, limit_ms)).queues)


def _checked_group(group: str) -> str:
    try:
        check_group(group)
    except IllegalNameError as error:
        raise IllegalMessageError(error.reason) from error
    if group == _NOT_A_GROUP:
        raise IllegalMessageError(f"group {group} is nobody's; give the producer one of its own")
    return group
