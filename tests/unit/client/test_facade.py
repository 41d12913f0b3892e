"""Blocking objects start, stop, wait, iterate and complain as those that they are made of."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from roketto.client.errors import ClientClosedError, ClientError, NotStartedError
from roketto.client.facade import Facade, Life, LivingFacade, inner_of


class Shop:
    """Something of the asyncio API."""

    def __init__(self) -> None:
        self.group = "shop"
        self.said: list[str] = []
        self.is_broken = False
        self.stopping_s = 0.0

    async def start(self) -> None:
        self.said.append("start")
        if self.is_broken:
            raise ClientError("no door")

    async def stop(self) -> None:
        await asyncio.sleep(self.stopping_s)
        self.said.append("stop")

    async def sell(self, what: str) -> str:
        return f"sold {what}"

    def __aiter__(self) -> AsyncIterator[int]:
        return self._numbers()

    async def _numbers(self) -> AsyncIterator[int]:
        try:
            for number in range(3):
                yield number
            await asyncio.sleep(60)
        finally:
            self.said.append("closed")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        self.said.append("enter")
        try:
            yield
        except KeyError:
            self.said.append("swallowed")


class BlockingShop(LivingFacade[Shop]):
    """As dev_tools/make_blocking.py would write it."""

    def __init__(self, inner: Shop) -> None:
        self._hold(inner)

    def sell(self, what: str) -> str:
        return self._run(self._inner.sell(what))

    def sell_early(self, what: str) -> str:
        return self._run_early(self._inner.sell(what))

    def thread(self) -> int:
        return self._call(threading.get_ident)

    def __iter__(self) -> Iterator[int]:
        return self._iterate(self._inner.__aiter__, _as_it_is)


def _as_it_is(number: int, life: Life) -> int:
    return number


def threads() -> int:
    return sum(thread.name == "roketto-blocking" for thread in threading.enumerate())


def test_it_works_from_start_to_stop_only() -> None:
    shop = BlockingShop(Shop())
    with pytest.raises(NotStartedError, match=r"Shop shop is not started: use it with `with`"):
        shop.sell("tea")
    shop.stop()
    assert shop.sell_early("tea") == "sold tea"
    shop.stop()  # what came before the start may have opened something
    assert shop.thread() == threading.get_ident()  # nobody else can be there yet
    assert threads() == 0
    with shop:
        assert shop.sell("tea") == "sold tea"
        assert shop.thread() != threading.get_ident()
        assert repr(shop) == "<blocking Shop shop>"
        shop.start()
    with pytest.raises(ClientClosedError, match=r"Shop shop was stopped; make a new one"):
        shop.sell("tea")
    shop.stop()
    assert shop._inner.said == ["stop", "start", "stop"]
    assert threads() == 0


def test_a_start_that_fails_leaves_nothing() -> None:
    inner = Shop()
    inner.is_broken = True
    shop = BlockingShop(inner)
    with pytest.raises(ClientError, match="no door"):
        shop.start()
    assert threads() == 0
    with pytest.raises(NotStartedError):
        shop.sell("tea")


def test_two_that_stop_both_wait_for_the_end() -> None:
    inner = Shop()
    inner.stopping_s = 0.05
    shop = BlockingShop(inner)
    seen: list[list[str]] = []

    def stop() -> None:
        shop.stop()
        seen.append(list(inner.said))

    shop.start()
    stoppers = [threading.Thread(target=stop) for _ in range(3)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join(10)
    assert seen == [["start", "stop"]] * 3
    assert threads() == 0


def test_an_iterator_is_closed_when_its_loop_is_left() -> None:
    with BlockingShop(Shop()) as shop:
        for number in shop:
            if number == 1:
                break
        assert shop._inner.said == ["start", "closed"]


def test_a_stop_by_another_ends_an_iteration() -> None:
    shop = BlockingShop(Shop())
    shop.start()
    numbers = iter(shop)
    assert [next(numbers) for _ in range(3)] == [0, 1, 2]
    stopper = threading.Timer(0.02, shop.stop)
    stopper.start()
    assert list(numbers) == []
    stopper.join(10)
    assert shop._inner.said == ["start", "stop", "closed"]
    assert list(shop) == []


def test_a_context_belongs_to_a_block() -> None:
    """Also where it takes an exception, or does not."""
    with BlockingShop(Shop()) as shop:
        with shop._entered(shop._inner.open()):
            raise KeyError
        with pytest.raises(ValueError, match="mine"), shop._entered(shop._inner.open()):
            raise ValueError("mine")
        with shop._entered(shop._inner.open()):
            pass
        assert shop._inner.said == ["start", "enter", "swallowed", "enter", "enter"]


def test_only_blocking_objects_are_taken() -> None:
    inner = Shop()
    assert inner_of(BlockingShop(inner)) is inner
    assert inner_of(None) is None
    given: object = inner
    with pytest.raises(ClientError, match=r"of the asyncio API .* roketto\.client\.blocking"):
        inner_of(given)  # type: ignore[call-overload]  # what is tried here


def test_a_part_lives_as_long_as_its_owner() -> None:
    class Till(Facade[Shop]):
        def sell(self, what: str) -> str:
            return self._run(self._inner.sell(what))

    shop = BlockingShop(Shop())
    till = Till._of(shop._inner, shop._life)
    with pytest.raises(NotStartedError):
        till.sell("tea")
    with shop:
        assert till.sell("tea") == "sold tea"
