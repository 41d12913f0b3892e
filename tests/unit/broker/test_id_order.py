"""Ids leave in the order they came, one by one or many at once; those that are left are found."""

import random
from collections import deque

from roketto.broker.id_order import BLOCK_IDS, IdOrder


def test_what_came_first_is_forgotten_first() -> None:
    """Over the ends of blocks, down to none and on again, against the obvious way to do it."""
    drawn = random.Random(3)
    order = IdOrder()
    held: deque[tuple[int, int]] = deque()
    seen = 0
    for step in range(2_000):
        for _ in range(drawn.randrange(BLOCK_IDS)):
            seen += 1
            held.append((hash(seen * 7.5), seen * 300))
            order.add(*held[-1])
        count = len(held) if step % 50 == 0 else drawn.randrange(len(held) + 1)
        order.drop(count)
        for _ in range(count):
            held.popleft()
        assert order.count == len(held)
        assert (order.begin, order.end) == (seen - len(held), seen)
        for at in {0, len(held) // 3, len(held) - 1} if held else ():
            serial = order.begin + at
            assert (order.number_of(serial), order.place_of(serial)) == held[at]
    assert seen > 100 * BLOCK_IDS


def test_those_below_a_place_are_counted_up_to_the_end_of_a_block() -> None:
    """From the first that is left; there may be more of them in the next block."""
    order = IdOrder()
    assert order.count_below(1_000, 10) == 0
    for number in range(BLOCK_IDS + 10):
        order.add(-number, number * 100)
    assert order.count_below(0, 10) == 0
    assert order.count_below(401, 10) == 5
    assert order.count_below(401, 3) == 3
    order.drop(4)
    assert order.count_below(401, 10) == 1
    assert order.count_below(10**9, 10**6) == BLOCK_IDS - 4
    order.drop(BLOCK_IDS - 4)
    assert order.count_below(10**9, 10**6) == 10


def test_blocks_that_were_read_are_let_go() -> None:
    order = IdOrder()
    for number in range(10 * BLOCK_IDS):
        order.add(number, number)
    assert len(order._blocks) == 9  # besides the first and the last
    order.drop(10 * BLOCK_IDS)
    assert (order.count, len(order._blocks)) == (0, 0)
    assert order._first is order._last
