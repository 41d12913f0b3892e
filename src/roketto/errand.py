"""Work that goes on to its end, also when whoever asked for it has gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_errand"]

T = TypeVar("T")


async def run_errand(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns or raises; if the caller is cancelled, it goes on alone.

    Then nobody hears how it ends, and asyncio must not take that for an error of the program.
    """
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_mark_as_heard)
    return await asyncio.shield(task)


def _mark_as_heard(task: asyncio.Task[T]) -> None:
    if not task.cancelled():
        task.exception()
