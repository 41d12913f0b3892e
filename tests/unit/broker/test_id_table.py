"""A table finds what was put last under a hash, whatever was removed, and takes little room."""

import random

import pytest

from roketto.broker.id_table import SLOTS_LEAST, UNKNOWN, IdTable

_PART = 37
"""What the last six bits of all hashes of a table are."""


def number_of(index: int) -> int:
    return index << 6 | _PART


def test_a_hash_leads_to_what_was_put_last() -> None:
    """Offset 0 and hashes below 0 are like any others."""
    table = IdTable()
    for number in (number_of(0), number_of(-1), number_of(2**56), -(2**63), 2**63 - 1, 0):
        assert table.find(number) == UNKNOWN
        table.put(number, 0)
        assert table.find(number) == 0
        table.put(number, 2**62)
        assert table.find(number) == 2**62
    assert table.count == 6


def test_only_what_leads_to_its_place_is_removed() -> None:
    """Another message may have taken it."""
    table = IdTable()
    table.put(number_of(1), 100)
    assert not table.remove(number_of(1), 99)
    assert not table.remove(number_of(2), 100)
    assert not table.remove(number_of(2), UNKNOWN - 1)
    assert table.find(number_of(1)) == 100
    assert table.remove(number_of(1), 100)
    assert not table.remove(number_of(1), 100)
    assert (table.find(number_of(1)), table.count) == (UNKNOWN, 0)


@pytest.mark.parametrize("first", range(SLOTS_LEAST))
@pytest.mark.parametrize("removed", range(5))
def test_what_belongs_to_one_slot_is_found_without_one_of_it(first: int, removed: int) -> None:
    """Also where they go on at the begin of the table, with others between them."""
    table = IdTable()
    numbers = [number_of(first + SLOTS_LEAST * number) for number in range(3)]
    numbers[1:1] = [number_of(first + 1), number_of(first + 3)]
    for place, number in enumerate(numbers):
        table.put(number, place)
    assert table.slot_count == SLOTS_LEAST
    assert table.remove(numbers[removed], removed)
    expected = [UNKNOWN if place == removed else place for place in range(5)]
    assert [table.find(number) for number in numbers] == expected


@pytest.mark.parametrize("seed", range(5))
def test_a_table_has_what_a_dict_would_have(seed: int) -> None:
    """Thousands of hashes, near to each other or not, that come and go."""
    chance = random.Random(seed)
    table, expected = IdTable(), dict[int, int]()
    bits = 8 if seed % 2 else 57
    for step in range(20_000):
        number = number_of(chance.getrandbits(bits))
        if chance.random() < (0.7 if step < 8_000 else 0.4):
            table.put(number, step)
            expected[number] = step
        else:
            number = chance.choice(list(expected)) if expected and step % 16 == 0 else number
            place = expected.get(number, step)
            assert table.remove(number, place) == (expected.pop(number, None) is not None)
        assert table.find(number) == expected.get(number, UNKNOWN)
    assert table.count == len(expected)
    assert [table.find(number) for number in expected] == list(expected.values())


def test_a_table_grows_and_gives_its_room_back() -> None:
    """A third to two thirds of it are used while it grows, an eighth at least when it shrinks."""
    table = IdTable()
    for number in range(10_000):
        table.put(number_of(number * 7_919), number)
        assert 3 * table.count <= 2 * table.slot_count
    assert table.slot_count == 16_384
    for number in range(10_000):
        assert table.remove(number_of(number * 7_919), number)
        assert table.slot_count <= max(SLOTS_LEAST, 8 * table.count)
    assert table.slot_count == SLOTS_LEAST
