"""Consumption in order: one message of a queue after the other, while its lock is held.

Each queue with messages has a task. What cannot be consumed is tried again in place, and whatever
is behind it waits.
"""

import asyncio
import logging
from typing import Final

from roketto.client.consumption import end_calls
from roketto.client.errors import ClientError
from roketto.client.listeners import ConsumeContext, Consumed, ConsumeResult, NotBegunError
from roketto.client.owned_queue import OwnedQueue, PushParts
from roketto.client.queue_locks import QueueLocks
from roketto.client.received import ReceivedMessage

__all__ = ["OrderlyConsumption"]

log = logging.getLogger(__name__)

_UNLOCKED_S: Final = 3.0
"""When a lock is asked for again that could not be had, as Java."""
_CALLS_IN_A_ROW: Final = 16
"""Of a listener that never waits; then others in the loop have their turn."""


class OrderlyConsumption:
    """Started and stopped by its consumer; loops submit what they have pulled."""

    def __init__(self, parts: PushParts, locks: QueueLocks) -> None:
        self._parts = parts
        self._locks = locks
        self._limit = parts.tuning.reconsume_limit(True)
        self._lanes: dict[OwnedQueue, asyncio.Task[None]] = {}
        self._calls = 0
        self._is_stopping = False

    def start(self) -> None:
        """Nothing: a queue has a task when it has messages."""

    def submit(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        """Have the queue consumed, unless that is under way."""
        if queue not in self._lanes and not self._is_stopping:
            task = asyncio.get_running_loop().create_task(self._run(queue))
            self._lanes[queue] = task
            task.add_done_callback(lambda _: self._ended(queue))

    def _ended(self, queue: OwnedQueue) -> None:
        self._lanes.pop(queue, None)
        if queue.messages.has_messages and not queue.is_dropped:
            self.submit(queue, [])  # they came when the task had just ended

    async def stop(self) -> None:
        """Begin nothing more; listeners that take too long are cancelled, or left to themselves."""
        self._is_stopping = True
        lanes = self._lanes.items()
        busy = [task for queue, task in lanes if queue.consuming.locked()]
        idle = [task for queue, task in lanes if not queue.consuming.locked()]
        parts = self._parts
        await end_calls(parts.group, idle, busy, parts.tuning.stop_timeout_s)

    # --- one queue --------------------------------------------------------------------------------

    async def _run(self, queue: OwnedQueue) -> None:
        """Until nothing is left, or the queue is lost."""
        wait_s: float | None = 0.0
        while wait_s is not None:
            if wait_s:
                await asyncio.sleep(wait_s)
            try:
                wait_s = await self._step(queue)
            except NotBegunError:
                queue.messages.rollback()
                return
            except Exception:
                log.exception("%r is consumed again in %g s", queue, _UNLOCKED_S)
                queue.messages.rollback()
                wait_s = _UNLOCKED_S

    async def _step(self, queue: OwnedQueue) -> float | None:
        """Consume a batch: how long to wait before the next one, None if that is all."""
        if self._is_over(queue):
            return None
        if not await self._is_mine(queue):
            return _UNLOCKED_S
        slots = self._parts.slots
        await slots.acquire()
        is_used = False
        try:
            async with queue.consuming:
                # Others had their turn meanwhile: look again.
                if self._is_over(queue):
                    return None
                if self._parts.needs_locks and not queue.is_locked:
                    return 0.0
                messages = queue.messages.take(self._parts.tuning.batch_max)
                if not messages:
                    return None
                is_used = True
                return await self._consume(queue, messages)
        finally:
            slots.release(is_used=is_used)

    def _is_over(self, queue: OwnedQueue) -> bool:
        return queue.is_dropped or self._is_stopping

    async def _is_mine(self, queue: OwnedQueue) -> bool:
        if not self._parts.needs_locks or queue.is_locked:
            return True
        return bool(await self._locks.lock([queue]))

    async def _consume(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> float:
        context = ConsumeContext(queue.name)
        consumed = await self._parts.calls.run(list(messages), context)
        result = consumed.result or ConsumeResult.LATER
        if context.auto_commit and result in (ConsumeResult.COMMIT, ConsumeResult.ROLLBACK):
            log.warning("a listener of group %s has returned %s with auto_commit: that counts as"
                        " SUCCESS", self._parts.group, result)  # fmt: skip
            result = ConsumeResult.SUCCESS
        is_failed = result is ConsumeResult.LATER
        if result is not ConsumeResult.ROLLBACK:
            self._count(queue, len(messages), consumed, is_failed=is_failed)
        wait_s = 0.0
        if is_failed:
            wait_s = await self._later(queue, messages, context)
        elif result is ConsumeResult.ROLLBACK:
            queue.messages.rollback()
            wait_s = self._parts.tuning.suspend_s(context.suspend_ms)
        elif context.auto_commit or result is ConsumeResult.COMMIT:
            self._commit(queue)
        self._calls += 1
        if not wait_s and self._calls % _CALLS_IN_A_ROW == 0:
            await asyncio.sleep(0)
        return wait_s

    def _count(self, queue: OwnedQueue, size: int, consumed: Consumed, *, is_failed: bool) -> None:
        done, failed = (0, size) if is_failed else (size, 0)
        self._parts.rates.of(queue.name.topic).consume(done, failed, consumed.took_ms)

    def _commit(self, queue: OwnedQueue) -> None:
        """Commit what was taken, also of a queue that was just lost: its lock is still held."""
        consume_offset = queue.messages.commit()
        if consume_offset >= 0 and not queue.is_void:
            self._parts.store.update(queue.name, consume_offset, increase_only=False)
        queue.consumed()

    # --- what could not be consumed ---------------------------------------------------------------

    async def _later(
        self, queue: OwnedQueue, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> float:
        """Put messages back in place, those that failed too often aside: how long to wait then."""
        again = [message for message in messages if not await self._is_dead(queue, message)]
        for message in again:
            message.reconsume_times += 1
        if not again:
            if context.auto_commit:
                self._commit(queue)
            return 0.0
        if len(again) == len(messages) or not context.auto_commit:
            queue.messages.put_back(messages)
        else:
            # Dead letters between others: they are not tried again, but nothing is committed yet.
            queue.messages.put_back(again)
            queue.messages.commit()
        return self._parts.tuning.suspend_s(context.suspend_ms)

    async def _is_dead(self, queue: OwnedQueue, message: ReceivedMessage) -> bool:
        """Whether it has failed too often, and is among the dead letters of the group now."""
        if message.reconsume_times < self._limit or queue.is_void:
            return False
        if not self._parts.is_clustering:
            log.warning("%r is given up after %d times", message, message.reconsume_times + 1)
            return True
        try:
            await self._parts.send_back.send_anew(message)
        except ClientError as error:
            log.warning("%r stays in its queue: %s", message, error)
            return False
        log.warning("group %s has given up %r after %d times: it is a dead letter",
                    self._parts.group, message, message.reconsume_times + 1)  # fmt: skip
        return True
