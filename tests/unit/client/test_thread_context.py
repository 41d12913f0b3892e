"""A context that blocks is entered and left for a coroutine, whatever becomes of that meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from roketto.client.thread_context import in_threads


class Slow:
    """Says what happens to it, and waits for ``proceed`` in between."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.begun = threading.Event()
        self.proceed = threading.Event()

    @contextmanager
    def context(self) -> Iterator[str]:
        assert threading.current_thread() is not threading.main_thread()
        self.begun.set()
        self.proceed.wait(5)
        self.events.append("entered")
        try:
            yield "value"
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise
        self.events.append("left")


async def end_threads() -> None:
    await asyncio.get_running_loop().shutdown_default_executor()


async def test_the_block_gets_the_value_and_its_error_goes_on() -> None:
    slow = Slow()
    slow.proceed.set()
    async with in_threads(slow.context()) as value:
        assert value == "value"
    with pytest.raises(ZeroDivisionError):
        async with in_threads(slow.context()):
            _ = 1 / 0
    assert slow.events == ["entered", "left", "entered", "ZeroDivisionError"]
    await end_threads()


async def test_who_is_cancelled_while_it_enters_leaves_it_again() -> None:
    slow = Slow()

    async def use() -> None:
        async with in_threads(slow.context()):
            slow.events.append("never")

    task = asyncio.create_task(use())
    while not slow.begun.is_set():  # noqa: ASYNC110 (it is set by a thread)
        await asyncio.sleep(0.001)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done(), "the thread is still at it"
    slow.proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.events == ["entered", "CancelledError"]
    await end_threads()


async def test_who_is_cancelled_while_it_leaves_has_left_it() -> None:
    leaving, left, proceed = threading.Event(), threading.Event(), threading.Event()

    @contextmanager
    def slow_to_leave() -> Iterator[None]:
        yield
        leaving.set()
        proceed.wait(5)
        left.set()

    async def use() -> None:
        async with in_threads(slow_to_leave()):
            pass

    task = asyncio.create_task(use())
    while not leaving.is_set():  # noqa: ASYNC110 (it is set by a thread)
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0)
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left.is_set()
    await end_threads()


async def test_an_error_on_the_way_in_is_raised() -> None:
    @contextmanager
    def broken() -> Iterator[None]:
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        async with in_threads(broken()):
            pass
    await end_threads()
