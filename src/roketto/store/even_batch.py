"""Items of a batch that all have one shape, as a table: their records are built column by column.

A producer's messages are mostly alike: bodies of one length, properties of one length. Their items
(drawn in protocol/batch.py) are then the rows of a table, and so are their records (drawn in
protocol/record_layout.py)::

    item     size, magic, CRC, flag, body length | body | length | properties
    record   head with CRC and offsets of its own | body | topic, length | properties | 02 | CRC

A column is copied or counted for all rows at once. Only the checksums are made row by row. With 32
messages that takes two thirds of the time of one record after the other, with many a third of it.
"""

import struct
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from roketto.protocol.crc import CRC_PROPERTY_BYTES, CRC_PROPERTY_PREFIX
from roketto.store.even_properties import SEPARATOR, EvenProperties

EVEN_COUNT_MIN: Final = 16
"""Fewer rows are made faster one by one: the calls for all of them take as long as ten records."""

_ITEM: Final = struct.Struct(">i8xii")
"""Size, flag and body length of an item."""
_ITEM_BYTES: Final = _ITEM.size
_LENGTH: Final = struct.Struct(">h")
_LENGTH_BYTES: Final = _LENGTH.size
_CRC_MASK: Final = 0x7FFF_FFFF
_CRC: Final = np.dtype(">u4")
_OFFSET: Final = np.dtype(">i8")
_PROPERTY_END: Final = bytes((SEPARATOR,))
_CRC_PREFIX_BYTES: Final = len(CRC_PROPERTY_PREFIX)
_CRC_DIGITS: Final = CRC_PROPERTY_BYTES - _CRC_PREFIX_BYTES - 1
_CRC_PROPERTY: Final = CRC_PROPERTY_PREFIX + bytes(_CRC_DIGITS) + _PROPERTY_END
"""The property, without the digits."""
_CRC_NAME_LAST: Final = CRC_PROPERTY_PREFIX[-2]

_Bytes = npt.NDArray[np.uint8]


class EvenItems:
    """The items of one batch. ``find_even_items`` makes it, and has checked every length in it."""

    __slots__ = (
        "_data", "_item_bytes", "_table", "body_bytes", "count", "flag", "properties_bytes",
    )  # fmt: skip

    def __init__(
        self,
        data: bytes,
        table: _Bytes,
        item_bytes: int,
        flag: int,
        body_bytes: int,
        properties_bytes: int,
    ) -> None:
        self._data: bytes = data
        self._table: _Bytes = table
        self._item_bytes: int = item_bytes
        self.flag: int = flag
        self.body_bytes: int = body_bytes
        self.properties_bytes: int = properties_bytes
        self.count: int = len(data) // item_bytes

    def properties(self) -> EvenProperties:
        """The property string of each."""
        each_bytes, count = self.properties_bytes, self.count
        texts = np.empty((count, each_bytes + 1), np.uint8)
        texts[:, :each_bytes] = self._table[:, self._item_bytes - each_bytes :]
        texts[:, each_bytes] = SEPARATOR
        return EvenProperties(texts.tobytes()[:-1], count, each_bytes)

    def ending_for_crc(self) -> bytes | None:
        """What must follow each property string before the CRC property does: nothing, or an 02
        where none of them ends with one, as those of older clients. None if they differ in that,
        or one of them has such a property already; see without_crc.
        """
        # One byte is found far faster than nine, and mostly there is none.
        if _CRC_NAME_LAST in self._data and CRC_PROPERTY_PREFIX in self._data:
            return None
        if not self.properties_bytes:
            return b""
        lasts = self._data[self._item_bytes - 1 :: self._item_bytes]
        if _PROPERTY_END not in lasts:
            return _PROPERTY_END
        return b"" if lasts == _PROPERTY_END * self.count else None

    def encode(
        self, head: bytes, tail: bytes, ending: bytes | None, queue_offset: int, log_offset: int
    ) -> bytearray:
        """The records, the first of them at these offsets.

        ``head`` and ``tail`` are what stands before and behind the body of each; CRC and offsets in
        the head are filled in here. ``ending`` follows the properties, and the CRC property follows
        it; None leaves it out.
        """
        table, count, body_bytes = self._table, self.count, self.body_bytes
        body_at = len(head)
        tail_at = body_at + body_bytes
        properties_at = tail_at + len(tail)
        end = properties_at + self.properties_bytes
        row = b"".join((head, bytes(body_bytes), tail, bytes(self.properties_bytes)))
        if ending is not None:
            row += ending + _CRC_PROPERTY
        data = bytearray(row) * count
        records = np.frombuffer(data, np.uint8).reshape(count, len(row))
        records[:, 8:12].view(_CRC)[:, 0] = self._body_crcs()
        offsets = records[:, 20:36].view(_OFFSET)
        offsets[:, 0] = np.arange(queue_offset, queue_offset + count)
        offsets[:, 1] = np.arange(log_offset, log_offset + len(data), len(row))
        records[:, body_at:tail_at] = table[:, _ITEM_BYTES : _ITEM_BYTES + body_bytes]
        records[:, properties_at:end] = table[:, self._item_bytes - self.properties_bytes :]
        if ending is not None:
            end += len(ending)
            at = end + _CRC_PREFIX_BYTES
            records[:, at : at + _CRC_DIGITS] = _crc_digits(data, len(row), end)
        return data

    def _body_crcs(self) -> list[int]:
        data, body_bytes, crc32 = self._data, self.body_bytes, zlib.crc32
        starts = range(_ITEM_BYTES, len(data), self._item_bytes)
        return [crc32(data[at : at + body_bytes]) & _CRC_MASK for at in starts]


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
    properties_at = length_at + _LENGTH_BYTES
    properties_bytes = item_bytes - properties_at
    if count < EVEN_COUNT_MIN or properties_bytes < 0:
        return None
    if _LENGTH.unpack_from(data, length_at)[0] != properties_bytes:
        return None
    table = np.frombuffer(data, np.uint8).reshape(count, item_bytes)
    if table[:, :_ITEM_BYTES].tobytes() != data[:_ITEM_BYTES] * count:
        return None
    if table[:, length_at:properties_at].tobytes() != data[length_at:properties_at] * count:
        return None
    return EvenItems(data, table, item_bytes, flag, body_bytes, properties_bytes)


def _crc_digits(data: bytearray, size: int, end: int) -> _Bytes:
    """Of records of one size, the CRC of what is before ``end`` in each, as the property has it."""
    copy, crc32 = bytes(data), zlib.crc32  # slices of bytes take less time than those of a view
    crcs = [crc32(copy[at : at + end]) & _CRC_MASK for at in range(0, len(copy), size)]
    texts = b"%010d" * len(crcs) % tuple(crcs)
    return np.frombuffer(texts, np.uint8).reshape(len(crcs), _CRC_DIGITS)[:, ::-1]
