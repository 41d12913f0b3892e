"""Where the fields of many records lie, found for all of them at once.

The layout is drawn in ``roketto.protocol.record_layout``. Every record is checked before any of it
is used: magic, sizes and lengths must agree with each other and with the buffer.
"""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roketto.protocol.errors import RecordError
from roketto.protocol.limits import TOPIC_BYTES_MAX
from roketto.protocol.record_layout import HEADS, MAGIC_V1, MAGIC_V2
from roketto.protocol.sysflags import BORN_HOST_IPV6, HOST_BITS, STORE_HOST_IPV6
from roketto.spark.spans import BUFFER_BYTES_MAX, Bytes, Longs, Mask, gather

__all__ = ["FIXED", "RECORD_BYTES_MIN", "RecordTable", "walk"]

_SIZE: Final = struct.Struct(">i")
_HEAD_BYTES: Final = HEADS[0].size
RECORD_BYTES_MIN: Final = _HEAD_BYTES + 3
"""The head with the length of the body, and the lengths of topic and properties."""
_STEP_BYTES: Final = 32 * 1024
"""The records of so many bytes are looked at one by one; if all of them have one size..."""
_RUN_MAX: Final = 4_096
"""...so many are looked at together."""
_IPV6_MORE: Final = 12
_BORN_HOST_AT: Final = 48
_STORE_TIME_AT: Final = 56
_STORE_HOST_AT: Final = 64
_RECONSUME_TIMES_AT: Final = 72

FIXED: Final = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">u4"),
        ("body_crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("log_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_time", ">i8"),
    ]
)
"""What comes before the hosts, and so has the same place in all records."""


def walk(buffer: bytes | memoryview) -> Longs:
    """Where the records of a buffer begin that stand one behind the other and fill it."""
    parts: list[Longs] = []
    at = last = 0
    end = len(buffer)
    while at + RECORD_BYTES_MIN <= end:
        starts, at, size = _step(buffer, at)
        parts.append(np.array(starts, np.int64))
        last = starts[-1]
        if size * len(starts) == at - starts[0]:
            # They are of one size, and so perhaps are the next ones, which one look tells.
            run = _run(buffer, at, size)
            if len(run):
                parts.append(run)
                last = int(run[-1])
                at = last + size
    if at != end:
        raise _damaged(last, f"{end} bytes end within it")
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _step(buffer: bytes | memoryview, at: int) -> tuple[list[int], int, int]:
    """The next records one by one; also where the last of them ends, and its size."""
    starts: list[int] = []
    size = 0
    last = min(at + _STEP_BYTES, len(buffer) - RECORD_BYTES_MIN)
    unpack = _SIZE.unpack_from
    while at <= last:
        starts.append(at)
        size = unpack(buffer, at)[0]
        if size < RECORD_BYTES_MIN:
            raise _damaged(at, f"its size is {size}; the smallest record has {RECORD_BYTES_MIN}")
        at += size
    return starts, at, size


