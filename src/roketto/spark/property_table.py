"""The properties of many records, taken apart all at once.

Names and values are pieces of one text, found by looking for the two separators in all of it. See
``roketto.protocol.properties`` for what an item is and which ones count.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roketto.protocol.crc import CRC_PROPERTY_BYTES, CRC_PROPERTY_PREFIX
from roketto.protocol.properties import remove_property
from roketto.protocol.property_names import CRC32
from roketto.protocol.utf8 import decode_utf8, encode_utf8
from roketto.spark.spans import Bytes, Longs, Mask, gather, take_spans

__all__ = ["PropertyTable"]

_NAME_END: Final = 0x01
_ITEM_END: Final = 0x02
_WORD_BYTES: Final = 8
_MARGIN: Final = bytes(_WORD_BYTES)
"""Behind the text, so that eight bytes can be read wherever a name begins."""
_MIX: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_CRC_NAME: Final = int.from_bytes(CRC32.encode(), "big")


class PropertyTable:
    """The properties of each row, given as spans of a buffer.

    >>> raw = b"TAGS" + bytes([1]) + b"TagA" + bytes([2])
    >>> table = PropertyTable(pa.py_buffer(raw), np.array([0]), np.array([len(raw)]))
    >>> table.values_of("TAGS").to_pylist(), table.values_of("KEYS").to_pylist()
    (['TagA'], [None])
    """

    __slots__ = (
        "_arrow", "_begins", "_ends", "_item_rows", "_names", "_row_offsets", "_separators",
        "_text", "row_count",
    )  # fmt: skip

    def __init__(self, buffer: pa.Buffer, begins: Longs, ends: Longs) -> None:
        self.row_count: int = len(begins)
        joined = take_spans(buffer, begins, ends, pa.binary())
        self._take_text(joined)
        self._find_items()
        self._keep(self._find_separators())
        self._names: npt.NDArray[np.uint64] = self._name_words()
        # One look at all the text, and mostly it has none.
        if CRC_PROPERTY_PREFIX in self._text:
            self._keep(~self._is_called(CRC32))
            self._names = self._name_words()

    def values_of(self, name: str) -> pa.Array:
        """The value of one property in each row, or null; ``name`` has up to eight bytes."""
        items = np.flatnonzero(self._is_called(name))
        rows = self._item_rows[items]
        if (rows[1:] == rows[:-1]).any():
            is_last = np.append(rows[1:] != rows[:-1], True)
            items, rows = items[is_last], rows[is_last]
        is_there = np.zeros(self.row_count, np.bool_)
        is_there[rows] = True
        return take_spans(
            self._arrow, self._separators[items] + 1, self._ends[items], pa.string(), is_there
        )

    def as_map(self, kind: pa.DataType) -> pa.Array:
        """All properties of each row but the CRC, as an Arrow map of type ``kind``."""
        self._drop_repeated()
        names = take_spans(self._arrow, self._begins, self._separators, pa.string())
        values = take_spans(self._arrow, self._separators + 1, self._ends, pa.string())
        bounds = np.searchsorted(self._item_rows, np.arange(self.row_count + 1))
        return pa.MapArray.from_arrays(pa.array(bounds.astype(np.int32)), names, values, type=kind)

    def as_text(self) -> pa.Array:
        """The property string of each row, without the CRC."""
        begins, ends = self._row_offsets[:-1], self._row_offsets[1:]
        crc_count = self._text.count(CRC_PROPERTY_PREFIX)
        if crc_count:
            # Brokers put it last; they take it away from what producers send.
            places = np.maximum(ends - CRC_PROPERTY_BYTES, begins)
            words = gather(self._bytes, ">u8", places).astype(np.uint64)
            is_crc = (words == _CRC_NAME) & (ends - begins >= CRC_PROPERTY_BYTES)
            if int(is_crc.sum()) != crc_count:
                pairs = zip(begins.tolist(), ends.tolist(), strict=True)
                rows = [remove_property(self._text[begin:end], CRC32) for begin, end in pairs]
                return pa.array(rows, pa.binary()).cast(pa.string())
            ends = ends - is_crc * CRC_PROPERTY_BYTES
        return take_spans(self._arrow, begins, ends, pa.string())

    @property
    def _bytes(self) -> Bytes:
        return np.frombuffer(self._text, np.uint8)

    def _take_text(self, joined: pa.Array) -> None:
        """The text of all rows, as valid UTF-8, and where each of them begins."""
        _, offsets, data = joined.buffers()
        self._row_offsets: Longs = np.frombuffer(offsets, np.int32)[: self.row_count + 1].astype(
            np.int64
        )
        size = int(self._row_offsets[-1]) if self.row_count else 0
        self._text: bytes = b"".join((memoryview(data)[:size] if data else b"", _MARGIN))
        if not self._text.isascii() and not self._is_utf8():
            rows = [encode_utf8(decode_utf8(row)) for row in joined.to_pylist()]
            self._row_offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
            self._text = b"".join((*rows, _MARGIN))
        self._arrow: pa.Buffer = pa.py_buffer(self._text)

    def _is_utf8(self) -> bool:
        try:
            self._text.decode()
        except UnicodeDecodeError:
            return False
        # Two halves of a character in two rows would look like a whole one.
        firsts = self._bytes[self._row_offsets[:-1]]
        return not ((firsts & 0xC0) == 0x80).any()

    def _find_items(self) -> None:
        """Where items begin and end: at an 02, or at the end of a row that has none there."""
        data = self._bytes[: -len(_MARGIN)]
        ends = np.flatnonzero(data == _ITEM_END)
        is_real = np.ones(len(ends), np.int64)
        row_begins, row_ends = self._row_offsets[:-1], self._row_offsets[1:]
        filled = row_ends[row_ends > row_begins]
        open_ends = filled[data[filled - 1] != _ITEM_END]
        if len(open_ends):
            places = np.searchsorted(ends, open_ends)
            ends = np.insert(ends, places, open_ends)
            is_real = np.insert(is_real, places, 0)
        self._ends: Longs = ends
        self._begins: Longs = np.zeros(len(ends), np.int64)
        self._begins[1:] = (ends + is_real)[:-1]
        counts = np.diff(np.searchsorted(self._begins, self._row_offsets))
        self._item_rows: Longs = np.repeat(np.arange(self.row_count), counts)

    def _find_separators(self) -> Mask | None:
        """The first 01 of each item; which items have one between a name and a value."""
        found = np.flatnonzero(self._bytes[: -len(_MARGIN)] == _NAME_END)
        self._separators: Longs = found
        if len(found) == len(self._ends):
            has_name = (self._begins < found).all()
            if has_name and (found + 1 < self._ends).all():
                return None
        places = np.searchsorted(found, self._begins)
        self._separators = np.append(found, len(self._text))[places]
        return (self._begins < self._separators) & (self._separators + 1 < self._ends)

    def _keep(self, is_kept: Mask | None) -> None:
        if is_kept is not None:
            self._begins = self._begins[is_kept]
            self._separators = self._separators[is_kept]
            self._ends = self._ends[is_kept]
            self._item_rows = self._item_rows[is_kept]

    def _name_words(self) -> npt.NDArray[np.uint64]:
        """The first eight bytes of each name as a number, without what follows a shorter one."""
        words = gather(self._bytes, ">u8", self._begins).astype(np.uint64)
        lengths = np.minimum(self._separators - self._begins, _WORD_BYTES)
        names: npt.NDArray[np.uint64] = words >> ((_WORD_BYTES - lengths) * 8).astype(np.uint64)
        return names

    def _is_called(self, name: str) -> Mask:
        raw = name.encode()
        assert len(raw) <= _WORD_BYTES, f"{name} is too long to be compared as one number"
        wanted = np.uint64(int.from_bytes(raw, "big"))
        is_called: Mask = (self._names == wanted) & (self._separators - self._begins == len(raw))
        return is_called

    def _drop_repeated(self) -> None:
        """Of two items of a row with the same name the last one counts."""
        marks = self._name_marks()
        rows = self._item_rows
        is_suspect = False
        longest = int(np.bincount(rows).max()) if len(rows) else 0
        for distance in range(1, longest):
            same = marks[distance:] == marks[:-distance]
            if same.any() and (same & (rows[distance:] == rows[:-distance])).any():
                is_suspect = True
                break
        if not is_suspect:
            return
        is_kept = np.zeros(len(rows), np.bool_)
        last: dict[tuple[int, bytes], int] = {}
        spans = zip(rows.tolist(), self._begins.tolist(), self._separators.tolist(), strict=True)
        for item, (row, begin, separator) in enumerate(spans):
            last[row, self._text[begin:separator]] = item
        is_kept[list(last.values())] = True
        self._keep(is_kept)
        self._names = self._names[is_kept]

    def _name_marks(self) -> npt.NDArray[np.uint64]:
        """A number for each name: equal names have equal ones, others seldom have."""
        lengths = self._separators - self._begins
        marks: npt.NDArray[np.uint64] = self._names * _MIX + lengths.astype(np.uint64)
        is_long = lengths > _WORD_BYTES
        if is_long.any():
            tails = gather(self._bytes, ">u8", self._separators[is_long] - _WORD_BYTES)
            marks[is_long] ^= tails.astype(np.uint64)
        return marks
