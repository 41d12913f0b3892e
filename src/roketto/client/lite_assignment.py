"""The queues that a lite pull consumer has: got, given up, and how far each of them is.

What is committed goes into the memory of the offset store at once; the store is asked to make it
last from time to time, when a queue is given up, and at the end.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping

from roketto.client.errors import ClientError
from roketto.client.lite_queue import LiteQueue, PullQueue, StartOffset
from roketto.client.lite_stock import Stock
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore

__all__ = ["LiteAssignment", "NotAssignedError"]

log = logging.getLogger(__name__)


class NotAssignedError(ClientError):
    """Something was asked of a queue that the consumer does not have, or no longer."""


class LiteAssignment:
    """The queues by their names; the consumer says which.

    assignment.start()
    assignment.change(queues, topic="Orders")   # the share of a topic
    await assignment.release()                  # keep the offsets of those it has lost
    """

    def __init__(
        self,
        stock: Stock,
        store: OffsetStore,
        start_offset: StartOffset,
        pull: PullQueue,
        *,
        is_auto_commit: bool,
    ) -> None:
        self._stock = stock
        self._store = store
        self._start_offset = start_offset
        self._pull = pull
        self._is_auto_commit = is_auto_commit
        self._is_started = False
        self._queues: dict[MessageQueue, LiteQueue] = {}
        self._left: list[LiteQueue] = []

    # --- which ------------------------------------------------------------------------------------

    @property
    def names(self) -> Collection[MessageQueue]:
        return self._queues.keys()

    @property
    def queues(self) -> Collection[LiteQueue]:
        return self._queues.values()

    def get(self, name: MessageQueue) -> LiteQueue | None:
        return self._queues.get(name)

    def owned(self, name: MessageQueue) -> LiteQueue:
        """The queue of a name; NotAssignedError if it is not here."""
        queue = self._queues.get(name)
        if queue is None:
            raise NotAssignedError(
                f"queue {name.queue_id} of {name.topic} on {name.broker_name} is not assigned to"
                f" this consumer, which has {len(self._queues)}: assign it, or wait until its group"
                " has shared out the queues"
            )
        return queue

    def change(self, names: Collection[MessageQueue], topic: str | None = None) -> bool:
        """Have these queues and no others, of one topic or at all; whether that is news."""
        wanted = set(names)
        lost = [
            name
            for name in self._queues
            if name not in wanted and (topic is None or name.topic == topic)
        ]
        got = [name for name in names if name not in self._queues]
        for name in lost:
            self._drop(name)
        for name in got:
            self._add(name)
        return bool(lost or got)

    def _add(self, name: MessageQueue) -> None:
        queue = LiteQueue(name, self._stock, self._start_offset, self._pull)
        queue.on_moved = self._moved
        self._queues[name] = queue
        if self._is_started:
            queue.start()

    def _drop(self, name: MessageQueue) -> None:
        queue = self._queues.pop(name)
        handled_offset = queue.drop()
        if self._is_auto_commit and handled_offset is not None:
            self._store.update(name, handled_offset, increase_only=False)
        self._left.append(queue)

    def _moved(self, name: MessageQueue, consume_offset: int) -> None:
        self._store.update(name, consume_offset, increase_only=False)

    # --- how far ----------------------------------------------------------------------------------

    def commit_handed(self, names: Collection[MessageQueue]) -> None:
        """All that was handed out of these queues is handled."""
        for name in names:
            queue = self._queues.get(name)
            if queue is not None and (offset := queue.consume_offset) is not None:
                queue.shelf.handed_from = None  # when the queue is given up, this stays committed
                self._store.update(name, offset, increase_only=False)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """They are handled up to these offsets."""
        for name, offset in offsets.items():
            queue = self._queues.get(name)
            if queue is not None:
                if (handed_from := queue.shelf.handed_from) is not None:
                    queue.shelf.handed_from = max(handed_from, offset)
                self._store.update(name, offset, increase_only=False)
            else:  # its new owner may be further
                log.warning("offset %d of %s is not committed: it is not this consumer's", offset,
                            name)  # fmt: skip

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets, whatever was committed."""
        mine = {name: offset for name, offset in offsets.items() if name in self._queues}
        for name, offset in mine.items():
            self._queues[name].move(offset)
            self._moved(name, offset)
        await self._store.persist(mine.keys())

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to fetch."""
        self._is_started = True
        for queue in self._queues.values():
            queue.start()

    async def release(self) -> None:
        """Keep the offsets of queues that were given up, and forget them."""
        left, self._left = self._left, []
        if not left:
            return
        names = [queue.name for queue in left]
        try:
            await asyncio.gather(*(queue.closed() for queue in left))
            await self._store.persist(names)
        except BaseException:
            self._left += left  # the next one does it
            raise
        for name in names:
            if name not in self._queues:  # it may be back
                self._store.remove(name)

    async def close(self) -> None:
        """Give up all queues."""
        self.change(())
        await self.release()
