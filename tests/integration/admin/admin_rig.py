"""What tests of administration need of a cluster: routes, messages in chosen queues, consumers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from patience import LateError
from roketto.admin.api import Admin
from roketto.client.client import Client
from roketto.client.errors import ClientError, TopicNotFoundError
from roketto.client.message import MessageQueue, SendResult, SendStatus
from roketto.client.settings import ClientSettings
from roketto.clock import wall_ms
from roketto.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.send import SendMessageResponse, SendMessageV2Request
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record

WAIT_S = 20.0
_POLL_S = 0.02


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until it is so."""
    try:
        async with asyncio.timeout(WAIT_S):
            while not await condition():  # noqa: ASYNC110 (it asks servers)
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise LateError(f"waited {WAIT_S:.0f} s in vain for {what}") from None


async def until_equal(read: Callable[[], Awaitable[object]], expected: object) -> None:
    """Wait until what is read is what is expected; show the last that was read if it never is."""
    last: list[object] = []

    async def is_so() -> bool:
        last[:] = [await read()]
        return last == [expected]

    try:
        await until(is_so, "it")
    except LateError:
        raise LateError(f"it was to be {expected}; the last was {last}") from None


async def until_routed(admin: Admin, topic: str, brokers: int) -> None:
    """Wait until name servers know a topic on so many brokers; on none if it is gone."""

    async def is_so() -> bool:
        try:
            return len((await admin.topics.route(topic)).broker_datas) == brokers
        except TopicNotFoundError:
            return brokers == 0

    await until(is_so, f"{topic} on {brokers} brokers")


async def make_topic(admin: Admin, topic: str, queues: int = 1, brokers: int = 2) -> None:
    """A topic on all brokers, when its route is known."""
    await admin.topics.create(topic, read_queues=queues, write_queues=queues)
    await until_routed(admin, topic, brokers)


async def send(
    admin: Admin, queue: MessageQueue, bodies: Sequence[str], **properties: str
) -> list[SendResult]:
    """Send to one queue, each in a millisecond of its own: by its time, brokers of Java's 4.9 find
    any message of a millisecond.
    """
    brokers = await admin.cluster.brokers()
    address = next(one.address for one in brokers if (one.name, one.id) == (queue.broker_name, 0))
    found: list[SendResult] = []
    for body in bodies:
        await asyncio.sleep(0.002)  # the clock of the broker is that of this machine
        message_id = admin.client.unique_ids.next_id(wall_ms())
        request = SendMessageV2Request(
            producer_group="AdminTests", topic=queue.topic, default_topic="TBW102",
            default_topic_queue_nums=4, queue_id=queue.queue_id, sys_flag=0,
            born_timestamp=wall_ms(), flag=0,
            properties=encode_properties({"UNIQ_KEY": message_id, **properties}).decode(),
        )  # fmt: skip
        stored = await admin.client.calls.ask_for(
            SendMessageResponse, address, RequestCode.SEND_MESSAGE_V2, request, body.encode()
        )
        found.append(
            SendResult(SendStatus.SEND_OK, message_id, queue, stored.queue_offset, stored.msg_id)
        )
    return found


class Member:
    """A push consumer that only says so, and takes what operators push to it."""

    def __init__(self, group: str, topic: str, *tags: str) -> None:
        self.group = group
        self.topic = topic
        self.consumed: list[bytes] = []
        text = " || ".join(tags) or "*"
        self._subscription = SubscriptionData(sub_string=text, tags_set=list(tags), topic=topic)
        self.queues: list[MessageQueue] = []

    @property
    def topics(self) -> Collection[str]:
        return [self.topic]

    def describe(self) -> ConsumerData:
        return ConsumerData(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            group_name=self.group,
            message_model=MessageModel.CLUSTERING,
            subscription_data_set=[self._subscription],
        )

    def rebalance_soon(self) -> None:
        """It has the queues that a test gives it."""

    def disconnected(self, broker_name: str) -> None:
        """It has no locks."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Its offsets are those that a test sets."""

    def offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {}

    def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(
            mq_table={queue: ProcessQueueInfo() for queue in self.queues},
            properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
            subscription_set=[self._subscription],
        )

    async def consume_directly(
        self, record: Record, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        self.consumed.append(bytes(record.body))
        return ConsumeMessageDirectlyResult(consume_result=CMResult.CR_SUCCESS, spent_time_ms=1)


@asynccontextmanager
async def online(names: str, member: Member) -> AsyncIterator[str]:
    """A client that has registered a consumer with all brokers of its topic; its id."""
    async with Client(ClientSettings(name_servers=names)) as client:
        await client.routes.get(member.topic)
        await client.add_consumer(member)
        try:
            yield client.id
        finally:
            await client.remove_consumer(member)


async def refused(work: Awaitable[object]) -> ClientError:
    """The error that something ends with."""
    try:
        found = await work
    except ClientError as error:
        return error
    raise AssertionError(f"it was not refused: {found}")
