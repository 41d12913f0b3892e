"""The property string: the named values that travel with a message.

::

    name 0x01 value 0x02   name 0x01 value 0x02   ...

UTF-8, without a count. The last 0x02 may be missing: 4.x clients do not write it, 5.x clients do.
"""

from collections.abc import Mapping
from typing import Final

from roketto.protocol.utf8 import decode_utf8, encode_utf8

_NAME_END: Final = b"\x01"
_ITEM_END: Final = b"\x02"


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
