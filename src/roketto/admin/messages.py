"""Messages as operators look for them: by id, by key and time, by queue and offset; and again.

Whoever could have a message and cannot be asked is an error. That nobody has it is an empty list
where several may be found, and a MessageNotFoundError where one is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roketto.admin.errors import MessageNotFoundError
from roketto.admin.fleet import Broker, Fleet, nearest
from roketto.client.calls import expect_success
from roketto.client.errors import BrokerNotFoundError, ClientError, RefusedError
from roketto.client.message import MessageQueue, SendResult, SendStatus
from roketto.client.received import ReceivedMessage
from roketto.client.routes import MASTER_ID, make_route
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.batch import unwrap_batch
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.errors import ProtocolError, RecordError
from roketto.protocol.headers.base import I64_MAX, decode_header
from roketto.protocol.headers.pull import PullMessageRequest, PullMessageResponse
from roketto.protocol.headers.query import (
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
)
from roketto.protocol.headers.send import SendMessageResponse, SendMessageV2Request
from roketto.protocol.hosts import decode_host
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.names import DEFAULT_TOPIC, is_dlq_topic, is_retry_topic
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import decode_records
from roketto.protocol.sysflags import PULL_SUBSCRIPTION

__all__ = ["Found", "Messages"]

_COUNT: Final = 64
"""What mqadmin asks each broker for, and what a broker gives at most."""
_TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""A group that every broker has, for tools that pull."""
_RESEND_GROUP: Final = "ReSendMsgById"
_QUEUES: Final = 4
_NOT_AGAIN: Final = frozenset(
    {
        names.CRC32, names.DELAY, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC,
        names.TIMER_DELIVER_MS, names.TRANSACTION_PREPARED,
    }
)  # fmt: skip
"""Properties that would delay a message that is sent again, or make it half of a transaction."""
_EMPTY: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
_STORED: Final = tuple(status.value for status in SendStatus)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search by key has found, oldest first."""

    messages: tuple[ReceivedMessage, ...]
    indexed_until_ms: int
    """When the last message that can be found so was stored, where one was found; 0 if none was."""


class Messages:
    """Made by ``Admin``, as ``admin.messages``.

    found = await admin.messages.query("Orders", "order-17", begin_ms=yesterday_ms)
    message = await admin.messages.view("Orders", result.message_id)
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    # --- one --------------------------------------------------------------------------------------

    async def view(self, topic: str, message_id: str) -> ReceivedMessage:
        """The message with an id of either kind: the broker's, or the producer's."""
        try:
            decode_offset_id(message_id)
        except RecordError:
            return await self._by_unique_key(topic, message_id)
        try:
            return await self.by_offset_id(message_id)
        except ClientError as error:
            # The ids of some producers look like a broker's.
            try:
                return await self._by_unique_key(topic, message_id)
            except MessageNotFoundError:
                raise error from None

    async def _by_unique_key(self, topic: str, message_id: str) -> ReceivedMessage:
        found = await self.by_unique_key(topic, message_id)
        if not found.messages:
            raise MessageNotFoundError(f"topic {topic} has no message with the id {message_id}")
        return found.messages[-1]

    async def by_offset_id(self, offset_id: str) -> ReceivedMessage:
        """The message that a broker gave this id; the address in it has to be registered.

        Java connects to whatever address an id has in it.
        """
        try:
            place = decode_offset_id(offset_id)
        except RecordError as error:
            raise MessageNotFoundError(f"{error}; ids of producers need a topic: view()") from error
        ip, port = decode_host(place.host)
        broker = await self._fleet.at(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}")
        request = ViewMessageRequest(log_offset=place.log_offset)
        try:
            answer = await self._fleet.ask(broker.address, RequestCode.VIEW_MESSAGE_BY_ID, request)
        except RefusedError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:  # there is no code for it
                raise MessageNotFoundError(f"no message {offset_id}: {error}") from error
            raise
        return _open(broker.address, answer.body, broker.name)[0]

    async def by_queue_offset(self, queue: MessageQueue, queue_offset: int) -> ReceivedMessage:
        """The message at an offset of a queue."""
        route = await self._fleet.route(queue.topic)
        brokers = {data.broker_name: nearest(data) for data in route.broker_datas}
        broker = brokers.get(queue.broker_name)
        if broker is None:
            raise BrokerNotFoundError(
                f"topic {queue.topic} is not on broker {queue.broker_name}, but on"
                f" {', '.join(brokers) or 'none'}"
            )
        request = PullMessageRequest(
            consumer_group=_TOOLS_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=1,
            sys_flag=PULL_SUBSCRIPTION,
            consume_offset=0,
            suspend_timeout_ms=0,
            subscription="*",
            sub_version=0,
        )
        answer = await self._fleet.calls.ask(
            broker.address, RequestCode.PULL_MESSAGE, request, timeout_ms=self._fleet.timeout_ms
        )
        if answer.code not in _EMPTY:
            expect_success(broker.address, answer)
            for message in _open(broker.address, answer.body, queue.broker_name):
                if message.queue_offset == queue_offset:
                    return message
        ends = decode_header(PullMessageResponse, answer.ext)
        raise MessageNotFoundError(
            f"queue {queue.queue_id} of topic {queue.topic} on {broker} has no message at offset"
            f" {queue_offset}: it has those from {ends.min_offset} to {ends.max_offset - 1}, less"
            " what has expired"
        )

    # --- several ----------------------------------------------------------------------------------

    async def by_unique_key(
        self, topic: str, message_id: str, *, begin_ms: int = 0, end_ms: int = I64_MAX
    ) -> Found:
        """All messages with a producer's id: several if it was sent more than once.

        Java looks at the last three days only.
        """
        request = QueryMessageRequest(
            topic=topic,
            key=message_id,
            max_num=_COUNT,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            is_unique_key=True,
        )
        return await self._query(request, lambda message: message.message_id == message_id)

    async def query(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = I64_MAX,
        count_max: int = _COUNT,
    ) -> Found:
        """The messages of a topic with a key that were stored in a time, so many of each broker.

        Brokers give the newest of them, and not more than they are configured to.
        """
        request = QueryMessageRequest(
            topic=topic,
            key=key,
            max_num=count_max,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
        )
        return await self._query(request, lambda message: key in message.keys)

    async def _query(
        self, request: QueryMessageRequest, wants: Callable[[ReceivedMessage], bool]
    ) -> Found:
        """Ask all brokers of the topic; different keys may have the same hash, so look again."""

        async def ask(broker: Broker) -> tuple[list[ReceivedMessage], int]:
            answer = await self._fleet.calls.ask(
                broker.address,
                RequestCode.QUERY_MESSAGE,
                request,
                timeout_ms=self._fleet.long_timeout_ms,
            )
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return [], 0
            expect_success(broker.address, answer)
            header = decode_header(QueryMessageResponse, answer.ext)
            messages = _open(broker.address, answer.body, broker.name)
            return messages, header.index_last_update_timestamp

        answers = await self._fleet.ask_each(
            f"look for {request.key} in topic {request.topic}",
            await self._fleet.of_topic(request.topic),
            ask,
        )
        found = [
            message
            for messages, _ in answers.results.values()
            for message in messages
            if message.record.topic == request.topic and wants(message)
        ]
        found.sort(key=lambda message: (message.store_time_ms, message.queue, message.queue_offset))
        until_ms = max((time_ms for _, time_ms in answers.results.values()), default=0)
        return answers.checked(Found(tuple(found), until_ms))

    # --- again ------------------------------------------------------------------------------------

    async def resend(self, message: ReceivedMessage, *, topic: str | None = None) -> SendResult:
        """Send a message again, at once and with the same id; to its topic, or to another one.

        One that a group consumes again or gave up on goes to the topic that it was first sent to.
        """
        topic = topic or _origin(message)
        route = make_route(topic, await self._fleet.route(topic), "")
        if not route.publish_queues:
            raise ClientError(f"topic {topic} has no queue that can be written; see its permission")
        same = MessageQueue(message.broker_name, message.queue_id, topic)
        queue = same if same in route.publish_queues else route.publish_queues[0]
        address = route.brokers[queue.broker_name][MASTER_ID]
        kept = {name: value for name, value in message.properties.items() if name not in _NOT_AGAIN}
        request = SendMessageV2Request(
            producer_group=_RESEND_GROUP,
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=wall_ms(),
            flag=message.flag,
            properties=encode_properties(kept).decode(),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=queue.broker_name,
        )
        answer = await self._fleet.calls.ask(
            address, RequestCode.SEND_MESSAGE_V2, request, message.body, self._fleet.timeout_ms
        )
        if answer.code not in _STORED:
            expect_success(address, answer)
        stored = decode_header(SendMessageResponse, answer.ext)
        return SendResult(
            SendStatus(answer.code),
            kept.get(names.UNIQ_KEY, stored.msg_id),
            MessageQueue(queue.broker_name, stored.queue_id, topic),
            stored.queue_offset,
            stored.msg_id,
        )


def _origin(message: ReceivedMessage) -> str:
    topic = message.record.topic
    if is_retry_topic(topic) or is_dlq_topic(topic):
        return message.properties.get(names.RETRY_TOPIC) or topic
    return topic


def _open(address: str, body: bytes | memoryview, broker_name: str) -> list[ReceivedMessage]:
    """The messages of an answer, unpacked."""
    messages: list[ReceivedMessage] = []
    try:
        for record in decode_records(body, strict=True):
            record.decompress()
            messages += (ReceivedMessage(one, broker_name) for one in unwrap_batch(record))
    except ProtocolError as error:
        raise ClientError(f"{address} has sent a message that cannot be read: {error}") from error
    return messages
