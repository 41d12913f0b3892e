"""The ids that a sink gives its messages: one prefix for a task, and a number for each row.

They have the form of a producer's ids (protocol/ids.py): ten bytes that tell tasks apart, and the
milliseconds and counter of the end as one 48-bit number. Those of an idempotent sink say nothing of
who has made them and when: the same row of the same batch has the same id whenever it is written.
"""

import hashlib
import os
import secrets
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final, Protocol

import numpy as np

from roketto.clock import wall_ms
from roketto.protocol.ids import month_bounds_ms, substitute_ip

__all__ = ["HEX_DIGITS", "FreshIds", "RepeatedIds", "RowIds"]

HEX_DIGITS: Final = 12
"""Of the number behind the prefix."""

_PREFIX_BYTES: Final = 10
_IPV4_BYTES: Final = 4
_COUNTER_BITS: Final = 16


class RowIds(Protocol):
    """Where a task has its ids from."""

    prefix: str
    """In hexadecimal digits, of which there are twenty."""

    def take(self, count: int) -> Any:
        """The numbers of the next rows, as a numpy array."""


class FreshIds:
    """Ids that no other task has, at no time.

    ids = FreshIds("10.0.0.7")
    numbers = ids.take(10_000)
    """

    __slots__ = ("_next", "_start_ms", "prefix")

    def __init__(self, ip: str) -> None:
        try:
            packed = ip_address(ip).packed
        except ValueError:  # a name instead of an address
            packed = substitute_ip(wall_ms())
        process = (os.getpid() & 0xFFFF).to_bytes(2, "big")
        task = secrets.token_bytes(_PREFIX_BYTES - _IPV4_BYTES - len(process))
        self.prefix = (packed[-_IPV4_BYTES:] + process + task).hex().upper()
        zone = datetime.now().astimezone().tzinfo
        assert zone is not None
        self._start_ms = month_bounds_ms(wall_ms(), zone)[0]
        self._next = 0

    def take(self, count: int) -> Any:
        """The numbers begin with the time, and never go back, whatever the clock does."""
        first = max(self._next, (wall_ms() - self._start_ms) << _COUNTER_BITS)
        self._next = first + count
        return np.arange(first, first + count, dtype=np.int64)


class RepeatedIds:
    """Ids that a row has again when its batch is written again.

    ids = RepeatedIds("sink-7", batch_id=12, partition_id=0)
    """

    __slots__ = ("_next", "prefix")

    def __init__(self, sink_id: str, batch_id: int, partition_id: int) -> None:
        text = f"{sink_id}\n{batch_id}\n{partition_id}"
        digest = hashlib.sha256(text.encode()).digest()
        self.prefix = digest[:_PREFIX_BYTES].hex().upper()
        self._next = 0

    def take(self, count: int) -> Any:
        first = self._next
        self._next = first + count
        return np.arange(first, first + count, dtype=np.int64)
