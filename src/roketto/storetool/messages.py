"""Messages as people and programs read them: a row of a table, an object of JSON."""

import base64
from datetime import UTC, datetime, tzinfo
from typing import Final

from roketto.protocol.errors import CompressionError
from roketto.protocol.hosts import decode_host
from roketto.protocol.property_names import KEYS, TAGS, UNIQ_KEY
from roketto.protocol.record import Record
from roketto.protocol.sysflags import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE,
    COMPRESSION_ZSTD,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)

COLUMNS: Final = ("topic", "queue", "offset", "log offset", "stored", "tags", "keys", "body")

_TRANSACTIONS: Final = {
    TRANSACTION_PREPARED: "prepared",
    TRANSACTION_COMMIT: "commit",
    TRANSACTION_ROLLBACK: "rollback",
}
_LAYOUT_BLANKS: Final = "\t\n\r"
_UTF8_BYTES_MAX: Final = 4


def to_json(record: Record) -> dict[str, object]:
    """Everything that a record says, its body unpacked: as text, or in base64 if it is none."""
    compression = _compression(record)
    body, trouble = unpacked(record)
    described: dict[str, object] = {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "log_offset": record.log_offset,
        "size": record.size,
        "offset_id": record.offset_id,
        "unique_id": record.get_property(UNIQ_KEY),
        "tags": record.get_property(TAGS),
        "keys": (record.get_property(KEYS) or "").split(),
        "store_time_ms": record.store_time_ms,
        "store_time": iso(record.store_time_ms, UTC),
        "born_time_ms": record.born_time_ms,
        "store_host": _host(record.store_host),
        "born_host": _host(record.born_host),
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "transaction": _TRANSACTIONS.get(record.sys_flag & TRANSACTION_TYPE),
        "compression": compression,
        "reconsume_times": record.reconsume_times,
        "prepared_log_offset": record.prepared_log_offset,
        "body_crc": record.body_crc,
        "properties": record.properties,
        "body_bytes": len(body),
    }
    if trouble:
        described["trouble"] = trouble
    text = as_text(body)
    if text is None:
        described["body_base64"] = base64.b64encode(body).decode()
    else:
        described["body"] = text
    return described


def to_row(record: Record, zone: tzinfo, body_chars_max: int) -> tuple[str, ...]:
    """The columns of a table; the body is cut to so many characters."""
    body, trouble = unpacked(record)
    shown = f"({trouble})" if trouble else _one_line(body, body_chars_max)
    if len(shown) > body_chars_max:
        shown = shown[: body_chars_max - 3] + "..."
    return (
        record.topic,
        str(record.queue_id),
        str(record.queue_offset),
        str(record.log_offset),
        iso(record.store_time_ms, zone),
        record.get_property(TAGS) or "",
        record.get_property(KEYS) or "",
        shown,
    )


def unpacked(record: Record) -> tuple[bytes, str]:
    """The body without its compression, and why that is still on it, or ""."""
    packed, sys_flag = record.body, record.sys_flag
    try:
        record.decompress()
    except CompressionError as error:
        return bytes(packed), str(error)
    body = bytes(record.body)
    record.sys_flag = sys_flag  # as it is stored
    record.body = packed
    return body, ""


def as_text(body: bytes) -> str | None:
    """The body as text, None if it is not text that can be printed."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    is_shown = all(char.isprintable() or char in _LAYOUT_BLANKS for char in text)
    return text if is_shown else None


def local_zone() -> tzinfo:
    """This machine's zone, in which people read and write times."""
    zone = datetime.now().astimezone().tzinfo
    assert zone is not None
    return zone


def iso(time_ms: int, zone: tzinfo) -> str:
    """A time with its milliseconds; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, zone).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def parse_time(text: str, zone: tzinfo) -> int:
    """Milliseconds of a number of them, or of a date and time; ValueError for anything else."""
    if text.isascii() and text.isdigit():
        return int(text)
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=zone)
    return round(parsed.timestamp() * 1000)


def _one_line(body: bytes, chars_max: int) -> str:
    """The beginning of a body as text without line ends, or its hex digits."""
    head = body[: chars_max * _UTF8_BYTES_MAX]
    for cut in range(_UTF8_BYTES_MAX if len(head) < len(body) else 1):
        text = as_text(head[: len(head) - cut])  # a character may be cut in two
        if text is not None:
            return " ".join(text.split())
    return body[:chars_max].hex()


def _compression(record: Record) -> str | None:
    if not record.sys_flag & COMPRESSED:
        return None
    kind = record.sys_flag & COMPRESSION_TYPE
    return {COMPRESSION_LZ4: "lz4", COMPRESSION_ZSTD: "zstd"}.get(kind, "zlib")


def _host(host: bytes) -> str:
    address, port = decode_host(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
