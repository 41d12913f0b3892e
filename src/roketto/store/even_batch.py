"""Items of a batch that all have one shape: a quick way from them to their records.

A producer's messages are mostly alike: bodies of one length, properties of one length. Their items
(drawn in protocol/batch.py) are then the rows of a table, and so are their records (drawn in
protocol/record_layout.py)::

    item     size, magic, CRC, flag, body length | body | length | properties
    record   head with CRC and offsets of its own | body | topic, length | properties

One call takes all rows apart, and one loop in C packs a record of each: what costs most of the time
is then the checksums, and not that which leads to them.
"""

import struct
from functools import lru_cache
from itertools import repeat
from typing import Final

from roketto.protocol.crc import CRC_PROPERTY_PREFIX, masked_crc32
from roketto.store.run_properties import SEPARATOR, RunProperties

EVEN_COUNT_MIN: Final = 4
"""Fewer items are not worth the look whether they are alike."""

_ITEM: Final = struct.Struct(">i8xii")
"""Size, flag and body length of an item."""
_ITEM_BYTES: Final = _ITEM.size
_LENGTH: Final = struct.Struct(">h")
_LENGTH_BYTES: Final = _LENGTH.size
_COLUMNS: Final = 4
_ROWS_MAX: Final = 64
"""Items that are taken apart at once; the next ones are with the next call."""
_SHAPES_KEPT_MAX: Final = 256
"""Shapes that are remembered: with 64 rows one takes 8 KiB."""
_CRC_NAME_LAST: Final = CRC_PROPERTY_PREFIX[-2]
# Where CRC and offsets lie in the head of a record.
_CRC_AT: Final = 8
_CRC_END: Final = 12
_OFFSETS_AT: Final = 20
_OFFSETS_END: Final = 36


class EvenItems:
    """The items of one batch. ``find_even_items`` makes it, and has checked every length in it."""

    __slots__ = ("bodies", "body_bytes", "count", "flag", "properties", "properties_bytes")

    def __init__(self, flag: int, bodies: list[bytes], properties: list[bytes]) -> None:
        self.flag: int = flag
        self.bodies: list[bytes] = bodies
        self.count: int = len(bodies)
        self.body_bytes: int = len(bodies[0])
        self.properties_bytes: int = len(properties[0])
        self.properties: RunProperties = RunProperties(properties, self.properties_bytes)

    def ending_for_crc(self) -> bytes | None:
        """What must follow each property string before the CRC property does: nothing, or an 02
        where none of them ends with one, as those of older clients. None if they differ in that,
        or one of them has such a property already; see without_crc.
        """
        text = self.properties.text
        # One byte is found far faster than nine, and mostly there is none.
        if _CRC_NAME_LAST in text and CRC_PROPERTY_PREFIX in text:
            return None
        if not self.properties_bytes:
            return b""
        lasts = text[self.properties_bytes - 1 :: self.properties_bytes + 1]
        if SEPARATOR not in lasts:
            return SEPARATOR
        return b"" if lasts == SEPARATOR * self.count else None

    def encode(
        self, head: bytes, tail: bytes, ending: bytes, queue_offset: int, log_offset: int, size: int
    ) -> list[bytes]:
        """The records, the first of them at these offsets, without a CRC property.

        ``head`` and ``tail`` are what stands before and behind the body of each; CRC and offsets in
        the head are filled in here. ``ending`` follows the properties. ``size`` is how far the
        records lie apart in the log.
        """
        count, bodies, properties = self.count, self.bodies, self.properties.each
        if ending:
            properties = [raw + ending for raw in properties]
        crcs = [masked_crc32(body) for body in bodies]
        record = _record(len(head), self.body_bytes, len(tail), len(properties[0]))
        return list(
            map(
                record.pack,
                repeat(head[:_CRC_AT]),
                crcs,
                repeat(head[_CRC_END:_OFFSETS_AT]),
                range(queue_offset, queue_offset + count),
                range(log_offset, log_offset + count * size, size),
                repeat(head[_OFFSETS_END:]),
                bodies,
                repeat(tail),
                properties,
            )
        )


def find_even_items(data: bytes) -> EvenItems | None:
    """The items of a batch, if they are many enough, all begin alike and agree with their lengths.

    Alike are also flag, magic and CRC, which producers do not set: that makes one look of four.
    """
    data_bytes = len(data)
    if data_bytes < EVEN_COUNT_MIN * (_ITEM_BYTES + _LENGTH_BYTES):
        return None
    item_bytes, flag, body_bytes = _ITEM.unpack_from(data, 0)
    if item_bytes <= 0 or body_bytes < 0 or data_bytes % item_bytes:
        return None
    count = data_bytes // item_bytes
    length_at = _ITEM_BYTES + body_bytes
    properties_bytes = item_bytes - length_at - _LENGTH_BYTES
    if count < EVEN_COUNT_MIN or properties_bytes < 0:
        return None
    if _LENGTH.unpack_from(data, length_at)[0] != properties_bytes:
        return None
    fields = _take_apart(data, item_bytes, body_bytes, properties_bytes)
    heads, lengths = fields[0::_COLUMNS], fields[2::_COLUMNS]
    if heads.count(heads[0]) != count or lengths.count(lengths[0]) != count:
        return None
    return EvenItems(flag, fields[1::_COLUMNS], fields[3::_COLUMNS])


def _take_apart(
    data: bytes, item_bytes: int, body_bytes: int, properties_bytes: int
) -> list[bytes]:
    """The four columns of each row, row by row."""
    fields: list[bytes] = []
    step = _ROWS_MAX * item_bytes
    for at in range(0, len(data), step):
        part = data[at : at + step]
        fields += _rows(len(part) // item_bytes, body_bytes, properties_bytes).unpack(part)
    return fields


@lru_cache(_SHAPES_KEPT_MAX)
def _rows(count: int, body_bytes: int, properties_bytes: int) -> struct.Struct:
    """So many items."""
    row = f"{_ITEM_BYTES}s{body_bytes}s{_LENGTH_BYTES}s{properties_bytes}s"
    return struct.Struct(f">{row * count}")


@lru_cache(_SHAPES_KEPT_MAX)
def _record(
    head_bytes: int, body_bytes: int, tail_bytes: int, properties_bytes: int
) -> struct.Struct:
    """A record, with everything in its head that is the same in all of them as three fields."""
    rest_bytes = head_bytes - _OFFSETS_END
    return struct.Struct(
        f">{_CRC_AT}sI{_OFFSETS_AT - _CRC_END}sqq{rest_bytes}s"
        f"{body_bytes}s{tail_bytes}s{properties_bytes}s"
    )
