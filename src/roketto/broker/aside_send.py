"""A send that is put aside first: it waits for a time of its own, or for its transaction to end.

As in plain_send.py its properties stay as they are, and are only looked through; what comes to the
log is what ``handlers.send.send_any`` would store, byte for byte. Whatever says more than that it
waits is left to it.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from roketto.broker.context import Context
from roketto.broker.half_messages import HALF_QUEUE_ID
from roketto.broker.plain_send import NOT_PLAIN, Place, has_plain_fields
from roketto.broker.recall import write_handle
from roketto.broker.timer_rules import TIMER_QUEUE_ID, TIMERS
from roketto.broker.topics import SendTarget
from roketto.protocol.bytescan import find_byte
from roketto.protocol.names import HALF_TOPIC, TIMER_TOPIC
from roketto.protocol.record import encode_topic
from roketto.protocol.sysflags import TRANSACTION_TYPE
from roketto.protocol.utf8 import decode_utf8, encode_utf8
from roketto.remoting.connection import Connection

__all__ = ["NOT_ASIDE", "Aside", "Wait", "find_wait", "store_aside"]

_NAME_END: Final = 0x01
_ITEM_END: Final = 0x02
_UNIQUE_KEY: Final = b"UNIQ_KEY"
_MARK: Final = b"TRAN_MSG"
_GROUP: Final = b"PGROUP"
_TIMER: Final = b"TIMER_DEL"
_TIMER_BYTES: Final = 9
_TIMERS: Final = {name.encode(): name for name in TIMERS}
_REAL: Final = b"REAL_"
_REAL_BYTES: Final = 5
"""To compare a begin takes compiled code less than ``startswith``."""
_OTHERS: Final = frozenset({
    b"DELAY", b"POP_CK", b"CLUSTER", b"INNER_NUM", b"_SYS_MSG_PRIORITY_", b"MSG_REGION",
    b"TRACE_ON", b"TIMER_OUT_MS", b"TIMER_ROLL_TIMES", b"__transactionId__",
    b"CHECK_IMMUNITY_TIME_IN_SECONDS", b"TRANSACTION_CHECK_TIMES", b"TRAN_PREPARED_QUEUE_OFFSET",
    b"__CRC32#",
})  # fmt: skip
"""With one of these, properties are changed on their way, or more is to be looked at."""
_FIRST_LETTERS: Final = {
    name[0] for name in (_UNIQUE_KEY, _MARK, _GROUP, _TIMER, _REAL, *_TIMERS, *_OTHERS)
}
_IS_FIRST_LETTER: Final = bytes(byte in _FIRST_LETTERS for byte in range(256))
"""Whether a name that begins with a byte has to be looked at: one look at these is all it takes."""
_OUT_MS: Final = b"TIMER_OUT_MS\x01"
_TRANSACTION_ID: Final = b"__transactionId__\x01"
_TIMER_FIELD: Final = encode_topic(TIMER_TOPIC)
_HALF_FIELD: Final = encode_topic(HALF_TOPIC)

Aside = tuple[Place, str]
"""Where a message waits, and its handle if it can be recalled."""

NOT_ASIDE: Final = (NOT_PLAIN, "")


class Wait:
    """What a message waits for: a time, which ``timer`` says in which way, or its transaction."""

    __slots__ = ("group", "key", "time", "timer")

    def __init__(self, key: str, timer: str, time: bytes, group: str) -> None:
        self.key: str = key
        """The producer's id of the message."""
        self.timer: str = timer
        """One of TIMERS; empty for a half message."""
        self.time: bytes = time
        """When, or in how long, in digits if it is as it should be."""
        self.group: str = group
        """Of the producers who know how the transaction ends; empty for a timer message."""


def find_wait(properties: bytes) -> Wait | None:
    """What a message waits for that waits for one thing and says nothing else that is special."""
    key = timer = time = mark = group = b""
    others, timers, letters = _OTHERS, _TIMERS, _IS_FIRST_LETTER
    at: i64 = 0
    size: i64 = len(properties)
    while at < size:
        end = find_byte(properties, _ITEM_END, at, size)
        name_end = find_byte(properties, _NAME_END, at, end)
        if name_end + 1 >= end:
            return None  # no value
        if not letters[properties[at]]:
            at = end + 1
            continue
        name = properties[at:name_end]
        if name == _UNIQUE_KEY:
            key = properties[name_end + 1 : end]
            if end == size:
                return None
        elif name in timers:
            if timer:
                return None
            timer, time = name, properties[name_end + 1 : end]
        elif name == _MARK:
            if mark:
                return None
            mark = properties[name_end + 1 : end]
        elif name == _GROUP:
            if group:
                return None
            group = properties[name_end + 1 : end]
        elif name in others or name[:_REAL_BYTES] == _REAL or name[:_TIMER_BYTES] == _TIMER:
            return None
        at = end + 1
    if not key:
        return None
    if timer and not mark:
        return Wait(decode_utf8(key), timers[timer], time, "")
    if group and not timer and (mark == b"true" or mark.lower() == b"true"):
        return Wait(decode_utf8(key), "", b"", decode_utf8(group))
    return None


def store_aside(
    context: Context,
    connection: Connection,
    topic: str,
    queue_id: int,
    sys_flag: int,
    born_time_ms: int,
    flag: int,
    properties: bytes,
    body: bytes | memoryview,
    wait: Wait,
) -> Aside:
    """Store a message that waits; NOT_ASIDE, and nothing stored, if it is not as simple as that.

    ``wait`` is what ``find_wait`` has found. PutRefusedError if the store does not take it.
    """
    target: SendTarget | None = context.topics.targets.get(topic)
    is_half = not wait.timer
    bits = sys_flag & ~TRANSACTION_TYPE if is_half else sys_flag
    if (
        target is None
        or not target.is_plain
        or topic == TIMER_TOPIC
        or not has_plain_fields(context, target, queue_id, bits, flag, body)
    ):
        return NOT_ASIDE
    raw = BytesWriter()
    raw.write(properties)
    if properties[-1] != _ITEM_END:
        raw.append(_ITEM_END)
    raw.write(context.sending.own_properties)
    key = wait.key
    if not is_half:
        timers = context.timers
        slot_ms = timers.gate.quick_slot(wait.timer, wait.time)
        if slot_ms < 0:
            return NOT_ASIDE
        raw.write(_OUT_MS)
        raw.write(str(slot_ms).encode())
        raw.append(_ITEM_END)
        raw.write(target.real_queue_end(queue_id))
        place = _append(
            context, connection, TIMER_TOPIC, _TIMER_FIELD, TIMER_QUEUE_ID, bits, born_time_ms,
            flag, body, raw.getvalue(),
        )  # fmt: skip
        timers.intake.note(place[1], slot_ms, target.name)
        return place, write_handle(target.name, context.config.broker_name, slot_ms, key)
    transactions = context.transactions
    if context.config.reject_transaction_message or transactions.is_full:
        return NOT_ASIDE
    raw.write(_TRANSACTION_ID)
    raw.write(encode_utf8(key))
    raw.append(_ITEM_END)
    raw.write(target.real_queue_end(queue_id))
    place = _append(
        context, connection, HALF_TOPIC, _HALF_FIELD, HALF_QUEUE_ID, bits, born_time_ms, flag,
        body, raw.getvalue(),
    )  # fmt: skip
    transactions.enter_plain(
        place[0], place[1], place[2], born_time_ms, wait.group, target.name, queue_id
    )
    return place, ""


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
