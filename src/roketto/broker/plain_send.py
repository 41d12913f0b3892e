"""A send that asks for nothing special, as nearly all do: from the values of its fields to the log.

Its property string is never taken apart, only searched for the few names that would make it
special. Whatever is not as plain as that is left to ``handlers.send.send_any``, which looks at
everything, in the order of Java's checks.
"""

from typing import Final

from roketto.broker.context import Context
from roketto.broker.dedup_window import DedupWindow
from roketto.broker.topics import SendTarget
from roketto.protocol.headers.base import I32_MAX, I64_MAX
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_TYPE, HOST_BITS, MULTI_TAGS
from roketto.protocol.utf8 import encode_utf8
from roketto.remoting.connection import Connection

_UNUSUAL_BITS: Final = ~(COMPRESSED | MULTI_TAGS | HOST_BITS | COMPRESSION_TYPE)
"""Bits of the system flag, and those that it does not have, that make a message special."""

_UNIQUE_KEY: Final = "UNIQ_KEY\x01"
_UNIQUE_KEY_CHARS: Final = len(_UNIQUE_KEY)
_ITEM_END: Final = 0x02

Place = tuple[int, int, int]
"""Queue offset, log offset and size of a message."""

NOT_PLAIN: Final = (-1, -1, -1)


def unique_key(properties: str) -> str:
    """The producer's id of a message whose properties are plain; empty if they are not."""
    if (
        "DELAY\x01" in properties
        or "TIMER_DEL" in properties
        or "TRAN_MSG\x01" in properties
        or "POP_CK\x01" in properties
        or "CLUSTER\x01" in properties
        or "INNER_NUM\x01" in properties
        or "_PRIORITY_\x01" in properties
    ):
        return ""
    return find_key(properties)


def find_key(properties: str) -> str:
    """The producer's id of a message, whatever else its properties are; empty if there is none."""
    at = properties.rfind(_UNIQUE_KEY)
    end = properties.find("\x02", at)
    if at < 0 or end < 0 or (at and properties[at - 1] != "\x02"):
        return ""
    return properties[at + _UNIQUE_KEY_CHARS : end]


def store_plain(
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
) -> Place:
    """Store a message whose properties are plain; NOT_PLAIN, and nothing stored, if it is not.

    ``key`` is its ``unique_key``. PutRefusedError if the store does not take it.
    """
    target: SendTarget | None = context.topics.targets.get(topic)
    store = context.store
    if (
        target is None
        or not (target.is_plain or target.is_plain_once)
        or not has_plain_fields(context, target, queue_id, sys_flag, born_time_ms, flag, body)
    ):
        return NOT_PLAIN
    sending = context.sending
    raw = properties.encode() if properties.isascii() else encode_utf8(properties)
    if raw[-1] != _ITEM_END:
        raw += b"\x02"
    window: DedupWindow | None = None
    identity: str | None = None
    if not target.is_plain:
        window = target.window
        assert window is not None
        identity = window.identity(raw) if window.is_by_keys else key
        if not window.is_ready or (identity is not None and window.find(identity) >= 0):
            return NOT_PLAIN  # it has to wait, or may be a duplicate
    stored = store.appender.append_fields(
        target.name, target.field, queue_id, flag, sys_flag, born_time_ms, connection.peer_host,
        sending.store_host, body, raw + sending.own_properties,
    )  # fmt: skip
    if window is not None and identity is not None:
        window.remember(identity, stored[1])
    context.stats.note_put(target.name, queue_id, 1, stored[2], store.log.store_time_ms)
    return stored


def has_plain_fields(
    context: Context,
    target: SendTarget,
    queue_id: int,
    sys_flag: int,
    born_time_ms: int,
    flag: int,
    body: bytes | memoryview,
) -> bool:
    """Whether nothing about a message is special but perhaps its properties, and it may come."""
    return not (
        not 0 <= queue_id < target.queue_count
        or sys_flag & _UNUSUAL_BITS
        or flag > I32_MAX
        or born_time_ms > I64_MAX
        or not body
        or not context.store.log.is_within_bounds(len(body))
        or context.durability.is_busy
        or context.config.start_accept_send_request_time_stamp
    )
