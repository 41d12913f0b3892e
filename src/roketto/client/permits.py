"""A bound on what is under way, by number and by bytes; others wait for their turn."""

import asyncio
from collections import deque
from typing import Final

__all__ = ["Permits"]

_WAITING_MAX: Final = 65_536
"""Those who wait have their message in memory; more of them are turned away at once."""


class Permits:
    """First come, first served.

    if not permits.try_take(size):
        await permits.take(size, timeout_s)     # TimeoutError
    try:
        ...
    finally:
        permits.give(size)

    What is larger than all that is allowed goes when nothing else is under way.
    """

    __slots__ = ("_bytes_max", "_count_max", "_empty", "_waiting", "bytes", "count")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._empty: asyncio.Future[None] | None = None
        self.count = 0
        """How many are under way."""
        self.bytes = 0

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    def __str__(self) -> str:
        return (
            f"{self.count} sends of {self.bytes} bytes are under way, the bounds are"
            f" {self._count_max} and {self._bytes_max}; {len(self._waiting)} more wait"
        )

    def try_take(self, size: int) -> bool:
        """Take part, if that is possible at once."""
        if self._waiting or not self._has_room(size):
            return False
        self.count += 1
        self.bytes += size
        return True

    def _has_room(self, size: int) -> bool:
        return self.count < self._count_max and (
            self.bytes + size <= self._bytes_max or self.count == 0
        )

    async def take(self, size: int, timeout_s: float) -> None:
        """Take part when there is room; TimeoutError if there is none in time."""
        if self.try_take(size):
            return
        if len(self._waiting) >= _WAITING_MAX:
            raise TimeoutError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # it was its turn just now
                self.give(size)
            else:
                turn.cancel()
                self._let_in()  # it may have been in the way of a smaller one
            raise

    def give(self, size: int) -> None:
        """Take part no longer."""
        self.count -= 1
        self.bytes -= size
        if self._waiting:
            self._let_in()
        if self._empty is not None and self.count == 0:
            self._empty.set_result(None)
            self._empty = None

    def _let_in(self) -> None:
        waiting = self._waiting
        while waiting:
            turn, size = waiting[0]
            if not turn.done():
                if not self._has_room(size):
                    return
                self.count += 1
                self.bytes += size
                turn.set_result(None)
            waiting.popleft()

    async def wait_empty(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; whether that came in time."""
        if self.count == 0:
            return True
        if self._empty is None:
            self._empty = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._empty,), timeout=timeout_s)
        return bool(done)
