"""A client's batch as the records of a log: one of each item, all built before any is written.

Of a record (drawn in record_layout.py) that was an item (drawn in protocol/batch.py)::

    size, magic, CRC, queue id, flag, queue offset, log offset     differ
    system flag to prepared offset                                 are the same in the whole batch
    body                                                           is the item's
    topic                                                          is the same in the whole batch
    properties                                                     are the item's

All records are made before any is written. That costs copies of the body, but a batch with damage
in its last item leaves nothing behind, and for bodies of up to 1 KiB it was measured to be faster
than writing each piece to its place.

Items that all have one shape take a shorter way to the same bytes: that of wide_batch.py if they
are very many, and that of even_batch.py where the modules are not compiled; compiled code is faster
without the latter.
"""

import struct
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64

from roketto.compiled import is_compiled
from roketto.protocol.batch import decode_batch
from roketto.protocol.crc import (
    CRC_PROPERTY_BYTES,
    join_with_crcs,
    masked_crc32,
    without_crc,
    write_crc_property,
)
from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import IPV4_HOST_BYTES, IPV6_HOST_BYTES
from roketto.protocol.limits import PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX
from roketto.protocol.record import Record
from roketto.protocol.record_layout import HEADS, HOST_BITS_SHIFT, MAGIC_V1, MAGIC_V2, SHORT
from roketto.protocol.sysflags import HOST_BITS
from roketto.protocol.utf8 import encode_utf8
from roketto.store.even_batch import EvenItems, find_even_items
from roketto.store.run_properties import RunProperties
from roketto.store.wide_batch import WideItems, find_wide_items

_VARYING_BYTES: Final = 36
"""From the size to the log offset."""
_BODY_LENGTH_BYTES: Final = 4
_HEADS: Final = tuple(
    struct.Struct(f">iIiiiqq{head.size - _VARYING_BYTES - _BODY_LENGTH_BYTES}si") for head in HEADS
)
"""HEADS with everything that is the same in the whole batch as one field."""

# Of an item; its magic and CRC mean nothing.
_FLAG_AT: Final = 12
_BODY_LENGTH_AT: Final = 16
_ITEM_HEAD_BYTES: Final = 20
_LENGTH_BYTES: Final = 2


class EncodedBatch:
    """The records of a batch: their bytes, and of each its size and its property string."""

    __slots__ = ("data", "properties", "sizes")

    def __init__(
        self, data: bytes | memoryview, sizes: list[int], properties: RunProperties
    ) -> None:
        self.data: bytes | memoryview = data
        self.sizes: list[int] = sizes
        self.properties: RunProperties = properties


def encode_batch_records(
    batch: Record,
    queue_offset: int,
    log_offset: int,
    store_time_ms: int,
    append_crc: bool = False,
    seeks_even: bool = not is_compiled(),
) -> EncodedBatch:
    """The records of the items in ``batch.body``, the first of them at these offsets.

    RecordError if any byte of the batch is out of place. ``append_crc`` ends the properties of each
    with the CRC property. ``seeks_even`` looks whether few items have one shape, too.
    """
    shared = _Shared(batch, append_crc)
    data = bytes(batch.body)
    try:
        common = _common_fields(batch, shared.host_bits, store_time_ms)
        even: EvenItems | WideItems | None = find_wide_items(data)
        if even is None and seeks_even:
            even = find_even_items(data)
        if even is not None:
            ending = even.ending_for_crc() if append_crc else b""
            if ending is not None:
                return _encode_even(even, shared, common, ending, queue_offset, log_offset)
        return _encode_one_by_one(data, shared, common, queue_offset, log_offset)
    except (struct.error, ValueError) as error:
        raise _damage(data) from error


class _Shared:
    """What is the same in all records of a batch, and is known without its items."""

    __slots__ = ("added_bytes", "append_crc", "host_bits", "magic", "queue_id", "topic")

    def __init__(self, batch: Record, append_crc: bool) -> None:
        topic = encode_utf8(batch.topic)
        is_v1 = len(topic) <= TOPIC_BYTES_MAX
        self.magic: int = MAGIC_V1 if is_v1 else MAGIC_V2
        self.topic: bytes = (bytes((len(topic),)) if is_v1 else SHORT.pack(len(topic))) + topic
        self.queue_id: int = batch.queue_id
        self.host_bits: int = _host_bits(batch)
        self.append_crc: bool = append_crc
        self.added_bytes: int = CRC_PROPERTY_BYTES if append_crc else 0

    def join(self, records: list[bytes]) -> bytes:
        """Records one behind the other, which get their checksums now if they are to have any."""
        return join_with_crcs(records) if self.append_crc else b"".join(records)


