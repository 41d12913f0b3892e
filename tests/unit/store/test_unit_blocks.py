"""Proves that units come back as they were put, whatever other queues do meanwhile."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.store.unit_blocks import BLOCK_UNITS, NOWHERE, UnitBlocks, is_full

SIZES = st.integers(1, 2**31 - 1)
CODES = st.integers(-(2**63), 2**63 - 1)


def raw_units(units: list[tuple[int, int, int]]) -> bytes:
    return b"".join([struct.pack(">qiq", *unit) for unit in units])


@given(st.lists(st.tuples(SIZES, CODES), min_size=1, max_size=35), st.integers(0, 2**62))
def test_units_of_a_run_are_those_of_its_messages(
    run: list[tuple[int, int]], log_offset: int
) -> None:
    """Byte for byte as in the files of Java, any part of them, behind a unit that was there."""
    units = [(7, 8, 9)]
    at = log_offset
    for size, code in run:
        units.append((at, size, code))
        at += size
    blocks = UnitBlocks()
    end = blocks.add(NOWHERE, 7, 8, 9)
    end = blocks.add_run(end, log_offset, [size for size, _ in run], [code for _, code in run])
    assert blocks.count == len(units)
    assert blocks.log_end(end) == at
    for first in range(len(units)):
        for stop in range(first + 1, len(units) + 1):
            assert blocks.read(end, len(units), first, stop) == raw_units(units[first:stop])


def test_a_block_is_full_with_its_last_unit_and_where_there_is_none() -> None:
    blocks = UnitBlocks()
    end = NOWHERE
    for number in range(3 * BLOCK_UNITS + 1):
        assert is_full(end) == (number % BLOCK_UNITS == 0)
        end = blocks.add(end, number, 1, 0)


def test_only_units_that_are_there_can_be_read() -> None:
    blocks = UnitBlocks()
    end = blocks.add(NOWHERE, 0, 1, 2)
    for first, stop in ((0, 2), (1, 1), (-1, 1)):
        with pytest.raises(AssertionError):
            blocks.read(end, 1, first, stop)


@pytest.mark.parametrize("seed", range(3))
def test_queues_do_not_see_each_other(seed: int) -> None:
    """Whatever was added and dropped, each has its own units; what is free is used again."""
    chance = random.Random(seed)
    blocks = UnitBlocks()
    ends = [NOWHERE] * 40
    expected: list[list[tuple[int, int, int]]] = [[] for _ in ends]
    taken_max = 0
    for step in range(400):
        number = chance.randrange(len(ends))
        units = expected[number]
        if chance.random() < 0.3:
            dropped = chance.randint(0, len(units))
            ends[number] = blocks.drop(ends[number], dropped)
            del units[len(units) - dropped :]
        else:
            for n in range(chance.randint(1, 900)):
                ends[number] = blocks.add(ends[number], n, 1 + step, -n)
                units.append((n, 1 + step, -n))
        assert (ends[number] == NOWHERE) == (not units)
        assert blocks.count == sum(map(len, expected))
        taken = sum(-(-len(units) // BLOCK_UNITS) for units in expected)
        taken_max = max(taken_max, taken) if taken else 0
        # A slab has 1,024 blocks, and the first block of all is never taken.
        assert len(blocks._slabs) == 1 + taken_max // 1_024 or not taken
    assert len(blocks._slabs) > 1
    for end, units in zip(ends, expected, strict=True):
        if units:
            assert blocks.read(end, len(units), 0, len(units)) == raw_units(units)


def test_memory_is_given_back_with_the_last_unit() -> None:
    blocks = UnitBlocks()
    ends = [NOWHERE] * 3_000
    for number in range(len(ends)):
        ends[number] = blocks.add(NOWHERE, number, 1, 0)
    assert len(blocks._slabs) == 3
    for end in ends:
        assert len(blocks._slabs) == 3
        assert blocks.drop(end, 1) == NOWHERE
    assert len(blocks._slabs) == 1
    end = blocks.add(NOWHERE, 5, 6, 7)
    assert blocks.read(end, 1, 0, 1) == raw_units([(5, 6, 7)])
