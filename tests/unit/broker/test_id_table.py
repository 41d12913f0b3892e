"""A table finds what was put last under a hash, forgets below its floor, and takes little room."""

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
        assert table.find(number, 0) == UNKNOWN
        assert not table.put(number, 0, 0)
        assert table.find(number, 0) == 0
        assert table.put(number, 2**62, 0)
        assert table.find(number, 0) == 2**62
    assert table.used == 6


def test_what_leads_below_the_floor_is_dead() -> None:
    """Its slot is the next one's that passes it, or its own again."""
    table = IdTable()
    table.put(number_of(1), 100, 0)
    assert table.find(number_of(1), 100) == 100
    assert table.find(number_of(1), 101) == UNKNOWN
    assert not table.put(number_of(1), 200, 101)
    assert table.find(number_of(1), 101) == 200
    assert not table.put(number_of(1 + SLOTS_LEAST), 300, 201)
    assert (table.find(number_of(1), 201), table.used) == (UNKNOWN, 1)


@pytest.mark.parametrize("first", range(SLOTS_LEAST))
@pytest.mark.parametrize("dead", range(1, 5))
def test_what_belongs_to_one_slot_is_found_when_some_of_it_died(first: int, dead: int) -> None:
    """Also where they go on at the begin of the table, with others between them; a new one comes
    to where a dead one was, and none of them is there twice."""
    table = IdTable()
    numbers = [number_of(first + SLOTS_LEAST * number) for number in range(3)]
    numbers[1:1] = [number_of(first + 1), number_of(first + 3)]
    for place, number in enumerate(numbers):
        table.put(number, place, 0)
    assert table.slot_count == SLOTS_LEAST
    expected = [UNKNOWN if place < dead else place for place in range(5)]
    assert [table.find(number, dead) for number in numbers] == expected
    assert not table.put(numbers[0], 7, dead)
    expected[0] = 7
    assert [table.find(number, dead) for number in numbers] == expected
    assert table.used == 5


@pytest.mark.parametrize("seed", range(5))
def test_a_table_has_what_a_dict_would_have(seed: int) -> None:
    """Thousands of hashes, near to each other or not, that come, and go in their order."""
    chance = random.Random(seed)
    table, expected = IdTable(), dict[int, int]()
    bits = 8 if seed % 2 else 57
    floor = 0
    for step in range(20_000):
        floor = max(floor, step - chance.randrange(100, 20_000))
        number = number_of(chance.getrandbits(bits))
        is_known = expected.get(number, UNKNOWN) >= floor
        assert table.find(number, floor) == (expected[number] if is_known else UNKNOWN)
        assert table.put(number, step, floor) == is_known
        expected[number] = step
        if step % 1_000 == 0:
            table.tidy(floor)
    alive = {number: place for number, place in expected.items() if place >= floor}
    assert 0 < len(alive) < len(expected)
    for number in expected:
        assert table.find(number, floor) == alive.get(number, UNKNOWN)
    assert len(alive) <= table.used <= table.slot_count * 2 // 3


def test_a_table_grows_and_gives_its_room_back() -> None:
    """A third to two thirds of it are used while it grows; what died is left behind then."""
    table = IdTable()
    for number in range(10_000):
        table.put(number_of(number * 7_919), number, 0)
        assert 3 * table.used <= 2 * table.slot_count
    assert table.slot_count == 16_384
    for number in range(10_000, 100_000):
        table.put(number_of(number * 7_919), number, number - 1_000)
    assert table.slot_count <= 4_096
    table.tidy(99_900)
    assert (table.slot_count, table.used) == (256, 100)
    table.tidy(100_000)
    assert (table.slot_count, table.used) == (SLOTS_LEAST, 0)
    table.tidy(100_000)
    assert table.slot_count == SLOTS_LEAST
