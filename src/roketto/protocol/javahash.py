"""Java's String.hashCode: what brokers file tags and keys under and clients choose queues by."""

from librt.strings import read_i32_be
from mypy_extensions import i64


def java_hash(text: str) -> int:
    """``h = 31 * h + unit`` over the UTF-16 units of ``text``, wrapped to a signed 32-bit number.

    >>> java_hash("TagA")
    2598919
    """
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFF_FFFF
    else:
        for point in map(ord, text):
            if point >= 0x10000:  # two units, the high surrogate first
                value = (31 * value + 0xD7C0 + (point >> 10)) & 0xFFFF_FFFF
                point = 0xDC00 + (point & 0x3FF)
            value = (31 * value + point) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def hash_on(value: i64, raw: bytes, start: i64, end: i64) -> i64:
    """Go on from an unsigned hash with some of the bytes; -1 unless all of them are ASCII.

    For compiled code, in which four bytes cost a few instructions.
    """
    while start + 4 <= end:
        word = i64(read_i32_be(raw, start))
        if word < 0 or word & 0x80_8080:
            return -1
        value = 31 * 31 * 31 * 31 * value + 31 * 31 * 31 * (word >> 24)
        value += 31 * 31 * (word >> 16 & 0xFF) + 31 * (word >> 8 & 0xFF) + (word & 0xFF)
        value &= 0xFFFF_FFFF
        start += 4
    while start < end:
        unit: i64 = raw[start]
        if unit >= 0x80:
            return -1
        value = (31 * value + unit) & 0xFFFF_FFFF
        start += 1
    return value
