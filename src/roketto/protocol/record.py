"""The message record: one layout for log, pull body and batch (drawn in record_layout.py).

``decode_record`` makes a ``Record`` of bytes, ``encode_record_into`` writes one into a buffer, such
as a mapped file.
"""

import struct
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from roketto.protocol import property_names
from roketto.protocol.compression import decompress
from roketto.protocol.crc import (
    CRC_PROPERTY_BYTES,
    masked_crc32,
    without_crc,
    write_crc_property,
)
from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import IPV4_HOST_BYTES, IPV6_HOST_BYTES, NO_HOST
from roketto.protocol.ids import encode_offset_id
from roketto.protocol.limits import PROPERTIES_BYTES_MAX, RETRY_TOPIC_BYTES_MAX, TOPIC_BYTES_MAX
from roketto.protocol.properties import (
    decode_properties,
    encode_properties,
    get_property,
)
from roketto.protocol.record_layout import (
    HEADS,
    HOST_BITS_SHIFT,
    MAGIC_V1,
    MAGIC_V2,
    SHORT,
)
from roketto.protocol.sysflags import BORN_HOST_IPV6, COMPRESSED, HOST_BITS, STORE_HOST_IPV6
from roketto.protocol.utf8 import decode_utf8, encode_utf8

BYTES: Final = tuple(bytes((value,)) for value in range(256))
"""The one-byte strings by value."""
_NO_HOST_BITS: Final = ~HOST_BITS
_IPV4_HEAD_BYTES: Final = HEADS[0].size
_SIGNED_V1: Final = MAGIC_V1 - (1 << 32)
_SIGNED_V2: Final = MAGIC_V2 - (1 << 32)
_MAGIC_AT: Final = 4
_MAGIC_FIRST: Final = MAGIC_V1 >> 24
"""The first byte of either magic; without it the bytes of a record are none."""


