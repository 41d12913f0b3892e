"""A loop over messages says what became of each, and begins none before it is wanted."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from roketto.client.iteration import Iteration, OpenMessage
from roketto.client.listeners import ConsumeContext, ConsumeResult, NotBegunError
from unit.client.push_parts import LATER, SUCCESS, message, name, until


class Supply:
    """A consumption in small: gives messages as turns are asked for, and notes the answers."""

    def __init__(self, iteration: Iteration, count: int) -> None:
        self.iteration = iteration
        self.results: dict[int, ConsumeResult | None] = {}
        self.levels: dict[int, int] = {}
        self.begun = 0
        self.tasks = [asyncio.create_task(self._work(list(range(count))[n::2])) for n in range(2)]

    async def _work(self, offsets: list[int]) -> None:
        for offset in offsets:
            await self.iteration.acquire()
            self.begun += 1
            context = ConsumeContext(name())
            try:
                self.results[offset] = await self.iteration.listen([message(offset)], context)
            except NotBegunError:
                self.results[offset] = None
            self.levels[offset] = context.delay_level
            self.iteration.release(is_used=True)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def supply() -> AsyncIterator[Supply]:
    made = Supply(Iteration(), 6)
    yield made
    await made.end()


async def test_asking_for_the_next_acknowledges_the_one_before(supply: Supply) -> None:
    messages = supply.iteration.messages()
    first = await anext(messages)
    assert (supply.begun, supply.results) == (1, {})
    second = await anext(messages)
    await until(lambda: supply.results == {first.queue_offset: SUCCESS})
    second.later(delay_level=4)
    second.ack()  # too late
    await anext(messages)
    await until(lambda: len(supply.results) == 2)
    assert supply.results[second.queue_offset] is LATER
    assert supply.levels[second.queue_offset] == 4
    assert supply.begun == 3


async def test_a_body_that_raises_or_leaves_gives_its_message_back(supply: Supply) -> None:
    async def take(error: Exception | None) -> OpenMessage:
        async for one in supply.iteration.messages():
            if error is not None:
                raise error
            return one
        raise AssertionError("there was none")

    left = await take(None)
    await until(lambda: supply.results == {left.queue_offset: LATER})
    with pytest.raises(ZeroDivisionError):
        await take(ZeroDivisionError())
    await until(lambda: list(supply.results.values()) == [LATER, LATER])


async def test_several_tasks_may_share_the_messages(supply: Supply) -> None:
    seen: list[int] = []

    async def work() -> None:
        async for one in supply.iteration.messages():
            seen.append(one.queue_offset)
            await asyncio.sleep(0)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    await until(lambda: len(supply.results) == 6)
    supply.iteration.close()
    await asyncio.gather(*workers)
    assert sorted(seen) == list(range(6))


async def test_a_message_that_nobody_waits_for_any_more_is_for_the_next(supply: Supply) -> None:
    """And at the end it is neither consumed nor given back."""
    for task in supply.tasks:
        task.cancel()
    iteration = Iteration()
    waiting = asyncio.ensure_future(anext(iteration.messages()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    slow = Supply(iteration, 3)
    await until(lambda: slow.begun == 1)
    messages = iteration.messages()
    first = await anext(messages)
    assert (first.queue_offset, slow.begun) == (0, 1)
    waiting = asyncio.ensure_future(anext(iteration.messages()))
    await asyncio.sleep(0)
    waiting.cancel()
    await until(lambda: slow.begun == 2)
    iteration.close()
    await until(lambda: slow.results.get(1, SUCCESS) is None)
    with pytest.raises(StopAsyncIteration):
        await anext(messages)
    await until(lambda: slow.results.get(0) is SUCCESS)
    await slow.end()


async def test_a_loop_ends_when_its_consumer_stops() -> None:
    iteration = Iteration()
    asyncio.get_running_loop().call_later(0.01, iteration.close)
    assert [one async for one in iteration.messages()] == []
    with pytest.raises(NotBegunError):
        await iteration.listen([message(0)], ConsumeContext(name()))
