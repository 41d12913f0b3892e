"""Local transactions: what a message's fate hangs on, who knows it, and how they are asked.

A coroutine function runs in the loop. A plain function may block, and runs in one of a bounded
number of threads. Whoever raises does not know.
"""

import asyncio
import inspect
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from roketto.client.message import Message
from roketto.client.received import ReceivedMessage
from roketto.client.trace_record import TransactionState
from roketto.clock import monotonic_s

__all__ = [
    "Check", "Execute", "LocalCalls", "Outcome", "Outcomes", "PreparedMessage", "Told",
    "TransactionListener", "TransactionState", "prepared",
]  # fmt: skip

_OUTCOMES_MAX: Final = 16_384
"""Brokers ask about the latest ones. An entry takes some 200 bytes."""
_ERROR_CHARS_MAX: Final = 1_024
"""Of an error's text that goes to the broker, which writes it into its log."""


@dataclass(slots=True)
class PreparedMessage(Message):
    """A message whose transaction has begun; its check is asked about it by ``message_id``."""

    message_id: str = ""


def prepared(message: Message, message_id: str) -> PreparedMessage:
    """The same message, with the id if it has none."""
    values = {item.name: getattr(message, item.name) for item in fields(Message)}
    values["message_id"] = message.message_id or message_id
    if not isinstance(message.keys, str):
        values["keys"] = tuple(message.keys)  # a generator gives them once, and they are used twice
    return PreparedMessage(**values)


Answer: TypeAlias = TransactionState | None
Execute: TypeAlias = Callable[[PreparedMessage, Any], Answer | Awaitable[Answer]]
"""Does what the message is about; None is UNKNOWN."""
Check: TypeAlias = Callable[[ReceivedMessage], Answer | Awaitable[Answer]]
"""Tells whether that was done, perhaps by another process, perhaps long ago; None is UNKNOWN."""


class TransactionListener(Protocol):
    """Both in one object. ``message.message_id`` is the same for both, and finds one by the other.

    class Orders:
        async def execute(self, message, arg):
            async with database.transaction() as transaction:
                await transaction.insert_order(arg, message.message_id)
            return TransactionState.COMMIT

        async def check(self, message):
            found = await database.has_order(message.message_id)
            return TransactionState.COMMIT if found else TransactionState.ROLLBACK
    """

    def execute(self, message: PreparedMessage, arg: Any, /) -> Answer | Awaitable[Answer]: ...

    def check(self, message: ReceivedMessage, /) -> Answer | Awaitable[Answer]: ...


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody has said of a transaction."""

    state: TransactionState
    error: BaseException | None = None
    """Why that is UNKNOWN, if it was raised."""
    cancelled: asyncio.CancelledError | None = None
    """The caller was cancelled meanwhile, and a thread cannot be: it came to its end all the same.
    To be raised when what it said is done."""
    reason: str | None = None
    """Why that is UNKNOWN, if nobody was asked."""

    def remark(self, prefix: str) -> str | None:
        """What the broker is told of it."""
        if self.error is None:
            return self.reason
        return f"{prefix}: {type(self.error).__name__}: {self.error}"[:_ERROR_CHARS_MAX]


class LocalCalls:
    """Calls a user's functions, until ``close``; an error of theirs is UNKNOWN.

    told = await calls.execute(function, message, arg)
    told = await calls.check(function, received)
    """

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._threads: ThreadPoolExecutor | None = None
        self._submitted: set[Future[object]] = set()

    async def execute(self, function: Execute, message: PreparedMessage, arg: Any) -> Told:
        """Call a function and wait for its end: half of a transaction is none."""
        return await self._ask(function, (message, arg), is_whole=True)

    async def check(self, function: Check, message: ReceivedMessage) -> Told:
        """Call a function, until somebody cancels that."""
        return await self._ask(function, (message,), is_whole=False)

    async def _ask(
        self, function: Callable[..., object], arguments: tuple[object, ...], *, is_whole: bool
    ) -> Told:
        cancelled: asyncio.CancelledError | None = None
        try:
            if _is_coroutine_function(function):
                answer = function(*arguments)
            else:
                work, cancelled = await self._in_thread(function, arguments, is_whole)
                answer = work.result()
            if inspect.isawaitable(answer):
                answer = await answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Told(TransactionState.UNKNOWN, error)  # something that it awaited was cancelled
        except Exception as error:  # noqa: BLE001 (whatever it is, nobody knows what was done)
            return Told(TransactionState.UNKNOWN, error, cancelled)
        return _checked(function, answer, cancelled)

    async def _in_thread(
        self, function: Callable[..., object], arguments: tuple[object, ...], is_whole: bool
    ) -> tuple[asyncio.Future[object], asyncio.CancelledError | None]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_max, self._name)
        submitted: Future[object] = self._threads.submit(copy_context().run, function, *arguments)
        work = asyncio.wrap_future(submitted)
        cancelled: asyncio.CancelledError | None = None
        self._submitted.add(submitted)
        submitted.add_done_callback(self._submitted.discard)
        while not work.done():
            try:
                await asyncio.wait((work,))
            except asyncio.CancelledError as error:
                if submitted.cancel() or not is_whole:  # not begun yet, or of no use any more
                    work.cancel()
                    raise
                cancelled = error
        return work, cancelled

    def close(self) -> None:
        """Let threads end; those in which a function still runs end with it."""
        if self._threads is not None:
            is_idle = not any(future.running() for future in tuple(self._submitted))
            self._threads.shutdown(wait=is_idle, cancel_futures=True)
            self._threads = None


def _is_coroutine_function(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an object whose call is a coroutine)
    )


def _checked(
    function: Callable[..., object], answer: object, cancelled: asyncio.CancelledError | None
) -> Told:
    if answer is None:
        return Told(TransactionState.UNKNOWN, None, cancelled)
    if isinstance(answer, TransactionState):
        return Told(answer, None, cancelled)
    error = TypeError(
        f"{getattr(function, '__qualname__', function)} has returned {answer!r}; it takes a"
        " TransactionState"
    )
    return Told(TransactionState.UNKNOWN, error, cancelled)


class Outcome(NamedTuple):
    """COMMIT or ROLLBACK, and how long ago the broker was told; infinite if it could not be."""

    state: TransactionState
    told_s_ago: float


class Outcomes:
    """What became of the transactions of this process, for brokers that ask.

    An end that was lost on its way is said once more, and one that is still under way is not taken
    for one that never was: a check that looks for its traces would not find them yet.
    """

    def __init__(self, count_max: int = _OUTCOMES_MAX) -> None:
        self._count_max = count_max
        self._open: set[str] = set()
        self._ended: OrderedDict[str, tuple[TransactionState, float]] = OrderedDict()

    def begin(self, message_id: str) -> None:
        """It is under way."""
        self._open.add(message_id)

    def end(self, message_id: str, state: TransactionState, *, is_told: bool = True) -> None:
        """It has ended, and the broker is told now; UNKNOWN is for others to find out."""
        self._open.discard(message_id)
        if state is TransactionState.UNKNOWN:
            return
        self._ended[message_id] = state, monotonic_s() if is_told else -math.inf
        if len(self._ended) > self._count_max:
            self._ended.popitem(last=False)

    def is_open(self, message_id: str) -> bool:
        return message_id in self._open

    def of(self, message_id: str) -> Outcome | None:
        """How it ended, None if that is not known here."""
        found = self._ended.get(message_id)
        return None if found is None else Outcome(found[0], monotonic_s() - found[1])
