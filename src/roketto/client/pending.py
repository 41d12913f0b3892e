"""Pulled messages that wait for a call of their listener, and those who wait for messages."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from roketto.client.owned_queue import OwnedQueue
from roketto.client.received import ReceivedMessage

__all__ = ["Batch", "Pending"]

_SWEPT_MIN: Final = 1_024


class Batch:
    """Messages for one call of a listener, and the queue they are of."""

    __slots__ = ("messages", "queue", "took_ms")

    def __init__(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        self.queue = queue
        self.messages = messages
        self.took_ms: float = 0.0
        """How long its call took, where that is kept here."""


class Pending:
    """Batches that wait for their turn, and the workers that wait for batches.

    One worker is woken for whatever comes, and wakes the next one if it leaves something: where a
    listener does not wait, few workers do all the work, and no others are woken for nothing.
    """

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._sweep_at = _SWEPT_MIN
        self.is_attended = False
        """Somebody is at it, and lets others come if need be."""

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batches: Iterable[Batch]) -> None:
        """Add some; those of queues that were lost do not pile up."""
        waiting = self._batches
        waiting.extend(batches)
        if len(waiting) > self._sweep_at:
            self._sweep()
        if not self.is_attended:
            self.wake_one()

    def _sweep(self) -> None:
        """In place: threads may take from it meanwhile."""
        for _ in range(len(self._batches)):
            batch = self.take()
            if batch is not None and not batch.queue.is_dropped:
                self._batches.append(batch)
        self._sweep_at = max(_SWEPT_MIN, 2 * len(self._batches))

    def take(self) -> Batch | None:
        """The next one, if there is one; any thread may ask."""
        try:
            return self._batches.popleft()
        except IndexError:
            return None

    async def get(self) -> Batch:
        """The next one, as soon as there is one."""
        while (batch := self.take()) is None:
            await self.wait()
        if self._idle:
            self.wake_one()
        return batch

    async def wait(self) -> None:
        """Until there is one, which others may have taken by then."""
        if self._batches:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(woken)
        try:
            await woken
        except asyncio.CancelledError:
            if woken.cancelled():
                self._idle.remove(woken)
            else:
                self.wake_one()  # whoever was woken does not come
            raise

    def wake_one(self) -> None:
        """Let one more of those who wait come, if there is something for it."""
        while self._batches and self._idle:
            woken = self._idle.popleft()
            if not woken.done():
                woken.set_result(None)
                return
