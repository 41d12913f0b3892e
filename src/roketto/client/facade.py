"""What blocking objects are made of: an object of the asyncio API, and its life in the portal.

Their classes are written by ``./dev blocking``, from those of the asyncio API. What is here is what
they have in common.
"""

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from roketto.client import iteration
from roketto.client.errors import ClientClosedError, ClientError, NotStartedError
from roketto.client.portal import Portal, enter

__all__ = ["ContextFacade", "Facade", "Life", "LivingFacade", "OpenMessage", "inner_of"]

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


class Startable(Protocol):
    """What is started and stopped."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Enterable(Protocol):
    """What is entered and left."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None, /,
    ) -> None: ...  # fmt: skip


T = TypeVar("T")
S = TypeVar("S", bound=Startable)
C = TypeVar("C", bound=Enterable)


class Life:
    """One object's way through the portal: it is there from ``start`` to ``stop``.

    Any thread may call anything. Two that start or stop the same object do it one after the other.
    """

    def __init__(self, inner: Startable) -> None:
        self._inner = inner
        self._portal: Portal | None = None
        self._lock = threading.RLock()  # a signal's handler may stop what is being started
        self._was_started = False
        self._was_early = False
        """Whether something was done without a start that may have to be stopped."""

    def __repr__(self) -> str:
        group = getattr(self._inner, "group", None)
        return type(self._inner).__name__ + (f" {group}" if group else "")

    def start(self) -> None:
        with self._lock:
            if self._portal is not None:
                self._portal.check()
                return
            self._portal = portal = enter(self)
            try:
                portal.run(self._inner.start())
            except BaseException:
                self._leave(portal)
                raise
            self._was_started, self._was_early = True, False

    def stop(self) -> None:
        portal = self._portal
        if portal is None:
            if self._was_early:
                self.run_early(self._inner.stop())
                self._was_early = False
            return
        if portal.is_forked:  # it is the parent's
            return
        if portal.is_here:
            portal.check()
        with self._lock:
            if self._portal is not portal:  # another thread was quicker
                return
            try:
                if portal.is_alive:
                    portal.run(self._inner.stop())
            finally:
                self._leave(portal)

    def _leave(self, portal: Portal) -> None:
        self._portal = None
        portal.leave(self)

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """What a coroutine returns or raises."""
        portal = self._portal
        if portal is None:
            coroutine.close()
            raise self._not_open()
        return portal.run(coroutine)

    def run_early(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """The same of what may come before the start, too."""
        if self._portal is not None:
            return self._portal.run(coroutine)
        self._was_early = True
        portal = enter(self)
        try:
            return portal.run(coroutine)
        finally:
            portal.leave(self)

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call what does not wait: in the loop if that is running, as nothing there has locks."""
        portal = self._portal
        if portal is None:
            return function(*args, **kwargs)
        return portal.call(function, *args, **kwargs)

    def close(self, items: AsyncIterator[Any]) -> None:
        """Be done with an iterator before its end."""
        portal, close = self._portal, getattr(items, "aclose", None)
        if portal is None or close is None or portal.is_forked or portal.is_here:
            return  # its loop closes it when it is forgotten
        with suppress(ClientClosedError):  # it is stopped this moment, and what was open with it
            portal.run(close())

    def _not_open(self) -> ClientError:
        if self._was_started:
            return ClientClosedError(f"{self!r} was stopped; make a new one")
        return NotStartedError(
            f"{self!r} is not started: use it with `with`, or call its start() first"
        )


class Facade(Generic[T]):
    """Something of the asyncio API, whose methods wait."""

    _inner: T
    _life: Life

    @classmethod
    def _of(cls, inner: Any, life: Life) -> Self:
        """For what belongs to another object, and lives as long."""
        made = cls.__new__(cls)
        made._inner = inner
        made._life = life
        return made

    def __repr__(self) -> str:
        return f"<blocking {self._inner!r}>"

    def _run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return self._life.run(coroutine)

    def _run_early(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return self._life.run_early(coroutine)

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return self._life.call(function, *args, **kwargs)

    def _next(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """The next of those that the object itself iterates over."""
        try:
            return self._run(coroutine)
        except (StopAsyncIteration, ClientClosedError):
            raise StopIteration from None

    def _iterate(
        self, make: Callable[[], AsyncIterator[R]], wrap: Callable[[R, Life], W]
    ) -> Iterator[W]:
        """All of those that it makes an iterator for, until it stops."""
        return _iterate(self._life, self._call(make), wrap)

    @contextmanager
    def _entered(self, context: AbstractAsyncContextManager[Any]) -> Iterator[None]:
        """Something that belongs to it, in a ``with`` block."""
        self._run(context.__aenter__())
        try:
            yield
        except BaseException as error:
            if not self._run(context.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(context.__aexit__(None, None, None))


def _iterate(life: Life, items: AsyncIterator[R], wrap: Callable[[R, Life], W]) -> Iterator[W]:
    end = object()

    async def following() -> Any:
        return await anext(items, end)

    try:
        while (item := life.run(following())) is not end:
            yield wrap(item, life)
    except ClientClosedError:
        return
    finally:
        life.close(items)


class ContextFacade(Facade[C]):
    """Something that is entered and left with ``with``."""

    def __enter__(self) -> Self:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._run(self._inner.__aexit__(kind, error, trace))


class LivingFacade(Facade[S]):
    """Something that is started and stopped, also with ``with``."""

    def _hold(self, inner: S) -> None:
        self._inner = inner
        self._life = Life(inner)

    def __repr__(self) -> str:
        return f"<blocking {self._life!r}>"

    def start(self) -> None:
        """Begin; once is enough."""
        self._life.start()

    def stop(self) -> None:
        """End, also from another thread, and wait for it. Once is enough."""
        self._life.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class OpenMessage(iteration.OpenMessage):
    """A message that somebody has to say something of, in any thread."""

    __slots__ = ("_life",)

    def __init__(self, message: iteration.OpenMessage, life: Life) -> None:
        super().__init__(message, message._context, message._said)
        self._life = life

    def ack(self) -> None:
        """It is consumed."""
        self._life.call(super().ack)

    def later(self, delay_level: int = 0) -> None:
        """It is wanted again; ``delay_level`` as in ConsumeContext."""
        self._life.call(super().later, delay_level)


@overload
def inner_of(facade: Facade[T]) -> T: ...


@overload
def inner_of(facade: None) -> None: ...


def inner_of(facade: Facade[T] | None) -> T | None:
    """What a blocking object is made of, for the asyncio API; ClientError if it is none."""
    if facade is None:
        return None
    given: object = facade
    if not isinstance(given, Facade):
        raise ClientError(
            f"{facade!r} is of the asyncio API and has a loop of its own; give the one of the same"
            " name of roketto.client.blocking"
        )
    return facade._inner
