"""Transactions: their ends, as producers say them (37), questions (39), second chances (323)."""

import logging
from collections.abc import Mapping
from itertools import count
from typing import Final

from roketto.broker.clients import Clients
from roketto.broker.context import Context, Handler
from roketto.broker.dedup import note_committed
from roketto.broker.half_messages import (
    as_asked,
    as_committed,
    as_resumed,
    first_link,
    immunity_ms,
)
from roketto.broker.plain_commit import NOT_PLAIN_END, commit_plain
from roketto.broker.put import put
from roketto.broker.timer_rules import TIMERS
from roketto.protocol import property_names as names
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
    ResumeCheckHalfMessageRequest,
)
from roketto.protocol.names import HALF_TOPIC, TRANSACTION_GIVEN_UP_TOPIC
from roketto.protocol.record import Record, encode_record
from roketto.protocol.sysflags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, TRANSACTION_TYPE
from roketto.remoting.connection import Connection, Reply
from roketto.store.segments import OutsideLogError

log = logging.getLogger(__name__)

_COPIES_MAX: Final = 64
"""Messages with one key that are looked at for a commit that was before."""
_INDEX_STEP_MS: Final = 1_000
"""The index has whole seconds, counted from its first key."""
_turns = count()


def end_transaction(context: Context, connection: Connection, request: Command) -> Reply:
    """37: commit or roll back; what does not know yet is not answered, as in Java.

    A transaction ends once. Java stores its message again with every commit; here the second one is
    told what became of the first.
    """
    header = decode_header(EndTransactionRequest, request.ext)
    decision = header.commit_or_rollback
    if decision not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        log.debug("%s does not know what became of %s", connection.peer, header.transaction_id)
        return None
    if context.durability.is_busy:
        context.durability.refuse()
    if decision == TRANSACTION_COMMIT:
        end = commit_plain(
            context, header.half_queue_offset, header.log_offset, header.producer_group
        )
        if end != NOT_PLAIN_END:
            return None if request.is_one_way else _answer(context, connection, request, end)
    half = _find_half(context, header)
    first = first_link(half)
    link_at = context.transactions.find_open(first)
    if link_at is None:
        return _answer_again(context, request, half, decision == TRANSACTION_COMMIT)
    if not header.from_transaction_check:
        _check_age(context, half)
    if decision == TRANSACTION_COMMIT:
        end = _commit(context, context.store.record_at(link_at))
        context.transactions.commit(first, header.half_queue_offset, end)
    else:
        end = context.transactions.roll_back(first, header.half_queue_offset)
    return None if request.is_one_way else _answer(context, connection, request, end)


def _answer(context: Context, connection: Connection, request: Command, end: int) -> Reply:
    answer = request.answer(ResponseCode.SUCCESS)
    return context.durability.answer_when_safe(connection, request, answer, end)


def _find_half(context: Context, header: EndTransactionRequest) -> Record:
    """The half message that is meant; RequestError if there is none, or another one."""
    try:
        half = context.store.record_at(header.log_offset)
    except (OutsideLogError, RecordError) as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"Find prepared transaction message failed at offset {header.log_offset}: {error}",
        ) from error
    group = half.get_property(names.PRODUCER_GROUP)
    if half.topic != HALF_TOPIC:
        reason = f"no half message is at offset {header.log_offset}, but one of topic {half.topic}"
    elif group != header.producer_group:
        reason = f"The producer group wrong: it is of {group}, not of {header.producer_group}"
    elif half.queue_offset != header.half_queue_offset:
        reason = (
            f"The transaction state table offset wrong: it is {half.queue_offset}, not"
            f" {header.half_queue_offset}"
        )
    else:
        return half
    raise RequestError(ResponseCode.SYSTEM_ERROR, reason)


def _check_age(context: Context, half: Record) -> None:
    """Whoever wants to be asked late must decide before that, or wait until he is asked."""
    immunity = immunity_ms(half)
    if immunity is None:
        return
    bound_ms = max(immunity, context.config.transaction_time_out)
    age_ms = context.clock_ms() - half.born_time_ms
    if age_ms > bound_ms:
        raise RequestError(
            ResponseCode.ILLEGAL_OPERATION,
            f"checkImmunityTime {bound_ms} ms is over, the half message is {age_ms} ms old: decide"
            " when the broker asks",
        )


def _commit(context: Context, half: Record) -> int:
    """Store a message where it belongs; where it ends in the log."""
    committed = as_committed(half)
    if committed is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{half!r} says of no queue that it is for; it cannot be sent",
        )
    topic = committed.topic
    where = put(context, committed)
    note_committed(context, topic, committed.properties_raw, where.log_offset)
    return where.end


