"""What brokers ask a client: to check a transaction, to rebalance, to tell how it is, to reply.

Each request is for one producer or consumer, by its group. What takes time is done in a task of
its own, of which there is a bounded number.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, TypeVar

from roketto.client.errors import ClientError
from roketto.client.roles import ConsumerRole, ProducerRole
from roketto.client.stacks import stacks
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.pushes import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
    NotifyConsumerIdsChangedRequest,
    ReplyMessageRequest,
)
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.property_names import PRODUCER_GROUP
from roketto.protocol.record import Record, decode_record
from roketto.remoting.connection import Connection, Reply

__all__ = ["Inbound"]

log = logging.getLogger(__name__)

_TASKS_MAX: Final = 1_024
"""What brokers have asked and is not done yet; more of it is refused."""

R = TypeVar("R")


class Inbound:
    """Finds who is to answer a request of a broker."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._producers: dict[str, ProducerRole] = {}
        self._consumers: dict[str, ConsumerRole] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_reply: Callable[[ReplyMessageRequest, bytes], bool] | None = None
        """Takes the reply to a request; whether somebody waits for it."""

    @property
    def producer_groups(self) -> Collection[str]:
        return self._producers.keys()

    @property
    def consumers(self) -> Collection[ConsumerRole]:
        return self._consumers.values()

    def add_producer(self, producer: ProducerRole) -> None:
        if self._producers.setdefault(producer.group, producer) is not producer:
            raise _taken("producer", producer.group)

    def remove_producer(self, producer: ProducerRole) -> bool:
        """Whether it was here; another one of its group stays."""
        return _remove(self._producers, producer.group, producer)

    def add_consumer(self, consumer: ConsumerRole) -> None:
        if self._consumers.setdefault(consumer.group, consumer) is not consumer:
            raise _taken("consumer", consumer.group)

    def remove_consumer(self, consumer: ConsumerRole) -> bool:
        """Whether it was here; another one of its group stays."""
        return _remove(self._consumers, consumer.group, consumer)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- requests ---------------------------------------------------------------------------------

    def handle(self, connection: Connection, request: Command) -> Reply:
        """Answer a broker, at once or later; None where it wants no answer."""
        handler = _HANDLERS.get(request.code)
        if handler is None:
            return request.answer(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=f" request type {request.code} not supported",
            )
        return handler(self, connection, request)

    def _check_transaction(self, connection: Connection, request: Command) -> Reply:
        half = decode_record(request.body)
        group = half.get_property(PRODUCER_GROUP) or ""
        producer = self._producers.get(group)
        if producer is None:
            log.warning("%s asks about a transaction of group %s: it is not here", connection.peer,
                        group)  # fmt: skip
        else:
            header = decode_header(CheckTransactionStateRequest, request.ext)
            producer.check_transaction(connection.peer, header, half)
        return None

    def _members_changed(self, connection: Connection, request: Command) -> Reply:
        group = decode_header(NotifyConsumerIdsChangedRequest, request.ext).consumer_group
        consumer = self._consumers.get(group)
        if consumer is not None:
            consumer.rebalance_soon()
        return None

    def _reset_offsets(self, connection: Connection, request: Command) -> Reply:
        group = (request.ext or {}).get("group", "")
        consumer = self._consumers.get(group)
        if consumer is not None:
            offsets = decode_body(ResetOffsetBody, request.body).offset_table
            self._start(consumer.reset_offsets(offsets))
        return None

    def _status(self, connection: Connection, request: Command) -> Reply:
        header = decode_header(GetConsumerStatusRequest, request.ext)
        consumer = self._consumers.get(header.group)
        offsets = {} if consumer is None else dict(consumer.offsets(header.topic))
        return request.answer(body=encode_body(GetConsumerStatusBody(message_queue_table=offsets)))

    def _running_info(self, connection: Connection, request: Command) -> Reply:
        header = decode_header(GetConsumerRunningInfoRequest, request.ext)
        consumer = self._consumers.get(header.consumer_group)
        if consumer is None:
            return self._not_here(request, header.consumer_group)
        info = consumer.running_info()
        if header.jstack_enable:
            info.jstack = stacks()
        return request.answer(body=encode_body(info))

    def _consume_directly(self, connection: Connection, request: Command) -> Reply:
        header = decode_header(ConsumeMessageDirectlyRequest, request.ext)
        consumer = self._consumers.get(header.consumer_group)
        if consumer is None:
            return self._not_here(request, header.consumer_group)
        record = decode_record(request.body)
        return _consume(request, consumer, record, header.broker_name or "")

    def _reply(self, connection: Connection, request: Command) -> Reply:
        header = decode_header(ReplyMessageRequest, request.ext)
        if self.on_reply is None or not self.on_reply(header, bytes(request.body)):
            log.debug("%s brings a reply that nobody waits for", connection.peer)
        return request.answer()

    def _not_here(self, request: Command, group: str) -> Command:
        return request.answer(
            ResponseCode.SYSTEM_ERROR,
            remark=f"The Consumer Group <{group}> not exist in this consumer: {self._client_id}",
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= _TASKS_MAX:
            work.close()
            raise ClientError(f"{_TASKS_MAX} requests of brokers are under way; ask again later")
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what a broker has asked for failed", exc_info=error)


async def _consume(
    request: Command, consumer: ConsumerRole, record: Record, broker_name: str
) -> Command:
    return request.answer(body=encode_body(await consumer.consume_directly(record, broker_name)))


def _remove(roles: dict[str, R], group: str, role: R) -> bool:
    is_here = roles.get(group) is role
    if is_here:
        del roles[group]
    return is_here


def _taken(kind: str, group: str) -> ClientError:
    return ClientError(
        f"a {kind} of group {group} is here already; use it, or give this one a Client of its own"
    )


_HANDLERS: Final[dict[int, Callable[[Inbound, Connection, Command], Reply]]] = {
    RequestCode.CHECK_TRANSACTION_STATE: Inbound._check_transaction,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Inbound._members_changed,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: Inbound._reset_offsets,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: Inbound._status,
    RequestCode.GET_CONSUMER_RUNNING_INFO: Inbound._running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Inbound._consume_directly,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Inbound._reply,
}
