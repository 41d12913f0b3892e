"""The units of messages that follow each other in the log, many with one call.

Mostly they differ in nothing but where their records lie::

    log offset | size, tags code | log offset | the same size and tags code | ...
"""

import struct
from itertools import accumulate
from typing import Final

_RUN_MAX: Final = 64
_RUNS: Final = tuple([struct.Struct(">" + "qiq" * count) for count in range(_RUN_MAX + 1)])
"""So many units (drawn in unit.py): a call for each would take four times as long."""
_REST: Final = struct.Struct(">iq")
"""What follows the log offset in a unit."""
_EVEN_RUNS: Final = tuple([struct.Struct(">" + "q12s" * count) for count in range(_RUN_MAX + 1)])
"""So many units with the same rest."""


def encode_units(log_offset: int, sizes: list[int], tags_codes: list[int]) -> bytes:
    """The units of records of these sizes, of which the first is at ``log_offset``."""
    count = len(sizes)
    size, tags_code = sizes[0], tags_codes[0]
    fields: list[int | bytes]
    if sizes.count(size) == count and tags_codes.count(tags_code) == count:
        fields = [_REST.pack(size, tags_code)] * (2 * count)
        fields[0::2] = range(log_offset, log_offset + count * size, size)
        structs, step = _EVEN_RUNS, 2
    else:
        fields = [0] * (3 * count)
        fields[0::3] = accumulate(sizes[:-1], initial=log_offset)
        fields[1::3] = sizes
        fields[2::3] = tags_codes
        structs, step = _RUNS, 3
    if count <= _RUN_MAX:
        return structs[count].pack(*fields)
    parts = [fields[at : at + step * _RUN_MAX] for at in range(0, len(fields), step * _RUN_MAX)]
    return b"".join([structs[len(part) // step].pack(*part) for part in parts])
