"""Consumption in any order: many calls of a listener at the same time, whatever queue it is of.

The consume offset of a queue is that of its first message which is not consumed. What a listener
could not consume is given back to a broker, and counts as consumed when the broker has it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from roketto.client.consumption import end_calls
from roketto.client.errors import ClientError
from roketto.client.listeners import (
    Called,
    ConsumeContext,
    Consumed,
    ConsumeResult,
    NotBegunError,
)
from roketto.client.owned_queue import NoSlots, OwnedQueue, PushParts
from roketto.client.pending import Batch, Pending
from roketto.client.received import ReceivedMessage
from roketto.client.rows import Row, Rows
from roketto.client.send_back import FIRST_DELAY_LEVEL
from roketto.clock import monotonic_s

__all__ = ["ConcurrentConsumption"]

log = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
"""When messages are consumed here again that no broker has taken back."""
_FAILED: Final = "messages of %r are consumed again in %g s"
_CLEANED_MAX: Final = 16
"""Messages of a queue that are taken from a listener in one round."""
_GIVEN_BACK_AT_ONCE: Final = 32
_CALLS_IN_A_ROW: Final = 16
"""Of a listener that never waits; then others in the loop have their turn."""


class _Done:
    """What was consumed of a queue in one row."""

    __slots__ = ("calls", "messages", "taken_ms")

    def __init__(self) -> None:
        self.calls = 0
        self.messages: list[ReceivedMessage] = []
        self.taken_ms = 0.0


class ConcurrentConsumption:
    """Started and stopped by its consumer; loops submit what they have pulled.

    How much waits here is bounded by what the loops of all queues may have pulled.
    """

    def __init__(self, parts: PushParts, queues: Callable[[], Iterable[OwnedQueue]]) -> None:
        self._parts = parts
        self._queues = queues
        self._pending = Pending()
        self._rows = Rows(parts.calls, self._pending)
        self._workers: list[asyncio.Task[None]] = []
        self._busy: set[asyncio.Task[None]] = set()
        self._cleaner: asyncio.Task[None] | None = None
        self._later: set[asyncio.TimerHandle] = set()
        self._is_stopping = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        work = self._work_in_rows if self._may_row else self._work
        self._workers = [loop.create_task(work()) for _ in range(self._parts.tuning.concurrency)]
        self._cleaner = loop.create_task(self._clean())

    @property
    def _may_row(self) -> bool:
        """Whoever iterates over messages wants them one by one."""
        return isinstance(self._parts.slots, NoSlots) and self._parts.calls.may_row

    def submit(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        """Have these consumed, when it is their turn."""
        size = self._parts.tuning.batch_max
        self._pending.put(
            [
                Batch(queue, messages[begin : begin + size])
                for begin in range(0, len(messages), size)
            ]
        )

    async def stop(self) -> None:
        """Begin nothing more; listeners that take too long are cancelled, or left to themselves."""
        self._is_stopping = self._rows.is_stopping = True
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

    async def _try_consume(self, batch: Batch) -> bool:
        """Whether a listener was called; whatever goes wrong, the worker goes on."""
        queue, messages = batch.queue, batch.messages
        if queue.is_dropped:
            return False
        try:
            queue.messages.begin(messages)
            consumed = await self._parts.calls.run(list(messages), ConsumeContext(queue.name))
            await self._settle(batch, consumed)
        except NotBegunError:
            return False
        except Exception:
            log.exception(_FAILED, queue, AGAIN_S)
            self._submit_later(batch)
        return True

    async def _work_in_rows(self) -> None:
        """The same for many quick calls in a row, which are settled together."""
        me = asyncio.current_task()
        assert me is not None
        rows = self._rows
        while not self._is_stopping:
            await self._pending.wait()
            self._busy.add(me)
            try:
                row, is_over = Row(), False
                while not is_over:
                    is_over = await rows.call(row)
                    self._settle_consumed(row.take_consumed())
                    for batch, called in row.take_others():
                        await self._finish(batch, called)
            finally:
                self._busy.discard(me)
            await asyncio.sleep(0)

    def _settle_consumed(self, batches: list[Batch]) -> None:
        """Let all of these count, but for what was lost meanwhile."""
        done: dict[OwnedQueue, _Done] = {}
        for batch in batches:
            queue = batch.queue
            some = done.get(queue)
            if some is None:
                some = done[queue] = _Done()
            some.calls += 1
            some.taken_ms += batch.took_ms
            some.messages += batch.messages
        for queue, some in done.items():
            count = len(some.messages)
            self._parts.rates.of(queue.name.topic).consume(count, 0, some.taken_ms, some.calls)
            if queue.is_dropped:
                self._tell_lost(queue, count)
            else:
                self._forget(queue, some.messages)

    async def _finish(self, batch: Batch, called: Called) -> None:
        try:
            await self._settle(batch, await self._parts.calls.finish(called))
        except NotBegunError:
            return
        except Exception:
            log.exception(_FAILED, batch.queue, AGAIN_S)
            self._submit_later(batch)

    async def _settle(self, batch: Batch, consumed: Consumed) -> None:
        """What was consumed counts, the rest is to come again."""
        queue, messages = batch.queue, batch.messages
        count = len(messages)
        done = _done_count(consumed, count)
        self._parts.rates.of(queue.name.topic).consume(done, count - done, consumed.took_ms)
        kept: list[ReceivedMessage] = []
        if done < count and not queue.is_dropped:
            kept = await self._give_back(queue, messages[done:], consumed.context.delay_level)
        if queue.is_dropped:
            self._tell_lost(queue, count)
            return
        if kept:
            messages = [message for message in messages if message not in kept]
            self._submit_later(Batch(queue, kept))
        self._forget(queue, messages)

    def _tell_lost(self, queue: OwnedQueue, count: int) -> None:
        log.debug("%d messages of %r were consumed after it was lost, and come again", count, queue)

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

    def _submit_later(self, batch: Batch) -> None:
        if self._is_stopping:
            return

        def submit() -> None:
            self._later.discard(handle)
            if not batch.queue.is_dropped:
                self._pending.put([batch])

        handle = asyncio.get_running_loop().call_later(AGAIN_S, submit)
        self._later.add(handle)

    # --- listeners that take too long -------------------------------------------------------------

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(self._parts.tuning.consume_timeout_s)
            self._rows.note_begun()
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
