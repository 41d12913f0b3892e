"""Mend records that a broker of Java's wrote with flags that do not describe them.

Java keeps the two bits of a sender's system flag that say whether hosts are IPv6. Where they are
set over IPv4, it reserves 12 bytes more for each host and writes none of them there: all fields
lie 12 or 24 bytes earlier than the flag says, and as many bytes at the end belong to nothing. Its
own recovery stops at such a record and drops all that follows it, of every topic.

Mended, the flag says what is there, and the bytes at the end have become empty properties. The
store time, which Java writes last and to the place that the flag gives, lies over the port of the
store host and the reconsume times then: it goes to its own place, and these are 0.
"""

import struct
from typing import Final

from roketto.protocol.errors import RecordError
from roketto.protocol.record_layout import HEADS, HOST_BITS_SHIFT, MAGIC_V1, SHORT
from roketto.protocol.sysflags import HOST_BITS
from roketto.store.record_check import BLANK, BLANK_BYTES, check_record

_IPV6_EXTRA_BYTES: Final = 12
_SYS_FLAG_AT: Final = 36
_STORE_TIME_AT: Final = 56
_STRAY_TIME_AT: Final = _STORE_TIME_AT + _IPV6_EXTRA_BYTES
_LOCK_WAIT_MAX_MS: Final = 60_000
"""How much later the last store time may be than the first, which was taken before Java's lock."""
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_BODY_LENGTH_BYTES: Final = 4
_EMPTY_PROPERTY: Final = b"\x02"
_FITTING: Final = {1: (0,), 2: (0,), 3: (0, 2, 1)}
"""Which hosts may really be there, by the bits that are set: 1 born, 2 store host IPv6. Where one
of two is, the rest fits either way, and only the store times tell which."""


def repair_record(segment: memoryview, at: int, log_offset: int) -> bytes | None:
    """The record at ``at`` of a whole segment as it should be; None if it cannot be told.

    Only one whose every length, and checksum of the body, is right but for these bits.
    """
    if at + HEADS[0].size > len(segment) - BLANK_BYTES:
        return None
    size, _ = BLANK.unpack_from(segment, at)
    (sys_flag,) = _INT.unpack_from(segment, at + _SYS_FLAG_AT)
    bits = (sys_flag & HOST_BITS) >> HOST_BITS_SHIFT
    if not HEADS[0].size < size <= len(segment) - BLANK_BYTES - at:
        return None
    for fitting in _FITTING.get(bits, ()):
        data = bytearray(segment[at : at + size])
        spare = (bits ^ fitting).bit_count() * _IPV6_EXTRA_BYTES
        _INT.pack_into(data, _SYS_FLAG_AT, sys_flag ^ (bits ^ fitting) << HOST_BITS_SHIFT)
        if _fill(data, HEADS[fitting].size, spare) and _is_sound(data, log_offset):
            has_moved = (bits ^ fitting) & 1 and _move_store_time(data)
            if has_moved or fitting != 2:
                return bytes(data)
    return None


def _fill(data: bytearray, head_bytes: int, spare: int) -> bool:
    """Let the properties take the last ``spare`` bytes; False if they do not end before them."""
    try:
        (body_bytes,) = _INT.unpack_from(data, head_bytes - _BODY_LENGTH_BYTES)
        topic_at = head_bytes + body_bytes
        (_, magic) = BLANK.unpack_from(data, 0)
        length_bytes = 1 if magic == MAGIC_V1 else SHORT.size
        topic_bytes = int.from_bytes(data[topic_at : topic_at + length_bytes])
        length_at = topic_at + length_bytes + topic_bytes
        (properties_bytes,) = SHORT.unpack_from(data, length_at)
        SHORT.pack_into(data, length_at, properties_bytes + spare)
    except (struct.error, IndexError):
        return False
    data[-spare:] = _EMPTY_PROPERTY * spare
    end: int = length_at + SHORT.size + properties_bytes + spare
    return end == len(data)


def _move_store_time(data: bytearray) -> bool:
    """Put the store time where it belongs; False if it is not where the flag would lead to."""
    (first_ms,) = _LONG.unpack_from(data, _STORE_TIME_AT)
    (last_ms,) = _LONG.unpack_from(data, _STRAY_TIME_AT)
    if not 0 <= last_ms - first_ms <= _LOCK_WAIT_MAX_MS:
        return False
    _LONG.pack_into(data, _STORE_TIME_AT, last_ms)
    _LONG.pack_into(data, _STRAY_TIME_AT, 0)
    return True


def _is_sound(data: bytearray, log_offset: int) -> bool:
    """Whether it is, as if it were alone in its segment."""
    try:
        return bool(check_record(memoryview(bytes(data) + bytes(BLANK_BYTES)), 0, log_offset))
    except RecordError:
        return False
