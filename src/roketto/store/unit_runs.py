"""The units (drawn in unit.py) of messages that follow each other in the log."""

from librt.strings import BytesWriter, write_i32_be, write_i64_be


def write_units(
    units: BytesWriter, log_offset: int, sizes: list[int], tags_codes: list[int]
) -> int:
    """Add the units of records of these sizes, of which the first is at ``log_offset``.

    Where the last one ends in the log.
    """
    for number, size in enumerate(sizes):
        write_i64_be(units, log_offset)
        write_i32_be(units, size)
        write_i64_be(units, tags_codes[number])
        log_offset += size
    return log_offset