class Record:
    """One message with everything a log keeps of it.

    Decoded records own their bytes. A record on its way into the log may hold a view of the frame
    it came in, hence the two types of ``body``. Hosts are kept as bytes (see hosts.py); properties
    are parsed when somebody asks for them.
    """

    __slots__ = (
        "_properties",
        "_properties_raw",
        "body",
        "body_crc",
        "born_host",
        "born_time_ms",
        "flag",
        "log_offset",
        "prepared_log_offset",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "size",
        "store_host",
        "store_time_ms",
        "sys_flag",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        body: bytes | memoryview,
        properties_raw: bytes = b"",
        queue_id: int = 0,
        flag: int = 0,
        queue_offset: int = 0,
        log_offset: int = 0,
        sys_flag: int = 0,
        born_time_ms: int = 0,
        born_host: bytes = NO_HOST,
        store_time_ms: int = 0,
        store_host: bytes = NO_HOST,
        reconsume_times: int = 0,
        prepared_log_offset: int = 0,
        body_crc: int = 0,
        size: int = 0,
    ) -> None:
        self.topic: str = topic
        self.body: bytes | memoryview = body
        self._properties_raw: bytes | None = properties_raw
        self._properties: dict[str, str] | None = None
        self.queue_id: int = queue_id
        self.flag: int = flag
        self.queue_offset: int = queue_offset
        self.log_offset: int = log_offset
        self.sys_flag: int = sys_flag
        self.born_time_ms: int = born_time_ms
        self.born_host: bytes = born_host
        self.store_time_ms: int = store_time_ms
        self.store_host: bytes = store_host
        self.reconsume_times: int = reconsume_times
        self.prepared_log_offset: int = prepared_log_offset
        self.body_crc: int = body_crc
        """As decoded; encoding computes it anew."""
        self.size: int = size
        """Bytes of the record as decoded; 0 in one that was never stored."""

    @property
    def properties_raw(self) -> bytes:
        """The property string; byte for byte as decoded until a property is set or removed."""
        if self._properties_raw is None:
            self._properties_raw = encode_properties(self.properties)
        return self._properties_raw

    @properties_raw.setter
    def properties_raw(self, raw: bytes) -> None:
        self._properties_raw = raw
        self._properties = None

    @property
    def properties(self) -> dict[str, str]:
        """The parsed properties, to read; change them with set_property and remove_property."""
        if self._properties is None:
            self._properties = decode_properties(self._properties_raw or b"")
        return self._properties

    def get_property(self, name: str) -> str | None:
        """One property; cheaper than ``properties`` when only one or two are of interest."""
        if self._properties is None:
            return get_property(self._properties_raw or b"", name)
        return self._properties.get(name)

    def set_property(self, name: str, value: str) -> None:
        """Add or replace a property."""
        self.properties[name] = value
        self._properties_raw = None

    def remove_property(self, name: str) -> None:
        """Remove a property, if it is there."""
        if self.properties.pop(name, None) is not None:
            self._properties_raw = None

    @property
    def offset_id(self) -> str:
        """The broker's id: it says where the record lies."""
        return encode_offset_id(self.store_host, self.log_offset)

    @property
    def message_id(self) -> str:
        """The id a user sees: the producer's, or the broker's when the producer gave none."""
        return self.get_property(property_names.UNIQ_KEY) or self.offset_id

    def decompress(self) -> None:
        """Unpack the body if it is compressed; raises CompressionError and then changes nothing.

        Not part of decoding, so that one bad body does not cost the records that follow it.
        """
        if self.sys_flag & COMPRESSED:
            self.body = decompress(self.body, self.sys_flag)
            self.sys_flag &= ~COMPRESSED

    def __reduce__(self) -> tuple[type["Record"], tuple[object, ...]]:
        """To copy and pickle a record, also where this module is compiled."""
        return Record, (
            self.topic, bytes(self.body), self.properties_raw, self.queue_id, self.flag,
            self.queue_offset, self.log_offset, self.sys_flag, self.born_time_ms, self.born_host,
            self.store_time_ms, self.store_host, self.reconsume_times, self.prepared_log_offset,
            self.body_crc, self.size,
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"<Record of {self.topic[:64]!r} queue {self.queue_id} offset {self.queue_offset},"
            f" body of {len(self.body)} bytes, at {self.log_offset}>"
        )


def decode_record(
    data: bytes | memoryview, at: int = 0, read_body: bool = True, check_crc: bool = False
) -> Record:
    """Decode the record that begins at ``at``; ``record.size`` bytes later the next one begins.

    All lengths must agree with each other and with the size; anything else is a RecordError. With
    ``read_body`` off the body is left empty; ``check_crc`` compares the body with its checksum in
    either case.
    """
    try:
        head = HEADS[0].unpack_from(data, at)
        host_bits = (head[7] >> HOST_BITS_SHIFT) & 3
        if host_bits:
            head = HEADS[host_bits].unpack_from(data, at)
    except struct.error:
        raise _damaged(at, f"{len(data) - at} bytes are fewer than any record has") from None
    (
        size, magic, body_crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_time_ms,
        born_host, store_time_ms, store_host, reconsume_times, prepared_log_offset, body_bytes,
    ) = head  # fmt: skip
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise _damaged(at, f"magic 0x{magic:08X} is unknown")
    end = at + size
    body_at = at + HEADS[host_bits].size
    body_end = body_at + body_bytes
    if end > len(data):
        raise _damaged(at, f"it is {size} bytes long, but {len(data) - at} are there")
    if body_bytes < 0 or body_end + 3 > end:
        raise _damaged(at, f"a body of {body_bytes} bytes does not fit its size {size}")
    if magic == MAGIC_V1:
        topic_at = body_end + 1
        topic_bytes = data[body_end]
        if topic_bytes > TOPIC_BYTES_MAX:
            raise _damaged(at, f"a topic of {topic_bytes} bytes needs a V2 record")
    else:
        topic_at = body_end + 2
        topic_bytes = SHORT.unpack_from(data, body_end)[0]
    topic_end = topic_at + topic_bytes
    if topic_bytes < 0 or topic_end + 2 > end:
        raise _damaged(at, f"a topic of {topic_bytes} bytes does not fit its size {size}")
    properties_bytes = SHORT.unpack_from(data, topic_end)[0]
    if topic_end + 2 + properties_bytes != end:
        raise _damaged(at, f"its parts do not add up to its size {size}")
    if check_crc and body_bytes and masked_crc32(data[body_at:body_end]) != body_crc:
        raise _damaged(at, f"its body of {body_bytes} bytes does not match its CRC")
    return Record(
        decode_utf8(data[topic_at:topic_end]),
        bytes(data[body_at:body_end]) if read_body else b"",
        bytes(data[topic_end + 2 : end]),
        queue_id, flag, queue_offset, log_offset, sys_flag, born_time_ms, born_host, store_time_ms,
        store_host, reconsume_times, prepared_log_offset, body_crc, size,
    )  # fmt: skip


