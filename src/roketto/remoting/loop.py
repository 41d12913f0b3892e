"""Run a coroutine on uvloop where it exists, on the standard loop elsewhere."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, debug: bool = False) -> T:
    """Run ``main`` to its end, as asyncio.run does, on the quickest loop there is."""
    with asyncio.Runner(debug=debug, loop_factory=loop_factory()) as runner:
        return runner.run(main)


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop class, or None for asyncio's own (Windows, PyPy)."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
