"""The queues that a push consumer has: taken, dropped, moved, and why."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final

from roketto.client.message import MessageQueue
from roketto.client.owned_queue import OwnedQueue, PushParts
from roketto.client.process_queue import PULL_IDLE_S_MAX
from roketto.client.queue_locks import BROKER_LOCK_S, QueueLocks
from roketto.clock import monotonic_s

__all__ = ["OwnedQueues", "RunLoop"]

log = logging.getLogger(__name__)

_IDLE_WAIT_S: Final = 0.5
"""How long one round waits for a listener that has messages of a queue which is to be given up."""

RunLoop = Callable[[OwnedQueue, bool], Coroutine[Any, Any, None]]
"""Pulls a queue; the other argument says whether another member may have had it."""


class OwnedQueues:
    """Queues by their names; whoever changes what is owned, does it here, one at a time.

    is_changed = await queues.share("Orders", names, is_whole=False)
    """

    def __init__(self, parts: PushParts, locks: QueueLocks, run_loop: RunLoop) -> None:
        self._parts = parts
        self._locks = locks
        self._run_loop = run_loop
        self._table: dict[MessageQueue, OwnedQueue] = {}
        self._loops: set[asyncio.Task[None]] = set()
        """Also those of queues that were given up, until the pull that is under way ends.

        What it brings is of no use, but for one thing: that an operator has moved the group, which
        a broker says once.
        """
        self._changing = asyncio.Lock()

    def __iter__(self) -> Iterator[OwnedQueue]:
        return iter(list(self._table.values()))

    def __len__(self) -> int:
        return len(self._table)

    def names(self, topic: str = "") -> list[MessageQueue]:
        """Those that are consumed, of one topic or of all."""
        return [
            queue.name
            for queue in self._table.values()
            if not queue.is_dropped and (not topic or queue.name.topic == topic)
        ]

    # --- shares -----------------------------------------------------------------------------------

    async def share(self, topic: str, names: Collection[MessageQueue], *, is_whole: bool) -> bool:
        """Have these queues of a topic and no others; whether something has changed.

        ``is_whole`` says that they are all there are. What cannot be had yet, because another
        member holds its lock, is missing afterwards, and is tried again by the next call.
        """
        async with self._changing:
            wanted = set(names)
            mine = [queue for queue in self if queue.name.topic == topic]
            for queue in mine:
                if queue.name in wanted:
                    self._drop_if_idle(queue)
            leaving = [queue for queue in mine if queue.is_dropped or queue.name not in wanted]
            is_changed = await self._leave(leaving)
            new = [OwnedQueue(name) for name in names if name not in self._table]
            return await self._take(new, is_whole=is_whole) or is_changed

    def _drop_if_idle(self, queue: OwnedQueue) -> None:
        if queue.messages.is_pull_expired and not queue.is_dropped:
            log.error("%r of group %s is dropped and taken again: it was not pulled for more than"
                      " %g s", queue, self._parts.group, PULL_IDLE_S_MAX)  # fmt: skip
            queue.drop()

    async def keep_topics(self, topics: Collection[str]) -> bool:
        """Give up the queues of all other topics; whether there were any."""
        async with self._changing:
            return await self._leave([queue for queue in self if queue.name.topic not in topics])

    async def _take(self, queues: list[OwnedQueue], *, is_whole: bool) -> bool:
        if self._parts.needs_locks and queues:
            locked = await self._locks.lock(queues)
            if len(locked) < len(queues):
                log.info("group %s waits for the locks of %d queues", self._parts.group,
                         len(queues) - len(locked))  # fmt: skip
            queues = locked
        for queue in queues:
            self._parts.store.remove(queue.name)  # of an earlier time, and by now another's
            self._table[queue.name] = queue
            log.info("group %s takes %r", self._parts.group, queue)
            loop = asyncio.get_running_loop().create_task(self._run_loop(queue, not is_whole))
            self._loops.add(loop)
            loop.add_done_callback(self._loops.discard)
        return bool(queues)

    async def _leave(self, queues: list[OwnedQueue]) -> bool:
        """Give up queues, with what is consumed of them kept; whether one has left."""
        if not queues:
            return False
        for queue in queues:
            queue.drop()
        if self._parts.needs_locks:
            await self._persist(queues)
            queues = await self._idle(queues)
        await self._persist(queues)
        for queue in queues:
            if self._table.get(queue.name) is queue:
                del self._table[queue.name]
                self._parts.store.remove(queue.name)
            log.info("group %s gives up %r", self._parts.group, queue)
        if self._parts.needs_locks:
            await self._locks.unlock(queue for queue in queues if queue.messages.is_locked)
        return bool(queues)

    async def _persist(self, queues: Iterable[OwnedQueue]) -> None:
        await self._parts.store.persist([queue.name for queue in queues if not queue.is_void])

    async def _idle(self, queues: list[OwnedQueue]) -> list[OwnedQueue]:
        """Those that no listener has messages of.

        The others keep their lock until it does not, or until their broker gives it away: who gets
        the queue next must not overtake what is being consumed here.
        """
        is_idle = await asyncio.gather(*(_is_idle(queue) for queue in queues))
        found: list[OwnedQueue] = []
        for queue, is_free in zip(queues, is_idle, strict=True):
            if is_free or monotonic_s() - queue.messages.locked_s > BROKER_LOCK_S:
                found.append(queue)
            else:
                queue.messages.unlock_tries += 1
                log.info("%r is given up when its listener has ended", queue)
        return found

    async def persist(self) -> None:
        """Keep the offsets of all queues; not while one is moved, whose old offset is void."""
        async with self._changing:
            await self._parts.store.persist(self.names())

    # --- moved by others --------------------------------------------------------------------------

    async def move(self, name: MessageQueue, consume_offset: int) -> None:
        """Let the group go on elsewhere: a queue is dropped, and taken again by the next share."""
        store = self._parts.store
        async with self._changing:
            queue = self._table.get(name)
            if queue is None:
                log.warning("group %s does not have %s any more, which was to go on at %d",
                            self._parts.group, name, consume_offset)  # fmt: skip
                return
            queue.drop(is_void=True)
            # No update counts from here on: what is under way was read at another place.
            store.freeze(queue.name, consume_offset)
            await store.persist([queue.name])
            store.remove(queue.name)
            del self._table[queue.name]
        if self._parts.needs_locks and queue.messages.is_locked:
            await self._locks.unlock([queue])

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator says where the group is to go on in queues, of which some are here."""
        moved = [queue for queue in self if queue.name in offsets]
        for queue in moved:
            log.warning("group %s goes on at offset %d of %r, as an operator wants",
                        self._parts.group, offsets[queue.name], queue)  # fmt: skip
            queue.drop(is_void=True)
        for queue in moved:
            await self.move(queue.name, offsets[queue.name])

    def lose(self, queue: OwnedQueue) -> None:
        """Another member holds its lock: what is here of it counts no more."""
        queue.drop(is_void=True)
        self._parts.store.remove(queue.name)

    def doubt(self, broker_name: str) -> None:
        """A broker that was started again knows no lock, and gives it to whoever asks first.

        Nothing more is consumed of its queues before it has said that they are still ours. Java
        finds out when it renews its locks, up to 20 s later; until then two may consume a queue.
        """
        for queue in self:
            if self._parts.client.routes.broker_of(queue.name) == broker_name:
                queue.is_doubtful = self._parts.needs_locks

    # --- end --------------------------------------------------------------------------------------

    async def stop_pulling(self) -> None:
        """End all loops; what was pulled may still be consumed."""
        me = asyncio.current_task()
        tasks = [task for task in self._loops if task is not me]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def give_up(self) -> None:
        """Keep all offsets and give back all locks; nothing is consumed any more."""
        queues = list(self)
        await self._persist(queues)
        for queue in queues:
            queue.drop()
        if self._parts.needs_locks:
            await self._locks.unlock(queue for queue in queues if queue.messages.is_locked)
        self._table.clear()


async def _is_idle(queue: OwnedQueue) -> bool:
    try:
        async with asyncio.timeout(_IDLE_WAIT_S), queue.consuming:
            return True
    except TimeoutError:
        return False
