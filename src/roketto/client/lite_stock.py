"""What the queues of a lite pull consumer have in hand together, and whose turn it is; no requests.

Each queue hands out its messages in order. A poll goes round the queues that have some, so that a
busy one does not keep the others waiting.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from roketto.client.lite_limits import LiteLimits
from roketto.client.received import ReceivedMessage
from roketto.clock import wall_ms

__all__ = ["Shelf", "Stock"]


class Stock:
    """All messages that were fetched and not handed out.

    messages = stock.take(10)       # and later, when whoever took them is done with them:
    stock.settle()
    """

    def __init__(self, limits: LiteLimits) -> None:
        self.limits = limits
        self.count = 0
        self.room = asyncio.Event()
        """Set while there may be more."""
        self.room.set()
        self.arrived = asyncio.Event()
        """Set while there is something to hand out."""
        self._ready: dict[Shelf, None] = {}
        self._handed: list[Shelf] = []

    def take(self, count_max: int) -> list[ReceivedMessage]:
        """At most so many messages, of the queues whose turn it is."""
        taken: list[ReceivedMessage] = []
        while self._ready and len(taken) < count_max:
            shelf = next(iter(self._ready))
            del self._ready[shelf]
            taken += shelf.take(count_max - len(taken))
            self._handed.append(shelf)
            self.show(shelf)
        return taken

    def settle(self) -> None:
        """Whoever took messages is done with them all."""
        for shelf in self._handed:
            shelf.handed_from = None
        self._handed.clear()

    def show(self, shelf: "Shelf") -> None:
        """Put a queue into the round if it has something to hand out, and else out of it."""
        if shelf.count and not shelf.is_paused:
            self._ready.setdefault(shelf)
            self.arrived.set()
            return
        self._ready.pop(shelf, None)
        if not self._ready:
            self.arrived.clear()

    def note(self, change: int) -> None:
        """Count messages that came or went."""
        self.count += change
        if self.count < self.limits.all_count_max:
            self.room.set()
        else:
            self.room.clear()


class Shelf:
    """The messages of one queue, in the order of their offsets."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._messages: deque[ReceivedMessage] = deque()
        self.body_bytes = 0
        self.is_paused = False
        self.last_taken_ms = 0
        self.handed_from: int | None = None
        """The first of those that were taken and may not be handled yet."""
        self.room = asyncio.Event()
        """Set when something was taken, or the pause has ended."""

    @property
    def count(self) -> int:
        return len(self._messages)

    @property
    def first_offset(self) -> int | None:
        return self._messages[0].queue_offset if self._messages else None

    @property
    def last_offset(self) -> int | None:
        return self._messages[-1].queue_offset if self._messages else None

    @property
    def is_full(self) -> bool:
        messages, limits = self._messages, self._stock.limits
        if not messages:
            return False
        span = messages[-1].queue_offset - messages[0].queue_offset
        return (
            len(messages) >= limits.queue_count_max
            or self.body_bytes >= limits.queue_bytes_max
            or span >= limits.queue_span_max
        )

    def put(self, messages: Sequence[ReceivedMessage]) -> None:
        """Keep messages that come behind those that are here."""
        self._messages.extend(messages)
        self.body_bytes += _bytes_of(messages)
        self._stock.note(len(messages))
        self._stock.show(self)

    def take(self, count_max: int) -> list[ReceivedMessage]:
        """The next ones; they count as not handled until the stock is settled."""
        messages = self._messages
        taken = [messages.popleft() for _ in range(min(count_max, len(messages)))]
        if taken and self.handed_from is None:
            self.handed_from = taken[0].queue_offset
        self.last_taken_ms = wall_ms()
        self._let_go(taken)
        return taken

    def clear(self) -> None:
        """Forget all that is here and all that was taken: the queue goes on somewhere else."""
        gone = list(self._messages)
        self._messages.clear()
        self.handed_from = None
        self._let_go(gone)
        self._stock.show(self)

    def pause(self, is_paused: bool) -> None:
        """Hand out nothing until this is taken back."""
        self.is_paused = is_paused
        self._stock.show(self)
        self.room.set()

    def _let_go(self, messages: Sequence[ReceivedMessage]) -> None:
        self.body_bytes -= _bytes_of(messages)
        self._stock.note(-len(messages))
        self.room.set()


def _bytes_of(messages: Sequence[ReceivedMessage]) -> int:
    return sum([len(message.record.body) for message in messages])
