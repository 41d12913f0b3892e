"""A client's batch as the records of a log: one of each item, all built before any is written.

Of a record (drawn in record_layout.py) that was an item (drawn in protocol/batch.py)::

    size, magic, CRC, queue id, flag, queue offset, log offset     differ
    system flag to prepared offset                                 are the same in the whole batch
    body                                                           is the item's
    topic                                                          is the same in the whole batch
    properties                                                     are the item's

So four pieces make a record: the head, the body, topic with the length of the properties, and the
properties. They are joined, for one checksum over all of them, and the records are written at once.
That costs copies of the body, but a batch with damage in its last item leaves nothing behind, and
for bodies of up to 1 KiB it was measured to be faster than writing each piece to its place. Items
that all have one shape take a shorter way to the same bytes, that of even_batch.py.
"""

import struct
import zlib
from typing import Final

from roketto.protocol.batch import decode_batch
from roketto.protocol.crc import CRC_PROPERTY_BYTES, join_with_crcs, without_crc
from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import IPV4_HOST_BYTES, IPV6_HOST_BYTES
from roketto.protocol.limits import PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX
from roketto.protocol.record import Record
from roketto.protocol.record_layout import HEADS, HOST_BITS_SHIFT, MAGIC_V1, MAGIC_V2, SHORT
from roketto.protocol.sysflags import HOST_BITS
from roketto.protocol.utf8 import encode_utf8
from roketto.store.even_batch import EvenItems, find_even_items
from roketto.store.run_properties import RunProperties

_VARYING_BYTES: Final = 36
"""From the size to the log offset."""
_BODY_LENGTH_BYTES: Final = 4
_HEADS: Final = tuple(
    struct.Struct(f">iIiiiqq{head.size - _VARYING_BYTES - _BODY_LENGTH_BYTES}si") for head in HEADS
)
"""HEADS with everything that is the same in the whole batch as one field."""

_ITEM: Final = struct.Struct(">i8xii")
"""Size, flag and body length of an item; its magic and CRC mean nothing."""
_ITEM_BYTES: Final = _ITEM.size
_CRC_MASK: Final = 0x7FFF_FFFF


class EncodedBatch:
    """The records of a batch: their bytes, and of each its size and its property string."""

    __slots__ = ("data", "properties", "sizes")

    def __init__(self, data: bytes, sizes: list[int], properties: RunProperties) -> None:
        self.data: bytes = data
        self.sizes: list[int] = sizes
        self.properties: RunProperties = properties


def encode_batch_records(
    batch: Record, queue_offset: int, log_offset: int, store_time_ms: int, append_crc: bool = False
) -> EncodedBatch:
    """The records of the items in ``batch.body``, the first of them at these offsets.

    RecordError if any byte of the batch is out of place. ``append_crc`` ends the properties of each
    with the CRC property.
    """
    shared = _Shared(batch, append_crc)
    data = bytes(batch.body)
    try:
        common = _common_fields(batch, shared.host_bits, store_time_ms)
        even = find_even_items(data)
        if even is not None:
            ending = even.ending_for_crc() if append_crc else b""
            if ending is not None:
                return _encode_even(even, shared, common, ending, queue_offset, log_offset)
        return _encode_one_by_one(data, shared, common, queue_offset, log_offset)
    except struct.error as error:
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
    even: EvenItems,
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
    records = even.encode(head, tail, ending, queue_offset, log_offset, size)
    return EncodedBatch(shared.join(records), [size] * count, even.properties)


def _encode_one_by_one(
    data: bytes, shared: _Shared, common: bytes, queue_offset: int, log_offset: int
) -> EncodedBatch:
    """One record after the other, whatever their shapes."""
    topic, magic, queue_id = shared.topic, shared.magic, shared.queue_id
    append_crc, added_bytes = shared.append_crc, shared.added_bytes
    growth = HEADS[shared.host_bits].size - _ITEM_BYTES + len(topic) + added_bytes
    unpack, pack, crc32 = _ITEM.unpack_from, _HEADS[shared.host_bits].pack, zlib.crc32
    data_bytes = len(data)
    records: list[bytes] = []
    sizes: list[int] = []
    all_properties: list[bytes] = []
    length = topic_and_length = b""
    properties_bytes = -1  # those of the item before, mostly as many as those of this one
    at = 0
    while at < data_bytes:
        item_bytes, flag, body_bytes = unpack(data, at)
        body_at = at + _ITEM_BYTES
        body_end = body_at + body_bytes
        at += item_bytes
        if at - body_end - 2 != properties_bytes:
            properties_bytes = at - body_end - 2
            length = SHORT.pack(properties_bytes)
            topic_and_length = topic + _pack_length(properties_bytes + added_bytes)
        if not (0 <= body_bytes < at <= data_bytes and data.startswith(length, body_end)):
            raise _damage(data)
        body = data[body_at:body_end]
        properties = data[body_end + 2 : at]
        all_properties.append(properties)
        size = item_bytes + growth
        tail = topic_and_length
        if append_crc:
            properties = without_crc(properties)
            if len(properties) != properties_bytes:
                size += len(properties) - properties_bytes
                tail = topic + _pack_length(len(properties) + added_bytes)
        head = pack(
            size, magic, crc32(body) & _CRC_MASK, queue_id, flag, queue_offset, log_offset,
            common, body_bytes,
        )  # fmt: skip
        records.append(b"".join((head, body, tail, properties)))
        sizes.append(size)
        queue_offset += 1
        log_offset += size
    return EncodedBatch(shared.join(records), sizes, RunProperties(all_properties))


def _pack_length(properties_bytes: int) -> bytes:
    """The length field of properties, with their checksum if they get one."""
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise RecordError(
            f"properties of {properties_bytes} bytes with their checksum; a record takes"
            f" {PROPERTIES_BYTES_MAX}: shorten them"
        )
    return SHORT.pack(properties_bytes)


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
    """System flag to prepared offset; the latter is 0, for no batch is part of a transaction."""
    sys_flag = (batch.sys_flag & ~HOST_BITS) | host_bits << HOST_BITS_SHIFT
    head = HEADS[host_bits].pack(
        0, 0, 0, 0, 0, 0, 0,
        sys_flag, batch.born_time_ms, batch.born_host, store_time_ms, batch.store_host,
        batch.reconsume_times, 0, 0,
    )  # fmt: skip
    return head[_VARYING_BYTES:-_BODY_LENGTH_BYTES]


def _damage(data: bytes) -> RecordError:
    """What is wrong with a batch: a place in it, or else a number that does not fit its field."""
    try:
        decode_batch(data)
    except RecordError as error:
        return error
    return RecordError("a time, queue id or offset of a batch does not fit its field")
