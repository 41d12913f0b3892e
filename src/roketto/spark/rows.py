"""Rows to messages: an Arrow batch becomes the bytes of batches, grouped by topic and queue.

Everything is done by column. A message in a batch (protocol/batch.py) is a row of the columns ::

    head (20 bytes) | body | length of the properties (2) | name 0x01 value 0x02 ...

which Arrow joins at a few million rows a second; the joined array's own buffer is the body of the
request, and is cut where a request is full.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roketto.client.sendable import check_sendable
from roketto.protocol import property_names as names
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.row_columns import (
    NO_QUEUE,
    bodies,
    check_properties,
    encode_items,
    hash_keys,
    hex_array,
    join,
    map_property,
    milliseconds,
    take,
    text_property,
    whole_numbers,
)
from roketto.spark.row_ids import HEX_DIGITS, RowIds
from roketto.spark.row_schema import SinkSchema
from roketto.spark.sink_options import SinkError

__all__ = ["Part", "RowEncoder", "Single"]

_QUEUES_STEP: Final = 65_537
"""More than the queues of a topic (client/routes.py): topic and queue make one number."""

Queues = Callable[[str], Sequence[MessageQueue]]
"""The queues of a topic that can be written."""


@dataclass(frozen=True, slots=True)
class Part:
    """Messages of one topic for one queue, or for any; ``items`` are encoded for a batch."""

    topic: str
    queue: MessageQueue | None
    items: Any
    """A pyarrow.BinaryArray."""


@dataclass(frozen=True, slots=True)
class Single:
    """A message that no batch takes: it is delayed, or half of a transaction."""

    topic: str
    queue: MessageQueue | None
    flag: int
    body: bytes
    properties: str
    message_id: str


class RowEncoder:
    """Encodes the Arrow batches of one task.

    encoder = RowEncoder(schema, ids, queues, topic="Orders")
    parts, singles = encoder.encode(record_batch)

    ``marks`` are properties that all messages get; with ``is_alone`` none is part of a batch.
    """

    def __init__(
        self,
        schema: SinkSchema,
        ids: RowIds,
        queues: Queues,
        *,
        topic: str | None = None,
        marks: str = "",
        is_alone: bool = False,
        allows_delays: bool = True,
    ) -> None:
        self._schema = schema
        self._ids = ids
        self._queues = queues
        self._topic = topic
        self._is_alone = is_alone
        self._allows_delays = allows_delays
        self._id_start = pa.scalar(f"{marks}{names.UNIQ_KEY}\x01{ids.prefix}".encode(), pa.binary())
        self._turns: dict[tuple[str, int], int] = {}
        self.row_count = 0
        """Rows that were encoded."""

    def encode(self, batch: Any) -> tuple[list[Part], list[Single]]:
        """The messages of a pyarrow.RecordBatch; SinkError for a row that cannot be one."""
        count: int = batch.num_rows
        if not count:
            return [], []
        columns = self._schema.columns_of(batch)
        body = bodies(columns["body"], self.row_count)
        flags = whole_numbers(columns.get("flag"), count)
        numbers = self._ids.take(count)
        delays, is_delayed = self._delays(columns, count)
        parts = self._properties(columns, numbers) + delays
        topics, codes = self._places(columns, count)
        self.row_count += count
        if not self._is_alone and is_delayed is None:
            return self._parts(topics, codes, encode_items(body, flags, parts)), []
        alone = np.ones(count, bool) if self._is_alone or is_delayed is None else is_delayed
        singles = self._singles(topics, codes, body, flags, parts, alone, numbers)
        rest = np.flatnonzero(~alone)
        if not len(rest):
            return [], singles
        kept = pa.array(rest)
        items = encode_items(body.take(kept), flags[rest], [take(part, kept) for part in parts])
        return self._parts(topics, codes[rest], items), singles

    # --- properties -------------------------------------------------------------------------------

    def _properties(self, columns: dict[str, Any], numbers: np.ndarray) -> list[Any]:
        """Arrays and scalars that make the property string when they are joined."""
        parts: list[Any] = [self._id_start, hex_array(numbers), pa.scalar(b"\x02", pa.binary())]
        for column, name in (
            ("tags", names.TAGS), ("keys", names.KEYS), ("shardingKey", names.SHARDING_KEY),
        ):  # fmt: skip
            if column in columns:
                parts += text_property(name, column, columns[column])
        if "properties" in columns:
            parts.append(map_property(columns["properties"]))
        return parts

    def _delays(self, columns: dict[str, Any], count: int) -> tuple[list[Any], "np.ndarray | None"]:
        """Properties of delayed messages, and which ones are; None if none is."""
        parts: list[Any] = []
        masks = []
        for column, name in (
            ("delayLevel", names.DELAY), ("deliverTimestamp", names.TIMER_DELIVER_MS),
        ):  # fmt: skip
            if column not in columns:
                continue
            values = milliseconds(columns[column])
            wanted = pc.fill_null(pc.greater(values, 0), False)
            mask = wanted.to_numpy(zero_copy_only=False)
            if mask.any():
                masks.append(mask)
                text = pc.if_else(wanted, values, None).cast(pa.string())
                parts += text_property(name, column, text)
        if not masks:
            return [], None
        if not self._allows_delays:
            raise SinkError(
                f"{int(sum(mask.sum() for mask in masks))} rows of {count} have delayLevel or"
                " deliverTimestamp, and no broker takes a delayed message in a transaction: leave"
                " these columns out, or use delivery=at-least-once"
            )
        if len(masks) == 2 and (masks[0] & masks[1]).any():
            raise SinkError(
                "a row has both delayLevel and deliverTimestamp; a message takes one of them:"
                " let the other be null"
            )
        return parts, masks[0] if len(masks) == 1 else masks[0] | masks[1]

    # --- topics and queues ------------------------------------------------------------------------

    def _places(self, columns: dict[str, Any], count: int) -> tuple[list[str], np.ndarray]:
        """Topics, and for each row a number of its topic and of its queue."""
        topics, codes = self._topics(columns, count)
        codes = codes * _QUEUES_STEP + (NO_QUEUE + 1)
        hashes = None
        if "shardingKey" in columns:
            hashes = hash_keys(columns["shardingKey"])
        if hashes is None and "queueId" not in columns:
            return topics, codes
        for number, topic in enumerate(topics):
            rows = np.flatnonzero(codes // _QUEUES_STEP == number)
            if len(rows):
                codes[rows] += 1 + self._queue_numbers(topic, columns, hashes, rows)
        return topics, codes

    def _topics(self, columns: dict[str, Any], count: int) -> tuple[list[str], np.ndarray]:
        if self._topic is not None:
            return [self._topic], np.zeros(count, np.int64)
        column = columns["topic"]
        if column.null_count:
            raise SinkError(
                f"{column.null_count} rows of {count} have no topic: fill the column, or give"
                " option topic"
            )
        encoded = column.dictionary_encode()
        topics: list[str] = encoded.dictionary.to_pylist()
        for topic in topics:
            check_sendable(topic)
        return topics, encoded.indices.to_numpy().astype(np.int64)

    def _queue_numbers(
        self, topic: str, columns: dict[str, Any], hashes: "np.ndarray | None", rows: np.ndarray
    ) -> np.ndarray:
        """The place of each row's queue among the topic's; -1 where any will do."""
        queues = self._queues(topic)
        found = np.full(len(rows), NO_QUEUE, np.int64)
        if hashes is not None:
            some = hashes[rows]
            found = np.where(some >= 0, some % len(queues), found)
        if "queueId" in columns:
            ids = pc.fill_null(columns["queueId"], NO_QUEUE).to_numpy(zero_copy_only=False)[rows]
            for queue_id in np.unique(ids).tolist():
                if queue_id != NO_QUEUE:
                    found[ids == queue_id] = self._queue_number(topic, queues, queue_id)
        return found

    def _queue_number(self, topic: str, queues: Sequence[MessageQueue], queue_id: int) -> int:
        """Where a queue id is among the queues; brokers that have it take turns."""
        places = [place for place, queue in enumerate(queues) if queue.queue_id == queue_id]
        if not places:
            known = sorted({queue.queue_id for queue in queues})
            raise SinkError(
                f"a row has queueId {queue_id}, and topic {topic} has the queues {known[0]} to"
                f" {known[-1]}: change the column, or let it be null"
            )
        turn = self._turns.get((topic, queue_id), 0)
        self._turns[topic, queue_id] = turn + 1
        return places[turn % len(places)]

    # --- what comes out ---------------------------------------------------------------------------

    def _place(self, topics: list[str], code: int) -> tuple[str, MessageQueue | None]:
        number, queue = divmod(code, _QUEUES_STEP)
        topic = topics[number]
        return topic, self._queues(topic)[queue - 1] if queue else None

    def _parts(self, topics: list[str], codes: np.ndarray, items: Any) -> list[Part]:
        if (codes == codes[0]).all():
            return [Part(*self._place(topics, int(codes[0])), items)]
        order = np.argsort(codes, kind="stable")
        codes, items = codes[order], items.take(pa.array(order))
        starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        return [
            Part(*self._place(topics, int(codes[start])), items.slice(start, end - start))
            for start, end in pairwise(starts)
        ]

    def _singles(
        self,
        topics: list[str],
        codes: np.ndarray,
        body: Any,
        flags: np.ndarray,
        parts: list[Any],
        wanted: np.ndarray,
        numbers: np.ndarray,
    ) -> list[Single]:
        rows = np.flatnonzero(wanted)
        kept = pa.array(rows)
        texts = join([take(part, kept) for part in parts]).cast(pa.string()).to_pylist()
        check_properties(max(map(len, texts)))
        data = body.take(kept).to_pylist()
        prefix = self._ids.prefix
        return [
            Single(*self._place(topics, code), flag, one, text, f"{prefix}{number:0{HEX_DIGITS}X}")
            for code, flag, one, text, number in zip(
                codes[rows].tolist(), flags[rows].tolist(), data, texts, numbers[rows].tolist(),
                strict=True,
            )
        ]  # fmt: skip