def _encode_even(
    even: EvenItems | WideItems,
    shared: _Shared,
    common: bytes,
    ending: bytes,
    queue_offset: int,
    log_offset: int,
) -> EncodedBatch:
    """All records at once; what does not fit the head of the last one fits no head."""
    count, body_bytes = even.count, even.body_bytes
    properties_bytes = even.properties_bytes + len(ending) + shared.added_bytes
    tail = shared.topic + _pack_length(properties_bytes)
    size = HEADS[shared.host_bits].size + body_bytes + len(tail) + properties_bytes
    head = _HEADS[shared.host_bits].pack(
        size, shared.magic, 0, shared.queue_id, even.flag, queue_offset + count,
        log_offset + size * count, common, body_bytes,
    )  # fmt: skip
    data: bytes | memoryview
    if isinstance(even, WideItems):
        data = even.encode(head, tail, ending, queue_offset, log_offset, shared.append_crc)
    else:
        data = shared.join(even.encode(head, tail, ending, queue_offset, log_offset, size))
    return EncodedBatch(data, [size] * count, even.properties)


def _encode_one_by_one(
    data: bytes, shared: _Shared, common: bytes, queue_offset: int, log_offset: int
) -> EncodedBatch:
    """One record after the other, whatever their shapes."""
    topic, append_crc, queue_id = shared.topic, shared.append_crc, shared.queue_id
    magic = shared.magic - (1 << 32)
    others_bytes: i64 = HEADS[shared.host_bits].size + len(topic) + _LENGTH_BYTES
    added_bytes: i64 = shared.added_bytes
    data_bytes: i64 = len(data)
    batch, record = BytesWriter(), BytesWriter()
    sizes: list[int] = []
    all_properties: list[bytes] = []
    at: i64 = 0
    while at < data_bytes:
        body_at = at + _ITEM_HEAD_BYTES
        if body_at > data_bytes:
            raise _damage(data)
        flag = read_i32_be(data, at + _FLAG_AT)
        body_bytes = i64(read_i32_be(data, at + _BODY_LENGTH_AT))
        body_end = body_at + body_bytes
        at += i64(read_i32_be(data, at))
        properties_bytes = at - body_end - _LENGTH_BYTES
        if (
            body_bytes < 0
            or properties_bytes < 0
            or at > data_bytes
            or i64(read_i16_be(data, body_end)) != properties_bytes
        ):
            raise _damage(data)
        body = data[body_at:body_end]
        properties = data[body_end + _LENGTH_BYTES : at]
        all_properties.append(properties)
        if append_crc:
            properties = without_crc(properties)
            properties_bytes = len(properties) + added_bytes
            if properties_bytes > PROPERTIES_BYTES_MAX:
                raise _too_long(properties_bytes)
        size = others_bytes + body_bytes + properties_bytes
        record.truncate(0)
        write_i32_be(record, i32(size))
        write_i32_be(record, magic)
        write_i32_be(record, masked_crc32(body))
        write_i32_be(record, queue_id)
        write_i32_be(record, flag)
        write_i64_be(record, queue_offset)
        write_i64_be(record, log_offset)
        record.write(common)
        write_i32_be(record, i32(body_bytes))
        record.write(body)
        record.write(topic)
        write_i16_be(record, i16(properties_bytes))
        record.write(properties)
        raw = record.getvalue()
        batch.write(raw)
        if append_crc:
            write_crc_property(batch, raw)
        sizes.append(size)
        queue_offset += 1
        log_offset += size
    return EncodedBatch(batch.getvalue(), sizes, RunProperties(all_properties))


def _pack_length(properties_bytes: int) -> bytes:
    """The length field of properties, with their checksum if they get one."""
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise _too_long(properties_bytes)
    return SHORT.pack(properties_bytes)


def _too_long(properties_bytes: int) -> RecordError:
    return RecordError(
        f"properties of {properties_bytes} bytes with their checksum; a record takes"
        f" {PROPERTIES_BYTES_MAX}: shorten them"
    )


def _host_bits(batch: Record) -> int:
    """Which of HEADS the hosts ask for."""
    bits = 0
    for bit, host in ((1, batch.born_host), (2, batch.store_host)):
        if len(host) == IPV6_HOST_BYTES:
            bits |= bit
        elif len(host) != IPV4_HOST_BYTES:
            raise RecordError(
                f"a host of {len(host)} bytes; it takes {IPV4_HOST_BYTES} (IPv4) or"
                f" {IPV6_HOST_BYTES} (IPv6)"
            )
    return bits


def _common_fields(batch: Record, host_bits: int, store_time_ms: int) -> bytes:
    """System flag to prepared offset; the latter is 0 but for copies of what was staged."""
    sys_flag = (batch.sys_flag & ~HOST_BITS) | host_bits << HOST_BITS_SHIFT
    head = HEADS[host_bits].pack(
        0, 0, 0, 0, 0, 0, 0,
        sys_flag, batch.born_time_ms, batch.born_host, store_time_ms, batch.store_host,
        batch.reconsume_times, batch.prepared_log_offset, 0,
    )  # fmt: skip
    return head[_VARYING_BYTES:-_BODY_LENGTH_BYTES]


def _damage(data: bytes) -> RecordError:
    """What is wrong with a batch: a place in it, or else a number that does not fit its field."""
    try:
        decode_batch(data)
    except RecordError as error:
        return error
    return RecordError("a time, queue id or offset of a batch does not fit its field")
