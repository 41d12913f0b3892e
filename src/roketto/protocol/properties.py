"""The property string: the named values that travel with a message.

::

    name 0x01 value 0x02   name 0x01 value 0x02   ...

UTF-8, without a count. The last 0x02 may be missing: 4.x clients do not write it, 5.x clients do.
"""

from collections.abc import Mapping
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from roketto.protocol.utf8 import decode_utf8, encode_utf8

_NAME_END: Final = b"\x01"
_ITEM_END: Final = b"\x02"

# Four letters of a name each, as a number.
_UNIQ: Final = 0x554E_4951
_KEY: Final = 0x5F4B_4559
_KEYS: Final = 0x4B45_5953
_TAGS: Final = 0x5441_4753
_LONG_NAME: Final = 8
_SHORT_NAME: Final = 4

_ENDS: Final = 0x02_0202_0202_0202
"""Seven bytes that end items, as a number..."""
_LOW_BITS: Final = 0x7F_7F7F_7F7F_7F7F
_HIGH_BITS: Final = 0x80_8080_8080_8080
_HIGHEST_BIT: Final = 0x80_0000_0000_0000
"""...and bits of such numbers."""

Spans = tuple[i64, i64, i64, i64, i64, i64]
"""Start and end of the values of UNIQ_KEY, KEYS and TAGS in a property string."""


def decode_properties(raw: bytes | memoryview) -> dict[str, str]:
    """All properties. Items without a name, without a value or without 0x01 are left out.

    A second 0x01 belongs to the value; of two items with the same name the last one counts.
    """
    properties: dict[str, str] = {}
    for item in decode_utf8(raw).split("\x02"):
        name, _, value = item.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


def encode_properties(properties: Mapping[str, str | None]) -> bytes:
    """The property string, in the order of the mapping; a name whose value is None is left out.

    As in Java nothing is escaped. Whoever takes names and values from a user refuses those with
    0x01 or 0x02 in them; here they would only change where items begin.
    """
    items = [f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None]
    return encode_utf8("".join(items))


def get_property(raw: bytes | memoryview, name: str) -> str | None:
    """What ``decode_properties(raw).get(name)`` gives, without parsing the others."""
    if not name or "\x01" in name or "\x02" in name:
        return None
    data = raw if isinstance(raw, bytes) else bytes(raw)
    needle = encode_utf8(name) + _NAME_END
    at = data.rfind(needle)  # from the end: the last item of that name counts
    while at >= 0:
        start = at + len(needle)
        if at == 0 or data[at - 1] == 0x02:
            end = data.find(_ITEM_END, start)
            value = data[start:] if end < 0 else data[start:end]
            if value:
                return decode_utf8(value)
        at = data.rfind(needle, 0, start - 1)
    return None


def find_spans(raw: bytes) -> Spans:
    """Where the values are that a store files a message under; 0, 0 for one that is not there.

    One look at every byte, which is the fastest way in compiled code, and the slowest in any other.
    """
    unique: i64 = 0
    unique_end: i64 = 0
    keys: i64 = 0
    keys_end: i64 = 0
    tag: i64 = 0
    tag_end: i64 = 0
    size: i64 = len(raw)
    start: i64 = 0
    while start < size:
        end = _find_end(raw, start, size)
        # An item with a value has a byte behind the name and the 01; of several, the last counts.
        if end - start > _SHORT_NAME + 1 and raw[start + _SHORT_NAME] == 0x01:
            name = read_i32_be(raw, start)
            if name == _KEYS:
                keys, keys_end = start + _SHORT_NAME + 1, end
            elif name == _TAGS:
                tag, tag_end = start + _SHORT_NAME + 1, end
        elif (
            end - start > _LONG_NAME + 1
            and raw[start + _LONG_NAME] == 0x01
            and read_i32_be(raw, start) == _UNIQ
            and read_i32_be(raw, start + 4) == _KEY
        ):
            unique, unique_end = start + _LONG_NAME + 1, end
        start = end + 1
    return unique, unique_end, keys, keys_end, tag, tag_end


def _find_end(raw: bytes, start: i64, size: i64) -> i64:
    """Where the item ends that begins at ``start``.

    Seven bytes at a time: what is added to them sets the high bit of all that are no 02.
    """
    while start + 8 <= size:
        word: i64 = (read_i64_be(raw, start) >> 8) ^ _ENDS
        ends: i64 = ~((word & _LOW_BITS) + _LOW_BITS | word) & _HIGH_BITS
        if ends:
            while not ends & _HIGHEST_BIT:
                ends <<= 8
                start += 1
            return start
        start += 7
    while start < size and raw[start] != 0x02:
        start += 1
    return start


def join_properties(raw: bytes, more: bytes) -> bytes:
    """``raw`` followed by ``more``, whose values win; adds the 0x02 that 4.x clients leave out."""
    if raw and more and raw[-1] != 0x02:
        return raw + _ITEM_END + more
    return raw + more


def remove_property(raw: bytes, name: str) -> bytes:
    """``raw`` without the items called ``name``; all other bytes stay as they are."""
    needle = encode_utf8(name) + _NAME_END
    if needle not in raw:
        return raw
    items = raw.split(_ITEM_END)
    last = items.pop()
    kept = [item + _ITEM_END for item in items if not item.startswith(needle)]
    if not last.startswith(needle):
        kept.append(last)
    return b"".join(kept)
