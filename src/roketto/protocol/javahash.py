"""Java's String.hashCode: what brokers file tags and keys under and clients choose queues by."""


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
