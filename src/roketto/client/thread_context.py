"""A context manager that blocks, for coroutines: it is entered and left in threads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, TypeVar

__all__ = ["in_threads"]

T = TypeVar("T")


@asynccontextmanager
async def in_threads(context: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter a context and leave it without blocking the loop; whoever is cancelled leaves it, too.

    Both happen in the default threads of the loop: have only one at a time where entering it waits
    for another to be left.
    """
    try:
        entered = await _whole(context.__enter__)
    except _CancelledLateError as late:
        await _whole(context.__exit__, asyncio.CancelledError, late.cancelled, None)
        raise late.cancelled from None
    try:
        yield entered
    except BaseException as error:
        if not await _leave(context, error):
            raise
    else:
        await _leave(context, None)


async def _leave(context: AbstractContextManager[T], error: BaseException | None) -> bool:
    trace = None if error is None else error.__traceback__
    kind = None if error is None else type(error)
    try:
        return bool(await _whole(context.__exit__, kind, error, trace))
    except _CancelledLateError as late:  # it is left by now
        raise late.cancelled from None


class _CancelledLateError(Exception):
    """Somebody has cancelled what could not be interrupted; it has come to its end."""

    def __init__(self, cancelled: asyncio.CancelledError) -> None:
        super().__init__()
        self.cancelled = cancelled


async def _whole(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a thread and wait for its end in any case."""
    work = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    result = work.result()
    if cancelled is not None:
        raise _CancelledLateError(cancelled)
    return result
