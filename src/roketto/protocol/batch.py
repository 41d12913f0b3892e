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

from roketto.protocol.errors import RecordError
from roketto.protocol.limits import PROPERTIES_BYTES_MAX
from roketto.protocol.property_names import WAIT
from roketto.protocol.record import Record
from roketto.protocol.sysflags import needs_unwrap

_HEAD: Final = struct.Struct(">iiiii")
_SHORT: Final = struct.Struct(">h")
_SIZE: Final = struct.Struct(">i")


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
