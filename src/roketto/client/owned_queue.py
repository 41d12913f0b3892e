"""One queue that a push consumer has, and what all parts of the consumer share."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from roketto.client.client import Client
from roketto.client.listeners import ListenerCalls
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore
from roketto.client.process_queue import ProcessQueue
from roketto.client.push_tuning import PushTuning
from roketto.client.rates import Rates
from roketto.client.send_back import SendBack
from roketto.protocol.bodies.heartbeat import MessageModel

__all__ = ["NoSlots", "OwnedQueue", "PushParts", "Slots", "Turns", "by_broker"]


class OwnedQueue:
    """A queue from when the consumer gets it until nothing of it runs here any more.

    One that is lost and got again is a new one: whoever still works for the old one sees that it
    was dropped, and what it says counts no more.
    """

    __slots__ = (
        "_room", "consuming", "is_doubtful", "is_void", "messages", "name",
    )  # fmt: skip

    def __init__(self, name: MessageQueue) -> None:
        self.name = name
        self.messages = ProcessQueue()
        self.consuming = asyncio.Lock()
        """In order: held while a listener has messages of it."""
        self.is_doubtful = False
        """In order: the broker could not be reached, and may have given the lock to another."""
        self.is_void = False
        """The group is elsewhere by now: not even what is being consumed may be committed."""
        self._room = asyncio.Event()

    @property
    def is_dropped(self) -> bool:
        return self.messages.is_dropped

    @property
    def is_locked(self) -> bool:
        """Whether the queue is surely this consumer's alone."""
        messages = self.messages
        return messages.is_locked and not messages.is_lock_expired and not self.is_doubtful

    def lock(self) -> None:
        """A broker says that it is this consumer's."""
        self.is_doubtful = False
        self.messages.lock()

    def drop(self, *, is_void: bool = False) -> None:
        """Begin nothing more with it; its loop ends with the pull that is under way."""
        self.is_void |= is_void
        self.messages.is_dropped = True
        if is_void:
            self.messages.clear()
        self._room.set()

    def consumed(self) -> None:
        """There is room for more."""
        self._room.set()

    async def wait_for_room(self, seconds: float) -> None:
        """Wait until something was consumed, but no longer than so."""
        self._room.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._room.wait()
        except TimeoutError:
            pass

    def __repr__(self) -> str:
        return f"<queue {self.name.queue_id} of {self.name.topic} on {self.name.broker_name}>"


class Slots(Protocol):
    """How much may be consumed at the same time."""

    async def acquire(self) -> None: ...

    def release(self, *, is_used: bool) -> None:
        """Give it back; ``is_used`` says whether a listener was called."""


class NoSlots:
    """No bound, where there are only as many who call a listener as may."""

    async def acquire(self) -> None:
        return

    def release(self, *, is_used: bool) -> None:
        return


class Turns:
    """So many calls of a listener at the same time."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def acquire(self) -> None:
        await self._free.acquire()

    def release(self, *, is_used: bool) -> None:
        self._free.release()


@dataclass(frozen=True, slots=True)
class PushParts:
    """What the parts of one push consumer have in common. The group has its namespace."""

    client: Client
    group: str
    model: MessageModel
    in_order: bool
    tuning: PushTuning
    store: OffsetStore
    calls: ListenerCalls
    slots: Slots
    send_back: SendBack
    rates: Rates

    @property
    def is_clustering(self) -> bool:
        return self.model is MessageModel.CLUSTERING

    @property
    def needs_locks(self) -> bool:
        """Order counts, and others of the group might take a queue over."""
        return self.in_order and self.is_clustering


def by_broker(
    queues: Iterable[OwnedQueue],
    broker_of: Callable[[MessageQueue], str] = lambda queue: queue.broker_name,
) -> dict[str, list[OwnedQueue]]:
    """Queues by the brokers they are on, which of static topics is not in their names."""
    found: dict[str, list[OwnedQueue]] = {}
    for queue in queues:
        found.setdefault(broker_of(queue.name), []).append(queue)
    return found
