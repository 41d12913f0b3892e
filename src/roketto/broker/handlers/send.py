"""Sending: messages one by one and in batches (10, 310, 320).

A topic with a dedup window takes each message once: see dedup.py. The message of a retry that came
before is answered with the place of the first.

A message that asks for nothing special, as nearly all do, takes ``plain_send.store_plain``, and one
that only waits ``aside_send.store_aside``; from connections that FastJSON writes to, ``send_lane``
leads there before this is asked. What is not as plain as that takes ``send_any``, which looks at
everything, in the order of Java's checks.
"""

import random
from collections.abc import Mapping
from typing import Final

from roketto.broker.aside_send import find_wait, store_aside
from roketto.broker.context import Context, Handler
from roketto.broker.dedup import find_first, queue_of, wait_until_ready
from roketto.broker.dedup_window import DedupWindow
from roketto.broker.half_messages import is_marked
from roketto.broker.plain_send import NOT_PLAIN, Place, store_plain, unique_key
from roketto.broker.priority import prioritize
from roketto.broker.put import prepare, put, put_batch
from roketto.broker.put_once import put_batch_once
from roketto.broker.recall import make_handle
from roketto.broker.retry import group_of_retry_topic, is_dead_on_send, retries_max
from roketto.broker.sending import Sending
from roketto.broker.topics import PERM_WRITE, SendTarget
from roketto.protocol import property_names as names
from roketto.protocol.bodies.topics import TopicFilterType
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import ONE_WAY_FLAG, Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.send import SendMessageRequest, SendMessageV2Request
from roketto.protocol.limits import TOPIC_BYTES_MAX
from roketto.protocol.names import TIMER_TOPIC, dlq_topic, is_retry_topic
from roketto.protocol.properties import get_property, join_properties, remove_property
from roketto.protocol.record import Record
from roketto.protocol.sysflags import (
    MULTI_TAGS,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from roketto.protocol.utf8 import decode_utf8, encode_utf8
from roketto.remoting.connection import Connection, Reply

SendHeader = SendMessageRequest | SendMessageV2Request
"""Both have the same fields, but for those that nobody here looks at."""

_DLQ_QUEUES: Final = 1
_INT_DIGITS: Final = 9
_LONG_DIGITS: Final = 18
"""A number of so many digits is a Java int or long for sure."""
_PRIORITY: Final = b"_SYS_MSG_PRIORITY_\x01"


def send_v2(context: Context, connection: Connection, request: Command) -> Reply:
    """310 and 320: a message, or a batch of them, under one-letter names."""
    ext = request.ext
    if (
        ext is None
        or ext.get("j", "0") != "0"
        or ext.get("m", "false") != "false"
        or "l" in ext
        or "a" not in ext
        or "c" not in ext
    ):
        return send_any(context, connection, request)
    queue, bits, born, flag = (ext.get(name, "") for name in "efgh")
    count = ext.get("d", "")
    if (
        not (queue and bits and born and flag and count)
        or not (queue + bits + born + flag + count).isdecimal()
        or max(len(queue), len(bits), len(born), len(flag)) > _LONG_DIGITS
        or len(count) > _INT_DIGITS
    ):
        return send_any(context, connection, request)
    raw = encode_utf8(ext.get("i", ""))
    plain_key = unique_key(raw)
    key = decode_utf8(plain_key)
    handle = ""
    if plain_key:
        where = store_plain(
            context, connection, ext.get("b", ""), int(queue), int(bits), int(born), int(flag),
            raw, request.body, plain_key,
        )  # fmt: skip
    else:
        wait = find_wait(raw)
        if wait is None:
            return send_any(context, connection, request)
        key = wait.key
        where, handle = store_aside(
            context, connection, ext.get("b", ""), int(queue), int(bits), int(born), int(flag),
            raw, request.body, wait,
        )  # fmt: skip
    if where == NOT_PLAIN:
        return send_any(context, connection, request)
    if request.flag & ONE_WAY_FLAG:
        return None
    answer = _answer_plain(request, context.sending, where, queue, key, handle)
    if b"WAIT\x01true" in raw or waits_for_disk(raw):
        end = where[1] + where[2]
        return context.durability.answer_when_safe(connection, request, answer, end)
    return answer


def _answer_plain(
    request: Command, sending: Sending, where: Place, queue: str, key: str, handle: str
) -> Command:
    ext = {
        "msgId": f"{sending.id_prefix}{where[1]:016X}",
        "queueId": queue,
        "queueOffset": str(where[0]),
        "transactionId": key,
    }
    if handle:
        ext["recallHandle"] = handle
    ext[names.MSG_REGION] = sending.region
    ext[names.TRACE_ON] = sending.trace
    return request.answer(0, ext)


# --- all others -----------------------------------------------------------------------------------


def send_v1(context: Context, connection: Connection, request: Command) -> Reply:
    """10: the same under full names."""
    return _send(context, connection, request, decode_header(SendMessageRequest, request.ext))


def send_any(context: Context, connection: Connection, request: Command) -> Reply:
    """310 and 320, whatever is asked."""
    return _send(context, connection, request, decode_header(SendMessageV2Request, request.ext))


def _send(context: Context, connection: Connection, request: Command, header: SendHeader) -> Reply:
    target = check_send(context, connection, header)
    window = target.window
    if window is not None and not window.is_ready:
        return _send_later(context, connection, request, header, window)
    if header.batch:
        return _send_batch(context, connection, request, header, target)
    queue_id = choose_queue(header, target)
    record = make_record(context, connection, request, header, target, queue_id)
    raw = own_properties(context, header.properties)
    identity = None if window is None else window.identity(raw)
    unique_key = get_property(raw, names.UNIQ_KEY)
    if unique_key is None:
        unique_key = context.sending.next_unique_id()
        raw = join_properties(raw, encode_utf8(f"{names.UNIQ_KEY}\x01{unique_key}\x02"))
    record.properties_raw = raw
    if is_retry_topic(header.topic):
        _redirect_dead(context, request, header, record)
    if target.is_compacted and not (get_property(raw, names.KEYS) or "").strip():
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"Required message key is missing: topic {header.topic} is compacted and keeps the last"
            " message of each key; set KEYS",
        )
    if _PRIORITY in raw and prioritize(record, target.write_queue_count):
        queue_id = record.queue_id
    is_half = _is_half(context, record)
    if window is not None and identity is not None:
        first = find_first(context, window, identity, is_half=is_half)
        if first is not None:
            return _answer_again(context, connection, request, raw, window, first)
    where = prepare(context, record) if is_half else put(context, record)
    if window is not None and identity is not None:
        window.remember(identity, where.log_offset)
    ext = {
        "msgId": where.message_id,
        "queueId": str(queue_id),
        "queueOffset": str(where.queue_offset),
        "transactionId": unique_key,
    }
    if record.topic == TIMER_TOPIC and not is_retry_topic(header.topic):
        handle = make_handle(context.config.broker_name, record)
        if handle is not None:
            ext["recallHandle"] = handle
    return answer_stored(context, connection, request, raw, ext, where.end)


