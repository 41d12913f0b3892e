"""The columns of some records as Arrow arrays: a function for each of them."""

import logging
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roketto.protocol.compression import decompress
from roketto.protocol.errors import CompressionError
from roketto.protocol.hosts import decode_host
from roketto.protocol.ids import encode_offset_id
from roketto.protocol.property_names import KEYS, TAGS, UNIQ_KEY
from roketto.protocol.sysflags import COMPRESSED
from roketto.protocol.utf8 import decode_utf8
from roketto.spark.columns import PROPERTIES, TIMESTAMP, Column
from roketto.spark.property_table import PropertyTable
from roketto.spark.record_table import RecordTable
from roketto.spark.spans import constant_text, take_spans

__all__ = ["Rows", "UnpackedTooLargeError", "make_column"]

log = logging.getLogger(__name__)

_TIME_MS_MAX: Final = (2**63 - 1) // 1_000
"""Producers may claim any time; beyond this it would wrap around."""


class UnpackedTooLargeError(Exception):
    """The bodies of a batch unpack to more than it may hold."""


class Rows:
    """The records of one batch, and what columns share: properties are looked at once, or never."""

    __slots__ = (
        "_properties", "broker_name", "offset_delta", "queue_id", "table", "topic",
        "unpacked_bytes_max",
    )  # fmt: skip

    def __init__(
        self,
        table: RecordTable,
        broker_name: str | None,
        topic: str | None,
        queue_id: int | None,
        offset_delta: int,
    ) -> None:
        self.table: RecordTable = table
        self.broker_name: str | None = broker_name
        self.topic: str | None = topic
        self.queue_id: int | None = queue_id
        self.offset_delta: int = offset_delta
        self.unpacked_bytes_max: int | None = None
        self._properties: PropertyTable | None = None

    @property
    def properties(self) -> PropertyTable:
        """The properties of all rows, taken apart when somebody asks first."""
        if self._properties is None:
            table = self.table
            self._properties = PropertyTable(table.arrow, table.properties_begins, table.ends)
        return self._properties


def make_column(rows: Rows, column: Column) -> pa.Array:
    """The values of one column; UnpackedTooLargeError if bodies unpack to too much."""
    return _MAKERS[column.name](rows, column)


def _topic(rows: Rows, _: Column) -> pa.Array:
    table = rows.table
    if rows.topic is not None:
        return constant_text(rows.topic, len(table))
    raw = take_spans(table.arrow, table.topic_begins, table.topic_ends, pa.binary())
    return _text(raw)


def _broker_name(rows: Rows, _: Column) -> pa.Array:
    if rows.broker_name is None:
        return pa.nulls(len(rows.table), pa.string())
    return constant_text(rows.broker_name, len(rows.table))


def _queue_id(rows: Rows, _: Column) -> pa.Array:
    if rows.queue_id is not None:
        return pa.array(np.full(len(rows.table), rows.queue_id, np.int32))
    return pa.array(rows.table.fixed("queue_id"))


def _queue_offset(rows: Rows, _: Column) -> pa.Array:
    return pa.array(rows.table.fixed("queue_offset") + np.int64(rows.offset_delta))


def _message_id(rows: Rows, _: Column) -> pa.Array:
    ids = rows.properties.values_of(UNIQ_KEY)
    if not ids.null_count:
        return ids
    places = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
    offsets = rows.table.fixed("log_offset")[places].tolist()
    hosts = rows.table.store_hosts(places)
    made = [encode_offset_id(*place) for place in zip(hosts, offsets, strict=True)]
    return pc.replace_with_mask(ids, ids.is_null(), pa.array(made, pa.string()))


def _tags(rows: Rows, _: Column) -> pa.Array:
    return rows.properties.values_of(TAGS)


def _keys(rows: Rows, _: Column) -> pa.Array:
    return rows.properties.values_of(KEYS)


