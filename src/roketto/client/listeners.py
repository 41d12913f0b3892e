"""Listeners: what consumes messages, what it may answer, and how it is called.

A coroutine function runs in the loop. A plain function may block, and runs in one of a bounded
number of threads. Whatever a listener raises is an answer, too: it wants the messages again later.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from roketto.client.message import MessageQueue, ReceivedMessage
from roketto.clock import monotonic_s

__all__ = [
    "ConsumeContext", "ConsumeHook", "ConsumeResult", "Consumed", "Listener", "ListenerCalls",
    "NotBegunError", "Verdict",
]  # fmt: skip

log = logging.getLogger(__name__)

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


@dataclass(slots=True)
class ConsumeContext:
    """What goes with a call of a listener; it may change what is said of its answer."""

    queue: MessageQueue
    """Where the messages are from; of retries that is the retry topic."""
    delay_level: int = 0
    """When messages come again that are given back: 0 lets the broker choose, longer each time; 1
    and more is that delay level; -1 makes dead letters of them at once."""
    ack_index: int = ALL
    """With SUCCESS, the index of the last message that was consumed: those behind it come again."""
    auto_commit: bool = True
    """In order: whether SUCCESS commits. Without, COMMIT does."""
    suspend_ms: int = -1
    """In order: how long the queue waits before it is tried again; -1 as the consumer is set."""


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


@dataclass(slots=True)
class Consumed:
    """One call of a listener."""

    group: str
    messages: Sequence[ReceivedMessage]
    context: ConsumeContext
    result: ConsumeResult | None = None
    """None if it has raised, or has returned what is no result."""
    error: BaseException | None = None
    took_ms: float = 0.0
    verdict: Verdict = Verdict.SUCCESS
    props: dict[str, object] = field(default_factory=dict)
    """For hooks, which may keep there what they know before for after."""


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
        self._in_threads: set[Future[object]] = set()
        self._threads: ThreadPoolExecutor | None = None
        if not _is_coroutine_function(listener):
            self._threads = ThreadPoolExecutor(threads_max, f"consume-{group[:100]}")

    async def run(self, messages: list[ReceivedMessage], context: ConsumeContext) -> Consumed:
        """Call it; only NotBegunError and the cancellation of the caller are raised."""
        consumed = Consumed(self._group, messages, context)
        self._tell(consumed, is_before=True)
        began_s = monotonic_s()
        try:
            consumed.result = self._checked(await self._call(messages, context), consumed)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._failed(consumed, error)  # the listener's own: something it awaited was cancelled
        except NotBegunError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a listener may raise anything)
            self._failed(consumed, error)
        taken_s = monotonic_s() - began_s
        consumed.took_ms = taken_s * 1000
        consumed.verdict = _verdict(consumed, taken_s >= self._timeout_s)
        self._tell(consumed, is_before=False)
        return consumed

    async def _call(self, messages: list[ReceivedMessage], context: ConsumeContext) -> object:
        answer: object
        if self._threads is None:
            answer = self._listener(messages, context)
        else:
            answer = await self._call_in_thread(self._threads, messages, context)
        return await answer if inspect.isawaitable(answer) else answer

    async def _call_in_thread(
        self, threads: ThreadPoolExecutor, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> object:
        future: Future[object] = threads.submit(
            copy_context().run, self._listener, messages, context
        )
        self._in_threads.add(future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            if future.done():  # it is not if the caller was cancelled: a thread cannot be
                self._in_threads.discard(future)

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
            is_idle = all(future.done() for future in self._in_threads)
            self._threads.shutdown(wait=is_idle, cancel_futures=True)


def _shown(messages: Sequence[ReceivedMessage]) -> str:
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"{messages[0]!r}{more}"


def _is_coroutine_function(listener: object) -> bool:
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        getattr(listener, "__call__", None)  # noqa: B004 (an object whose call is a coroutine)
    )


def _verdict(consumed: Consumed, is_late: bool) -> Verdict:
    if consumed.result is None:
        return Verdict.RETURNNULL if consumed.error is None else Verdict.EXCEPTION
    if is_late:
        return Verdict.TIME_OUT
    is_done = consumed.result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
    return Verdict.SUCCESS if is_done else Verdict.FAILED
