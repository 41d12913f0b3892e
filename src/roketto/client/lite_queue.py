"""One queue of a lite pull consumer: a task that fetches ahead, and where it is.

Everything that moves a queue (a seek, an operator) empties its shelf, sets its position and begins
a new task, all in one turn of the loop. What an older task still gets is thrown away, so that no
answer to a request from before a seek can count after it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from roketto.client.errors import ClientError, RefusedError, UnreachableError
from roketto.client.lite_stock import Shelf, Stock
from roketto.client.message import MessageQueue
from roketto.client.pulling import Pulled, PullStatus
from roketto.client.routes import MASTER_ID
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.bodies.running import ProcessQueueInfo
from roketto.protocol.codes import ResponseCode

__all__ = ["LiteQueue", "PullQueue", "StartOffset"]

log = logging.getLogger(__name__)

PullQueue = Callable[[MessageQueue, int, int], Awaitable[Pulled]]
"""Pulls a queue from an offset on, from the broker with an id."""
StartOffset = Callable[[MessageQueue], Awaitable[int]]
"""Where a queue begins that was just got."""
Moved = Callable[[MessageQueue, int], None]

_NO_START_S: Final = 3.0
_FAILED_S: Final = 1.0
_BUSY_S: Final = 0.02
"""How long to wait after a failure, as Java: without a place to begin, of a pull, and when a broker
asks to go slower."""


class LiteQueue:
    """Fetches ahead what comes in a queue; made, started, and dropped by the assignment.

    queue = LiteQueue(MessageQueue("broker-a", 0, "T"), stock, start_offset, pull)
    queue.start()
    queue.move(17)      # seek
    queue.drop()
    await queue.closed()
    """

    def __init__(
        self, name: MessageQueue, stock: Stock, start_offset: StartOffset, pull: PullQueue
    ) -> None:
        self.name = name
        self.shelf = Shelf(stock)
        self.position: int | None = None
        """Where the next pull begins; None before that is known."""
        self.is_dropped = False
        self.on_moved: Moved | None = None
        """Called when its broker has sent it elsewhere."""
        self._stock = stock
        self._start_offset = start_offset
        self._pull = pull
        self._broker_id = MASTER_ID
        self._is_failing = False
        self._last_pull_ms = 0
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- where it is ------------------------------------------------------------------------------

    @property
    def consume_offset(self) -> int | None:
        """All before it was handed out, or not wanted; None before the queue has begun."""
        first = self.shelf.first_offset
        return self.position if first is None else first

    @property
    def handled_offset(self) -> int | None:
        """The same without what was handed out last, which nobody may have handled yet."""
        handed_from = self.shelf.handed_from
        return self.consume_offset if handed_from is None else handed_from

    def info(self, committed: int) -> ProcessQueueInfo:
        """What an operator is shown of it."""
        shelf = self.shelf
        return ProcessQueueInfo(
            cached_msg_count=shelf.count,
            cached_msg_max_offset=shelf.last_offset or 0,
            cached_msg_min_offset=shelf.first_offset or 0,
            cached_msg_size_mib=shelf.body_bytes // (1024 * 1024),
            commit_offset=committed,
            dropped=self.is_dropped,
            last_consume_timestamp=shelf.last_taken_ms,
            last_pull_timestamp=self._last_pull_ms,
        )

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to fetch, if it has not begun."""
        if self._task is None and not self.is_dropped:
            self._begin()

    def move(self, queue_offset: int) -> None:
        """Go on at an offset; what is in hand is forgotten."""
        self.shelf.clear()
        self.position = queue_offset
        if self._task is not None:
            self._task.cancel()
            self._begin()

    def refetch(self) -> None:
        """Fetch again what is in hand: something else is wanted of the queue now."""
        consume_offset, handed_from = self.consume_offset, self.shelf.handed_from
        if consume_offset is not None:
            self.move(consume_offset)
            self.shelf.handed_from = handed_from

    def drop(self) -> int | None:
        """End, and say what may be committed: up to where all that was handed out is handled."""
        handled_offset = self.handled_offset
        self.is_dropped = True
        self.shelf.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        return handled_offset

    async def closed(self) -> None:
        """Wait until nothing of it runs any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self) -> None:
        task = asyncio.get_running_loop().create_task(self._run())
        self._task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- fetching ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        me = asyncio.current_task()
        while self._task is me:
            try:
                await self._wait_for_room()
                wait_s = await self._fetch(me)
            except ClientError as error:
                wait_s = self._failed(error)
            except Exception:
                log.exception("pulling %s failed, and is tried again", self.name)
                wait_s = _FAILED_S
            if wait_s:
                await asyncio.sleep(wait_s)

    async def _wait_for_room(self) -> None:
        shelf, stock = self.shelf, self._stock
        while True:
            if shelf.is_paused or shelf.is_full:
                shelf.room.clear()
                await shelf.room.wait()
            elif not stock.room.is_set():
                await stock.room.wait()
            else:
                return

    async def _fetch(self, me: asyncio.Task[None] | None) -> float:
        """Find where to begin, or pull once; how long to wait before the next time."""
        position = self.position
        if position is None:
            start_offset = await self._start_offset(self.name)
            if self._task is me:
                self.position = start_offset
            return 0.0
        began_s = monotonic_s()
        self._last_pull_ms = wall_ms()
        pulled = await self._pull(self.name, position, self._broker_id)
        if self._task is not me:
            return 0.0  # moved or dropped meanwhile: a cancelled task may still get its answer
        if self._is_failing:
            self._is_failing = False
            log.info("pulling %s works again", self.name)
        self._broker_id = pulled.broker_id
        self._take_in(position, pulled)
        # A broker on which too many wait answers at once: it is not asked again in a hurry.
        is_early = pulled.status is PullStatus.NO_NEW and monotonic_s() - began_s < _BUSY_S
        return _BUSY_S if is_early else 0.0

    def _take_in(self, position: int, pulled: Pulled) -> None:
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            self._correct(position, pulled)
        messages = pulled.messages
        if messages and messages[0].queue_offset < position:
            # Of a batch that is stored as one, the messages before the offset come with the rest.
            messages = [message for message in messages if message.queue_offset >= position]
        self.position = pulled.next_offset
        if messages:
            self.shelf.put(messages)

    def _correct(self, position: int, pulled: Pulled) -> None:
        """Go where the broker says.

        What is in hand is kept if the next messages were deleted: it is all there is of them. It is
        forgotten if an operator has moved the group (the offset was no illegal one) or the queue
        has become shorter, which makes other messages of these offsets.
        """
        next_offset = pulled.next_offset
        is_legal = pulled.min_offset <= position <= pulled.max_offset
        log.warning("%s has no offset %d (it has %d to %d), and goes on at %d", self.name, position,
                    pulled.min_offset, pulled.max_offset, next_offset)  # fmt: skip
        if is_legal or next_offset < position:
            self.shelf.clear()
            if self.on_moved is not None:
                self.on_moved(self.name, next_offset)

    def _failed(self, error: ClientError) -> float:
        """How long to wait after an error; it is logged once, not every second."""
        if isinstance(error, UnreachableError):
            self._broker_id = MASTER_ID
        if isinstance(error, RefusedError) and error.code == ResponseCode.FLOW_CONTROL:
            return _BUSY_S
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        log.log(level, "pulling %s failed, and is tried again: %s", self.name, error)
        return _NO_START_S if self.position is None else _FAILED_S
