"""Records of a log as Arrow batches: only the columns asked for, all rows of a batch at once.

Pull answers, bulk reads and the files of a log have the same bytes, so all of them are read here.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roketto.protocol.batch import unwrap_batch
from roketto.protocol.errors import CompressionError, RecordError
from roketto.protocol.property_names import TAGS
from roketto.protocol.record import decode_record, encode_record
from roketto.protocol.sysflags import UNWRAP_BITS
from roketto.spark.columns import Column, arrow_schema
from roketto.spark.record_columns import Rows, UnpackedTooLargeError, make_column
from roketto.spark.record_table import RecordTable, walk
from roketto.spark.spans import Longs, gather

__all__ = ["BATCH_BYTES_MAX", "BATCH_ROWS_MAX", "Decoder"]

log = logging.getLogger(__name__)

BATCH_ROWS_MAX: Final = 5_000
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of stored records in a batch. Larger batches are no faster in Spark, and take memory."""
UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of bodies in a batch that were compressed; those of one record are always taken."""


class Decoder:
    """Makes Arrow batches of records; one for each task and broker, used by one thread.

    With ``topic`` the column of that name is this text, and the records are not looked at for it.
    Files do not know their broker, hence ``broker_name`` may be None. With ``tags`` only records
    with one of these tags come: the exact check behind any filter that compares hash codes.

    >>> from roketto.protocol.record import Record, encode_record
    >>> decoder = Decoder([Column("queueOffset", pa.int64()), Column("body", pa.binary())], "b-0")
    >>> decoder.decode(encode_record(Record("T", b"hello", queue_offset=7))).to_pylist()
    [{'queueOffset': 7, 'body': b'hello'}]
    """

    def __init__(
        self,
        columns: Sequence[Column],
        broker_name: str | None,
        *,
        topic: str | None = None,
        tags: Collection[str] | None = None,
    ) -> None:
        self.schema: pa.Schema = arrow_schema(columns)
        self._columns: tuple[Column, ...] = tuple(columns)
        self._broker_name: str | None = broker_name
        self._topic: str | None = topic
        self._tags: pa.Array | None = pa.array(sorted(tags), pa.string()) if tags else None

    def decode(
        self,
        buffer: bytes | memoryview,
        starts: Longs | None = None,
        *,
        queue_id: int | None = None,
        offset_delta: int = 0,
    ) -> pa.RecordBatch:
        """One batch of the records at ``starts``, or of all of them, however large it gets.

        RecordError for bytes that are no record. A body that cannot be unpacked comes as it is.
        Inner batches come as their messages, so there may be more rows than records. ``queue_id``
        and ``offset_delta`` are for static topics, whose queues have other numbers than records.
        """
        rows = self._rows(buffer, starts, queue_id, offset_delta)
        return self._batch(rows, unpacked_bytes_max=None)

    def batches(
        self,
        buffer: bytes | memoryview,
        starts: Longs | None = None,
        *,
        queue_id: int | None = None,
        offset_delta: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        """The same in batches of bounded size; none at all where no record is wanted."""
        found = walk(buffer) if starts is None else starts
        for piece in _pieces(buffer, found):
            pending = [piece]
            while pending:
                part = pending.pop()
                rows = self._rows(buffer, part, queue_id, offset_delta)
                try:
                    batch = self._batch(rows, UNPACKED_BYTES_MAX if len(part) > 1 else None)
                except UnpackedTooLargeError:
                    half = len(part) // 2
                    pending += (part[half:], part[:half])
                else:
                    if batch.num_rows:
                        yield batch

    def _rows(
        self,
        buffer: bytes | memoryview,
        starts: Longs | None,
        queue_id: int | None,
        offset_delta: int,
    ) -> Rows:
        table = _unwrapped(RecordTable(buffer, starts))
        rows = Rows(table, self._broker_name, self._topic, queue_id, offset_delta)
        if self._tags is None:
            return rows
        is_wanted = pc.is_in(rows.properties.values_of(TAGS), self._tags)
        mask = is_wanted.to_numpy(zero_copy_only=False)
        if mask.all():
            return rows
        table = RecordTable(table.buffer, table.starts[mask])
        return Rows(table, self._broker_name, self._topic, queue_id, offset_delta)

    def _batch(self, rows: Rows, unpacked_bytes_max: int | None) -> pa.RecordBatch:
        rows.unpacked_bytes_max = unpacked_bytes_max
        arrays = [make_column(rows, column) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _pieces(buffer: bytes | memoryview, starts: Longs) -> Iterator[Longs]:
    """``starts`` in pieces that make a batch each."""
    if not len(starts):
        return
    data = np.frombuffer(buffer, np.uint8)
    inside = np.clip(starts, 0, max(0, len(data) - 4))
    sizes = gather(data, ">i4", inside) if len(data) >= 4 else np.zeros(len(starts))
    # Sizes are not checked yet; one that cannot be is an error soon, whatever piece it is in.
    ends = np.cumsum(np.clip(sizes.astype(np.int64), 1, BATCH_BYTES_MAX))
    at = 0
    while at < len(starts):
        bound = (int(ends[at - 1]) if at else 0) + BATCH_BYTES_MAX
        fitting = int(np.searchsorted(ends, bound, side="right"))
        end = min(max(fitting, at + 1), at + BATCH_ROWS_MAX)
        yield starts[at:end]
        at = end


def _unwrapped(table: RecordTable) -> RecordTable:
    """The table with the messages of inner batches in place of these; they are rare."""
    is_wrapped = (table.sys_flags & UNWRAP_BITS) == UNWRAP_BITS
    if not is_wrapped.any():
        return table
    parts: list[bytes | memoryview] = []
    rows = zip(table.starts.tolist(), table.ends.tolist(), is_wrapped.tolist(), strict=True)
    for start, end, wrapped in rows:
        parts += _messages(table.buffer, start) if wrapped else [table.buffer[start:end]]
    return RecordTable(b"".join(parts))


def _messages(buffer: bytes | memoryview, start: int) -> list[bytes]:
    record = decode_record(buffer, start)
    try:
        record.decompress()
        messages = unwrap_batch(record)
    except (CompressionError, RecordError) as error:
        log.warning("%r is given as it is: %s", record, error)
        messages = [record]
    for message in messages:
        message.sys_flag &= ~UNWRAP_BITS
    return [encode_record(message) for message in messages]
