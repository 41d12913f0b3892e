"""A send that is put aside first: it waits for a time of its own, or for its transaction to end.

As in plain_send.py its property string is never taken apart, only searched; what comes to the log
is what ``handlers.send.send_any`` would store, byte for byte. Whatever says more than that it waits
is left to it.
"""

import sys
from typing import Final

from roketto.broker.context import Context
from roketto.broker.half_messages import HALF_QUEUE_ID
from roketto.broker.plain_send import NOT_PLAIN, Place, has_plain_fields
from roketto.broker.recall import write_handle
from roketto.broker.timer_rules import TIMER_QUEUE_ID, TIMERS
from roketto.broker.topics import SendTarget
from roketto.protocol.names import HALF_TOPIC, TIMER_TOPIC
from roketto.protocol.record import encode_topic
from roketto.protocol.sysflags import TRANSACTION_TYPE
from roketto.protocol.utf8 import encode_utf8
from roketto.remoting.connection import Connection

__all__ = ["NOT_ASIDE", "Aside", "aside_key", "store_aside"]

_UNIQUE_KEY: Final = "UNIQ_KEY\x01"
_TIMER: Final = "TIMER_DEL"
_HALF: Final = "TRAN_MSG\x01"
_GROUP: Final = "PGROUP\x01"
_OTHERS: Final = (
    "DELAY\x01", "POP_CK\x01", "CLUSTER\x01", "INNER_NUM\x01", "_PRIORITY_\x01", "MSG_REGION\x01",
    "TRACE_ON\x01", "REAL_", "TIMER_OUT_MS\x01", "TIMER_DEL_UNIQKEY\x01", "TIMER_ROLL_TIMES\x01",
    "__transactionId__\x01", "CHECK_IMMUNITY_TIME_IN_SECONDS\x01", "TRANSACTION_CHECK_TIMES\x01",
    "TRAN_PREPARED_QUEUE_OFFSET\x01", "__CRC32#", "\x01\x02",
)  # fmt: skip
"""With one of these, properties are changed on their way, or more is to be looked at."""
_TIMER_NAMES: Final = tuple(f"{name}\x01" for name in TIMERS)
_TIMER_FIELD: Final = encode_topic(TIMER_TOPIC)
_HALF_FIELD: Final = encode_topic(HALF_TOPIC)

Aside = tuple[Place, str]
"""Where a message waits, and its handle if it can be recalled."""

NOT_ASIDE: Final = (NOT_PLAIN, "")


def aside_key(properties: str) -> str:
    """The producer's id of a message that only waits, for one thing; empty for any other."""
    if (_TIMER in properties) == (_HALF in properties):
        return ""
    for name in _OTHERS:
        if name in properties:
            return ""
    at = properties.rfind(_UNIQUE_KEY)
    end = properties.find("\x02", at)
    if at < 0 or end < 0 or (at and properties[at - 1] != "\x02"):
        return ""
    return properties[at + len(_UNIQUE_KEY) : end]


def store_aside(
    context: Context,
    connection: Connection,
    topic: str,
    queue_id: int,
    sys_flag: int,
    born_time_ms: int,
    flag: int,
    properties: str,
    body: bytes | memoryview,
    key: str,
) -> Aside:
    """Store a message that waits; NOT_ASIDE, and nothing stored, if it is not as simple as that.

    ``key`` is its ``aside_key``. PutRefusedError if the store does not take it.
    """
    target: SendTarget | None = context.topics.targets.get(topic)
    is_half = _HALF in properties
    bits = sys_flag & ~TRANSACTION_TYPE if is_half else sys_flag
    if (
        target is None
        or not target.is_plain
        or topic == TIMER_TOPIC
        or not has_plain_fields(context, target, queue_id, bits, flag, body)
    ):
        return NOT_ASIDE
    raw = properties.encode() if properties.isascii() else encode_utf8(properties)
    if not raw.endswith(b"\x02"):
        raw += b"\x02"
    raw += context.sending.own_properties
    if not is_half:
        return _store_timer(
            context, connection, target, queue_id, bits, born_time_ms, flag, properties, raw, body,
            key,
        )  # fmt: skip
    group = _only_value(properties, _GROUP)
    transactions = context.transactions
    if (
        not group
        or _only_value(properties, _HALF).lower() != "true"
        or context.config.reject_transaction_message
        or transactions.is_full
    ):
        return NOT_ASIDE
    real = f"__transactionId__\x01{key}\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02"
    place = _append(
        context, connection, HALF_TOPIC, _HALF_FIELD, HALF_QUEUE_ID, bits, born_time_ms, flag,
        body, raw + encode_utf8(real),
    )  # fmt: skip
    transactions.enter_plain(
        place[0], place[1], born_time_ms, sys.intern(group), target.name, queue_id
    )
    return place, ""


def _store_timer(
    context: Context,
    connection: Connection,
    target: SendTarget,
    queue_id: int,
    bits: int,
    born_time_ms: int,
    flag: int,
    properties: str,
    raw: bytes,
    body: bytes | memoryview,
    key: str,
) -> Aside:
    timers = context.timers
    slot_ms = -1
    if properties.count(_TIMER) == 1:
        for number in range(len(TIMERS)):
            text = _only_value(properties, _TIMER_NAMES[number])
            if text:
                slot_ms = timers.gate.quick_slot(TIMERS[number], text)
    if slot_ms < 0:
        return NOT_ASIDE
    topic = target.name
    real = f"TIMER_OUT_MS\x01{slot_ms}\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02"
    place = _append(
        context, connection, TIMER_TOPIC, _TIMER_FIELD, TIMER_QUEUE_ID, bits, born_time_ms, flag,
        body, raw + encode_utf8(real),
    )  # fmt: skip
    timers.intake.note(place[1], slot_ms, topic)
    return place, write_handle(topic, context.config.broker_name, slot_ms, key)


def _append(
    context: Context,
    connection: Connection,
    topic: str,
    field: bytes,
    queue_id: int,
    bits: int,
    born_time_ms: int,
    flag: int,
    body: bytes | memoryview,
    raw: bytes,
) -> Place:
    store = context.store
    place = store.appender.append_fields(
        topic, field, queue_id, flag, bits, born_time_ms, connection.peer_host,
        context.sending.store_host, body, raw,
    )  # fmt: skip
    context.stats.note_put(topic, queue_id, 1, place[2], store.log.store_time_ms)
    return place


def _only_value(properties: str, name: str) -> str:
    """The value of a property that is there once, and nowhere within another one; else empty."""
    at = properties.find(name)
    if at < 0 or (at and properties[at - 1] != "\x02") or properties.find(name, at + 1) >= 0:
        return ""
    begin = at + len(name)
    end = properties.find("\x02", begin)
    return properties[begin:] if end < 0 else properties[begin:end]
