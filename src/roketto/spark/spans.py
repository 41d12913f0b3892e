"""Pieces of one buffer as an Arrow array, without a Python object for each of them.

An Arrow array of texts is its bytes and the offsets where one ends and the next begins. The pieces
and the gaps between them are such an array over the buffer as it is, which costs nothing; taking
every second element of it copies the pieces, and only these. That is eight times as fast as a list
of slices.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["BUFFER_BYTES_MAX", "Bytes", "Longs", "Mask", "constant_text", "gather", "take_spans"]

Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

BUFFER_BYTES_MAX: Final = 2**31 - 1
"""Offsets of Arrow's binary arrays have 32 bits; so have the files of a log."""


def take_spans(
    buffer: pa.Buffer,
    begins: Longs,
    ends: Longs,
    kind: pa.DataType,
    is_there: Mask | None = None,
) -> pa.Array:
    """An array of ``kind`` (binary, or string if all are UTF-8) with the bytes of each span.

    With ``is_there`` the array has an element for each element of that: the next span where it is
    true, else null. Spans in another order than that of the buffer come in theirs all the same.
    """
    count = len(begins)
    if count > 1 and not (begins[1:] >= ends[:-1]).all():
        order = np.argsort(begins, kind="stable")
        sorted_spans = _elements(buffer, begins[order], ends[order], kind)
        places = np.empty(count, np.int64)
        places[order] = np.arange(count)
    else:
        sorted_spans = _elements(buffer, begins, ends, kind)
        places = np.arange(count)
    return sorted_spans.take(_indices(places * 2, is_there))


def constant_text(text: str, count: int) -> pa.Array:
    """``count`` times the same text."""
    raw = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(raw * count))


def gather(data: Bytes, dtype: str, places: Longs) -> npt.NDArray[np.generic]:
    """The values of ``dtype`` that begin at ``places``, aligned or not.

    All places must be at least the size of ``dtype`` before the end.
    """
    kind = np.dtype(dtype)
    # One overlapping element for each byte: indexing copies those that are wanted, and no others.
    shape = (max(0, len(data) - kind.itemsize + 1),)
    return np.ndarray(shape, kind, data.data, strides=(1,))[places]


def _elements(buffer: pa.Buffer, begins: Longs, ends: Longs, kind: pa.DataType) -> pa.Array:
    """Spans and gaps in turn; the spans must not overlap."""
    count = len(begins)
    offsets = np.zeros(max(1, 2 * count), np.int32)
    offsets[0 : 2 * count : 2] = begins
    offsets[1 : 2 * count : 2] = ends
    return pa.Array.from_buffers(kind, max(0, 2 * count - 1), [None, pa.py_buffer(offsets), buffer])


def _indices(places: Longs, is_there: Mask | None) -> pa.Array:
    if is_there is None:
        return pa.array(places)
    spread = np.zeros(len(is_there), np.int64)
    spread[is_there] = places
    return pa.array(spread, mask=~is_there)
