"""A send that asks for nothing special, as nearly all do: from the values of its fields to the log.

Its property string is never taken apart, only looked through for the few names that would make it
special. Whatever is not as plain as that is left to ``handlers.send.send_any``, which looks at
everything, in the order of Java's checks.
"""

from typing import Final

from mypy_extensions import i64

from roketto.broker.context import Context
from roketto.broker.dedup_window import DedupWindow
from roketto.broker.id_table import hash_of_id
from roketto.broker.topics import SendTarget
from roketto.protocol.bytescan import find_byte, is_ascii
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_TYPE, HOST_BITS, MULTI_TAGS
from roketto.protocol.utf8 import decode_utf8, encode_utf8
from roketto.remoting.connection import Connection

_UNUSUAL_BITS: Final = ~(COMPRESSED | MULTI_TAGS | HOST_BITS | COMPRESSION_TYPE)
"""Bits of the system flag, and those that it does not have, that make a message special."""

_UNIQUE_KEY: Final = b"UNIQ_KEY\x01"
_UNIQUE_KEY_BYTES: Final = 9
_ITEM_END: Final = 0x02
_LETTER_A: Final = 0x41
_LETTER_C: Final = 0x43
_LETTER_D: Final = 0x44
_LETTER_I: Final = 0x49
_LETTER_P: Final = 0x50
_LETTER_T: Final = 0x54
_LETTER_U: Final = 0x55
_UNDERLINE: Final = 0x5F
_TIMER: Final = b"TIMER_DEL"
_MARK: Final = b"TRAN_MSG\x01"
_WAITING_BYTES: Final = 9
"""Of both: what most messages have that are not plain."""
_SPECIAL_NAMES: Final = (
    "DELAY\x01", "TIMER_DEL", "TRAN_MSG\x01", "POP_CK\x01", "CLUSTER\x01", "INNER_NUM\x01",
    "_PRIORITY_\x01",
)  # fmt: skip

Place = tuple[int, int, int]
"""Queue offset, log offset and size of a message."""

NOT_PLAIN: Final = (-1, -1, -1)


def unique_key(properties: bytes) -> bytes:
    """The producer's id of a message whose properties are plain; empty if they are not."""
    is_plain, key = look_through(properties)
    return key if is_plain else b""


def look_through(properties: bytes) -> tuple[bool, bytes]:
    """Whether properties are plain, and the producer's id among them, empty without one.

    Mostly the first letter of a name tells that it is not one of a special property.
    """
    key = b""
    is_doubtful = False
    at: i64 = 0
    size: i64 = len(properties)
    while at < size:
        first: i64 = properties[at]
        end = find_byte(properties, _ITEM_END, at, size)
        if first == _LETTER_U:
            if properties[at : at + _UNIQUE_KEY_BYTES] == _UNIQUE_KEY:
                key = properties[at + _UNIQUE_KEY_BYTES : end] if end < size else b""
        elif first in (_LETTER_D, _LETTER_P, _LETTER_C, _LETTER_I, _UNDERLINE):
            is_doubtful = True
        elif first == _LETTER_T and (at + 1 == end or properties[at + 1] != _LETTER_A):
            # Not TAGS, which are frequent.
            begin = properties[at : at + _WAITING_BYTES]
            if begin in (_TIMER, _MARK):
                return False, key
            is_doubtful = True
        at = end + 1
    if is_doubtful:
        text = decode_utf8(properties)  # in which names are found in a fifth of the time
        for name in _SPECIAL_NAMES:
            if name in text:
                return False, key
    return True, key


def store_plain(
    context: Context,
    connection: Connection,
    topic: str,
    queue_id: i64,
    sys_flag: i64,
    born_time_ms: i64,
    flag: i64,
    properties: bytes,
    body: bytes | memoryview,
    key: bytes,
) -> Place:
    """Store a message whose properties are plain; NOT_PLAIN, and nothing stored, if it is not.

    ``key`` is its ``unique_key``. PutRefusedError if the store does not take it.
    """
    target: SendTarget | None = context.topics.targets.get(topic)
    store = context.store
    if (
        target is None
        or not (target.is_plain or target.is_plain_once)
        or not has_plain_fields(context, target, queue_id, sys_flag, flag, body)
    ):
        return NOT_PLAIN
    sending = context.sending
    if properties[-1] != _ITEM_END:
        properties += b"\x02"
    window: DedupWindow | None = None
    number: i64 = 0
    if not target.is_plain:
        window = target.window
        assert window is not None
        if not window.is_ready:
            return NOT_PLAIN  # it has to wait
        identity = _identity(window, properties, key)
        if not identity:
            window = None
        else:
            number = hash_of_id(identity)
            if window.find_hash(number) >= 0:
                return NOT_PLAIN  # it may be a duplicate
    stored = store.appender.append_fields(
        target.name, target.field, queue_id, flag, sys_flag, born_time_ms, connection.peer_host,
        sending.store_host, body, properties + sending.own_properties,
    )  # fmt: skip
    if window is not None:
        window.remember_hash(number, stored[1])
    context.stats.note_put(target.name, queue_id, 1, stored[2], store.log.store_time_ms)
    return stored


def _identity(window: DedupWindow, properties: bytes, key: bytes) -> bytes:
    """What tells a message from others, as bytes that are the same whichever way it comes."""
    if not window.is_by_keys and is_ascii(key):
        return key
    found = window.identity(properties) if window.is_by_keys else decode_utf8(key)
    return b"" if found is None else encode_utf8(found)


def has_plain_fields(
    context: Context,
    target: SendTarget,
    queue_id: i64,
    sys_flag: i64,
    flag: i64,
    body: bytes | memoryview,
) -> bool:
    """Whether nothing about a message is special but perhaps its properties, and it may come."""
    return not (
        not 0 <= queue_id < target.queue_count
        or sys_flag & _UNUSUAL_BITS
        or flag > I32_MAX
        or not body
        or not context.store.log.is_within_bounds(len(body))
        or context.durability.is_busy
        or context.config.start_accept_send_request_time_stamp
    )
