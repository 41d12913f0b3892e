"""Whether the bytes at a place in the log are a record, as recovery and verification ask it."""

import struct
import zlib
from typing import Final

from roketto.protocol.errors import RecordError
from roketto.protocol.limits import TOPIC_BYTES_MAX
from roketto.protocol.record_layout import (
    HEADS,
    HOST_BITS_SHIFT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    SHORT,
    has_good_crc_property,
)

BLANK: Final = struct.Struct(">iI")
"""Size and magic: the whole of a blank, and the beginning of every record."""

BLANK_BYTES: Final = BLANK.size
"""What every segment of the log keeps free at its end."""

RECORD_BYTES_MIN: Final = HEADS[0].size + 1 + 2
"""A record without body, topic and properties."""

_CRC_MASK: Final = 0x7FFF_FFFF


def check_record(
    segment: memoryview,
    at: int,
    log_offset: int,
    check_body_crc: bool = True,
    check_crc_property: bool = False,
) -> int:
    """The size of the record at ``at`` of a whole segment, 0 for a blank; else RecordError.

    It is one if its magic is known, its lengths agree with each other and leave room for the blank,
    it says of itself that it lies at ``log_offset``, and its checksum is right. The CRC property
    covers all of it, but only stores that were written with it can be asked for it.

    This is what decode_record checks. It takes two thirds of the time, for it makes no Record, and
    recovery may have some millions of them to pass. A test keeps the two of one mind.
    """
    bound = len(segment) - BLANK_BYTES
    if at > bound:
        raise _bad(log_offset, f"{len(segment) - at} bytes are left in the segment")
    size: int
    magic: int
    size, magic = BLANK.unpack_from(segment, at)
    if magic == MAGIC_BLANK:
        if size != len(segment) - at:
            raise _bad(log_offset, f"a blank of {size} bytes, where {len(segment) - at} are left")
        return 0
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise _bad(log_offset, f"magic 0x{magic:08X} is unknown")
    end = at + size
    if size < RECORD_BYTES_MIN or end > bound:
        raise _bad(log_offset, f"size {size}, where {bound - at} bytes can be used")
    head = HEADS[0].unpack_from(segment, at)
    host_bits = (head[7] >> HOST_BITS_SHIFT) & 3
    body_at = at + HEADS[host_bits].size
    if host_bits:
        if body_at + 3 > end:
            raise _bad(log_offset, f"size {size} is too small for its hosts")
        head = HEADS[host_bits].unpack_from(segment, at)
    if head[6] != log_offset:
        raise _bad(log_offset, f"it says that it lies at {head[6]}")
    body_bytes = head[14]
    body_end = body_at + body_bytes
    if body_bytes < 0 or body_end + 3 > end:
        raise _bad(log_offset, f"a body of {body_bytes} bytes does not fit its size {size}")
    _check_tail(segment, body_end, end, magic, log_offset)
    if check_crc_property:
        if not has_good_crc_property(segment, at):
            raise _bad(log_offset, "its CRC property is missing or wrong")
    elif (
        check_body_crc
        and body_bytes
        and zlib.crc32(segment[body_at:body_end]) & _CRC_MASK != head[2]
    ):
        raise _bad(log_offset, f"its body of {body_bytes} bytes does not match its CRC")
    return size


def _check_tail(segment: memoryview, body_end: int, end: int, magic: int, log_offset: int) -> None:
    """Topic and properties must end where the record does."""
    if magic == MAGIC_V1:
        topic_bytes = segment[body_end]
        topic_end = body_end + 1 + topic_bytes
        if topic_bytes > TOPIC_BYTES_MAX:
            raise _bad(log_offset, f"a topic of {topic_bytes} bytes needs a V2 record")
    else:
        topic_bytes = SHORT.unpack_from(segment, body_end)[0]
        topic_end = body_end + 2 + topic_bytes
    if topic_bytes < 0 or topic_end + 2 > end:
        raise _bad(log_offset, f"a topic of {topic_bytes} bytes does not fit its size")
    properties_bytes = SHORT.unpack_from(segment, topic_end)[0]
    if topic_end + 2 + properties_bytes != end:
        raise _bad(log_offset, f"properties of {properties_bytes} bytes do not end it")


def _bad(log_offset: int, why: str) -> RecordError:
    return RecordError(f"no whole record at log offset {log_offset}: {why}")
