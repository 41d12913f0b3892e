"""What becomes of a message in a transaction: the rules, without store and clock.

A half message waits in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC, with its topic and queue as
properties, until its producer says what became of the transaction. To commit it is to store it
once more, where it belongs. While nobody says anything the broker asks, and each time it stores the
half message anew, with how often it was asked about::

    half topic     T1  T2  T1'          T1' names T1 in TRAN_PREPARED_QUEUE_OFFSET
    op topic                   "2,"     T2 is decided
    real topic             T2           the committed message, with T2's log offset

So a transaction has one or more half messages, its *links*, and the first of them names it.
"""

import re
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from roketto.protocol import property_names as names
from roketto.protocol.crc import CRC_PROPERTY_BYTES, CRC_PROPERTY_PREFIX, without_crc
from roketto.protocol.hosts import IPV4_HOST_BYTES
from roketto.protocol.names import HALF_TOPIC, TRANSACTION_GIVEN_UP_TOPIC
from roketto.protocol.record import Record
from roketto.protocol.record_layout import MAGIC_V1
from roketto.protocol.sysflags import (
    HOST_BITS,
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_TYPE,
    with_transaction_type,
)
from roketto.protocol.utf8 import encode_utf8

__all__ = [
    "HALF_QUEUE_ID", "as_asked", "as_committed", "as_committed_plain", "as_given_up", "as_resumed",
    "asked_times", "first_link", "immunity_ms", "is_marked", "make_half", "real_queue_end", "renew",
]  # fmt: skip

HALF_QUEUE_ID: Final = 0

# Where the fields of a record are whose hosts have four bytes: see protocol/record_layout.py.
_MAGIC_AT: Final = 4
_FLAG_AT: Final = 16
_LOG_OFFSET_AT: Final = 28
_SYS_FLAG_AT: Final = 36
_BORN_TIME_AT: Final = 40
_BORN_HOST_AT: Final = 48
_STORE_HOST_AT: Final = 64
_RECONSUME_TIMES_AT: Final = 72
_BODY_BYTES_AT: Final = 84
_BODY_AT: Final = 88
_PLAIN_BYTES_MIN: Final = _BODY_AT + CRC_PROPERTY_BYTES
_SIGNED_MAGIC_V1: Final = MAGIC_V1 - (1 << 32)
_NUMBER: Final = re.compile(r"\d{1,18}")


def is_marked(record: Record) -> bool:
    """Whether its producer wants it to be part of a transaction."""
    return (record.get_property(names.TRANSACTION_PREPARED) or "").lower() == "true"


def make_half(record: Record) -> None:
    """Let a message wait for the end of its transaction.

    It has no bits of a transaction then: with them it would be in no queue.
    """
    unique_key = record.get_property(names.UNIQ_KEY)
    if unique_key:
        record.set_property(names.TRANSACTION_ID, unique_key)
    record.set_property(names.REAL_TOPIC, record.topic)
    record.set_property(names.REAL_QUEUE_ID, str(record.queue_id))
    record.sys_flag = with_transaction_type(record.sys_flag, TRANSACTION_NONE)
    record.topic = HALF_TOPIC
    record.queue_id = HALF_QUEUE_ID


def as_committed(half: Record) -> Record | None:
    """The message for its real queue; None if that cannot be told.

    It names the half message that it was, which tells after a kill that it is there. As from Java's
    broker it comes with the mark of a transaction.
    """
    where = _real_queue(half)
    if where is None:
        return None
    committed = _copy(half, *where)
    committed.sys_flag = with_transaction_type(half.sys_flag, TRANSACTION_COMMIT)
    committed.reconsume_times = half.reconsume_times
    committed.prepared_log_offset = half.log_offset
    for name in (
        names.REAL_TOPIC, names.REAL_QUEUE_ID, names.TRANSACTION_PREPARED_QUEUE_OFFSET,
    ):  # fmt: skip
        committed.remove_property(name)
    return committed


def real_queue_end(topic: str, queue_id: int) -> bytes:
    """What the properties of a plain half message end with: where it belongs."""
    return encode_utf8(f"{names.REAL_TOPIC}\x01{topic}\x02{names.REAL_QUEUE_ID}\x01{queue_id}\x02")


