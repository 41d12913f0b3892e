"""Messages whose units a broker of ours still has in memory, found in the log.

Java maps the files of queues and writes each unit there at once. Ours writes them some seconds
later, and keeps in its checkpoint up to which log offset it has. What follows in the log is read
here, so that a scan shows what a consumer would get. Of the checkpoint these are looked at::

    64   8   ROKETTO2
    136  8   log offset: the units of all records before it are in files
    224  4   CRC-32 of bytes 64 to 224
"""

import logging
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from roketto.protocol.errors import RecordError
from roketto.protocol.sysflags import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_TYPE
from roketto.spark.record_table import RecordTable
from roketto.spark.spans import take_spans
from roketto.spark.store_files import LogFiles, QueueTail, walk_log

__all__ = ["TAIL_BYTES_MAX", "filed_until", "find_tails"]

log = logging.getLogger(__name__)

TAIL_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of the log that is read for it; brokers write units after 32 MB, with many queues after more."""

_UNIT: Final = struct.Struct(">qiq")
_NO_TAGS_CODE: Final = -(2**63)
"""As if another file had it: the tag is compared with that of the record."""
_MAGIC: Final = b"ROKETTO2"
_MAGIC_AT: Final = 64
_WRITTEN_AT: Final = 136
_CRC_AT: Final = 224
_LONG: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_NOT_IN_QUEUES: Final = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)

Queue = tuple[str, int]


class _Run:
    """Units of one queue that follow each other."""

    __slots__ = ("begin", "units")

    def __init__(self, begin: int) -> None:
        self.begin: int = begin
        self.units: list[bytes] = []


def find_tails(store: Path, files: LogFiles) -> dict[Queue, QueueTail]:
    """By topic and queue id; queues of which all is in files may be there as well."""
    begin = filed_until(store)
    if begin is None:
        return {}
    runs: dict[Queue, _Run] = {}
    for table in _tables(files, max(begin, files.begin)):
        topics = take_spans(table.arrow, table.topic_begins, table.topic_ends, pa.binary())
        rows = zip(
            topics.to_pylist(),
            table.fixed("queue_id").tolist(),
            table.fixed("queue_offset").tolist(),
            table.fixed("log_offset").tolist(),
            table.fixed("size").tolist(),
            table.sys_flags.tolist(),
            strict=True,
        )
        for topic, queue_id, queue_offset, log_offset, size, sys_flag in rows:
            if sys_flag & TRANSACTION_TYPE in _NOT_IN_QUEUES:
                continue
            queue = topic.decode("utf-8", "replace"), queue_id
            run = runs.get(queue)
            # A topic that was deleted and made anew begins anew.
            if run is None or queue_offset != run.begin + len(run.units):
                run = runs[queue] = _Run(queue_offset)
            run.units.append(_UNIT.pack(log_offset, size, _NO_TAGS_CODE))
    return {queue: QueueTail(run.begin, b"".join(run.units)) for queue, run in runs.items()}


def filed_until(store: Path) -> int | None:
    """Up to which log offset units are in files; None if no broker of ours says so."""
    try:
        raw = (store / "checkpoint").read_bytes()
    except FileNotFoundError:
        return None
    if len(raw) < _CRC_AT + _CRC.size or not raw.startswith(_MAGIC, _MAGIC_AT):
        return None
    if zlib.crc32(raw[_MAGIC_AT:_CRC_AT]) != _CRC.unpack_from(raw, _CRC_AT)[0]:
        return None
    written: int = _LONG.unpack_from(raw, _WRITTEN_AT)[0]
    return written if written >= 0 else None


def _tables(files: LogFiles, begin: int) -> Iterator[RecordTable]:
    """The records from a log offset on, some at a time, up to what is not written yet."""
    end = begin + TAIL_BYTES_MAX
    at = begin
    for file in files.files:
        if file.end <= at:
            continue
        view = files.view(file)
        if view is None or at < file.begin:
            return
        goes_on = True
        while goes_on:
            if at >= end:
                log.warning(
                    "the queues in %s are more than %d bytes behind the log: what came later is"
                    " not shown; source=commitlog shows it",
                    file.path.parent.parent,
                    TAIL_BYTES_MAX,
                )
                return
            starts, place, goes_on = walk_log(view, at - file.begin, len(view))
            at = file.begin + place
            if len(starts):
                try:
                    yield RecordTable(view, starts)
                except RecordError:  # one that is just being written
                    return
        if not files.ends_properly(file, at):
            return
        at = file.end
