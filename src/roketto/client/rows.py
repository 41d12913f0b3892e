"""Calls of a listener in a row, one after the other as long as it is quick: here, or in a thread.

A way into a thread and back costs more than dozens of calls, and so does a turn of the loop.
Nothing is reserved for a row: if one of its calls takes long, others call the listener for what
waits, and the calls before it count at once.
"""

import asyncio
from collections import deque
from typing import Final

from roketto.client.listeners import Called, ConsumeContext, ConsumeResult, ListenerCalls
from roketto.client.pending import Batch, Pending
from roketto.clock import monotonic_s

__all__ = ["Row", "Rows"]

_ROW_S: Final = 0.002
"""How long a row goes on."""
_ROW_MAX: Final = 64
"""How many calls it has in the loop, where others want to have their turn..."""
_THREAD_ROW_MAX: Final = 1_024
"""...and in a thread, where the loop needs only as long for each of them as to let it count."""
_ATTENDED_S: Final = 0.005
"""A row in a thread that takes longer has a listener that waits: the next thread begins."""


class Row:
    """The calls of a row: a thread adds them, and the loop takes them, also in between.

    What was simply consumed leaves its batch here and nothing else: whatever lives until the end of
    a row is looked through by the garbage collector, which then takes longer than the calls.
    """

    __slots__ = ("_consumed", "_others", "batch", "begun_s", "running")

    def __init__(self) -> None:
        self._consumed: deque[Batch] = deque()
        self._others: deque[tuple[Batch, Called]] = deque()
        self.batch: Batch | None = None
        """What the listener has now, in a thread..."""
        self.begun_s: float = 0.0
        """...and since when."""
        self.running: asyncio.Future[None] | None = None
        """Done with the row, which is in a thread."""

    def add(self, batch: Batch, called: Called) -> None:
        """A call has ended, or waits for something."""
        consumed = called.consumed
        if consumed.result is ConsumeResult.SUCCESS and consumed.context.ack_index + 1 >= len(
            batch.messages
        ):
            batch.took_ms = consumed.took_ms
            self._consumed.append(batch)
        else:
            self._others.append((batch, called))

    def take_consumed(self) -> list[Batch]:
        """What was consumed since the last time."""
        consumed = self._consumed
        return [consumed.popleft() for _ in range(len(consumed))]

    def take_others(self) -> list[tuple[Batch, Called]]:
        """The calls since the last time that have to be awaited, or have failed."""
        others = self._others
        return [others.popleft() for _ in range(len(others))]


class Rows:
    """The rows of one consumption; several workers may call at the same time.

    await pending.wait()
    row, is_over = Row(), False
    while not is_over:
        is_over = await rows.call(row)
        for batch in row.take_consumed(): ...
        for batch, called in row.take_others(): ...
    """

    def __init__(self, calls: ListenerCalls, pending: Pending) -> None:
        self._calls = calls
        self._pending = pending
        self._in_threads: set[Row] = set()
        self.is_stopping = False
        """No more calls are begun."""

    async def call(self, row: Row) -> bool:
        """Call the listener for some of what waits, if there is still something; whether that is
        over. If it is not, one of the calls takes long: wait for it with another ``call``."""
        if not self._calls.is_threaded:
            self._here(row)
            return True
        if row.running is None:
            return await self._begin_in_thread(row)
        await row.running
        return True

    async def _begin_in_thread(self, row: Row) -> bool:
        pending = self._pending
        pending.is_attended = True
        running = row.running = self._calls.begin_in_thread(self._in_thread, row)
        self._in_threads.add(row)
        running.add_done_callback(lambda _: self._in_threads.discard(row))
        try:
            await asyncio.wait((running,), timeout=_ATTENDED_S)
        except asyncio.CancelledError:
            running.cancel()
            raise
        finally:
            pending.is_attended = False
        if running.done():
            running.result()
            return True
        pending.wake_one()
        return False

    def note_begun(self) -> None:
        """Let queues know since when listeners have had what they have now, in threads."""
        for row in self._in_threads:
            batch = row.batch
            if batch is not None:
                batch.queue.messages.begin(batch.messages, row.begun_s)

    def _in_thread(self, row: Row) -> None:
        calls, pending = self._calls, self._pending
        now_s = monotonic_s()
        until_s = now_s + _ROW_S
        count = 0
        while count < _THREAD_ROW_MAX and now_s < until_s and not self.is_stopping:
            batch = pending.take()
            if batch is None:
                break
            if batch.queue.is_dropped:
                continue
            row.begun_s, row.batch = now_s, batch
            row.add(batch, calls.run_here(list(batch.messages), ConsumeContext(batch.queue.name)))
            count += 1
            now_s = monotonic_s()
        row.batch = None

    def _here(self, row: Row) -> None:
        calls, pending = self._calls, self._pending
        until_s = monotonic_s() + _ROW_S
        count = 0
        while not self.is_stopping and (batch := pending.take()) is not None:
            queue, messages = batch.queue, batch.messages
            if queue.is_dropped:
                continue
            called = calls.run_here(list(messages), ConsumeContext(queue.name))
            row.add(batch, called)
            if called.rest is not None:
                queue.messages.begin(messages)
                pending.wake_one()
                break
            count += 1
            if count >= _ROW_MAX or monotonic_s() >= until_s:
                break