def _answer_again(context: Context, request: Command, half: Record, is_commit: bool) -> Reply:
    """Of a transaction that was decided before: whether it was decided like this."""
    log.info("%r was decided before", half)
    was_committed = _was_committed(context, half)
    if request.is_one_way or was_committed in (None, is_commit):
        return None if request.is_one_way else request.answer(ResponseCode.SUCCESS)
    ending = "committed" if was_committed else "rolled back"
    raise RequestError(
        ResponseCode.SYSTEM_ERROR, f"the transaction was {ending} before, and ends once"
    )


def _was_committed(context: Context, half: Record) -> bool | None:
    """Whether the message of a transaction is there; None if nobody can tell."""
    topic = half.get_property(names.REAL_TOPIC)
    key = half.get_property(names.UNIQ_KEY)
    # One that is delayed may still wait elsewhere.
    is_delayed = any(half.get_property(name) is not None for name in (names.DELAY, *TIMERS))
    if not topic or not key or is_delayed or not context.config.message_index_enable:
        return None
    since_ms = half.store_time_ms - _INDEX_STEP_MS
    offsets = context.store.query(topic, key, _COPIES_MAX, since_ms, context.clock_ms())
    found = (context.store.record_at(offset) for offset in offsets)
    is_there = any(
        record.sys_flag & TRANSACTION_TYPE == TRANSACTION_COMMIT
        and record.get_property(names.UNIQ_KEY) == key
        for record in found
    )
    # What waits for the disk is not in the index yet, and may be just this message.
    return None if not is_there and context.store.appender.waiting.messages else is_there


def ask_producer(clients: Clients, broker_name: str, half: Record) -> bool:
    """39: ask some producer of the group what became of a half message; False without any."""
    asked = as_asked(half)
    group = half.get_property(names.PRODUCER_GROUP)
    if asked is None or not group:
        return False
    connections = clients.producer_connections(group)
    unique_key = half.get_property(names.UNIQ_KEY)
    header = CheckTransactionStateRequest(
        topic=HALF_TOPIC,
        half_queue_offset=half.queue_offset,
        log_offset=half.log_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=half.offset_id,
        target_broker_name=broker_name,
    )
    body = encode_record(asked)
    turn = next(_turns)
    return any(
        connections[(turn + number) % len(connections)].send_one_way(
            Command(RequestCode.CHECK_TRANSACTION_STATE, encode_header(header), body)
        )
        for number in range(len(connections))
    )


def resume_check(context: Context, connection: Connection, request: Command) -> Reply:
    """323: ask again about a message that was given up, as if nobody had been asked before.

    Java takes any message, and the same one as often as it is asked to; here a transaction that is
    open again, or was committed since, is not begun once more.
    """
    header = decode_header(ResumeCheckHalfMessageRequest, request.ext)
    given_up = _find_given_up(context, header.msg_id or "")
    sent = as_resumed(given_up)
    if sent is None:
        reason = f"{given_up!r} says of no queue that it is for; it cannot be sent"
        raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
    _check_not_resumed(context, given_up)
    where = context.transactions.prepare(sent)
    log.info("%s lets %r be asked about again", connection.peer, given_up)
    answer = request.answer(ResponseCode.SUCCESS)
    return context.durability.answer_when_safe(connection, request, answer, where.end)


def _find_given_up(context: Context, message_id: str) -> Record:
    try:
        found = context.store.record_by_id(message_id)
    except (OutsideLogError, RecordError) as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"no message has the id {message_id[:64]!a}: {error}"
        ) from error
    if found.topic != TRANSACTION_GIVEN_UP_TOPIC:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"message {message_id} is of topic {found.topic}, so it was not given up: take one of"
            f" {TRANSACTION_GIVEN_UP_TOPIC}",
        )
    return found


def _check_not_resumed(context: Context, given_up: Record) -> None:
    """RequestError if its transaction is open again, or was committed since."""
    if _was_committed(context, given_up):
        reason = "its message was committed since it was given up, and a transaction ends once"
        raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
    key = given_up.get_property(names.UNIQ_KEY)
    if not key or not context.config.message_index_enable:
        return
    since_ms = given_up.store_time_ms - _INDEX_STEP_MS
    offsets = context.store.query(HALF_TOPIC, key, _COPIES_MAX, since_ms, context.clock_ms())
    for half in map(context.store.record_at, offsets):
        is_open = context.transactions.find_open(first_link(half)) is not None
        if is_open and half.get_property(names.UNIQ_KEY) == key:
            reason = "its transaction is open again: producers are asked about it already"
            raise RequestError(ResponseCode.SYSTEM_ERROR, reason)


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.END_TRANSACTION: end_transaction,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: resume_check,
}
