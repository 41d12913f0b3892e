"""A table finds what came last under a hash, forgets what left the order, and takes little room."""

import random

import pytest

from roketto.broker.id_order import BLOCK_IDS, IdOrder
from roketto.broker.id_table import SLOTS_LEAST, UNKNOWN, IdTable, hash_of_id

_PART = 37
"""What the last six bits of all hashes of a table are."""
_SAME = 1 << 36
"""Hashes that differ by this have the same bits in their slots."""


def number_of(index: int) -> int:
    return index << 6 | _PART


class Kept:
    """A table and the order that it is for."""

    def __init__(self, begin: int = 0) -> None:
        assert begin % BLOCK_IDS == 0
        self.order = IdOrder()
        self.order.begin = self.order.end = begin
        self.table = IdTable()

    def put(self, number: int, place: int) -> bool:
        self.order.add(number, place)
        return self.table.put(number, self.order)

    def find(self, number: int) -> int:
        """Its place, as its window finds it."""
        serial = self.table.find(number, self.order)
        return UNKNOWN if serial == UNKNOWN else self.order.place_of(serial)


def test_hashes_are_those_of_whole_ids_and_fit() -> None:
    """Any byte at the end makes another one; eight ids with one beginning lie side by side."""
    hashes = {hash_of_id(b"id-17" + bytes((last,))) for last in range(256)}
    assert len(hashes) == 256
    assert all(-(2**63) <= number < 2**63 for number in hashes)
    assert hash_of_id(b"a1") != hash_of_id(b"b1")
    assert hash_of_id(b"x") == hash_of_id(b"x")
    for first in b"08@":
        places = [hash_of_id(b"%032X" % 77 + bytes((first + n,))) >> 6 for n in range(8)]
        assert places == list(range(places[0], places[0] + 8))


def test_every_byte_of_a_usual_id_counts_in_every_bit() -> None:
    """Wherever ids differ, the bits that say where they are differ half of the time."""
    chance = random.Random(1)
    bits = [bit for bit in range(63) if not 6 <= bit < 9]  # those of neighbours are the last byte's
    for place in range(31):
        flips = [0] * 63
        for _ in range(200):
            first = bytearray(chance.choices(b"0123456789ABCDEF", k=32))
            other = bytearray(first)
            other[place] ^= chance.choice((1, 2, 4, 8, 16, 128))
            different = hash_of_id(bytes(first)) ^ hash_of_id(bytes(other))
            for bit in bits:
                flips[bit] += different >> bit & 1
        assert all(50 < flips[bit] < 150 for bit in bits), (place, flips)


def test_a_hash_leads_to_what_was_put_last() -> None:
    """Offset 0 and hashes below 0 are like any others."""
    kept = Kept()
    for number in (number_of(0), number_of(-1), number_of(2**56), -(2**63), 2**63 - 1, 0):
        assert kept.find(number) == UNKNOWN
        assert not kept.put(number, 0)
        assert kept.find(number) == 0
        assert kept.put(number, 2**62)
        assert kept.find(number) == 2**62
    assert kept.table.used == 6


def test_hashes_that_are_the_same_in_their_slots_are_told_apart() -> None:
    """The order has all of their bits; none takes the slot of another one."""
    kept = Kept()
    numbers = [number_of(3) + _SAME * number for number in range(5)]
    for place, number in enumerate(numbers):
        assert kept.find(number) == UNKNOWN
        assert not kept.put(number, place)
    assert [kept.find(number) for number in numbers] == [0, 1, 2, 3, 4]
    assert kept.put(numbers[1], 7)
    kept.order.drop(1)
    assert [kept.find(number) for number in numbers] == [UNKNOWN, 7, 2, 3, 4]


def test_serial_numbers_may_pass_what_a_slot_has_bits_for() -> None:
    """What died four billions before seems to be alive, but is another one in the order."""
    kept = Kept(2**32 - BLOCK_IDS)
    numbers = [number_of(number * 77) for number in range(2 * BLOCK_IDS)]
    for place, number in enumerate(numbers):
        kept.put(number, place)
    assert [kept.find(number) for number in numbers] == list(range(2 * BLOCK_IDS))
    kept.order.drop(BLOCK_IDS + 10)
    found = [kept.find(number) for number in numbers]
    assert found == [UNKNOWN] * (BLOCK_IDS + 10) + list(range(BLOCK_IDS + 10, 2 * BLOCK_IDS))

    aged = Kept()
    aged.put(number_of(1), 100)
    aged.order.drop(1)
    aged.order = Kept(2**32).order
    aged.order.add(number_of(2), 200)
    assert aged.find(number_of(1)) == UNKNOWN
    assert not aged.put(number_of(1), 300)
    assert aged.find(number_of(1)) == 300


