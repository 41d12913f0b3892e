"""Threads wake the loop, and are let go, as seldom as can be, and none of them is left behind."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest

from roketto.client.crossing import LOOK_S, Call, Crossing
from roketto.client.errors import ClientClosedError


class Loop:
    """What a crossing needs of a loop; ``turn`` does what was asked for."""

    def __init__(self) -> None:
        self.is_closed = False
        self.wakes = 0
        self.soon: list[Callable[[], object]] = []
        self.begun: list[str] = []
        self.names: dict[Coroutine[Any, Any, Any], str] = {}

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        if self.is_closed:
            raise RuntimeError("Event loop is closed")
        self.wakes += 1
        self.soon.append(callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **options: object) -> "Task":
        self.begun.append(self.names[coroutine])
        return Task()

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Task:
    """One that is over as soon as the test says so."""

    def add_done_callback(self, callback: object) -> None:
        return


class Rig:
    """A crossing into such a loop, with calls that wait as if each had a thread."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.checks = 0
        self._threads = 0
        self.calls: list[Call[None]] = []
        self.crossing = Crossing(cast("asyncio.AbstractEventLoop", self.loop), self.check)

    def check(self) -> None:
        self.checks += 1

    def call(self, name: str = "call", thread: int | None = None) -> Call[None]:
        async def work() -> None:
            return

        coroutine = work()
        self.loop.names[coroutine] = name
        call = Call(self.crossing, coroutine)
        self._threads -= 1
        call.thread = self._threads if thread is None else thread
        call._ended.acquire()
        return call

    def ended(self, count: int) -> list[Call[None]]:
        """So many calls that end in one turn of the loop."""
        calls = [self.call() for _ in range(count)]
        for call in calls:
            self.crossing.end(call)
        return calls

    def close(self) -> None:
        for coroutine in self.loop.names:
            coroutine.close()


def gone(calls: list[Call[None]]) -> list[bool]:
    """Whose threads may go on."""
    return [not call._ended.locked() for call in calls]


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.close()


def test_the_loop_is_woken_once_for_all_that_comes_before_it_looks(rig: Rig) -> None:
    for name in "abc":
        rig.crossing.submit(rig.call(name))
    assert rig.loop.wakes == 1
    rig.loop.turn()
    assert rig.loop.begun == ["a", "b", "c"]
    rig.crossing.submit(rig.call("d"))
    assert rig.loop.wakes == 2


def test_a_thread_that_goes_on_lets_the_next_one_go(rig: Rig) -> None:
    calls = rig.ended(3)
    assert gone(calls) == [True, False, False]
    rig.crossing.left(calls[0])
    assert gone(calls) == [True, True, False]
    rig.crossing.left(calls[1])
    rig.crossing.left(calls[2])
    assert gone(calls) == [True, True, True]
    assert gone(rig.ended(1)) == [True]


def test_the_last_one_wakes_the_loop_for_what_all_have_called_since(rig: Rig) -> None:
    calls = rig.ended(2)
    rig.crossing.left(calls[0])
    rig.crossing.submit(rig.call("a"))
    assert rig.loop.wakes == 0
    rig.crossing.left(calls[1])
    assert rig.loop.wakes == 1
    rig.crossing.submit(rig.call("b"))
    rig.loop.turn()
    assert (rig.loop.wakes, rig.loop.begun) == (1, ["a", "b"])


def test_a_call_of_a_signal_handler_waits_for_nobody(rig: Rig) -> None:
    """The thread that was to go on is its own, and goes on when the handler has returned."""
    calls = rig.ended(2)
    calls[0].thread = threading.get_ident()
    rig.crossing.submit(rig.call("handler", threading.get_ident()))
    assert rig.loop.wakes == 1


def test_a_loop_that_is_awake_looks_without_being_woken(rig: Rig) -> None:
    rig.ended(2)
    rig.crossing.submit(rig.call("a"))
    rig.ended(1)
    rig.ended(1)
    assert len(rig.loop.soon) == 1
    rig.loop.turn()
    assert (rig.loop.wakes, rig.loop.begun) == (0, ["a"])


def test_one_that_was_slow_to_go_on_lets_all_others_go(rig: Rig) -> None:
    """Whoever calculates has the interpreter for milliseconds: that is not for each of them."""
    calls = rig.ended(4)
    rig.crossing.submit(rig.call("a"))
    threading.Event().wait(0.002)
    rig.crossing.left(calls[0])
    assert gone(calls) == [True] * 4
    assert rig.loop.wakes == 1
    rig.crossing.left(calls[1])
    assert gone(rig.ended(2)) == [True, False]


def test_one_that_nobody_waits_for_is_passed_over(rig: Rig) -> None:
    calls = rig.ended(3)
    calls[1].is_left = True
    rig.crossing.left(calls[0])
    assert gone(calls) == [True, False, True]
    rig.crossing.left(calls[1])  # it was not its turn
    assert gone(rig.ended(1)) == [False]


def test_whoever_waits_for_long_lets_all_go(rig: Rig) -> None:
    """Somebody may have gone on without a word, by an interrupt in the wrong moment."""
    calls = rig.ended(2)
    rig.crossing.look_after()
    assert gone(calls) == [True, False]
    rig.crossing._moved_s -= 2 * LOOK_S
    rig.crossing.look_after()
    assert gone(calls) == [True, True]
    assert rig.checks == 2


def test_a_loop_that_is_closed_takes_no_calls(rig: Rig) -> None:
    """Those who find it closed while they go on need not know: others wait, and look."""
    calls = rig.ended(1)
    rig.crossing.submit(rig.call())
    rig.loop.is_closed = True
    rig.crossing.left(calls[0])
    with pytest.raises(ClientClosedError, match="stopped by somebody else"):
        Call(rig.crossing, asyncio.sleep(0)).wait()


def test_one_that_was_not_begun_is_forgotten(rig: Rig) -> None:
    first, second = rig.call("a"), rig.call("b")
    rig.crossing.submit(first)
    rig.crossing.submit(second)
    rig.crossing.forget(first)
    rig.crossing.forget(first)
    rig.loop.turn()
    assert rig.loop.begun == ["b"]
