"""Answers to request messages (324, 325): on to the client that asked, and into the store."""

import logging
from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.handlers.send import (
    check_send,
    choose_queue,
    make_record,
    own_properties,
    waits_for_disk,
)
from roketto.broker.put import put
from roketto.protocol import property_names as names
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.pushes import ReplyMessageRequest
from roketto.protocol.headers.send import (
    SendMessageRequest,
    SendMessageV2Request,
    send_request_from_v2,
)
from roketto.protocol.properties import get_property, join_properties
from roketto.protocol.record import Record
from roketto.protocol.utf8 import decode_utf8, encode_utf8
from roketto.remoting.connection import Connection, Reply
from roketto.remoting.errors import RemotingError
from roketto.store.put_status import PutRefusedError
from roketto.store.store import PutResult

log = logging.getLogger(__name__)

PUSH_TIMEOUT_MS: Final = 10_000
"""How long the client that asked may take to acknowledge its answer, as in Java."""


def reply_v1(context: Context, connection: Connection, request: Command) -> Reply:
    """324: under full names."""
    return _reply(context, connection, request, decode_header(SendMessageRequest, request.ext))


def reply_v2(context: Context, connection: Connection, request: Command) -> Reply:
    """325: under one-letter names."""
    header = send_request_from_v2(decode_header(SendMessageV2Request, request.ext))
    return _reply(context, connection, request, header)


def _reply(
    context: Context, connection: Connection, request: Command, header: SendMessageRequest
) -> Reply:
    target = check_send(context, connection, header)
    queue_id = choose_queue(header, target)
    record = make_record(context, connection, request, header, target, queue_id)
    record.properties_raw = own_properties(context, header.properties)
    return _push_and_store(context, connection, request, header, record)


async def _push_and_store(
    context: Context,
    connection: Connection,
    request: Command,
    header: SendMessageRequest,
    record: Record,
) -> Command | None:
    """The client that asked comes first. Whether it got its answer is what the replier is told."""
    queue_id = record.queue_id
    failure = await _push(context, connection, header, record)
    where = _store(context, record) if context.config.store_reply_message_enable else None
    ext = {names.MSG_REGION: context.sending.region, names.TRACE_ON: context.sending.trace}
    if where is not None or failure is None:
        ext["msgId"] = where.message_id if where is not None else "0"
        ext["queueId"] = str(queue_id)
        ext["queueOffset"] = str(where.queue_offset) if where is not None else "0"
    if failure is not None:
        return request.answer(ResponseCode.SYSTEM_ERROR, ext, remark=failure)
    answer = request.answer(ResponseCode.SUCCESS, ext)
    if where is None or not waits_for_disk(record.properties_raw):
        return answer
    safe = context.durability.answer_when_safe(connection, request, answer, where.end)
    return safe if isinstance(safe, Command) else None


async def _push(
    context: Context, connection: Connection, header: SendMessageRequest, record: Record
) -> str | None:
    """Hand the reply to the client that waits for it; why that failed, None if it did not."""
    raw = record.properties_raw
    client_id = get_property(raw, names.REPLY_TO_CLIENT)
    if client_id is None:
        return (
            f"reply message properties[{names.REPLY_TO_CLIENT}] is null: make the reply of the"
            " request message, which has it"
        )
    requester = context.clients.producer(client_id)
    if requester is None:
        return (
            f"push reply message fail, channel of <{client_id}> not found: no producer of that"
            " client id is connected to this broker"
        )
    now_ms = context.clock_ms()
    pushed = encode_utf8(f"{names.PUSH_REPLY_TIME}\x01{now_ms}\x02")
    push = ReplyMessageRequest(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=decode_utf8(join_properties(raw, pushed)),
        reconsume_times=header.reconsume_times,
        unit_mode=bool(header.unit_mode),
        born_host=connection.peer,
        store_host=context.address,
        store_timestamp=now_ms,
    )
    command = Command(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, encode_header(push), body=record.body
    )
    try:
        answer = await requester.request(command, PUSH_TIMEOUT_MS)
    except RemotingError as error:
        return f"push reply message to {client_id} fail: {error}"
    if answer.code != ResponseCode.SUCCESS:
        return (
            f"push reply message to {client_id} fail: it answered {answer.code},"
            f" {answer.remark or 'without a reason'}"
        )
    return None


def _store(context: Context, record: Record) -> PutResult | None:
    """Keep the reply for whoever looks for it later; that it failed spoils nothing."""
    try:
        return put(context, record)
    except PutRefusedError as refused:
        log.warning("a reply for topic %s was not stored: %s", record.topic, refused)
        return None


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.SEND_REPLY_MESSAGE: reply_v1,
    RequestCode.SEND_REPLY_MESSAGE_V2: reply_v2,
}
