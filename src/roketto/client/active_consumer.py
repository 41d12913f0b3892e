"""What consumers that pull for themselves have in common: life, positions, what brokers know."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from roketto.client.calls import expect_success
from roketto.client.client import Client
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    NotStartedError,
    TopicNotFoundError,
)
from roketto.client.message import MessageQueue
from roketto.client.offset_store import (
    BrokerOffsets,
    LocalOffsets,
    OffsetStore,
    local_offsets_path,
)
from roketto.client.positions import BoundaryType, FromWhere, Positions
from roketto.client.settings import ClientSettings
from roketto.client.subscription import TAG, Subscription
from roketto.clock import wall_ms
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    ConsumeType,
    MessageModel,
)
from roketto.protocol.bodies.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.errors import IllegalNameError, RequestError
from roketto.protocol.names import check_group, check_topic
from roketto.protocol.record import Record
from roketto.protocol.versions import CURRENT_VERSION, version_name

__all__ = ["ActiveConsumer", "IllegalConsumerError"]

log = logging.getLogger(__name__)

_NOT_A_GROUP: Final = "DEFAULT_CONSUMER"
"""What Java calls a group that nobody has named, and refuses."""


class IllegalConsumerError(ClientError, ValueError):
    """A group or topic of a name that no broker would take, or a value out of its bounds."""


class ActiveConsumer(ABC):
    """The common part; PullConsumer and LitePullConsumer are of use.

    Queues have topics as brokers know them, with the namespace, as ``message.queue`` has; methods
    take them without, too.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Sequence[str] | None = None,
        *,
        client: Client | None = None,
        settings: ClientSettings | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
        from_where: FromWhere = FromWhere.LAST,
        store: OffsetStore | None = None,
    ) -> None:
        if client is None:
            settings = settings or ClientSettings()
            if name_servers is not None:
                settings = replace(settings, name_servers=name_servers)
            client = Client(settings, keeps_instance=model is MessageModel.BROADCASTING)
        elif name_servers is not None or settings is not None:
            raise IllegalConsumerError(
                f"consumer {group} is given a client, and settings that only a new one would have;"
                " give it one of them"
            )
        self.client = client
        self.group = client.wrap(_checked_group(group))
        self.model = model
        self.store = store or self._own_store()
        self._from_where = from_where
        self._positions = Positions(client)
        self._started_ms = 0
        self._is_stopped = False

    def _own_store(self) -> OffsetStore:
        if self.model is MessageModel.BROADCASTING:
            return LocalOffsets(local_offsets_path(self.client.id, self.group))
        return BrokerOffsets(self.client, self.group)

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin; a consumer is started once.

        NoNameServerError if nobody knows routes, RefusedError for a filter that a broker does not
        understand. A topic that is not there yet is waited for.
        """
        if self._started_ms:
            raise IllegalConsumerError(f"consumer {self.group} was started before; make a new one")
        self._started_ms = wall_ms()
        try:
            await self.client.start()
            await self.store.load()
            await self._find_routes()
            for subscription in self._filters():
                await self._check_filter(subscription)
            await self.client.add_consumer(self)
            await self._begin()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End, and keep on brokers what was committed. Once is enough."""
        if not self._started_ms or self._is_stopped:
            return
        self._is_stopped = True
        try:
            await self._end()
            if any(consumer is self for consumer in self.client.inbound.consumers):
                await self.client.remove_consumer(self)
        finally:
            await self.client.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    @property
    def _is_running(self) -> bool:
        return bool(self._started_ms) and not self._is_stopped

    def _check_running(self) -> None:
        if self._is_stopped:
            raise ClientClosedError(f"consumer {self.group} was stopped; make a new one")
        if not self._started_ms:
            raise NotStartedError(
                f"consumer {self.group} is not started: use it with `async with`, or await its"
                " start() first"
            )

    @abstractmethod
    async def _begin(self) -> None:
        """Start what runs all the time."""

    @abstractmethod
    async def _end(self) -> None:
        """End it, and keep what was committed."""

    async def _find_routes(self) -> None:
        """Ask for the routes: heartbeats go to the brokers that these name."""
        for topic in self.topics:
            try:
                await self.client.routes.get(topic)
            except TopicNotFoundError as error:
                log.warning("group %s waits for its topic: %s", self.group, error)

    async def _check_filter(self, subscription: Subscription) -> None:
        """RefusedError if a broker of the topic does not understand what is wanted of it."""
        route = self.client.routes.known(subscription.topic)
        if subscription.expression_type == TAG or route is None or not route.brokers:
            return
        body = CheckClientRequestBody(
            client_id=self.client.id,
            group=self.group,
            namespace=self.client.settings.namespace or None,
            subscription_data=subscription.data(),
        )
        address = await self.client.routes.any_of(next(iter(route.brokers)))
        answer = await self.client.calls.ask(
            address, RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body)
        )
        expect_success(address, answer)

    # --- queues -----------------------------------------------------------------------------------

    async def fetch_subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read; TopicNotFoundError if there is none."""
        self._check_running()
        route = await self.client.routes.refresh(self._topic(topic))
        return list(route.subscribe_queues)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there."""
        self._check_running()
        return await self._positions.min_offset(self._named(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        self._check_running()
        return await self._positions.max_offset(self._named(queue))

    async def offset_for_timestamp(
        self, queue: MessageQueue, timestamp_ms: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """The offset of the first message that was stored at a time or later (LOWER).

        Java's brokers of 4.x know no boundary, and tell the one that is nearest to the time.
        """
        self._check_running()
        return await self._positions.search(self._named(queue), timestamp_ms, boundary)

    async def earliest_time_ms(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored."""
        self._check_running()
        return await self._positions.earliest_time_ms(self._named(queue))

    def _topic(self, topic: str) -> str:
        """A topic as brokers know it; IllegalConsumerError if none can have that name."""
        named = self.client.wrap(topic)
        try:
            check_topic(named)
        except IllegalNameError as error:
            raise IllegalConsumerError(error.reason) from error
        return named

    def _named(self, queue: MessageQueue) -> MessageQueue:
        topic = self.client.wrap(queue.topic)
        if topic == queue.topic:
            return queue
        return MessageQueue(queue.broker_name, queue.queue_id, topic)

    # --- what brokers ask -------------------------------------------------------------------------

    @property
    @abstractmethod
    def topics(self) -> Collection[str]:
        """Those it reads, as far as it knows itself."""

    @abstractmethod
    def _subscriptions(self) -> Collection[Subscription]:
        """What heartbeats tell of it."""

    def _filters(self) -> Collection[Subscription]:
        """What brokers have to understand."""
        return self._subscriptions()

    @abstractmethod
    def rebalance_soon(self) -> None:
        """Members of the group, or routes, have changed."""

    def disconnected(self, broker_name: str) -> None:
        """Nothing of it is only in the broker's memory."""
        return

    @abstractmethod
    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator has moved the group."""

    def describe(self) -> ConsumerData:
        return ConsumerData(
            consume_from_where=self._from_where.value,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            group_name=self.group,
            message_model=self.model,
            subscription_data_set=[wanted.data() for wanted in self._subscriptions()],
        )

    def offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return self.store.offsets(topic)

    def running_info(self) -> ConsumerRunningInfo:
        properties = {
            "consumerGroup": self.group,
            "messageModel": self.model.value,
            "consumeFromWhere": self._from_where.value.value,
            "PROP_NAMESERVER_ADDR": "".join(f"{name};" for name in self.client.names.addresses),
            "PROP_CONSUME_TYPE": ConsumeType.CONSUME_ACTIVELY.value,
            "PROP_CLIENT_VERSION": version_name(CURRENT_VERSION),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
        }
        return ConsumerRunningInfo(
            properties=properties,
            subscription_set=[wanted.data() for wanted in self._subscriptions()],
            mq_table=self._queue_infos(),
        )

    def _queue_infos(self) -> dict[MessageQueue, ProcessQueueInfo]:
        return {}

    async def consume_directly(
        self, record: Record, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        """It has no listener that could: the tool is told so, as by Java's."""
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer Group <{self.group}> not exist in this consumer: {self.client.id} pulls"
            " its messages, and has no listener that could be given one",
        )


def _checked_group(group: str) -> str:
    try:
        check_group(group)
    except IllegalNameError as error:
        raise IllegalConsumerError(error.reason) from error
    if group == _NOT_A_GROUP:
        raise IllegalConsumerError(f"group {group} is the name of no group; choose another")
    return group