def _run(buffer: bytes | memoryview, at: int, size: int) -> Longs:
    """Where the next records begin as long as they have this size; there may be none."""
    count = max(0, min((len(buffer) - at) // size, _RUN_MAX))
    is_other = np.ndarray((count,), ">i4", buffer, min(at, len(buffer)), (size,)) != size
    same = int(is_other.argmax()) if is_other.any() else count
    return at + size * np.arange(same, dtype=np.int64)


class RecordTable:
    """Some records of a buffer, checked; a look at a field is one at that of all of them.

    ``buffer`` is not copied and must live as long as the table.

    >>> from roketto.protocol.record import Record, encode_record
    >>> table = RecordTable(encode_record(Record("T", b"hello", queue_offset=7)))
    >>> table.fixed("queue_offset").tolist(), (table.body_ends - table.body_begins).tolist()
    ([7], [5])
    """

    __slots__ = (
        "_fixed", "_more_born", "_more_store", "arrow", "body_begins", "body_ends", "buffer",
        "data", "ends", "properties_begins", "starts", "sys_flags", "topic_begins", "topic_ends",
    )  # fmt: skip

    def __init__(self, buffer: bytes | memoryview, starts: Longs | None = None) -> None:
        """The records at ``starts``, or all of them."""
        if len(buffer) > BUFFER_BYTES_MAX:
            raise RecordError(
                f"a buffer of {len(buffer)} bytes; at most {BUFFER_BYTES_MAX} can be read at once:"
                " give it in parts"
            )
        self.buffer: bytes | memoryview = buffer
        self.data: Bytes = np.frombuffer(buffer, np.uint8)
        self.arrow: pa.Buffer = pa.py_buffer(buffer)
        self.starts: Longs = walk(buffer) if starts is None else starts.astype(np.int64, copy=False)
        room = len(buffer) - self.starts
        self._check((self.starts >= 0) & (room >= RECORD_BYTES_MIN), "it is outside the buffer")
        self._fixed = gather(self.data, f"V{FIXED.itemsize}", self.starts).view(FIXED)
        sizes = self.fixed("size")
        magic = self._fixed["magic"]
        is_v2 = magic == MAGIC_V2
        self._check(is_v2 | (magic == MAGIC_V1), "its magic is unknown")
        self._check((sizes >= RECORD_BYTES_MIN) & (sizes <= room), "its size is impossible")
        self.ends: Longs = self.starts + sizes
        self.sys_flags: npt.NDArray[np.int32] = self._fixed["sys_flag"].astype(np.int32)
        self._find_hosts()
        self._find_parts(is_v2)

    def __len__(self) -> int:
        return len(self.starts)

    def fixed(self, name: str) -> npt.NDArray[np.integer]:
        """A field that comes before the hosts, by its name in the layout."""
        values = self._fixed[name]
        native: npt.NDArray[np.integer] = values.astype(values.dtype.newbyteorder("="))
        return native

    @property
    def store_times_ms(self) -> Longs:
        """When the broker stored each record."""
        return self._after_born_host(">i8", _STORE_TIME_AT).astype(np.int64)

    @property
    def reconsume_times(self) -> npt.NDArray[np.int32]:
        """How often each message had been given back."""
        places = self.starts + (_RECONSUME_TIMES_AT + self._more_born + self._more_store)
        return gather(self.data, ">i4", places).astype(np.int32)

    def born_hosts(self) -> list[bytes] | npt.NDArray[np.uint64]:
        """The hosts of producers (see protocol/hosts.py); as numbers if all of them are IPv4."""
        if not (self.sys_flags & BORN_HOST_IPV6).any():
            return gather(self.data, ">u8", self.starts + _BORN_HOST_AT).astype(np.uint64)
        begins = self.starts + _BORN_HOST_AT
        return self._slices(begins, begins + 8 + self._more_born)

    def store_hosts(self, rows: Longs) -> list[bytes]:
        """The hosts of the broker in some of the records."""
        begins = (self.starts + (_STORE_HOST_AT + self._more_born))[rows]
        has_more = (self.sys_flags[rows] & STORE_HOST_IPV6) != 0
        return self._slices(begins, begins + 8 + has_more * _IPV6_MORE)

    def _find_hosts(self) -> None:
        self._more_born: Longs | int = 0
        self._more_store: Longs | int = 0
        if (self.sys_flags & HOST_BITS).any():
            self._more_born = ((self.sys_flags & BORN_HOST_IPV6) != 0) * np.int64(_IPV6_MORE)
            self._more_store = ((self.sys_flags & STORE_HOST_IPV6) != 0) * np.int64(_IPV6_MORE)

    def _find_parts(self, is_v2: Mask) -> None:
        """Body, topic and properties: each begins where the one before it ends."""
        self.body_begins: Longs = self.starts + (_HEAD_BYTES + self._more_born + self._more_store)
        self._check(self.body_begins + 3 <= self.ends, "its size has no room for its hosts")
        body_bytes = gather(self.data, ">i4", self.body_begins - 4).astype(np.int64)
        self.body_ends: Longs = self.body_begins + body_bytes
        self._check(
            (body_bytes >= 0) & (self.body_ends + (3 + is_v2) <= self.ends),
            "its body does not fit its size",
        )
        topic_bytes = self.data[self.body_ends].astype(np.int64)
        if is_v2.any():
            long_bytes = gather(self.data, ">i2", self.body_ends[is_v2])
            topic_bytes[is_v2] = long_bytes
        self.topic_begins: Longs = self.body_ends + 1 + is_v2
        self.topic_ends: Longs = self.topic_begins + topic_bytes
        is_short = is_v2 | (topic_bytes <= TOPIC_BYTES_MAX)
        self._check(
            is_short & (topic_bytes >= 0) & (self.topic_ends + 2 <= self.ends),
            "its topic does not fit its size",
        )
        properties_bytes = gather(self.data, ">i2", self.topic_ends).astype(np.int64)
        self.properties_begins: Longs = self.topic_ends + 2
        self._check(
            self.properties_begins + properties_bytes == self.ends,
            "its parts do not add up to its size",
        )

    def _after_born_host(self, dtype: str, place: int) -> npt.NDArray[np.generic]:
        return gather(self.data, dtype, self.starts + (place + self._more_born))

    def _slices(self, begins: Longs, ends: Longs) -> list[bytes]:
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        return [bytes(self.buffer[begin:end]) for begin, end in pairs]

    def _check(self, is_good: Mask, why: str) -> None:
        if not is_good.all():
            raise _damaged(int(self.starts[int(np.argmin(is_good))]), why)


def _damaged(at: int, why: str) -> RecordError:
    return RecordError(f"record at byte {at} is damaged: {why}")