def test_what_has_left_the_order_is_dead() -> None:
    """Its slot is the next one's that passes it, or its own again."""
    kept = Kept()
    kept.put(number_of(1), 100)
    assert kept.find(number_of(1)) == 100
    kept.order.drop(1)
    assert kept.find(number_of(1)) == UNKNOWN
    assert not kept.put(number_of(1), 200)
    assert kept.find(number_of(1)) == 200
    kept.order.drop(1)
    assert not kept.put(number_of(1 + SLOTS_LEAST), 300)
    assert (kept.find(number_of(1)), kept.table.used) == (UNKNOWN, 1)


@pytest.mark.parametrize("first", range(SLOTS_LEAST))
@pytest.mark.parametrize("dead", range(1, 5))
def test_what_belongs_to_one_slot_is_found_when_some_of_it_died(first: int, dead: int) -> None:
    """Also where they go on at the begin of the table, with others between them; a new one comes
    to where a dead one was, and none of them is there twice."""
    kept = Kept()
    numbers = [number_of(first + SLOTS_LEAST * number) for number in range(3)]
    numbers[1:1] = [number_of(first + 1), number_of(first + 3)]
    for place, number in enumerate(numbers):
        kept.put(number, place)
    assert kept.table.slot_count == SLOTS_LEAST
    kept.order.drop(dead)
    expected = [UNKNOWN if place < dead else place for place in range(5)]
    assert [kept.find(number) for number in numbers] == expected
    assert not kept.put(numbers[0], 7)
    expected[0] = 7
    assert [kept.find(number) for number in numbers] == expected
    assert kept.table.used == 5


@pytest.mark.parametrize("seed", range(5))
def test_a_table_has_what_a_dict_would_have(seed: int) -> None:
    """Thousands of hashes, near to each other or not, that come, and go in their order; mostly but
    not always who puts one has looked for it."""
    chance = random.Random(seed)
    kept, expected = Kept(), dict[int, int]()
    bits = 8 if seed % 2 else 57
    floor = 0
    for step in range(20_000):
        floor = max(floor, step - chance.randrange(100, 20_000))
        kept.order.drop(floor - kept.order.begin)
        number = number_of(chance.getrandbits(bits))
        is_known = expected.get(number, UNKNOWN) >= floor
        if step % 3:
            assert kept.find(number) == (expected[number] if is_known else UNKNOWN)
        if step % 5 == 0:
            kept.find(number_of(chance.getrandbits(bits)))
        assert kept.put(number, step) == is_known
        expected[number] = step
        if step % 1_000 == 0:
            kept.table.tidy(kept.order)
    alive = {number: place for number, place in expected.items() if place >= floor}
    assert 0 < len(alive) < len(expected)
    for number in expected:
        assert kept.find(number) == alive.get(number, UNKNOWN)
    assert len(alive) <= kept.table.used <= kept.table.slot_count * 2 // 3


def test_a_table_grows_and_gives_its_room_back() -> None:
    """A third to two thirds of it are used while it grows; what died is left behind then."""
    kept = Kept()
    table, order = kept.table, kept.order
    for number in range(10_000):
        kept.put(number_of(number * 7_919), number)
        assert 3 * table.used <= 2 * table.slot_count
    assert table.slot_count == 16_384
    for number in range(10_000, 100_000):
        kept.put(number_of(number * 7_919), number)
        order.drop(max(0, order.count - 1_001))
    assert table.slot_count <= 4_096
    order.drop(order.count - 100)
    table.tidy(order)
    assert (table.slot_count, table.used) == (256, 100)
    order.drop(100)
    table.tidy(order)
    assert (table.slot_count, table.used) == (SLOTS_LEAST, 0)
    table.tidy(order)
    assert table.slot_count == SLOTS_LEAST