async def _send_later(
    context: Context,
    connection: Connection,
    request: Command,
    header: SendHeader,
    window: DedupWindow,
) -> Command | None:
    """Send once the window of the topic knows what was sent before; RequestError if it does not."""
    await wait_until_ready(window)
    answer = _send(context, connection, request, header)
    # It has to wait once more if an operator has changed the topic meanwhile.
    return answer if answer is None or isinstance(answer, Command) else await answer


def _answer_again(
    context: Context,
    connection: Connection,
    request: Command,
    raw: bytes,
    window: DedupWindow,
    first: Record,
) -> Reply:
    """Say of a message that came before where it is, once that one is safe."""
    context.topics.windows.room.duplicates += 1
    ext = {
        "msgId": first.offset_id,
        "queueId": queue_of(first, window),
        "queueOffset": str(first.queue_offset),
        "transactionId": first.get_property(names.UNIQ_KEY) or "",
    }
    return answer_stored(
        context, connection, request, raw, ext, first.log_offset + first.size, is_old=True
    )


def _send_batch(
    context: Context,
    connection: Connection,
    request: Command,
    header: SendHeader,
    target: SendTarget,
) -> Reply:
    """Its messages are stored as they were sent; only place and time are the broker's."""
    check_batch_topic(header.topic)
    queue_id = choose_queue(header, target)
    batch = make_record(context, connection, request, header, target, queue_id)
    batch.properties_raw = raw = encode_utf8(header.properties or "")
    if target.window is not None:
        told = put_batch_once(context, target.window, batch)
        ext = told.ext(raw)
        return answer_stored(context, connection, request, raw, ext, told.end, is_old=True)
    where = put_batch(context, batch)
    ext = {
        "msgId": where.joined_message_ids,
        "queueId": str(queue_id),
        "queueOffset": str(where.queue_offset),
    }
    unique_key = get_property(raw, names.UNIQ_KEY)
    if unique_key is not None:
        ext["transactionId"] = unique_key
    return answer_stored(context, connection, request, raw, ext, where.end)


def check_batch_topic(topic: str) -> None:
    """RequestError if a topic does not take batches."""
    if len(topic) > TOPIC_BYTES_MAX:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"message topic length too long {len(topic)}: batches take {TOPIC_BYTES_MAX} at most;"
            " send the messages one by one",
        )
    if is_retry_topic(topic):
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"batch request does not support retry group {topic}: send the messages one by one",
        )


def answer_stored(
    context: Context,
    connection: Connection,
    request: Command,
    raw: bytes,
    ext: dict[str, str],
    end: int,
    *,
    is_old: bool = False,
) -> Reply:
    """Say where a message is, once it is as safe as its properties ``raw`` ask for.

    One that ``is_old`` may have been safe for long, and nobody would tell of it again.
    """
    if request.is_one_way:
        return None
    ext[names.MSG_REGION] = context.sending.region
    ext[names.TRACE_ON] = context.sending.trace
    answer = request.answer(0, ext)
    if waits_for_disk(raw) and not (is_old and end <= context.store.flushed):
        return context.durability.answer_when_safe(connection, request, answer, end)
    return answer


