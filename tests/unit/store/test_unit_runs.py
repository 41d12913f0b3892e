"""Proves that the units of many messages are those of each of them."""

import struct

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from roketto.store.unit_runs import write_units

SIZES = st.integers(1, 2**31 - 1)
CODES = st.integers(-(2**63), 2**63 - 1)


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Sizes and tags codes: the same of all, of all but one, or of none."""
    count = draw(st.sampled_from([1, 2, 63, 64, 65, 128, 130]))
    run = [draw(st.tuples(SIZES, CODES))] * count
    for _ in range(draw(st.sampled_from([0, 1, count]))):
        at = draw(st.integers(0, count - 1))
        run[at] = (draw(SIZES), run[at][1]) if draw(st.booleans()) else (run[at][0], draw(CODES))
    return run


@given(runs(), st.integers(0, 2**62))
def test_units_of_a_run_are_those_of_its_messages(
    run: list[tuple[int, int]], log_offset: int
) -> None:
    """Byte for byte, as many as there are."""
    expected = b""
    at = log_offset
    for size, code in run:
        expected += struct.pack(">qiq", at, size, code)
        at += size
    sizes, codes = [size for size, _ in run], [code for _, code in run]
    units = BytesWriter()
    units.write(b"before")
    assert write_units(units, log_offset, sizes, codes) == log_offset + sum(sizes)
    assert units.getvalue() == b"before" + expected