def decode_records(data: bytes | memoryview, strict: bool = False) -> list[Record]:
    """Decode the records of a buffer, one after the other.

    The first thing that is no whole record ends the run, as in Java: an answer may be cut at any
    byte. With ``strict`` it is a RecordError instead.
    """
    records: list[Record] = []
    at = 0
    while at < len(data):
        try:
            record = decode_record(data, at)
        except RecordError:
            if strict:
                raise
            break
        records.append(record)
        at += record.size
    return records


def encode_record_into(
    record: Record, buffer: bytearray | memoryview, at: int = 0, append_crc: bool = False
) -> int:
    """Write ``record`` at ``at`` and return its size; 0, and nothing written, if there is no room.

    The checksum is computed and the host bits of the system flag are set from the hosts themselves,
    whatever the caller says: a record whose flag contradicts its layout cannot be read back, nor
    can anything behind it. ``append_crc`` ends the properties with the CRC property (crc.py).
    """
    return encode_fields_into(
        buffer, at, encode_topic(record.topic), record.body, record.properties_raw,
        record.queue_id, record.flag, record.queue_offset, record.log_offset, record.sys_flag,
        record.born_time_ms, record.born_host, record.store_time_ms, record.store_host,
        record.reconsume_times, record.prepared_log_offset, append_crc,
    )  # fmt: skip


def encode_topic(topic: str) -> bytes:
    """A topic as it stands in a record, behind its length; RecordError if it is too long."""
    text = topic.encode() if topic.isascii() else encode_utf8(topic)
    topic_bytes = len(text)
    if topic_bytes <= TOPIC_BYTES_MAX:
        return BYTES[topic_bytes] + text
    if topic_bytes > RETRY_TOPIC_BYTES_MAX:
        raise RecordError(
            f"topic of {topic_bytes} bytes; a record takes {RETRY_TOPIC_BYTES_MAX}: shorten it"
        )
    return SHORT.pack(topic_bytes) + text


