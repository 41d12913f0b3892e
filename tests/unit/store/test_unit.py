"""A unit is 20 bytes, big-endian, and is found by its tags code."""

import doctest
import struct

from hypothesis import given
from hypothesis import strategies as st

from roketto.store import unit as unit_module
from roketto.store.unit import UNIT, UNIT_BYTES, Unit, scan


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(unit_module).failed == 0


def test_a_unit_has_the_layout_of_java() -> None:
    raw = UNIT.pack(1, 2, -3)
    assert raw == b"\0\0\0\0\0\0\0\1" + b"\0\0\0\2" + b"\xff" * 7 + b"\xfd"
    assert len(raw) == UNIT_BYTES
    assert Unit._make(UNIT.unpack(raw)) == Unit(log_offset=1, size=2, tags_code=-3)


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**31), 2**31 - 1),
            st.integers(-3, 3),
        )
    ),
    st.none() | st.frozensets(st.integers(-3, 3)),
)
def test_a_scan_finds_every_unit_with_a_wanted_code(
    units: list[tuple[int, int, int]], codes: frozenset[int] | None
) -> None:
    raw = b"".join(struct.pack(">qiq", *unit) for unit in units)
    expected = [(*unit, n) for n, unit in enumerate(units) if codes is None or unit[2] in codes]
    assert scan(raw, codes) == expected
