"""Messages that could not be consumed: given back to brokers, to come again or as dead letters.

A broker that has the message stores it again by itself (36). Where it cannot, the message is sent
anew to the retry topic of the group, on whatever broker takes it.
"""

import logging
import random
from typing import Final

from roketto.client.calls import expect_success
from roketto.client.client import Client
from roketto.client.errors import ClientError, SendFailedError
from roketto.client.received import ReceivedMessage
from roketto.client.routes import Route
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.crc import without_crc
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.headers.send import ConsumerSendMsgBackRequest, SendMessageV2Request
from roketto.protocol.names import DEFAULT_TOPIC, retry_topic
from roketto.protocol.properties import decode_properties, encode_properties
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_TYPE, needs_unwrap

__all__ = ["SendBack"]

log = logging.getLogger(__name__)

INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
"""The group in whose name Java's consumers send."""
FIRST_DELAY_LEVEL: Final = 3
"""The delay of a first retry: 10 s, unless a broker is configured otherwise."""
_TIMEOUT_MS: Final = 5_000
_ATTEMPTS: Final = 3
_QUEUES: Final = 4
_NOT_KEPT: Final = (
    names.TRANSACTION_PREPARED, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES,
    names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC, names.TIMER_DELIVER_MS,
)  # fmt: skip
"""Properties that are said otherwise now, or were of the first delivery alone."""
_STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)  # fmt: skip


class SendBack:
    """Gives back what one group could not consume. The group has its namespace.

    await send_back.give_back(message, delay_level=0)       # ClientError: nobody has taken it
    """

    def __init__(self, client: Client, group: str, reconsume_max: int) -> None:
        self._client = client
        self._group = group
        self._reconsume_max = reconsume_max

    async def give_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Let the group have it again; ClientError if no broker has taken it."""
        if needs_unwrap(message.record.sys_flag):
            # Of a batch that is stored as one, the broker would give back all of it.
            await self.send_anew(message, delay_level)
            return
        try:
            await self._ask_broker(message, delay_level)
        except ClientError as error:
            log.warning("group %s sends %r anew, as its broker does not give it back: %s",
                        self._group, message, error)  # fmt: skip
            await self.send_anew(message, delay_level)

    async def _ask_broker(self, message: ReceivedMessage, delay_level: int) -> None:
        client = self._client
        address = await client.routes.master_of(message.broker_name)
        request = ConsumerSendMsgBackRequest(
            log_offset=message.log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=client.wrap(message.topic),
            max_reconsume_times=self._reconsume_max,
            target_broker_name=message.broker_name,
        )
        answer = await client.calls.ask(
            address, RequestCode.CONSUMER_SEND_MSG_BACK, request, timeout_ms=_TIMEOUT_MS
        )
        expect_success(address, answer)

    async def send_anew(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Send it to the retry topic; a broker makes a dead letter of it if that was too often."""
        route = await self._client.routes.get(retry_topic(self._group))
        queues = _spread(route)
        attempts: list[ClientError] = []
        for queue in queues[:_ATTEMPTS]:
            try:
                await self._send_to(queue, message, delay_level)
                return
            except ClientError as error:
                attempts.append(error)
        raise SendFailedError(
            f"{message!r} is not given back by group {self._group}: "
            + ("; ".join(map(str, attempts)) or f"{route.topic} has no queue to write to"),
            attempts,
        )

    async def _send_to(
        self, queue: MessageQueue, message: ReceivedMessage, delay_level: int
    ) -> None:
        client = self._client
        address = await client.routes.master_of(queue.broker_name, queue.topic)
        record = message.record
        times = message.reconsume_times + 1
        if delay_level < 0:  # too often, whatever the number was
            times = max(times, min(self._reconsume_max + 1, I32_MAX))
        request = SendMessageV2Request(
            producer_group=INNER_PRODUCER,
            topic=queue.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=_QUEUES,
            queue_id=queue.queue_id,
            # A body that could not be unpacked is still packed.
            sys_flag=record.sys_flag & (COMPRESSED | COMPRESSION_TYPE)
            if record.sys_flag & COMPRESSED else 0,
            born_timestamp=wall_ms(),
            flag=record.flag,
            properties=encode_properties(self._properties(message, delay_level)).decode(),
            reconsume_times=times,
            unit_mode=False,
            max_reconsume_times=self._reconsume_max,
            batch=False,
            broker_name=queue.broker_name,
        )  # fmt: skip
        answer = await client.calls.ask(
            address, RequestCode.SEND_MESSAGE_V2, request, message.body, _TIMEOUT_MS
        )
        if answer.code not in _STORED:
            expect_success(address, answer)

    def _properties(self, message: ReceivedMessage, delay_level: int) -> dict[str, str]:
        record = message.record
        found = decode_properties(without_crc(record.properties_raw))
        found[names.RETRY_TOPIC] = self._client.wrap(message.topic)
        if not found.get(names.ORIGIN_MESSAGE_ID, "").strip():
            found[names.ORIGIN_MESSAGE_ID] = message.message_id
        level = delay_level if delay_level > 0 else FIRST_DELAY_LEVEL + message.reconsume_times
        found[names.DELAY] = str(level)
        for name in _NOT_KEPT:
            found.pop(name, None)
        return found


def _spread(route: Route) -> list[MessageQueue]:
    """Queues to try, as many different brokers as possible first."""
    queues = random.sample(route.publish_queues, len(route.publish_queues))
    seen: dict[str, int] = {}
    turns: list[tuple[int, MessageQueue]] = []
    for queue in queues:
        turn = seen[queue.broker_name] = seen.get(queue.broker_name, 0) + 1
        turns.append((turn, queue))
    return [queue for _, queue in sorted(turns, key=lambda item: item[0])]