def as_committed_plain(half: bytes, topic: str, queue_id: int, real: bytes) -> Record | None:
    """The same of a plain half message that is known to be for this queue, in less time.

    It is read from the bytes of its record, whose hosts have four bytes and whose properties end
    with ``real``, as ``make_half`` puts it there; None if they do not.
    """
    half_bytes: i64 = len(half)
    if half_bytes < _PLAIN_BYTES_MIN or read_i32_be(half, _MAGIC_AT) != _SIGNED_MAGIC_V1:
        return None
    sys_flag = i64(read_i32_be(half, _SYS_FLAG_AT))
    body_bytes = i64(read_i32_be(half, _BODY_BYTES_AT))
    body_end: i64 = _BODY_AT + body_bytes
    if sys_flag & HOST_BITS or body_bytes < 0 or body_end >= half_bytes:
        return None
    properties_at: i64 = body_end + 1 + half[body_end] + 2
    end: i64 = half_bytes
    crc_at: i64 = end - CRC_PROPERTY_BYTES
    if half[crc_at : crc_at + len(CRC_PROPERTY_PREFIX)] == CRC_PROPERTY_PREFIX:
        end = crc_at
    real_at: i64 = end - len(real)
    if real_at < properties_at or half[real_at:end] != real:
        return None
    return Record(
        topic,
        half[_BODY_AT:body_end],
        half[properties_at:real_at],
        queue_id=queue_id,
        flag=read_i32_be(half, _FLAG_AT),
        sys_flag=sys_flag & ~TRANSACTION_TYPE | TRANSACTION_COMMIT,
        born_time_ms=read_i64_be(half, _BORN_TIME_AT),
        born_host=half[_BORN_HOST_AT : _BORN_HOST_AT + IPV4_HOST_BYTES],
        store_host=half[_STORE_HOST_AT : _STORE_HOST_AT + IPV4_HOST_BYTES],
        reconsume_times=read_i32_be(half, _RECONSUME_TIMES_AT),
        prepared_log_offset=read_i64_be(half, _LOG_OFFSET_AT),
    )


def renew(half: Record) -> Record:
    """The next link, which has been asked about once more."""
    link = _copy(half, HALF_TOPIC, HALF_QUEUE_ID)
    link.set_property(names.TRANSACTION_CHECK_TIMES, str(asked_times(half) + 1))
    link.set_property(names.TRANSACTION_PREPARED_QUEUE_OFFSET, str(first_link(half)))
    return link


def as_given_up(half: Record) -> Record:
    """The half message that nobody decides, where operators find it."""
    given_up = _copy(half, TRANSACTION_GIVEN_UP_TOPIC, 0)
    given_up.reconsume_times = half.reconsume_times
    return given_up


def as_resumed(given_up: Record) -> Record | None:
    """A message that was given up, as its producer sent it at first; None as above."""
    where = _real_queue(given_up)
    if where is None:
        return None
    sent = _copy(given_up, *where)
    sent.reconsume_times = given_up.reconsume_times
    for name in (
        names.REAL_TOPIC, names.REAL_QUEUE_ID, names.TRANSACTION_CHECK_TIMES,
        names.TRANSACTION_PREPARED_QUEUE_OFFSET,
    ):  # fmt: skip
        sent.remove_property(name)
    return sent


def as_asked(half: Record) -> Record | None:
    """The half message as its producer knows it, at the place of this link; None as above."""
    where = _real_queue(half)
    if where is None:
        return None
    asked = _copy(half, *where)
    asked.queue_offset, asked.log_offset = half.queue_offset, half.log_offset
    asked.store_time_ms = half.store_time_ms
    return asked


def first_link(half: Record) -> int:
    """The offset in the half topic that names the transaction."""
    return _number(half, names.TRANSACTION_PREPARED_QUEUE_OFFSET, half.queue_offset)


def asked_times(half: Record) -> int:
    """How often its producers were asked."""
    return _number(half, names.TRANSACTION_CHECK_TIMES, 0)


def immunity_ms(half: Record) -> int | None:
    """How long its producer wants not to be asked; None if it says nothing of it."""
    seconds = _number(half, names.CHECK_IMMUNITY_TIME_IN_SECONDS, -1)
    return None if seconds < 0 else seconds * 1000


def _real_queue(half: Record) -> tuple[str, int] | None:
    topic = half.get_property(names.REAL_TOPIC)
    queue_id = _number(half, names.REAL_QUEUE_ID, -1)
    return (topic, queue_id) if topic and queue_id >= 0 else None


def _number(record: Record, name: str, default: int) -> int:
    text = record.get_property(name) or ""
    return int(text) if _NUMBER.fullmatch(text) else default


def _copy(half: Record, topic: str, queue_id: int) -> Record:
    return Record(
        topic,
        half.body,
        without_crc(half.properties_raw),
        queue_id=queue_id,
        flag=half.flag,
        sys_flag=half.sys_flag,
        born_time_ms=half.born_time_ms,
        born_host=half.born_host,
        store_host=half.store_host,
    )