def _body(rows: Rows, _: Column) -> pa.Array:
    table = rows.table
    bodies = take_spans(table.arrow, table.body_begins, table.body_ends, pa.binary())
    is_packed = (table.sys_flags & COMPRESSED) != 0
    if not is_packed.any():
        return bodies
    unpacked: list[bytes] = []
    size = 0
    for row in np.flatnonzero(is_packed).tolist():
        unpacked.append(_unpack(rows, row, bodies[row].as_py()))
        size += len(unpacked[-1])
        if rows.unpacked_bytes_max is not None and size > rows.unpacked_bytes_max:
            raise UnpackedTooLargeError
    return pc.replace_with_mask(bodies, pa.array(is_packed), pa.array(unpacked, pa.binary()))


def _unpack(rows: Rows, row: int, body: bytes) -> bytes:
    """A body that cannot be unpacked is given as it is: the message must not vanish."""
    try:
        return decompress(body, int(rows.table.sys_flags[row]))
    except CompressionError as error:
        log.warning(
            "the body of the message at queue offset %d of queue %d, broker %s, is given as it is:"
            " %s",
            rows.table.fixed("queue_offset")[row] + rows.offset_delta,
            rows.table.fixed("queue_id")[row],
            rows.broker_name,
            error,
        )
        return body


def _flag(rows: Rows, _: Column) -> pa.Array:
    return pa.array(rows.table.fixed("flag"))


def _properties(rows: Rows, column: Column) -> pa.Array:
    if pa.types.is_map(column.type):
        return rows.properties.as_map(column.type)
    return rows.properties.as_text()


def _born_time(rows: Rows, _: Column) -> pa.Array:
    return _times(rows.table.fixed("born_time"))


def _store_time(rows: Rows, _: Column) -> pa.Array:
    return _times(rows.table.store_times_ms)


def _times(times_ms: npt.NDArray[np.integer]) -> pa.Array:
    micros = np.clip(times_ms, -_TIME_MS_MAX, _TIME_MS_MAX) * np.int64(1_000)
    return pa.array(micros).view(TIMESTAMP)


def _born_host(rows: Rows, _: Column) -> pa.Array:
    """Few producers write many messages: each host is spelled once."""
    hosts = rows.table.born_hosts()
    if isinstance(hosts, list):
        spelled = {host: _spell_host(host) for host in set(hosts)}
        return pa.array([spelled[host] for host in hosts], pa.string())
    if not len(hosts) or (hosts == hosts[0]).all():
        only = _spell_host(int(hosts[0]).to_bytes(8, "big")) if len(hosts) else ""
        return constant_text(only, len(hosts))
    different, places = np.unique(hosts, return_inverse=True)
    texts = [_spell_host(host.to_bytes(8, "big")) for host in different.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(places))


def _spell_host(host: bytes) -> str:
    address, port = decode_host(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _reconsume_times(rows: Rows, _: Column) -> pa.Array:
    return pa.array(rows.table.reconsume_times)


def _log_offset(rows: Rows, _: Column) -> pa.Array:
    return pa.array(rows.table.fixed("log_offset"))


def _store_size(rows: Rows, _: Column) -> pa.Array:
    return pa.array(rows.table.fixed("size"))


def _sys_flag(rows: Rows, _: Column) -> pa.Array:
    return pa.array(rows.table.sys_flags)


def _text(raw: pa.Array) -> pa.Array:
    """Bytes as text; what is no UTF-8 is replaced as Java replaces it."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([decode_utf8(one) for one in raw.to_pylist()], pa.string())


_MAKERS: Final[dict[str, Callable[[Rows, Column], pa.Array]]] = {
    "topic": _topic,
    "brokerName": _broker_name,
    "queueId": _queue_id,
    "queueOffset": _queue_offset,
    "msgId": _message_id,
    "tags": _tags,
    "keys": _keys,
    "body": _body,
    "flag": _flag,
    PROPERTIES: _properties,
    "bornTimestamp": _born_time,
    "storeTimestamp": _store_time,
    "bornHost": _born_host,
    "reconsumeTimes": _reconsume_times,
    "logOffset": _log_offset,
    "storeSize": _store_size,
    "sysFlag": _sys_flag,
}
