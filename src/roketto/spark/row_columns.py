"""Columns of an Arrow batch as pieces of encoded messages; nothing here looks at a single row."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roketto.client.selectors import hash_of_key
from roketto.protocol import property_names as names
from roketto.protocol.limits import MESSAGE_BYTES_MAX, PROPERTIES_BYTES_MAX
from roketto.spark.row_ids import HEX_DIGITS
from roketto.spark.sink_options import SinkError

__all__ = [
    "NO_QUEUE", "bodies", "check_properties", "encode_items", "hash_keys", "hex_array", "join",
    "map_property", "milliseconds", "take", "text_property", "whole_numbers",
]  # fmt: skip

NO_QUEUE: Final = -1
"""Of a row that any queue will do for."""

_HEAD_BYTES: Final = 20
_SHORT_BYTES: Final = 2
_KEY_BYTES_MAX: Final = 128
"""Longer sharding keys, and those that are not ASCII, are hashed one by one."""
_EMPTY: Final = pa.scalar(b"", pa.binary())
_OWN_NAMES: Final = sorted(names.RESERVED | {names.SHARDING_KEY, names.TRANSACTION_ID})


def bodies(column: Any, row: int) -> Any:
    """The bodies as a BinaryArray, each of which a broker would take."""
    if column.null_count:
        raise SinkError(
            f"body is null in {column.null_count} rows of {len(column)}: leave these rows out"
        )
    body = column.cast(pa.binary())
    sizes = pc.binary_length(body)
    bounds = pc.min_max(sizes)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least < 1 or most > MESSAGE_BYTES_MAX:
        at = pc.index(sizes, least if least < 1 else most).as_py()
        raise SinkError(
            f"body has {least if least < 1 else most} bytes in row {row + at} of a task; a message"
            f" takes 1 to {MESSAGE_BYTES_MAX}: leave such rows out, or split them"
        )
    return body


def whole_numbers(column: Any, count: int) -> np.ndarray:
    if column is None:
        return np.zeros(count, np.int64)
    values: np.ndarray = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values.astype(np.int64)


def milliseconds(column: Any) -> Any:
    """Levels as they are; times as milliseconds."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64())
    return column.cast(pa.int64())


def text_property(name: str, column: str, values: Any) -> list[Any]:
    """What has to be joined for a property of each row; of rows without a value, nothing."""
    _check_text(column, values)
    values = values.cast(pa.binary())
    start = pa.scalar(f"{name}\x01".encode(), pa.binary())
    end = pa.scalar(b"\x02", pa.binary())
    is_empty = pc.equal(pc.binary_length(values), 0)
    if not values.null_count and not pc.any(is_empty).as_py():
        return [start, values, end]
    values = pc.if_else(is_empty, pa.scalar(None, pa.binary()), values)
    joined = pc.binary_join_element_wise(start, values, end, _EMPTY, null_handling="emit_null")
    return [pc.fill_null(joined, b"")]


def map_property(column: Any) -> Any:
    """The property strings of a map column."""
    keys, values = column.keys, column.items
    first = column.offsets[0].as_py()
    last = column.offsets[len(column)].as_py()
    keys, values = keys.slice(first, last - first), values.slice(first, last - first)
    if values.null_count or pc.any(pc.equal(pc.binary_length(values), 0)).as_py():
        raise SinkError("properties has an empty or null value; a property takes a text: remove it")
    if pc.any(pc.equal(pc.binary_length(keys), 0)).as_py():
        raise SinkError("properties has a name without a character; give it one")
    if pc.any(taken := pc.is_in(keys, value_set=pa.array(_OWN_NAMES, pa.string()))).as_py():
        name = keys.filter(taken)[0].as_py()
        raise SinkError(
            f"property {name} is the client's own; use the column that is for it (tags, keys,"
            " shardingKey, delayLevel, deliverTimestamp), or map_filter it away"
        )
    _check_text("properties", keys)
    _check_text("properties", values)
    texts = pc.binary_join_element_wise(
        keys.cast(pa.binary()), pa.scalar(b"\x01", pa.binary()), values.cast(pa.binary()),
        pa.scalar(b"\x02", pa.binary()), _EMPTY,
    )  # fmt: skip
    offsets = pc.subtract(column.offsets, first).cast(pa.int32())
    # A null map has no entries: its offsets are equal, and an empty list joins to nothing.
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), _EMPTY)


