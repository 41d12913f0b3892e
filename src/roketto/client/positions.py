"""Positions in queues: their ends, the offset at a time, and where a group without one begins."""

from enum import Enum

from roketto.client.client import Client
from roketto.client.offset_store import OffsetStore
from roketto.protocol.bodies.heartbeat import ConsumeFromWhere
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.base import BoundaryType
from roketto.protocol.headers.offsets import (
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    SearchOffsetRequest,
    SearchOffsetResponse,
)
from roketto.protocol.names import is_retry_topic

__all__ = ["BoundaryType", "FromWhere", "Positions", "start_offset"]


class FromWhere(Enum):
    """Where a group begins that has consumed nothing of a queue; its value is for heartbeats."""

    FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


class Positions:
    """What masters say of their queues; ClientError if one cannot be asked."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there."""
        request = GetMinOffsetRequest(
            topic=queue.topic, queue_id=queue.queue_id, target_broker_name=queue.broker_name
        )
        answer = await self._client.calls.ask_for(
            GetMinOffsetResponse, await self._master(queue), RequestCode.GET_MIN_OFFSET, request
        )
        return answer.queue_offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        request = GetMaxOffsetRequest(
            topic=queue.topic, queue_id=queue.queue_id, target_broker_name=queue.broker_name
        )
        answer = await self._client.calls.ask_for(
            GetMaxOffsetResponse, await self._master(queue), RequestCode.GET_MAX_OFFSET, request
        )
        return answer.queue_offset

    async def search(
        self,
        queue: MessageQueue,
        timestamp_ms: int,
        boundary: BoundaryType = BoundaryType.LOWER,
    ) -> int:
        """The offset of the message that was stored at a time.

        LOWER means the first that is not older, UPPER the last that is not younger.
        """
        request = SearchOffsetRequest(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms,
            boundary_type=boundary, target_broker_name=queue.broker_name,
        )  # fmt: skip
        answer = await self._client.calls.ask_for(
            SearchOffsetResponse,
            await self._master(queue),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            request,
        )
        return answer.queue_offset

    async def earliest_time_ms(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored; -1 in an empty queue."""
        request = GetEarliestMsgStoretimeRequest(
            topic=queue.topic, queue_id=queue.queue_id, target_broker_name=queue.broker_name
        )
        answer = await self._client.calls.ask_for(
            GetEarliestMsgStoretimeResponse,
            await self._master(queue),
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            request,
        )
        return answer.timestamp

    async def _master(self, queue: MessageQueue) -> str:
        routes = self._client.routes
        return await routes.master_of(routes.broker_of(queue), queue.topic)


async def start_offset(
    client: Client,
    store: OffsetStore,
    queue: MessageQueue,
    from_where: FromWhere,
    timestamp_ms: int,
    *,
    memory_first: bool = False,
) -> int:
    """Where to begin with a queue; what is stored of the group always counts.

    Retries are consumed from the first one on, or, by a group that begins at a time, from the next
    one on. ClientError if it cannot be told: do not begin.
    """
    stored = await store.read(queue, memory_first=memory_first)
    if stored is not None:
        return stored
    positions = Positions(client)
    is_retry = is_retry_topic(queue.topic)
    if from_where is FromWhere.FIRST or (from_where is FromWhere.LAST and is_retry):
        return 0  # where that is gone, the answer to the first pull says where to go on
    if from_where is FromWhere.LAST or is_retry:
        return await positions.max_offset(queue)
    return await positions.search(queue, timestamp_ms)
