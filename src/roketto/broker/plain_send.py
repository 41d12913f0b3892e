"""A send that asks for nothing special, as nearly all do: from the texts of its fields to the log.

Its property string is never taken apart, only searched for the few names that would make it
special, and its body stays where it arrived. Whatever is not as plain as that is left to
``handlers.send.send_any``, which looks at everything, in the order of Java's checks.
"""

from typing import Final

from roketto.broker.context import Context
from roketto.broker.put import put_as_is
from roketto.protocol.headers.base import I32_MAX, I64_MAX
from roketto.protocol.record import Record
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_TYPE, HOST_BITS, MULTI_TAGS
from roketto.protocol.utf8 import encode_utf8
from roketto.remoting.connection import Connection
from roketto.store.put_result import PutResult

_UNUSUAL_BITS: Final = ~(COMPRESSED | MULTI_TAGS | HOST_BITS | COMPRESSION_TYPE)
"""Bits of the system flag, and those that it does not have, that make a message special."""

_UNIQUE_KEY: Final = "UNIQ_KEY\x01"
_ITEM_END: Final = 0x02
_I32_DIGITS: Final = 10

NOT_PLAIN: Final[tuple[PutResult | None, str]] = (None, "")


def store_plain(
    context: Context,
    connection: Connection,
    topic: str,
    queues: str,
    queue: str,
    bits: str,
    born: str,
    flag: str,
    properties: str,
    body: bytes | memoryview,
) -> tuple[PutResult | None, str]:
    """Store a plain message: where it is, and its unique key. NOT_PLAIN, and nothing stored, else.

    ``queues`` to ``flag`` are defaultTopicQueueNums, queueId, sysFlag, bornTimestamp and flag.
    """
    target = context.topics.targets.get(topic)
    if (
        target is None
        or not target.is_plain
        or not body
        or "DELAY\x01" in properties
        or "TIMER_DEL" in properties
        or "TRAN_MSG\x01" in properties
        or "POP_CK\x01" in properties
        or "CLUSTER\x01" in properties
        or "INNER_NUM\x01" in properties
        or context.durability.is_busy
        or context.config.start_accept_send_request_time_stamp
        or not (queues + queue + bits + born + flag).isdecimal()
        or not (queues and queue and bits and born and flag)
        or len(queues) >= _I32_DIGITS
    ):
        return NOT_PLAIN
    queue_id = int(queue)
    born_time_ms = int(born)
    sys_flag = 0 if bits == "0" else int(bits)
    user_flag = 0 if flag == "0" else int(flag)
    at = properties.rfind(_UNIQUE_KEY)
    end = properties.find("\x02", at)
    if (
        queue_id >= target.queue_count
        or sys_flag & _UNUSUAL_BITS
        or user_flag > I32_MAX
        or born_time_ms > I64_MAX
        or at < 0
        or end <= at + len(_UNIQUE_KEY)
        or (at and properties[at - 1] != "\x02")
    ):
        return NOT_PLAIN
    sending = context.sending
    raw = encode_utf8(properties)
    if raw[-1] != _ITEM_END:
        raw += b"\x02"
    record = Record(
        target.config.topic_name, body, raw + sending.own_properties, queue_id, user_flag,
        0, 0, sys_flag, born_time_ms, connection.peer_host, 0, sending.store_host,
    )  # fmt: skip
    where = put_as_is(context.store, context.stats, record)
    return where, properties[at + len(_UNIQUE_KEY) : end]