def _check_text(column: str, values: Any) -> None:
    """SinkError if one of the texts has 0x01 or 0x02, which end properties."""
    data = _bytes_of(values)
    if len(data) and data.min() <= 2 and ((data == 1) | (data == 2)).any():
        raise SinkError(
            f"column {column} has a character 0x01 or 0x02, which end properties: encode it"
        )


def _bytes_of(values: Any) -> np.ndarray:
    """The bytes of all texts, one behind the other; no copy."""
    values = values.cast(pa.binary())
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


# --- bytes ----------------------------------------------------------------------------------------

_HEX: Final = np.frombuffer(b"".join(b"%02X" % number for number in range(256)), np.uint16)


def hex_array(numbers: np.ndarray) -> Any:
    """48-bit numbers as twelve upper-case digits each."""
    raw = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
    return _fixed(_HEX[raw], HEX_DIGITS)


def _fixed(values: np.ndarray, width: int) -> Any:
    """Rows of a matrix as a BinaryArray of values of ``width`` bytes."""
    count = len(values)
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def encode_items(body: Any, flags: np.ndarray, parts: list[Any]) -> Any:
    """Messages as they are in a batch."""
    body_bytes = pc.binary_length(body).to_numpy()
    properties_bytes = np.zeros(len(body), np.int64)
    for part in parts:
        if isinstance(part, pa.Scalar):
            properties_bytes += len(part.as_py())
        else:
            properties_bytes += pc.binary_length(part).to_numpy()
    check_properties(int(properties_bytes.max()))
    head = np.zeros((len(body), 5), ">i4")
    head[:, 0] = _HEAD_BYTES + body_bytes + _SHORT_BYTES + properties_bytes
    head[:, 3] = flags
    head[:, 4] = body_bytes
    shorts = _fixed(properties_bytes.astype(">i2"), _SHORT_BYTES)
    return join([_fixed(head, _HEAD_BYTES), body, shorts, *parts])


def join(parts: list[Any]) -> Any:
    return pc.binary_join_element_wise(*parts, _EMPTY)


def take(part: Any, rows: Any) -> Any:
    return part if isinstance(part, pa.Scalar) else part.take(rows)


def check_properties(most: int) -> None:
    if most > PROPERTIES_BYTES_MAX:
        raise SinkError(
            f"a row has {most} bytes of properties, tags and keys; a message takes"
            f" {PROPERTIES_BYTES_MAX}: shorten them"
        )


def hash_keys(keys: Any) -> np.ndarray:
    """What client/selectors.py hashes keys to, before the remainder; -1 for those without one."""
    texts = keys.cast(pa.binary())
    _, offset_buffer, data_buffer = texts.buffers()
    sizes = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    longest = int(sizes.max())
    is_missing = sizes == 0
    if longest > _KEY_BYTES_MAX or (longest and _bytes_of(texts).max() >= 0x80):
        return np.array(list(_slow_hashes(keys)), np.int64)
    hashes = np.zeros(len(texts), np.uint32)
    if longest:
        offsets = np.frombuffer(offset_buffer, np.int32)[texts.offset : texts.offset + len(texts)]
        data = np.frombuffer(data_buffer, np.uint8)
        for at in range(longest):
            rows = np.flatnonzero(sizes > at)
            hashes[rows] = hashes[rows] * np.uint32(31) + data[offsets[rows] + at]
    found = np.abs(hashes.view(np.int32).astype(np.int64))
    found[is_missing] = NO_QUEUE
    return found


def _slow_hashes(keys: Any) -> Iterator[int]:
    known: dict[str, int] = {}
    for key in keys.to_pylist():
        if not key:
            yield NO_QUEUE
        else:
            found = known.get(key)
            if found is None:
                found = known[key] = hash_of_key(key, 2**32)
            yield found
