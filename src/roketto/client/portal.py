"""One event loop in a thread of its own, in which blocking calls have their coroutines run.

A process has one, as long as somebody is in it: the first who enters starts the thread, the last
who leaves ends it. Whoever waits can be interrupted (Ctrl-C), which cancels what was waited for.
After a fork the child has no such thread; what was started before says so, and what is started then
gets a portal of its own.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from roketto.client.crossing import Call, Crossing
from roketto.client.errors import ClientClosedError, ClientError
from roketto.remoting.loop import run

__all__ = ["ForkedError", "Portal", "SelfWaitError", "enter"]

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_START_S: Final = 10.0
_END_S: Final = 10.0
"""How long the thread may take to start and to end."""


class ForkedError(ClientError):
    """Something was started before a fork, and belongs to the parent."""


class SelfWaitError(ClientError):
    """A blocking call in the event loop that would have to carry it out."""


class User(Protocol):
    """Whoever is in the portal; the end of the program stops what is left there."""

    def stop(self) -> None: ...


class Portal:
    """A loop and its thread, from the first ``enter`` to the last ``leave``.

    portal = enter(user)
    try:
        result = portal.run(producer.send(message))
    finally:
        portal.leave(user)
    """

    def __init__(self) -> None:
        self.users: list[User] = []
        self.is_forked = False
        self.is_alive = False
        """Its thread takes calls. Every call asks for that, and a Thread takes its time to say."""
        self._ident = 0
        self.loop: asyncio.AbstractEventLoop
        self._crossing: Crossing
        self._stopping: asyncio.Event
        self._ready: Future[None] = Future()
        # A program that ends without stopping its clients must not hang.
        self._thread = threading.Thread(target=self._main, name="roketto-blocking", daemon=True)

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        self.is_alive = True
        self._thread.start()
        self._ready.result(_START_S)

    def leave(self, user: User) -> None:
        """Be done with it; whoever is the last waits for the end of the thread."""
        if self.is_forked:
            return
        with _process.lock:
            self.users.remove(user)
            if self.users:
                return
            if _process.portal is self:
                _process.portal = None
        self.end()

    def end(self) -> None:
        with suppress(RuntimeError, AttributeError):  # it has ended, or has not even begun
            self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_END_S)
        if self._thread.is_alive():
            log.warning(
                "the event loop of blocking clients has not ended after %g s, as something in it"
                " does not let go; its thread ends with the program", _END_S,
            )  # fmt: skip

    def _main(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                log.exception("the event loop of blocking clients has ended")
        finally:
            self.is_alive = False

    async def _serve(self) -> None:
        self._ident = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        self._crossing = Crossing(self.loop, self.check)
        self._stopping = asyncio.Event()
        self._ready.set_result(None)
        await self._stopping.wait()

    @property
    def is_here(self) -> bool:
        """Whether this is its own thread."""
        return threading.get_ident() == self._ident

    # --- use --------------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for what it returns or raises."""
        try:
            self.check()
        except ClientError:
            coroutine.close()
            raise
        return Call(self._crossing, coroutine).wait()

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the loop, which does not wait."""
        if self.is_here:
            return function(*args, **kwargs)

        async def work() -> T:
            return function(*args, **kwargs)

        return self.run(work())

    def check(self) -> None:
        """ClientError unless this thread may wait for something in the loop."""
        if self.is_forked:
            raise ForkedError(
                f"this was started before process {os.getpid()} was forked, and its connections are"
                " the parent's; make a new one here, after the fork"
            )
        if self.is_here:
            raise SelfWaitError(
                "a blocking call was made in the event loop that has to carry it out, and would"
                " wait for itself. A listener that is a plain function has a thread of its own and"
                " may block; a coroutine function, a hook or a selector may not"
            )
        if not self.is_alive:
            raise ClientClosedError("the event loop of blocking clients has ended; make a new one")


# --- the one of this process ----------------------------------------------------------------------


class _Process:
    """What a process has once."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may stop somebody while it is held
        self.portal: Portal | None = None


_process = _Process()


def enter(user: User) -> Portal:
    """The portal of this process; ``user`` is in it until it leaves."""
    with _process.lock:
        portal = _process.portal
        if portal is None or not portal.is_alive:
            portal = Portal()
            try:
                portal.start()
            except BaseException:
                portal.end()
                raise
            _process.portal = portal
        portal.users.append(user)
        return portal


def _forget() -> None:
    """In the child after a fork: the thread stayed with the parent, perhaps with the lock."""
    if _process.portal is not None:
        _process.portal.is_forked = True
    _process.lock, _process.portal = threading.RLock(), None


def _stop_all() -> None:
    """At the end of the program: what was not stopped is stopped now, and keeps its offsets."""
    portal = _process.portal
    for user in () if portal is None else list(portal.users):
        log.warning("%r was not stopped before the end of the program, and is now", user)
        try:
            user.stop()
        except Exception:
            log.exception("%r cannot be stopped", user)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
atexit.register(_stop_all)
