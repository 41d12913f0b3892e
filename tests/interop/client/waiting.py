"""Waiting for what servers and Java's clients will show sooner or later."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from patience import LateError

WAIT_S: Final = 20.0
"""How long anything may take that is only waited for; nothing here takes more than a few."""

_POLL_S: Final = 0.02


async def until(
    condition: Callable[[], Awaitable[bool]], what: str, wait_s: float = WAIT_S
) -> None:
    """Wait until it is so."""
    try:
        async with asyncio.timeout(wait_s):
            while not await condition():  # noqa: ASYNC110 (it asks servers)
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise LateError(f"waited {wait_s:.0f} s in vain for {what}") from None


async def until_equal(read: Callable[[], Awaitable[object]], expected: object, what: str) -> None:
    """Wait until what is read is what is expected; show the last that was read if it never is."""
    last: list[object] = []

    async def is_so() -> bool:
        last[:] = [await read()]
        return last == [expected]

    try:
        await until(is_so, what)
    except LateError:
        raise LateError(f"{what} was to be {expected}; the last was {last[0]}") from None