def waits_for_disk(raw: bytes) -> bool:
    """Whether the producer wants its answer when the message is safe; it may say WAIT=false."""
    wait = get_property(raw, names.WAIT)
    return wait is None or wait.lower() == "true"


# --- what is checked, in this order ---------------------------------------------------------------


def check_send(context: Context, connection: Connection, header: SendHeader) -> SendTarget:
    """The topic to send to; RequestError if it, its queue or the broker may not be sent to."""
    config = context.config
    start_ms = config.start_accept_send_request_time_stamp
    if start_ms and context.clock_ms() < start_ms:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"broker unable to service, until {start_ms} ms since 1970"
            " (startAcceptSendRequestTimeStamp); send to another broker",
        )
    if context.durability.is_busy:
        context.durability.refuse()
    topic = header.topic
    known = context.topics.get(topic)
    if not config.broker_permission & PERM_WRITE and known is not None and known.order:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{context.address}] sending message is forbidden: brokerPermission is"
            f" {config.broker_permission}, without write (2), and topic {topic} is an ordered one",
        )
    target = context.topics.target(
        topic, header.default_topic, header.default_topic_queue_nums, bool(header.unit_mode)
    )
    if header.queue_id >= target.queue_count:
        found = target.config
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{header.queue_id}] is illegal, topic {topic} has"
            f" {found.write_queue_nums} queues to write and {found.read_queue_nums} to read,"
            f" counted from 0. Producer: {connection.peer}",
        )
    return target


def choose_queue(header: SendHeader, target: SendTarget) -> int:
    """The queue that was asked for; below zero means any."""
    if header.queue_id >= 0:
        return header.queue_id
    if target.write_queue_count <= 0:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"topic {header.topic} has no queue to write to (writeQueueNums is"
            f" {target.write_queue_count}); give it some with mqadmin updateTopic",
        )
    return random.randrange(target.write_queue_count)


def _redirect_dead(context: Context, request: Command, header: SendHeader, record: Record) -> None:
    """Let a message for a retry topic that was tried often enough become a dead letter."""
    name = group_of_retry_topic(header.topic)
    group = context.groups.find(name)
    if group is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group not exist, {name}: create it with mqadmin updateSubGroup, or set"
            " autoCreateSubscriptionGroup",
        )
    times_max = retries_max(group, request.version, header.max_reconsume_times)
    is_orderly = context.locks.is_group_locked(name)
    if is_dead_on_send(record.reconsume_times, times_max, is_orderly=is_orderly):
        dead = context.topics.create_for_group(dlq_topic(name), _DLQ_QUEUES)
        record.topic = dead.topic_name
        record.queue_id = 0
        record.set_property(names.DELAY, "-1")  # as Java leaves it: it is delivered at once


def _is_half(context: Context, record: Record) -> bool:
    """Whether a message waits for the end of its transaction; RequestError if it may not.

    A client before 4.6.1 leaves the mark of a transaction on a message that it sends for a retry.
    Such a message is an ordinary one; with its bits it would be in no queue.
    """
    kind = record.sys_flag & TRANSACTION_TYPE
    if is_marked(record):
        if record.reconsume_times > 0 and context.delays.level_of(record) > 0:
            record.sys_flag &= ~TRANSACTION_TYPE
            return False
        if context.config.reject_transaction_message:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{context.address}] sending transaction message is forbidden:"
                " rejectTransactionMessage is true; send to another broker",
            )
        return True
    if kind in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"sysFlag {record.sys_flag} marks a message that is prepared or rolled back, so that"
            " nobody would consume it; send it without bits 0xC, or with property TRAN_MSG",
        )
    return False


# --- the record -----------------------------------------------------------------------------------


def make_record(
    context: Context,
    connection: Connection,
    request: Command,
    header: SendHeader,
    target: SendTarget,
    queue_id: int,
) -> Record:
    """The record of a request, without its properties; the body stays where it arrived."""
    sys_flag = header.sys_flag
    if target.config.topic_filter_type is TopicFilterType.MULTI_TAG:
        sys_flag |= MULTI_TAGS
    return Record(
        header.topic,
        request.body,
        queue_id=queue_id,
        flag=header.flag,
        sys_flag=sys_flag,
        born_time_ms=header.born_timestamp,
        born_host=connection.peer_host,
        store_host=context.store_host,
        reconsume_times=header.reconsume_times or 0,
    )


def own_properties(context: Context, properties: str | None) -> bytes:
    """A producer's properties and behind them the broker's, none of them twice."""
    raw = encode_utf8(properties or "")
    for name in (names.POP_CK, names.MSG_REGION, names.TRACE_ON, names.CLUSTER):
        raw = remove_property(raw, name)
    return join_properties(raw, context.sending.own_properties)


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.SEND_MESSAGE: send_v1,
    RequestCode.SEND_MESSAGE_V2: send_v2,
    RequestCode.SEND_BATCH_MESSAGE: send_v2,
}
