"""Raw records as brokers give them: cut to a range, and batches in them taken apart."""

from typing import Final

import numpy as np

from roketto.protocol.batch import unwrap_batch
from roketto.protocol.record import decode_records, encode_record
from roketto.protocol.sysflags import UNWRAP_BITS
from roketto.spark.record_table import walk
from roketto.spark.spans import Longs, gather

__all__ = ["cut_behind", "has_batches", "unwrapped"]

_QUEUE_OFFSET_AT: Final = 20
_SYS_FLAG_AT: Final = 36


def cut_behind(data: bytes, end_offset: int) -> bytes:
    """The records before an offset; a pull gives more than what is asked for."""
    starts = walk(data)
    offsets = gather(np.frombuffer(data, np.uint8), ">i8", starts + _QUEUE_OFFSET_AT)
    count = int(np.searchsorted(offsets.astype(np.int64), end_offset))
    return data if count == len(starts) else data[: int(starts[count])]


def has_batches(data: bytes, starts: Longs) -> bool:
    """Whether some of the records are batches that consumers take apart."""
    flags = gather(np.frombuffer(data, np.uint8), ">i4", starts + _SYS_FLAG_AT).astype(np.int32)
    return bool(((flags & UNWRAP_BITS) == UNWRAP_BITS).any())


def unwrapped(data: bytes, start_offset: int, end_offset: int) -> bytes:
    """The messages of such batches as records of their own, those within a range.

    A batch is one record with many offsets, of which a range may want some.
    """
    parts = []
    for record in decode_records(data, strict=True):
        for message in unwrap_batch(record):
            if start_offset <= message.queue_offset < end_offset:
                message.sys_flag &= ~UNWRAP_BITS
                parts.append(encode_record(message))
    return b"".join(parts)
