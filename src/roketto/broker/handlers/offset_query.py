"""Where a queue begins and ends, and which of its messages was stored at a time.

As in Java, a queue that nobody has written to is an empty one, whatever its topic.
"""

from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import BoundaryType, decode_header, encode_header
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
from roketto.protocol.record_layout import peek_store_time_ms
from roketto.remoting.connection import Connection, Reply
from roketto.store.consumequeue import Boundary

_NO_TIME: Final = -1
"""The store time of the first message where there is none."""


def search_offset(context: Context, _connection: Connection, request: Command) -> Reply:
    """29: the first message not older than a time, or (UPPER) the last that is not newer."""
    said = decode_header(SearchOffsetRequest, request.ext)
    is_upper = said.boundary_type is BoundaryType.UPPER
    offset = context.store.offset_by_time(
        said.topic, said.queue_id, said.timestamp, Boundary.UPPER if is_upper else Boundary.LOWER
    )
    return request.answer(ext=encode_header(SearchOffsetResponse(queue_offset=offset)))


def get_max_offset(context: Context, _connection: Connection, request: Command) -> Reply:
    """30: the offset that the next message gets.

    Java distinguishes what consumers can see from what is in the log, but answers the first
    whatever ``committed`` says.
    """
    said = decode_header(GetMaxOffsetRequest, request.ext)
    queue = context.store.queue(said.topic, said.queue_id)
    offset = 0 if queue is None else queue.queue_offset_max
    return request.answer(ext=encode_header(GetMaxOffsetResponse(queue_offset=offset)))


def get_min_offset(context: Context, _connection: Connection, request: Command) -> Reply:
    """31: the offset of the first message that is still there."""
    said = decode_header(GetMinOffsetRequest, request.ext)
    queue = context.store.queue(said.topic, said.queue_id)
    offset = 0 if queue is None else queue.queue_offset_min
    return request.answer(ext=encode_header(GetMinOffsetResponse(queue_offset=offset)))


def get_earliest_store_time(context: Context, _connection: Connection, request: Command) -> Reply:
    """32: when the first message that is still there was stored; -1 without one."""
    said = decode_header(GetEarliestMsgStoretimeRequest, request.ext)
    queue = context.store.queue(said.topic, said.queue_id)
    timestamp = _NO_TIME
    if queue is not None:
        found = context.store.get(said.topic, said.queue_id, queue.queue_offset_min, 1)
        if found.views:
            timestamp = peek_store_time_ms(found.views[0])
    answer = GetEarliestMsgStoretimeResponse(timestamp=timestamp)
    return request.answer(ext=encode_header(answer))


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    RequestCode.GET_MAX_OFFSET: get_max_offset,
    RequestCode.GET_MIN_OFFSET: get_min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: get_earliest_store_time,
}
