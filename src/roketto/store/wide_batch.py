"""Very many items of a batch that all have one shape: their records as the rows of one matrix.

What writes tables, such as a task of Spark, sends thousands of items with one request, and if their
bodies have one length, as numbers and hashes do, so have the items (drawn in protocol/batch.py) and
the records (drawn in protocol/record_layout.py)::

    item     size, magic, CRC, flag, body length | body | length | properties
    record   head with CRC and offsets of its own | body | topic, length | properties, CRC property

Each column is one copy from matrix to matrix, and only the checksums are taken row by row. For a
few items that is slower than one after the other (batch_records.py). For thousands of them it takes
two thirds of the time where the modules are compiled, and a quarter where they are not.
"""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from roketto.protocol.crc import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    encode_crc_property,
    masked_crc32,
)
from roketto.store.run_properties import SEPARATOR, RunProperties

WIDE_COUNT_MIN: Final = 256
"""With fewer items the three dozen calls of numpy are too large a part."""

_ITEM: Final = struct.Struct(">i8xii")
"""Size, flag and body length of an item."""
_ITEM_BYTES: Final = _ITEM.size
_LENGTH: Final = struct.Struct(">h")
_CRC_NAME_LAST: Final = CRC_PROPERTY_PREFIX[-2]
# Where CRC and offsets lie in the head of a record.
_CRC_AT: Final = 8
_CRC_END: Final = 12
_QUEUE_OFFSET_AT: Final = 20
_LOG_OFFSET_AT: Final = 28
_OFFSETS_END: Final = 36
_ZERO: Final = ord("0")
_CRC_DIGITS: Final = 10
_NO_CRC: Final = encode_crc_property(0)

Matrix = npt.NDArray[np.uint8]


class WideItems:
    """The items of one batch. ``find_wide_items`` makes it, and has checked every length in it."""

    __slots__ = (
        "_data", "_item_bytes", "_rows", "body_bytes", "count", "flag", "properties",
        "properties_bytes",
    )  # fmt: skip

    def __init__(self, data: bytes, rows: Matrix, flag: int, body_bytes: int) -> None:
        self._data: bytes = data
        self._rows: Matrix = rows
        item_bytes: int = rows.shape[1]
        begin = _ITEM_BYTES + body_bytes + _LENGTH.size
        self._item_bytes: int = item_bytes
        self.flag: int = flag
        self.count: int = len(rows)
        self.body_bytes: int = body_bytes
        self.properties_bytes: int = item_bytes - begin
        each = [data[at + begin : at + item_bytes] for at in range(0, len(data), item_bytes)]
        self.properties: RunProperties = RunProperties(each, self.properties_bytes)

    def ending_for_crc(self) -> bytes | None:
        """What must follow each property string before the CRC property does: nothing, or an 02
        where none of them ends with one, as those of older clients. None if they differ in that,
        or one of them may have such a property already.
        """
        # One byte is found far faster than nine, and mostly there is none.
        if _CRC_NAME_LAST in self._data and CRC_PROPERTY_PREFIX in self._data:
            return None
        if not self.properties_bytes:
            return b""
        ended = int(np.count_nonzero(self._rows[:, -1] == SEPARATOR[0]))
        if not ended:
            return SEPARATOR
        return b"" if ended == self.count else None

    def encode(
        self,
        head: bytes,
        tail: bytes,
        ending: bytes,
        queue_offset: int,
        log_offset: int,
        append_crc: bool,
    ) -> memoryview:
        """The records, the first of them at these offsets.

        ``head`` and ``tail`` are what stands before and behind the body of each; CRC and offsets in
        the head are filled in here. ``ending`` follows the properties, and the CRC property that.
        """
        count = self.count
        body_at = len(head)
        tail_at = body_at + self.body_bytes
        properties_at = tail_at + len(tail)
        ending_at = properties_at + self.properties_bytes
        crc_at = ending_at + len(ending)
        size = crc_at + CRC_PROPERTY_BYTES * append_crc
        records: Matrix = np.empty((count, size), np.uint8)
        records[:, :body_at] = _row(head)
        records[:, _CRC_AT:_CRC_END] = _columns(np.array(self._body_crcs(), ">u4"))
        records[:, _QUEUE_OFFSET_AT:_LOG_OFFSET_AT] = _counted(queue_offset, 1, count)
        records[:, _LOG_OFFSET_AT:_OFFSETS_END] = _counted(log_offset, size, count)
        records[:, body_at:tail_at] = self._rows[:, _ITEM_BYTES : _ITEM_BYTES + self.body_bytes]
        records[:, tail_at:properties_at] = _row(tail)
        if self.properties_bytes:
            records[:, properties_at:ending_at] = self._rows[:, -self.properties_bytes :]
        records[:, ending_at:crc_at] = _row(ending)
        if append_crc:
            _fill_crcs(records, crc_at)
        return records.data.cast("B")

    def _body_crcs(self) -> list[int]:
        data, item_bytes, body_bytes = self._data, self._item_bytes, self.body_bytes
        begins = range(_ITEM_BYTES, len(data), item_bytes)
        return [masked_crc32(data[at : at + body_bytes]) for at in begins]


def find_wide_items(data: bytes) -> WideItems | None:
    """The items of a batch, if they are many enough, all begin alike and agree with their lengths.

    Alike are also flag, magic and CRC, which producers do not set: that makes one look of four.
    """
    data_bytes = len(data)
    if data_bytes < WIDE_COUNT_MIN * (_ITEM_BYTES + _LENGTH.size):
        return None
    item_bytes, flag, body_bytes = _ITEM.unpack_from(data, 0)
    length_at = _ITEM_BYTES + body_bytes
    properties_bytes = item_bytes - length_at - _LENGTH.size
    if body_bytes < 0 or properties_bytes < 0 or data_bytes % item_bytes:
        return None
    if data_bytes // item_bytes < WIDE_COUNT_MIN:
        return None
    if _LENGTH.unpack_from(data, length_at)[0] != properties_bytes:
        return None
    rows: Matrix = np.frombuffer(data, np.uint8).reshape(-1, item_bytes)
    for begin, end in ((0, _ITEM_BYTES), (length_at, length_at + _LENGTH.size)):
        if not (rows[:, begin:end] == rows[0, begin:end]).all():
            return None
    return WideItems(data, rows, flag, body_bytes)


def _fill_crcs(records: Matrix, at: int) -> None:
    """Fill in the CRC property of each record, which lacks nothing else; it is at ``at``."""
    count, size = records.shape
    text = records.data.cast("B")
    crcs = [masked_crc32(text[begin : begin + at]) for begin in range(0, count * size, size)]
    left = np.array(crcs, np.uint32)
    records[:, at:] = _row(_NO_CRC)
    digits_at = at + len(CRC_PROPERTY_PREFIX)
    for place in range(digits_at, digits_at + _CRC_DIGITS):  # the least significant comes first
        rest = left // np.uint32(10)
        records[:, place] = left - rest * np.uint32(10) + np.uint32(_ZERO)
        left = rest


def _row(raw: bytes) -> Matrix:
    return np.frombuffer(raw, np.uint8)


def _counted(first: int, step: int, count: int) -> Matrix:
    """Numbers of eight bytes, one for each record."""
    return _columns(np.arange(first, first + step * count, step, dtype=np.int64).astype(">i8"))


def _columns(numbers: npt.NDArray[np.generic]) -> Matrix:
    return numbers.view(np.uint8).reshape(len(numbers), -1)
