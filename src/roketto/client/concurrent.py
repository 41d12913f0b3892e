"""Consumption in any order: many calls of a listener at the same time, whatever queue it is of.

The consume offset of a queue is that of its first message which is not consumed. What a listener
could not consume is given back to a broker, and counts as consumed when the broker has it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from roketto.client.consumption import end_calls
from roketto.client.errors import ClientError
from roketto.client.listeners import ConsumeContext, Consumed, ConsumeResult, NotBegunError
from roketto.client.message import ReceivedMessage
from roketto.client.owned_queue import OwnedQueue, PushParts
from roketto.client.send_back import FIRST_DELAY_LEVEL
from roketto.clock import monotonic_s

__all__ = ["ConcurrentConsumption"]

log = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
"""When messages are consumed here again that no broker has taken back."""
_CLEANED_MAX: Final = 16
"""Messages of a queue that are taken from a listener in one round."""
_GIVEN_BACK_AT_ONCE: Final = 32
_SWEPT_MIN: Final = 1_024
_CALLS_IN_A_ROW: Final = 16
"""Of a listener that never waits; then others in the loop have their turn."""


class _Batch(NamedTuple):
    queue: OwnedQueue
    messages: list[ReceivedMessage]


class _Pending(asyncio.Queue[_Batch]):
    """Batches that wait for their turn; those of queues that were lost do not pile up."""

    def _init(self, maxsize: int) -> None:
        self._batches: deque[_Batch] = deque()
        self._sweep_at = _SWEPT_MIN

    def qsize(self) -> int:
        return len(self._batches)

    def empty(self) -> bool:
        return not self._batches

    def _get(self) -> _Batch:
        return self._batches.popleft()

    def _put(self, item: _Batch) -> None:
        self._batches.append(item)
        if len(self._batches) > self._sweep_at:
            self._batches = deque(one for one in self._batches if not one.queue.is_dropped)
            self._sweep_at = max(_SWEPT_MIN, 2 * len(self._batches))


class ConcurrentConsumption:
    """Started and stopped by its consumer; loops submit what they have pulled.

    How much waits here is bounded by what the loops of all queues may have pulled.
    """

    def __init__(self, parts: PushParts, queues: Callable[[], Iterable[OwnedQueue]]) -> None:
        self._parts = parts
        self._queues = queues
        self._pending = _Pending()
        self._workers: list[asyncio.Task[None]] = []
        self._busy: set[asyncio.Task[None]] = set()
        self._cleaner: asyncio.Task[None] | None = None
        self._later: set[asyncio.TimerHandle] = set()
        self._is_stopping = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._workers = [
            loop.create_task(self._work()) for _ in range(self._parts.tuning.concurrency)
        ]
        self._cleaner = loop.create_task(self._clean())

    def submit(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        """Have these consumed, when it is their turn."""
        size = self._parts.tuning.batch_max
        for begin in range(0, len(messages), size):
            self._pending.put_nowait(_Batch(queue, messages[begin : begin + size]))

    async def stop(self) -> None:
        """Begin nothing more; listeners that take too long are cancelled, or left to themselves."""
        self._is_stopping = True
        for handle in self._later:
            handle.cancel()
        idle = [task for task in self._workers if task not in self._busy]
        if self._cleaner is not None:
            idle.append(self._cleaner)
        parts = self._parts
        await end_calls(parts.group, idle, list(self._busy), parts.tuning.stop_timeout_s)

    # --- workers ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        slots = self._parts.slots
        calls = 0
        while not self._is_stopping:
            await slots.acquire()
            is_used = False
            try:
                batch = await self._pending.get()
                self._busy.add(me)
                is_used = await self._try_consume(batch)
            finally:
                self._busy.discard(me)
                slots.release(is_used=is_used)
            calls += 1
            if calls % _CALLS_IN_A_ROW == 0:
                await asyncio.sleep(0)

    async def _try_consume(self, batch: _Batch) -> bool:
        """Whether a listener was called; whatever goes wrong, the worker goes on."""
        try:
            return await self._consume(batch)
        except NotBegunError:
            return False
        except Exception:
            log.exception("messages of %r are consumed again in %g s", batch.queue, AGAIN_S)
            self._submit_later(batch)
            return True

    async def _consume(self, batch: _Batch) -> bool:
        queue, messages = batch
        if queue.is_dropped:
            return False
        context = ConsumeContext(queue.name)
        queue.messages.begin(messages)
        consumed = await self._parts.calls.run(list(messages), context)
        done = _done_count(consumed, len(messages))
        self._parts.rates.of(queue.name.topic).consume(done, len(messages) - done, consumed.took_ms)
        await self._settle(queue, messages, done, context.delay_level)
        return True

    async def _settle(
        self, queue: OwnedQueue, messages: list[ReceivedMessage], done: int, delay_level: int
    ) -> None:
        """The first ``done`` are consumed, the others are to come again."""
        kept: list[ReceivedMessage] = []
        if done < len(messages) and not queue.is_dropped:
            kept = await self._give_back(queue, messages[done:], delay_level)
        if queue.is_dropped:
            log.debug("%d messages of %r were consumed after it was lost, and come again",
                      len(messages), queue)  # fmt: skip
            return
        if kept:
            messages = [message for message in messages if message not in kept]
            self._submit_later(_Batch(queue, kept))
        self._forget(queue, messages)

    def _forget(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        consume_offset = queue.messages.remove(messages)
        if consume_offset >= 0:
            self._parts.store.update(queue.name, consume_offset, increase_only=True)
        queue.consumed()

    # --- what could not be consumed ---------------------------------------------------------------

    async def _give_back(
        self, queue: OwnedQueue, messages: list[ReceivedMessage], delay_level: int
    ) -> list[ReceivedMessage]:
        """Give messages to brokers; those that none has taken."""
        if not self._parts.is_clustering:
            log.warning("all members of group %s get everything, and nothing comes again: %s of %r"
                        " are not consumed", self._parts.group, len(messages), queue)  # fmt: skip
            return []
        # Those that are not here any more took too long, and were given back then.
        messages = [message for message in messages if message in queue.messages]
        kept: list[ReceivedMessage] = []
        for begin in range(0, len(messages), _GIVEN_BACK_AT_ONCE):
            some = messages[begin : begin + _GIVEN_BACK_AT_ONCE]
            taken = await asyncio.gather(
                *(self._is_given_back(message, delay_level) for message in some)
            )
            kept += [item for item, is_taken in zip(some, taken, strict=True) if not is_taken]
        for message in kept:
            message.reconsume_times += 1
        return kept

    async def _is_given_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        try:
            await self._parts.send_back.give_back(message, delay_level)
        except ClientError as error:
            log.warning("%r is consumed here again in %g s: %s", message, AGAIN_S, error)
            return False
        return True

    def _submit_later(self, batch: _Batch) -> None:
        if self._is_stopping:
            return

        def submit() -> None:
            self._later.discard(handle)
            if not batch.queue.is_dropped:
                self._pending.put_nowait(batch)

        handle = asyncio.get_running_loop().call_later(AGAIN_S, submit)
        self._later.add(handle)

    # --- listeners that take too long -------------------------------------------------------------

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(self._parts.tuning.consume_timeout_s)
            for queue in list(self._queues()):
                try:
                    await self._clean_queue(queue)
                except Exception:
                    log.exception("%r was not looked through, and is the next time", queue)

    async def _clean_queue(self, queue: OwnedQueue) -> None:
        """Let others have what holds back the queue, because its listener does not end."""
        timeout_s = self._parts.tuning.consume_timeout_s
        for _ in range(_CLEANED_MAX):
            message, begun_s = queue.messages.first, queue.messages.first_begun_s
            if queue.is_dropped or message is None or begun_s is None:
                return
            if monotonic_s() - begun_s <= timeout_s:
                return
            log.warning("the listener of group %s has had %r for more than %g s: it comes again",
                        self._parts.group, message, timeout_s)  # fmt: skip
            kept = await self._give_back(queue, [message], FIRST_DELAY_LEVEL)
            if kept or queue.is_dropped:
                return
            if queue.messages.first is message:
                self._forget(queue, [message])


def _done_count(consumed: Consumed, size: int) -> int:
    """How many messages of a batch count as consumed, from the first on."""
    if consumed.result is ConsumeResult.SUCCESS:
        return max(0, min(consumed.context.ack_index + 1, size))
    if consumed.result in (ConsumeResult.COMMIT, ConsumeResult.ROLLBACK):
        log.warning("a listener of group %s has returned %s, which is for those that consume in"
                    " order: its messages come again", consumed.group, consumed.result)  # fmt: skip
    return 0
