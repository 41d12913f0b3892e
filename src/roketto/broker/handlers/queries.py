"""Looking for messages: by key (12), by their place in the log (33), by queue entry (321)."""

from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.lookup import Lookup
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.stats import ConsumeQueueData, QueryConsumeQueueResponseBody
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Body, Command, Views
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.query import (
    QueryConsumeQueueRequest,
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
)
from roketto.remoting.connection import Connection, Reply
from roketto.store.errors import StoreError

ENTRIES_MAX: Final = 4_096
"""Entries of a queue in one answer; Java has no bound, and its tools ask for ten."""
VIEWS_MAX: Final = 64
"""Pieces of the log that are sent as they are; more are joined."""


def query_message(context: Context, connection: Connection, request: Command) -> Reply:
    """12: the newest messages of a topic with a key, of those stored in a time."""
    said = decode_header(QueryMessageRequest, request.ext)
    config = context.config
    count = config.default_query_max_num if said.is_unique_key else said.max_num
    try:
        lookup = Lookup(
            context.store, said.topic, said.key, min(count, config.max_msgs_num_batch),
            said.begin_timestamp, said.end_timestamp,
        )  # fmt: skip
    except StoreError as error:
        raise RequestError(ResponseCode.QUERY_NOT_FOUND, str(error)) from error
    if lookup.step():
        return _answer(context, request, lookup)
    return _look_on(context, request, lookup)


async def _look_on(context: Context, request: Command, lookup: Lookup) -> Command:
    await context.lookups.finish(lookup)
    return _answer(context, request, lookup)


def _answer(context: Context, request: Command, lookup: Lookup) -> Command:
    views = lookup.views
    time_ms, log_offset = context.store.index_update if views else (0, 0)
    ext = encode_header(
        QueryMessageResponse(
            index_last_update_timestamp=time_ms, index_last_update_log_offset=log_offset
        )
    )
    if views:
        body: Body | Views = views if len(views) <= VIEWS_MAX else b"".join(views)
        return request.answer(ResponseCode.SUCCESS, ext, body)
    return request.answer(
        ResponseCode.QUERY_NOT_FOUND,
        ext,
        remark="can not find message, maybe time range not correct",
    )


def view_message(context: Context, connection: Connection, request: Command) -> Command:
    """33: the message at a log offset, which a broker's message id has."""
    log_offset = decode_header(ViewMessageRequest, request.ext).log_offset
    return request.answer(body=read_message(context, log_offset))


def read_message(context: Context, log_offset: int) -> memoryview:
    """The bytes of the message at a log offset; RequestError if none is there."""
    try:
        record = context.store.record_at(log_offset)
        return context.store.log.read(log_offset, record.size)
    except (StoreError, RecordError) as error:
        reason = f"can not find message by the offset, {log_offset}: {error}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, reason) from error


def query_consume_queue(context: Context, connection: Connection, request: Command) -> Command:
    """321: entries of a queue from an index on, and how a group subscribes to its topic.

    What a filter makes of an entry Java says only of those with extended data, which are not here.
    """
    said = decode_header(QueryConsumeQueueRequest, request.ext)
    topic = said.topic or ""
    queue = context.store.queue(topic, said.queue_id)
    if queue is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"{said.queue_id}@{topic[:255]} is not exist!"
        )
    body = QueryConsumeQueueResponseBody(
        max_queue_index=queue.queue_offset_max, min_queue_index=queue.queue_offset_min
    )
    if said.consumer_group is not None:
        _describe_filter(context, said.consumer_group, topic, body)
    first = said.index
    if not queue.queue_offset_min <= first < queue.queue_offset_max:
        remark = f"Index {first} of {said.queue_id}@{topic} is not exist!"
        return request.answer(remark=remark)
    last = min(first + min(said.count, ENTRIES_MAX), queue.queue_offset_max)
    units = (queue.unit(index) for index in range(first, last))
    body.queue_data = [
        ConsumeQueueData(
            physic_offset=unit.log_offset, physic_size=unit.size, tags_code=unit.tags_code
        )
        for unit in units
        if unit is not None
    ]
    return request.answer(body=encode_body(body))


def _describe_filter(
    context: Context, group: str, topic: str, body: QueryConsumeQueueResponseBody
) -> None:
    body.subscription_data = context.clients.subscription(group, topic)
    if body.subscription_data is None:
        body.filter_data = f"{group[:255]}@{topic} is not online!"
    else:
        kept = context.filters.kept(topic, group)
        body.filter_data = "null" if kept is None else encode_body(kept).decode()


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.QUERY_MESSAGE: query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: view_message,
    RequestCode.QUERY_CONSUME_QUEUE: query_consume_queue,
}
