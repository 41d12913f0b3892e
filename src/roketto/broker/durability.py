"""The only place that waits for the disk: answers leave when their messages are safe enough.

Under ASYNC_FLUSH an answer leaves at once. Under SYNC_FLUSH it is kept, without a task, until the
flushing thread has synced the log behind its message; everything that one sync made safe is
answered in the same turn, with one write for each connection.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.connection import Connection, Reply


class _Waiting(NamedTuple):
    end: int
    deadline_s: float
    connection: Connection
    request: Command
    answer: Command


class Durability:
    """Answers waiting for the disk, in the order of the log.

    Their requests are held: the bounds on requests under way are bounds on this table, too.

    durability = Durability(store.advance, is_sync=True, timeout_s=5.0)
    durability.attach(asyncio.get_running_loop())
    return durability.answer_when_safe(connection, request, answer, where.end)

    ``note_flushed`` and ``note_failure`` are for the store's flushing thread.
    """

    def __init__(
        self,
        advance: Callable[[], int],
        *,
        is_sync: bool,
        timeout_s: float,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self._advance_store = advance
        self._is_sync = is_sync
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._waiting: deque[_Waiting] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_told = False
        self._failure: OSError | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say which loop answers; before the store is opened."""
        self._loop = loop

    def detach(self) -> None:
        """Take note of nothing more: the store is about to be closed."""
        self._loop = None

    def __len__(self) -> int:
        """How many answers wait."""
        return len(self._waiting)

    def answer_when_safe(
        self, connection: Connection, request: Command, answer: Command, end: int
    ) -> Reply:
        """The answer, or None if it leaves later; ``end`` is where its messages end in the log."""
        if not self._is_sync:
            return answer
        connection.hold()
        deadline_s = self._now_s() + self._timeout_s
        self._waiting.append(_Waiting(end, deadline_s, connection, request, answer))
        return None

    # --- called by the flushing thread ------------------------------------------------------------

    def note_flushed(self, _offset: int) -> None:
        """More of the log is on the disk."""
        self._tell()

    def note_failure(self, error: OSError) -> None:
        """Nothing more will be."""
        self._failure = error
        self._tell()

    def _tell(self) -> None:
        loop = self._loop  # the owner's thread may let go of it at any moment
        if self._is_told or loop is None or loop.is_closed():
            return
        self._is_told = True  # whatever is flushed until the loop comes to it, it will see
        loop.call_soon_threadsafe(self._settle)

    # --- on the loop ------------------------------------------------------------------------------

    def _settle(self) -> None:
        self._is_told = False
        if self._loop is None:
            return
        flushed = self._advance_store()
        waiting = self._waiting
        while waiting and waiting[0].end <= flushed:
            _, _, connection, request, answer = waiting.popleft()
            connection.release(request, answer)
        if self._failure is not None:
            self._give_up(len(waiting), f"a write to the disk has failed: {self._failure}")

    def expire(self) -> None:
        """Answer what has waited too long: it is stored, and nobody knows how safely."""
        now_s = self._now_s()
        late = 0
        for entry in self._waiting:
            if entry.deadline_s > now_s:
                break
            late += 1
        self._give_up(late, f"the disk took more than {self._timeout_s:g} s (syncFlushTimeout)")

    def _give_up(self, count: int, reason: str) -> None:
        for _ in range(count):
            _, _, connection, request, answer = self._waiting.popleft()
            answer.code = ResponseCode.FLUSH_DISK_TIMEOUT
            answer.remark = reason
            connection.release(request, answer)
