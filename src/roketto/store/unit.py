"""One unit of a queue: where in the log a message lies, 20 bytes, as Java's files have them.

Big-endian; unit n of a queue is at byte 20 n, in the file named after its first byte::

    0   8   log offset of the record
    8   4   size of the record
    12  8   tags code (hash of the tag), or the time to deliver at for delayed messages
"""

import struct
from typing import Final, NamedTuple

__all__ = ["UNIT", "UNIT_BYTES", "Unit", "scan"]

UNIT: Final = struct.Struct(">qiq")
UNIT_BYTES: Final = 20


class Unit(NamedTuple):
    """One entry of a queue."""

    log_offset: int
    size: int
    tags_code: int


def scan(raw: bytes, codes: frozenset[int] | None) -> list[tuple[int, int, int, int]]:
    """The units in ``raw`` with one of these tags codes (None: all), with their place in it.

    >>> scan(UNIT.pack(0, 100, 7) + UNIT.pack(100, 90, 8), frozenset([8]))
    [(100, 90, 8, 1)]
    """
    units = enumerate(UNIT.iter_unpack(raw))
    if codes is None:
        return [(log_offset, size, code, n) for n, (log_offset, size, code) in units]
    return [(log_offset, size, code, n) for n, (log_offset, size, code) in units if code in codes]
