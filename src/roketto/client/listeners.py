"""Listeners: what consumes messages, what it may answer, and how it is called.

A coroutine function runs in the loop. A plain function may block, and runs in one of a bounded
number of threads. Whatever a listener raises is an answer, too: it wants the messages again later.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from enum import Enum
from functools import partial
from types import CoroutineType, coroutine
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from roketto.client.message import MessageQueue
from roketto.client.received import ReceivedMessage
from roketto.clock import monotonic_s

__all__ = [
    "Called", "ConsumeContext", "ConsumeHook", "ConsumeResult", "Consumed", "Listener",
    "ListenerCalls", "NotBegunError", "Verdict",
]  # fmt: skip

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

ALL: Final = 2**31 - 1
"""Java's Integer.MAX_VALUE: an index behind the last message of any batch."""


class ConsumeResult(Enum):
    """What a listener answers."""

    SUCCESS = "SUCCESS"
    LATER = "LATER"
    """Again later. Where a queue is consumed in order, all of it waits."""
    SUSPEND = "LATER"  # noqa: PIE796 (it is the same)
    """Another name of it, as Java calls it there."""
    COMMIT = "COMMIT"
    """In order and without ``auto_commit``: this one, and all before it, are consumed."""
    ROLLBACK = "ROLLBACK"
    """In order and without ``auto_commit``: all since the last commit are wanted again."""


class ConsumeContext:
    """What goes with a call of a listener; it may change what is said of its answer."""

    __slots__ = ("ack_index", "auto_commit", "delay_level", "queue", "suspend_ms")

    def __init__(
        self,
        queue: MessageQueue,
        delay_level: int = 0,
        ack_index: int = ALL,
        auto_commit: bool = True,
        suspend_ms: int = -1,
    ) -> None:
        self.queue = queue
        """Where the messages are from; of retries that is the retry topic."""
        self.delay_level = delay_level
        """When messages come again that are given back: 0 lets the broker choose, longer each time;
        1 and more is that delay level; -1 makes dead letters of them at once."""
        self.ack_index = ack_index
        """With SUCCESS, the index of the last message that was consumed: those behind it come
        again."""
        self.auto_commit = auto_commit
        """In order: whether SUCCESS commits. Without, COMMIT does."""
        self.suspend_ms = suspend_ms
        """In order: how long the queue waits before it is tried again; -1 as the consumer is
        set."""

    def __repr__(self) -> str:
        return (
            f"ConsumeContext({self.queue!r}, delay_level={self.delay_level},"
            f" ack_index={self.ack_index}, auto_commit={self.auto_commit},"
            f" suspend_ms={self.suspend_ms})"
        )


Answer = ConsumeResult | None
Listener = Callable[[list[ReceivedMessage], ConsumeContext], Answer | Awaitable[Answer]]
"""A function or coroutine function. Who returns None gets the messages again, as in Java."""


class NotBegunError(Exception):
    """Raised instead of an answer: nobody has seen the messages, and they stay as they are."""


class Verdict(Enum):
    """How a call ended, as Java tells those who look at it."""

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    EXCEPTION = "EXCEPTION"
    RETURNNULL = "RETURNNULL"
    FAILED = "FAILED"


class Consumed:
    """One call of a listener."""

    __slots__ = ("_props", "context", "error", "group", "is_late", "messages", "result", "took_ms")

    def __init__(
        self,
        group: str,
        messages: Sequence[ReceivedMessage],
        context: ConsumeContext,
        result: ConsumeResult | None = None,
        error: BaseException | None = None,
        took_ms: float = 0.0,
    ) -> None:
        self.group = group
        self.messages = messages
        self.context = context
        self.result = result
        """None if it has raised, or has returned what is no result."""
        self.error = error
        self.took_ms = took_ms
        self.is_late = False
        """It took longer than a call should."""
        self._props: dict[str, object] | None = None

    @property
    def props(self) -> dict[str, object]:
        """For hooks, which may keep there what they know before for after."""
        if self._props is None:
            self._props = {}
        return self._props

    @property
    def verdict(self) -> Verdict:
        if self.result is None:
            return Verdict.RETURNNULL if self.error is None else Verdict.EXCEPTION
        if self.is_late:
            return Verdict.TIME_OUT
        is_done = self.result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
        return Verdict.SUCCESS if is_done else Verdict.FAILED


class Called:
    """A call that has been begun, and what of it is to be awaited, still."""

    __slots__ = ("consumed", "rest")

    def __init__(self, consumed: Consumed, rest: Awaitable[object] | None) -> None:
        self.consumed = consumed
        self.rest = rest


class ConsumeHook(Protocol):
    """Sees every call of a listener; what it raises is logged."""

    def before(self, consumed: Consumed) -> None: ...

    def after(self, consumed: Consumed) -> None: ...


