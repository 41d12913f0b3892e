"""How long tests wait, and what it means when they have waited in vain.

A test that waits for something is about the machine, too: one that does much else may be late,
which another try with nothing beside it decides (`./dev test`). What is wrong is never only late.

A signal, by which pytest-timeout ends a test, raises in whatever the loop runs at that moment. That
is rarely the test, which just waits; and the loop keeps what others raise to itself.
"""

import asyncio
import functools
import inspect
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

SPARE: Final = 0.9
"""What part of its time a test may take, so that the rest is left for what it has to clean up."""

_SIGNAL_TEXT: Final = "Timeout (>"
"""What pytest-timeout begins with when it ends a test."""


class LateError(AssertionError):
    """What was waited for was not so in its time."""


def in_time(deadline_s: float, why: str) -> None:
    """Raise LateError when it is later than that."""
    if time.monotonic() >= deadline_s:
        raise LateError(why)


def is_late(error: BaseException) -> bool:
    """Whether a test failed because something took too long, and not because it was wrong."""
    if isinstance(error, pytest.fail.Exception):
        return str(error).startswith(_SIGNAL_TEXT)
    return isinstance(error, LateError | TimeoutError | subprocess.TimeoutExpired)


def bound(item: pytest.Item, default_s: float) -> None:
    """Let a coroutine fail, where it waits, before its process has to be ended."""
    if not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(item.obj):
        return
    marker = item.get_closest_marker("timeout")
    limit_s = float(marker.args[0]) if marker is not None and marker.args else default_s
    if limit_s > 0:
        item.obj = bounded(item.obj, limit_s * SPARE)


def bounded(function: Callable[..., Awaitable[None]], limit_s: float) -> Callable[..., Any]:
    """The same coroutine function, with so much time."""

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(limit_s):
            await function(*args, **kwargs)

    return call
