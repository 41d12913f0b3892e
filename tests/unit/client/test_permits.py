"""What is under way is bounded by number and by bytes; who waits is served in order, or in time."""

import asyncio

import pytest

from roketto.client.permits import Permits


async def waiting(permits: Permits, size: int, timeout_s: float = 5.0) -> asyncio.Task[None]:
    task = asyncio.create_task(permits.take(size, timeout_s))
    await asyncio.sleep(0)
    return task


async def test_number_and_bytes_are_both_bounds() -> None:
    permits = Permits(2, 100)
    assert permits.try_take(60)
    assert not permits.try_take(41)
    assert permits.try_take(40)
    assert not permits.try_take(0)
    permits.give(60)
    assert permits.try_take(1)


async def test_those_who_wait_come_before_those_who_come_now() -> None:
    permits = Permits(1, 100)
    assert permits.try_take(10)
    first, second = await waiting(permits, 20), await waiting(permits, 30)
    permits.give(10)
    assert not permits.try_take(1)
    await first
    assert not second.done()
    permits.give(20)
    await second
    assert (permits.count, permits.bytes, permits.waiting) == (1, 30, 0)


async def test_what_is_larger_than_the_bound_goes_alone() -> None:
    permits = Permits(10, 100)
    assert permits.try_take(1)
    large = await waiting(permits, 5_000)
    assert not large.done()
    permits.give(1)
    await large
    assert not permits.try_take(1)


async def test_whoever_waits_too_long_is_told_and_lets_others_pass() -> None:
    permits = Permits(10, 100)
    assert permits.try_take(90)
    large, small = await waiting(permits, 50, 0.02), await waiting(permits, 10)
    assert not small.done()
    with pytest.raises(TimeoutError):
        await large
    await small
    assert (permits.count, permits.bytes) == (2, 100)


async def test_a_turn_that_comes_with_the_cancellation_is_given_back() -> None:
    permits = Permits(1, 100)
    assert permits.try_take(1)
    task = await waiting(permits, 1)
    permits.give(1)  # its turn; it has not run yet
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (permits.count, permits.bytes) == (0, 0)


async def test_the_end_of_all_can_be_awaited() -> None:
    permits = Permits(2, 100)
    assert await permits.wait_empty(0)
    assert permits.try_take(1)
    assert not await permits.wait_empty(0.01)
    end = asyncio.create_task(permits.wait_empty(5))
    await asyncio.sleep(0)
    permits.give(1)
    assert await end
