"""The bytes of a message record: its layout, and quick looks and small changes at fixed places.

One layout serves the log, the bodies of pull, pop and query answers, and Spark::

    0       4        size          of the whole record
    4       4        magic         0xDAA320A7 (V1) or 0xDAA320AB (V2: topic length of 2 bytes)
    8       4        body CRC      CRC-32 of the stored body without the top bit
    12      4        queue id
    16      4        flag          of the application
    20      8        queue offset
    28      8        log offset    of byte 0 of this record
    36      4        system flag   see sysflags.py; two bits tell the lengths of the hosts
    40      8        born time     milliseconds
    48      8 or 20  born host     see hosts.py
    56 *    8        store time    milliseconds
    64 *    8 or 20  store host
    72 *    4        reconsume times
    76 *    8        prepared      log offset of the half message
    84 *    4 + n    body
            1 + n    topic         V2: 2 + n; lengths are signed
            2 + n    properties    see properties.py; the length is signed

    * 12 more after each IPv6 host

The end of a log file is filled with ``size of the rest, 0xCBD43194`` and whatever follows.

The functions below are for scans and filters: they look at one field of a record in a buffer and
decode nothing else. All raise RecordError where the bytes end too early.
"""

import struct
from typing import Final

from roketto.protocol.crc import (
    CRC_PROPERTY_BYTES,
    decode_crc_property,
    encode_crc_property,
    masked_crc32,
)
from roketto.protocol.errors import RecordError

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
"""Fills the end of a log file that the next record does not fit into."""

HEADS: Final = (
    struct.Struct(">iIiiiqqiq8sq8siqi"),
    struct.Struct(">iIiiiqqiq20sq8siqi"),
    struct.Struct(">iIiiiqqiq8sq20siqi"),
    struct.Struct(">iIiiiqqiq20sq20siqi"),
)
"""Everything up to and with the length of the body, by the two host bits of the system flag."""

HOST_BITS_SHIFT: Final = 4
"""``(sys_flag >> HOST_BITS_SHIFT) & 3`` chooses from HEADS."""

SHORT: Final = struct.Struct(">h")
_BYTE: Final = struct.Struct(">b")
_UINT: Final = struct.Struct(">I")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_TWO_LONGS: Final = struct.Struct(">qq")

_MAGIC_AT: Final = 4
_QUEUE_ID_AT: Final = 12
_QUEUE_OFFSET_AT: Final = 20
_LOG_OFFSET_AT: Final = 28
_SYS_FLAG_AT: Final = 36
_BORN_HOST_AT: Final = 48


def peek_size(data: bytes | memoryview, at: int = 0) -> int:
    """Bytes of the whole record, as it says itself."""
    return _unpack(_INT, data, at)


def peek_magic(data: bytes | memoryview, at: int = 0) -> int:
    """One of the MAGIC values, or anything else when this is no record."""
    return _unpack(_UINT, data, at + _MAGIC_AT)


def peek_queue_id(data: bytes | memoryview, at: int = 0) -> int:
    """The queue of the topic."""
    return _unpack(_INT, data, at + _QUEUE_ID_AT)


def peek_queue_offset(data: bytes | memoryview, at: int = 0) -> int:
    """The place in the queue."""
    return _unpack(_LONG, data, at + _QUEUE_OFFSET_AT)


def peek_log_offset(data: bytes | memoryview, at: int = 0) -> int:
    """The place in the log."""
    return _unpack(_LONG, data, at + _LOG_OFFSET_AT)


def peek_sys_flag(data: bytes | memoryview, at: int = 0) -> int:
    """The system flag."""
    return _unpack(_INT, data, at + _SYS_FLAG_AT)


def peek_store_time_ms(data: bytes | memoryview, at: int = 0) -> int:
    """When the broker stored the record."""
    return _unpack(_LONG, data, _store_time_at(data, at))


def peek_prepared_log_offset(data: bytes | memoryview, at: int = 0) -> int:
    """Where the half message lies, or ends the record that this one is a copy of; mostly 0."""
    hosts = _host_bits(data, at)
    return _unpack(_LONG, data, at + HEADS[hosts].size - _INT.size - _LONG.size)


def peek_body(data: bytes | memoryview, at: int = 0) -> memoryview:
    """The stored body, not copied."""
    start, end = _body_span(data, at)
    return memoryview(data)[start:end]


def peek_topic(data: bytes | memoryview, at: int = 0) -> memoryview:
    """The topic, not copied."""
    start, end = _topic_span(data, at)
    return memoryview(data)[start:end]


def peek_properties(data: bytes | memoryview, at: int = 0) -> memoryview:
    """The property string, not copied."""
    start = _topic_span(data, at)[1] + SHORT.size
    end = _end(data, start, _unpack(SHORT, data, start - SHORT.size))
    return memoryview(data)[start:end]


def patch_offsets(view: memoryview, at: int, queue_offset: int, log_offset: int) -> None:
    """Put the record's place in queue and log in; they are known only when it is appended."""
    _TWO_LONGS.pack_into(view, at + _QUEUE_OFFSET_AT, queue_offset, log_offset)


def patch_store_time(view: memoryview, at: int, store_time_ms: int) -> None:
    """Put the time in at which the record is stored."""
    _LONG.pack_into(view, _store_time_at(view, at), store_time_ms)


def patch_crc_property(view: memoryview, at: int) -> None:
    """Write the CRC property into the last bytes of a record that keeps them for it.

    The last step: whatever changes the record afterwards makes it wrong.
    """
    start, end = _crc_property_span(view, at)
    view[start:end] = encode_crc_property(masked_crc32(view[at:start]))


def has_good_crc_property(data: bytes | memoryview, at: int = 0) -> bool:
    """Whether the record ends in a CRC property, and a true one."""
    start, end = _crc_property_span(data, at)
    crc = decode_crc_property(bytes(data[start:end]))
    return crc is not None and crc == masked_crc32(data[at:start])


def _unpack(layout: struct.Struct, data: bytes | memoryview, at: int) -> int:
    try:
        value: int = layout.unpack_from(data, at)[0]
    except struct.error:
        raise RecordError(f"record ends early: {len(data)} bytes, field at {at}") from None
    return value


def _host_bits(data: bytes | memoryview, at: int) -> int:
    return (_unpack(_INT, data, at + _SYS_FLAG_AT) >> HOST_BITS_SHIFT) & 3


def _store_time_at(data: bytes | memoryview, at: int) -> int:
    return at + _BORN_HOST_AT + (20 if _host_bits(data, at) & 1 else 8)


def _body_span(data: bytes | memoryview, at: int) -> tuple[int, int]:
    start = at + HEADS[_host_bits(data, at)].size
    return start, _end(data, start, _unpack(_INT, data, start - _INT.size))


def _topic_span(data: bytes | memoryview, at: int) -> tuple[int, int]:
    length = SHORT if peek_magic(data, at) == MAGIC_V2 else _BYTE
    body_end = _body_span(data, at)[1]
    start = body_end + length.size
    return start, _end(data, start, _unpack(length, data, body_end))


def _crc_property_span(data: bytes | memoryview, at: int) -> tuple[int, int]:
    size = peek_size(data, at)
    if size < HEADS[0].size + CRC_PROPERTY_BYTES:
        raise RecordError(f"record of {size} bytes at {at} has no room for a CRC property")
    end = _end(data, at, size)
    return end - CRC_PROPERTY_BYTES, end


def _end(data: bytes | memoryview, start: int, length: int) -> int:
    if length < 0 or start + length > len(data):
        raise RecordError(f"field at {start} has {length} bytes, outside the {len(data)} given")
    return start + length
