"""The way of every message into the store: delays are told from the rest, and what is put counts.

========================  ===================================================================
``put``                   one message as a client, or this broker for it, wants it delivered
``prepare``               one message that waits for the end of its transaction
``put_as_is``             one message that goes into the queue it names, whatever it says of delays
``put_batch``             the messages of a batch, all or none
========================  ===================================================================

All of them raise PutRefusedError, with nothing written, where the store does not take a message.
"""

from typing import Final

from roketto.broker.context import Context
from roketto.broker.stats import Statistics
from roketto.protocol.properties import get_property
from roketto.protocol.property_names import INNER_NUM
from roketto.protocol.record import Record
from roketto.protocol.sysflags import INNER_BATCH, TRANSACTION_TYPE
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import BatchResult, PutResult, Store

_DELAY: Final = b"DELAY\x01"
_TIMER: Final = b"TIMER_DEL"
"""Without these two in its property string a message has no delay; with one it may have."""
_INNER_NUM: Final = b"INNER_NUM\x01"


def put(context: Context, record: Record, *, is_given_back: bool = False) -> PutResult:
    """Store a message, or let it wait for its time if it is a delayed one.

    ``record`` then says where it is: topic and queue are those of the delay level while it waits.
    One that a consumer has given back is counted as Java does, which is not as a send.
    """
    _check(record)
    raw = record.properties_raw
    if _DELAY in raw or _TIMER in raw:
        context.delays.transform(record)
    if not is_given_back:
        return put_as_is(context.store, context.stats, record)
    result = _append(context.store, context.stats, record)
    context.stats.note_put_back(record.topic, record.queue_id, result.size, result.store_time_ms)
    return result


def prepare(context: Context, record: Record) -> PutResult:
    """Store a half message. If it is a delayed one, its time counts from when it is committed."""
    _check(record)
    if _TIMER in record.properties_raw:
        context.timers.gate.check(record)
    return context.transactions.prepare(record)


def _check(record: Record) -> None:
    if not record.body:
        raise PutRefusedError(
            PutStatus.MESSAGE_ILLEGAL,
            f"the message for topic {record.topic} has no body; send at least one byte",
        )
    if record.sys_flag & INNER_BATCH or _INNER_NUM in record.properties_raw:
        _refuse_inner_batch(record)


def put_as_is(store: Store, stats: Statistics, record: Record) -> PutResult:
    """Store a message in the queue it names."""
    result = _append(store, stats, record)
    stats.note_put(record.topic, record.queue_id, 1, result.size, result.store_time_ms)
    return result


def _append(store: Store, stats: Statistics, record: Record) -> PutResult:
    try:
        return store.append(record)
    except PutRefusedError:
        stats.put_failed += 1
        raise


def put_batch(context: Context, batch: Record) -> BatchResult:
    """Store the messages of a batch. Neither delays nor transactions come in batches."""
    raw = batch.properties_raw
    if batch.sys_flag & INNER_BATCH or _INNER_NUM in raw:
        _refuse_inner_batch(batch)
    if batch.sys_flag & TRANSACTION_TYPE:
        raise PutRefusedError(
            PutStatus.MESSAGE_ILLEGAL,
            f"sysFlag {batch.sys_flag} of a batch for topic {batch.topic} marks a transaction;"
            " send the messages of a transaction one by one",
        )
    if _DELAY in raw or _TIMER in raw:
        context.delays.refuse_in_batch(batch)
    stats = context.stats
    try:
        result = context.store.append_batch(batch)
    except PutRefusedError:
        stats.put_failed += 1
        raise
    sizes = result.sizes
    stats.note_put(batch.topic, batch.queue_id, len(sizes), sum(sizes), result.store_time_ms)
    return result


def _refuse_inner_batch(record: Record) -> None:
    """Queues here hold single messages; a batch in one record would be one message to them."""
    count = get_property(record.properties_raw, INNER_NUM)
    if record.sys_flag & INNER_BATCH:
        reason = f"sysFlag {record.sys_flag} (bit 0x80) says that the body is an inner batch"
    elif count is not None:
        reason = f"property INNER_NUM is {count[:20]!a}"
    else:
        return
    raise PutRefusedError(
        PutStatus.MESSAGE_ILLEGAL,
        f"the message for topic {record.topic} is an inner batch ({reason}), which only queues of"
        " type BatchCQ hold; send a batch by request code 320",
    )
