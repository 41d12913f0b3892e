"""Batches: several messages in one body, as producers send them and inner batches keep them.

One item::

    0    4      size         of the whole item
    4    4      magic        written as 0, not looked at
    8    4      body CRC     written as 0, not looked at
    12   4      flag         of the application
    16   4 + n  body         never compressed
         2 + n  properties   see properties.py; the length is signed
"""

import struct
from collections.abc import Iterable
from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from roketto.protocol.errors import RecordError
from roketto.protocol.limits import PROPERTIES_BYTES_MAX
from roketto.protocol.property_names import WAIT
from roketto.protocol.record import Record
from roketto.protocol.sysflags import needs_unwrap

_HEAD: Final = struct.Struct(">iiiii")
_SHORT: Final = struct.Struct(">h")
_SIZE: Final = struct.Struct(">i")
_HEAD_BYTES: Final = 20
_BODY_LENGTH_AT: Final = 16
_SHORT_BYTES: Final = 2


class BatchItem:
    """One message of a batch; ``body`` is a slice of what was decoded: a view of a view."""

    __slots__ = ("body", "flag", "properties_raw")

    def __init__(
        self, body: bytes | memoryview, properties_raw: bytes = b"", flag: int = 0
    ) -> None:
        self.body: bytes | memoryview = body
        self.properties_raw: bytes = properties_raw
        self.flag: int = flag


def encode_batch(items: Iterable[BatchItem]) -> bytes:
    """The body of a batch, in the order given."""
    parts: list[bytes | memoryview] = []
    for item in items:
        properties_bytes = len(item.properties_raw)
        if properties_bytes > PROPERTIES_BYTES_MAX:
            raise RecordError(
                f"properties of {properties_bytes} bytes in a batch; a message takes"
                f" {PROPERTIES_BYTES_MAX}: shorten them"
            )
        size = _HEAD.size + len(item.body) + _SHORT.size + properties_bytes
        try:
            parts.append(_HEAD.pack(size, 0, 0, item.flag, len(item.body)))
        except struct.error as error:
            raise RecordError(f"flag {item.flag} of a message is no 32-bit number") from error
        parts += (item.body, _SHORT.pack(properties_bytes), item.properties_raw)
    return b"".join(parts)


def decode_batch(data: bytes | memoryview) -> list[BatchItem]:
    """The items of a batch; RecordError if any byte is out of place.

    Java goes by the lengths in one place and by the sizes in another. Here both must agree.
    """
    items: list[BatchItem] = []
    at = 0
    while at < len(data):
        try:
            size, _, _, flag, body_bytes = _HEAD.unpack_from(data, at)
            body_at = at + _HEAD.size
            properties_at = body_at + max(0, body_bytes) + _SHORT.size
            properties_bytes = _SHORT.unpack_from(data, properties_at - _SHORT.size)[0]
        except struct.error:
            raise RecordError(f"batch of {len(data)} bytes ends within the item at {at}") from None
        end = properties_at + properties_bytes
        if body_bytes < 0 or properties_bytes < 0 or end != at + size or end > len(data):
            raise RecordError(
                f"batch item at {at} of {len(data)}: a body of {body_bytes} and properties of"
                f" {properties_bytes} bytes contradict its size {size}"
            )
        body = data[body_at : properties_at - _SHORT.size]
        items.append(BatchItem(body, bytes(data[properties_at:end]), flag))
        at = end
    return items


def check_batch(data: bytes | memoryview, properties_bytes_max: int = PROPERTIES_BYTES_MAX) -> int:
    """How many items a batch has; RecordError as from ``decode_batch``, but no item is copied.

    None of them may have more than ``properties_bytes_max``.
    """
    raw = bytes(data)
    count: i64 = 0
    at: i64 = 0
    data_bytes: i64 = len(raw)
    while at < data_bytes:
        body_at = at + _HEAD_BYTES
        if body_at > data_bytes:
            return len(decode_batch(raw))  # it does not come back, but tells what is wrong
        body_bytes = i64(read_i32_be(raw, at + _BODY_LENGTH_AT))
        properties_at = body_at + body_bytes + _SHORT_BYTES
        if body_bytes < 0 or properties_at > data_bytes:
            return len(decode_batch(raw))
        properties_bytes = i64(read_i16_be(raw, properties_at - _SHORT_BYTES))
        end = properties_at + properties_bytes
        if properties_bytes < 0 or end > data_bytes or end != at + i64(read_i32_be(raw, at)):
            return len(decode_batch(raw))
        if properties_bytes > properties_bytes_max:
            raise RecordError(
                f"batch item at {at} of {data_bytes} has properties of {properties_bytes} bytes;"
                f" {properties_bytes_max} are taken: shorten them"
            )
        count += 1
        at = end
    return count


def cut_batch(data: bytes, room: int, more_bytes: int, count_max: int) -> tuple[int, int]:
    """Where the first items of a sound batch end, and how many they are: at least one.

    Together they take no more than ``room``, with ``more_bytes`` for each, and are no more than
    ``count_max``. Of ``data`` only the first item has to be whole.
    """
    count: i64 = 0
    end: i64 = 0
    left: i64 = room
    more: i64 = more_bytes
    most: i64 = count_max
    data_bytes: i64 = len(data)
    while end + _HEAD_BYTES <= data_bytes and count < most:
        size = i64(read_i32_be(data, end))
        left -= size + more
        if count and (left < 0 or end + size > data_bytes):
            break
        end += size
        count += 1
    return end, count


def count_batch(data: bytes | memoryview) -> int:
    """How many items a batch has, by their sizes alone."""
    count = 0
    at = 0
    while at < len(data):
        size = _SIZE.unpack_from(data, at)[0] if at + _SIZE.size <= len(data) else 0
        if size < _HEAD.size + _SHORT.size:
            raise RecordError(f"batch item at {at} of {len(data)} has the size {size}")
        count += 1
        at += size
    if at != len(data):
        raise RecordError(f"batch of {len(data)} bytes: its items would take {at}")
    return count


def unwrap_batch(record: Record) -> list[Record]:
    """The messages of an inner batch, each at its own place in the queue; else the record alone.

    They have place, hosts and times of the whole, and WAIT as a property, as a Java consumer shows
    them. Raises RecordError when the body is no batch.
    """
    if not needs_unwrap(record.sys_flag):
        return [record]
    wait = (record.get_property(WAIT) or "true").lower() == "true"
    messages: list[Record] = []
    for index, item in enumerate(decode_batch(record.body)):
        message = Record(
            record.topic,
            bytes(item.body),
            item.properties_raw,
            queue_id=record.queue_id,
            flag=item.flag,
            queue_offset=record.queue_offset + index,
            log_offset=record.log_offset,
            sys_flag=record.sys_flag,
            born_time_ms=record.born_time_ms,
            born_host=record.born_host,
            store_time_ms=record.store_time_ms,
            store_host=record.store_host,
        )
        message.set_property(WAIT, "true" if wait else "false")
        messages.append(message)
    return messages