def encode_fields_into(
    buffer: bytearray | memoryview,
    at: int,
    topic: bytes,
    body: bytes | memoryview,
    properties: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    log_offset: int,
    sys_flag: int,
    born_time_ms: int,
    born_host: bytes,
    store_time_ms: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_log_offset: int = 0,
    append_crc: bool = False,
) -> int:
    """The same for a record that is only its fields; ``topic`` is what ``encode_topic`` gives."""
    if append_crc:
        properties = without_crc(properties)
    properties_bytes = len(properties) + (CRC_PROPERTY_BYTES if append_crc else 0)
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise RecordError(
            f"properties of {properties_bytes} bytes; a record takes {PROPERTIES_BYTES_MAX}:"
            " shorten them"
        )
    host_bits = 0
    if len(born_host) != IPV4_HOST_BYTES or len(store_host) != IPV4_HOST_BYTES:
        host_bits = _host_bits(born_host, store_host)
    body_bytes = len(body)
    size = _head_bytes(host_bits) + body_bytes + len(topic) + 2 + properties_bytes
    if at + size > len(buffer):
        return 0
    # One copy of everything is faster than a write for each piece: up to 64 KiB, it was measured.
    writer = BytesWriter()
    try:
        write_i32_be(writer, size)
        # The length of a long topic has two bytes, the first of which is 0 in no other one.
        write_i32_be(writer, _SIGNED_V1 if topic[0] or len(topic) == 1 else _SIGNED_V2)
        write_i32_be(writer, masked_crc32(body))
        write_i32_be(writer, queue_id)
        write_i32_be(writer, flag)
        write_i64_be(writer, queue_offset)
        write_i64_be(writer, log_offset)
        write_i32_be(writer, (sys_flag & _NO_HOST_BITS) | host_bits)
        write_i64_be(writer, born_time_ms)
        writer.write(born_host)
        write_i64_be(writer, store_time_ms)
        writer.write(store_host)
        write_i32_be(writer, reconsume_times)
        write_i64_be(writer, prepared_log_offset)
        write_i32_be(writer, body_bytes)
    except ValueError as error:
        raise RecordError(f"a number of a record does not fit its field: {error}") from error
    writer.write(body if isinstance(body, bytes) else bytes(body))
    writer.write(topic)
    write_i16_be(writer, properties_bytes)
    writer.write(properties)
    if append_crc:
        write_crc_property(writer, writer.getvalue())
    # One byte comes last: a process that dies in between leaves no record, not half of one.
    writer[_MAGIC_AT] = 0
    buffer[at : at + size] = writer.getvalue()
    buffer[at + _MAGIC_AT] = _MAGIC_FIRST
    return size


def encode_record(record: Record, append_crc: bool = False) -> bytes:
    """The bytes of ``record``."""
    buffer = bytearray(record_size(record, append_crc))
    encode_record_into(record, buffer, 0, append_crc)
    return bytes(buffer)


def record_size(record: Record, append_crc: bool = False) -> int:
    """How many bytes ``record`` takes."""
    return fields_size(
        encode_topic(record.topic), record.body, record.properties_raw, record.born_host,
        record.store_host, append_crc,
    )  # fmt: skip


def fields_size(
    topic: bytes,
    body: bytes | memoryview,
    properties: bytes,
    born_host: bytes,
    store_host: bytes,
    append_crc: bool,
) -> int:
    """The same for a record that is only its fields; ``topic`` is what ``encode_topic`` gives."""
    properties_bytes = len(properties)
    if append_crc:
        properties_bytes = len(without_crc(properties)) + CRC_PROPERTY_BYTES
    head_bytes = _head_bytes(_host_bits(born_host, store_host))
    return head_bytes + len(body) + len(topic) + 2 + properties_bytes


def _head_bytes(host_bits: int) -> int:
    return HEADS[host_bits >> HOST_BITS_SHIFT].size if host_bits else _IPV4_HEAD_BYTES


def _host_bits(born_host: bytes, store_host: bytes) -> int:
    born_bytes = len(born_host)
    store_bytes = len(store_host)
    if born_bytes == IPV4_HOST_BYTES and store_bytes == IPV4_HOST_BYTES:
        return 0
    for host_bytes in (born_bytes, store_bytes):
        if host_bytes != IPV4_HOST_BYTES and host_bytes != IPV6_HOST_BYTES:
            raise RecordError(
                f"a host of {host_bytes} bytes; it takes {IPV4_HOST_BYTES} (IPv4) or"
                f" {IPV6_HOST_BYTES} (IPv6)"
            )
    born_bit = BORN_HOST_IPV6 if born_bytes == IPV6_HOST_BYTES else 0
    return born_bit | (STORE_HOST_IPV6 if store_bytes == IPV6_HOST_BYTES else 0)


def _damaged(at: int, why: str) -> RecordError:
    return RecordError(f"record at byte {at} is damaged: {why}")