class ListenerCalls:
    """Calls a listener, with at most so many threads.

    calls = ListenerCalls("orders", listener, threads_max=20, timeout_s=900)
    consumed = await calls.run(messages, context)
    calls.close()
    """

    def __init__(
        self,
        group: str,
        listener: Listener,
        *,
        threads_max: int,
        timeout_s: float,
        hooks: Sequence[ConsumeHook] = (),
    ) -> None:
        self._group = group
        self._listener = listener
        self._timeout_s = timeout_s
        self._hooks = list(hooks)
        self._in_threads: set[Future[Any]] = set()
        self._threads: ThreadPoolExecutor | None = None
        if not _is_coroutine_function(listener):
            self._threads = ThreadPoolExecutor(threads_max, f"consume-{group[:100]}")

    @property
    def is_threaded(self) -> bool:
        """Whether it is a plain function."""
        return self._threads is not None

    @property
    def may_row(self) -> bool:
        """Whether ``run_here`` does for it: hooks are called in the loop."""
        return self._threads is None or not self._hooks

    async def run(self, messages: list[ReceivedMessage], context: ConsumeContext) -> Consumed:
        """Call it; only NotBegunError and the cancellation of the caller are raised."""
        consumed = Consumed(self._group, messages, context)
        if self._hooks:
            self._tell(consumed, is_before=True)
        began_s = monotonic_s()
        try:
            if self._threads is None:
                answer: object = self._listener(messages, context)
            else:
                answer = await self.in_thread(self._listener, messages, context)
            if inspect.isawaitable(answer):
                answer = await answer
            consumed.result = self._checked(answer, consumed)
        except asyncio.CancelledError as cancelled:
            _raise_if_own(cancelled)
            self._failed(consumed, cancelled)
        except NotBegunError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a listener may raise anything)
            self._failed(consumed, error)
        self._note_time(consumed, began_s)
        if self._hooks:
            self._tell(consumed, is_before=False)
        return consumed

    def run_here(self, messages: list[ReceivedMessage], context: ConsumeContext) -> Called:
        """The same in whatever thread this is; what it answers may have to be awaited, still.

        A coroutine runs up to where it first waits for something. Most do not even begin to.
        """
        consumed = Consumed(self._group, messages, context)
        if self._hooks:
            self._tell(consumed, is_before=True)
        began_s = monotonic_s()
        rest: Awaitable[object] | None = None
        try:
            answer: object = self._listener(messages, context)
            if self._threads is None and isinstance(answer, CoroutineType):
                answer, rest = _begin(answer)
            elif inspect.isawaitable(answer):
                rest = answer
            if rest is None:
                consumed.result = self._checked(answer, consumed)
        except NotBegunError as not_begun:
            consumed.error = not_begun
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 (likewise)
            self._failed(consumed, error)
        self._note_time(consumed, began_s)
        if rest is None and self._hooks:
            self._tell(consumed, is_before=False)
        return Called(consumed, rest)

    async def finish(self, called: Called) -> Consumed:
        """What became of a call that has been begun, in the loop."""
        consumed, rest = called.consumed, called.rest
        if isinstance(consumed.error, NotBegunError):
            raise consumed.error
        if rest is None:
            return consumed
        began_s = monotonic_s() - consumed.took_ms / 1000
        try:
            consumed.result = self._checked(await rest, consumed)
        except asyncio.CancelledError as cancelled:
            _raise_if_own(cancelled)
            self._failed(consumed, cancelled)
        except NotBegunError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 (likewise)
            self._failed(consumed, error)
        self._note_time(consumed, began_s)
        if self._hooks:
            self._tell(consumed, is_before=False)
        return consumed

    def _note_time(self, consumed: Consumed, began_s: float) -> None:
        taken_s = monotonic_s() - began_s
        consumed.took_ms = taken_s * 1000
        consumed.is_late = taken_s >= self._timeout_s

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in one of the threads, and wait for it."""
        return await self.begin_in_thread(function, *args, **kwargs)

    def begin_in_thread(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """The same without the wait; what is cancelled goes on if it has begun, as threads do."""
        assert self._threads is not None, "a coroutine function runs in the loop"
        work = partial(function, *args, **kwargs)
        future: Future[T] = self._threads.submit(copy_context().run, work)
        self._in_threads.add(future)
        future.add_done_callback(self._in_threads.discard)
        return asyncio.wrap_future(future)

    def _checked(self, answer: object, consumed: Consumed) -> ConsumeResult | None:
        if isinstance(answer, ConsumeResult):
            return answer
        log.warning(
            "the listener of group %s has returned %.64r for %s: these come again; return"
            " ConsumeResult.SUCCESS for what is consumed",
            self._group, answer, _shown(consumed.messages),
        )  # fmt: skip
        return None

    def _failed(self, consumed: Consumed, error: BaseException) -> None:
        consumed.error = error
        log.warning("the listener of group %s has raised; these come again: %s", self._group,
                    _shown(consumed.messages), exc_info=error)  # fmt: skip

    def _tell(self, consumed: Consumed, *, is_before: bool) -> None:
        for hook in self._hooks:
            try:
                (hook.before if is_before else hook.after)(consumed)
            except Exception:
                log.exception("a hook of group %s has failed", self._group)

    def close(self) -> None:
        """Let threads end; those whose listener still runs end with it."""
        if self._threads is not None:
            is_idle = all(future.done() for future in list(self._in_threads))
            self._threads.shutdown(wait=is_idle, cancel_futures=True)


def _begin(
    begun: Coroutine[object, object, object],
) -> tuple[object, Awaitable[object] | None]:
    """Run a coroutine up to where it waits: what it returns, or what is left of it."""
    try:
        waited = begun.send(None)
    except StopIteration as stop:
        return stop.value, None
    return None, _go_on(begun, waited)


@coroutine
def _go_on(
    begun: Coroutine[object, object, object], waited: object
) -> Generator[object, object, object]:
    """Wait for what it waits for, and for the rest of it."""
    while True:
        try:
            sent = yield waited
        except BaseException as error:  # noqa: BLE001 (a cancellation is its to handle)
            step = partial(begun.throw, error)
        else:
            step = partial(begun.send, sent)
        try:
            waited = step()
        except StopIteration as stop:
            return stop.value


def _raise_if_own(error: asyncio.CancelledError) -> None:
    """Go on with the cancellation of the caller, but not with one of what a listener awaited."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error


def _shown(messages: Sequence[ReceivedMessage]) -> str:
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"{messages[0]!r}{more}"


def _is_coroutine_function(listener: object) -> bool:
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        getattr(listener, "__call__", None)  # noqa: B004 (an object whose call is a coroutine)
    )
