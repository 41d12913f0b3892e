"""Calls of threads into an event loop: how they get there, who waits, and who goes on when.

What a call does costs less than the changes of threads around it, so there are as few of them as
can be. The loop is woken once for all calls that come before it looks. Threads whose calls have
ended go on one after the other, each of which lets the next one go: all at once they would wait for
the lock of the interpreter, which wakes each of them a second time. While they do, the loop sleeps
on; it is woken by the last one, when the calls that they have made since are all there.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar

from roketto.client.errors import ClientClosedError
from roketto.clock import monotonic_s

__all__ = ["Call", "Crossing"]

T = TypeVar("T")

LOOK_S: Final = 0.5
"""How often whoever waits looks whether the loop is still there."""
_CANCEL_S: Final = 5.0
"""How long a call that is interrupted may take to end."""
_LINK_S: Final = 0.001
"""A thread that takes longer to go on has to share the processor with others that calculate: then
all others go at once, and are in time when it is their turn."""


class Call(Generic[T]):
    """A coroutine in the loop, and the thread that waits for it.

    result = Call(crossing, coroutine).wait()
    """

    __slots__ = ("_context", "_coroutine", "_crossing", "_ended", "_task", "is_left", "thread")

    def __init__(self, crossing: "Crossing", coroutine: Coroutine[Any, Any, T]) -> None:
        self._crossing = crossing
        self._coroutine = coroutine
        self._context = copy_context()
        self.thread = threading.get_ident()
        self._task: asyncio.Task[T] | None = None
        self._ended = threading.Lock()
        """Held until the thread may go on: an Event would be two of them."""
        self.is_left = False
        """Nobody waits any more."""

    def wait(self) -> T:
        """What the coroutine returns or raises; ClientClosedError if it was ended in the loop."""
        crossing = self._crossing
        self._ended.acquire()
        try:
            crossing.submit(self)
            while not self._ended.acquire(timeout=LOOK_S):
                crossing.look_after()
        except BaseException:  # KeyboardInterrupt, or whatever a signal's handler raises
            self._give_up()
            raise
        finally:
            self.is_left = True
            crossing.left(self)
        assert self._task is not None
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise _closed() from None

    def _give_up(self) -> None:
        """Cancel it, and let it clean up."""
        try:
            self._crossing.loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:  # the loop is closed
            self._coroutine.close()
        else:
            self._ended.acquire(timeout=_CANCEL_S)

    # --- in the loop ------------------------------------------------------------------------------

    def begin(self) -> None:
        self._task = self._crossing.loop.create_task(self._coroutine, context=self._context)
        self._task.add_done_callback(self._done)

    def _done(self, _: asyncio.Task[T]) -> None:
        self._crossing.end(self)

    def _cancel(self) -> None:
        if self._task is None:  # interrupted before it was begun
            self._crossing.forget(self)
            self._coroutine.close()
            self._ended.release()
        elif not self._task.cancel() and not self._task.cancelled():
            self._task.exception()  # nobody is told any more

    def go(self) -> None:
        """Let the thread go on."""
        self._ended.release()


class Crossing:
    """The way into one loop and back. ``check`` raises if nothing will come of a wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, check: Callable[[], None]) -> None:
        self.loop = loop
        self._check = check
        self._waiting: deque[Call[Any]] = deque()
        """Not begun yet."""
        self._is_expected = False
        """The loop is about to look for those."""
        self._ended: deque[Call[Any]] = deque()
        """Whose threads may go on, when it is their turn."""
        self._going: Call[Any] | None = None
        """Whose thread goes on, and lets the next one go then."""
        self._moved_s: float = 0.0
        """Since when it may."""

    # --- in any thread ----------------------------------------------------------------------------

    def submit(self, call: Call[Any]) -> None:
        """Have a call begun; ClientClosedError if that cannot be."""
        self._waiting.append(call)
        going = self._going
        if going is None or going.thread == call.thread:  # it was interrupted by a signal's handler
            self._wake()

    def left(self, call: Call[Any]) -> None:
        """The thread of a call goes on: so may the next one."""
        if self._going is not call:
            return
        if monotonic_s() - self._moved_s > _LINK_S:
            self._let_all_go()
        else:
            self._let_next_go()

    def look_after(self) -> None:
        """For whoever has waited for long: somebody may have gone without a word."""
        self._check()
        if monotonic_s() - self._moved_s > LOOK_S:
            self._let_all_go()

    def _let_next_go(self) -> None:
        self._going = None
        while (call := self._next()) is not None:
            if not call.is_left:
                self._moved_s = monotonic_s()
                self._going = call
                call.go()
                return
        if self._waiting:  # they rely on whoever is the last
            with suppress(ClientClosedError):
                self._wake()

    def _let_all_go(self) -> None:
        self._going = None
        while (call := self._next()) is not None:
            call.go()
        if self._waiting:
            with suppress(ClientClosedError):
                self._wake()

    def _next(self) -> Call[Any] | None:
        try:
            return self._ended.popleft()
        except IndexError:
            return None

    def _wake(self) -> None:
        if self._is_expected:
            return
        self._is_expected = True
        try:
            self.loop.call_soon_threadsafe(self._look)
        except RuntimeError as error:
            self._is_expected = False
            raise _closed() from error

    # --- in the loop ------------------------------------------------------------------------------

    def _look(self) -> None:
        self._is_expected = False  # first: who comes later wakes it again
        waiting = self._waiting
        while waiting:
            waiting.popleft().begin()

    def end(self, call: Call[Any]) -> None:
        """A call has ended: its thread goes on behind those that were there before."""
        self._ended.append(call)
        if self._going is None:
            self._let_next_go()
        elif self._waiting and not self._is_expected:  # now that it is awake
            self._is_expected = True
            self.loop.call_soon(self._look)

    def forget(self, call: Call[Any]) -> None:
        """Do not begin it."""
        with suppress(ValueError):
            self._waiting.remove(call)


def _closed() -> ClientClosedError:
    return ClientClosedError("stopped by somebody else while a call was under way")
