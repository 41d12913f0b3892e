"""Taking back a timer message before it is delivered (370)."""

from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.put import put
from roketto.broker.recall import Handle, make_recall, parse_handle
from roketto.broker.topics import PERM_WRITE
from roketto.protocol import property_names as names
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.send import RecallMessageRequest, RecallMessageResponse
from roketto.remoting.connection import Connection, Reply
from roketto.store.put_status import PutRefusedError


def recall(context: Context, connection: Connection, request: Command) -> Reply:
    """370: store a message that takes back another, which waits for the same slot."""
    header = decode_header(RecallMessageRequest, request.ext)
    _check_broker(context)
    if context.topics.get(header.topic) is None:
        raise RequestError(
            ResponseCode.TOPIC_NOT_EXIST,
            f"recall failed, the topic[{header.topic}] not exist",
        )
    handle = parse_handle(header.recall_handle)
    _check_handle(context, header.topic, handle)
    now_ms = context.clock_ms()
    record = make_recall(
        handle, header.producer_group, now_ms, connection.peer_host, context.store_host
    )
    try:
        where = put(context, record)
    except PutRefusedError as refused:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {refused.reason}"
        ) from refused
    if request.is_one_way:
        return None
    ext = encode_header(RecallMessageResponse(msg_id=handle.unique_key))
    ext[names.MSG_REGION] = context.sending.region
    answer = request.answer(ResponseCode.SUCCESS, ext)
    return context.durability.answer_when_safe(connection, request, answer, where.end)


def _check_broker(context: Context) -> None:
    config = context.config
    if not config.recall_message_enable:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            "recall failed, operation is forbidden: recallMessageEnable is false",
        )
    start_ms = config.start_accept_send_request_time_stamp
    if context.clock_ms() < start_ms:
        raise RequestError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"recall failed, broker service not available until {start_ms} ms since 1970"
            " (startAcceptSendRequestTimeStamp)",
        )
    if (
        not config.broker_permission & PERM_WRITE
        and not config.allow_recall_when_broker_not_writeable
    ):
        raise RequestError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "recall failed, broker service not available: brokerPermission is"
            f" {config.broker_permission}, without write (2), and"
            " allowRecallWhenBrokerNotWriteable is false",
        )
    if context.durability.is_busy:
        context.durability.refuse()


def _check_handle(context: Context, topic: str, handle: Handle) -> None:
    config = context.config
    left_ms = handle.deliver_ms - context.clock_ms()
    if handle.topic != topic:
        reason = f"topic not match: the handle is of {handle.topic[:127]!a}, not of {topic}"
    elif handle.broker_name != config.broker_name:
        reason = (
            f"broker service not available: the handle is of broker {handle.broker_name[:255]!a},"
            f" this is {config.broker_name}"
        )
    elif not 0 < left_ms < config.timer_max_delay_sec * 1000:
        reason = (
            f"timestamp invalid: the message is due in {left_ms} ms, which must be above 0 and"
            f" below {config.timer_max_delay_sec} s (timerMaxDelaySec)"
        )
    else:
        return
    raise RequestError(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {reason}")


ROUTES: Final[Mapping[RequestCode, Handler]] = {RequestCode.RECALL_MESSAGE: recall}
