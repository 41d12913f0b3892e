"""The only place that waits for the disk: answers leave when their messages are safe enough.

Under ASYNC_FLUSH an answer leaves at once. Under SYNC_FLUSH it is kept, without a task, until the
flushing thread has synced the log behind its message; everything that one sync made safe is
answered in the same turn, with one write for each connection.

While the disk syncs nothing and more and more answers wait for it, it is busy: whoever would send
then is refused before anything is stored, and may try another broker at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NoReturn

from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.errors import RequestError
from roketto.protocol.frame import LENGTH_BYTES
from roketto.remoting.connection import Connection, Reply

NEVER_S: Final = float("inf")

_BUSY_LEAST: Final = 128
"""Answers that must wait before a disk is taken for busy. With fewer it is only slow, and they are
better off where they are: the sync that ends covers all of them."""


def _nothing() -> None:
    """What a log is asked for that syncs without being asked."""


class _Waiting:
    """One answer that waits: a command for a request, or what is written already."""

    __slots__ = ("answer", "connection", "end", "request", "since_s", "written")

    def __init__(
        self,
        end: int,
        since_s: float,
        connection: Connection,
        request: Command | None,
        answer: Command | None,
        written: bytes,
    ) -> None:
        self.end: int = end
        self.since_s: float = since_s
        self.connection: Connection = connection
        self.request: Command | None = request
        self.answer: Command | None = answer
        self.written: bytes = written

    def release(self) -> None:
        """Let it leave with the next ``proceed`` of its connection."""
        if self.request is None or self.answer is None:
            self.connection.release_written(self.written)
        else:
            self.connection.release(self.request, self.answer)

    def fail(self, reason: str) -> None:
        """The same, but it says that nobody knows how safe its message is."""
        answer = self.answer or decode_command(memoryview(self.written)[LENGTH_BYTES:])
        answer.code = ResponseCode.FLUSH_DISK_TIMEOUT
        answer.remark = reason
        if self.answer is None:
            self.written = encode_command(answer)
        self.release()


class Durability:
    """Answers waiting for the disk, in the order of the log.

    Their requests are held: the bounds on requests under way are bounds on this table, too.

    durability = Durability(store.advance, is_sync=True, timeout_s=5.0)
    durability.attach(asyncio.get_running_loop())
    if durability.is_busy:
        durability.refuse()                # RequestError; before the message is stored
    return durability.answer_when_safe(connection, request, answer, where.end)

    ``timeout_s`` and ``busy_after_s`` may change at any time. ``note_taken`` is told how many
    milliseconds each answer has waited. ``request_flush`` is asked to sync the log at the end of a
    turn in which somebody has called ``want_flush``. ``note_flushed`` and ``note_failure`` are for
    the store's flushing thread.
    """

    def __init__(
        self,
        advance: Callable[[], int],
        *,
        is_sync: bool,
        timeout_s: float,
        request_flush: Callable[[], None] = _nothing,
        busy_after_s: float = NEVER_S,
        note_taken: Callable[[int], None] | None = None,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self.timeout_s = timeout_s
        """syncFlushTimeout: an answer that has waited longer says so, and leaves."""
        self.busy_after_s = busy_after_s
        """osPageCacheBusyTimeOutMills: how long the oldest answer waits for a disk that is busy."""
        self.is_busy = False
        """Whether sends are to be refused; one look at it is all that they cost."""
        self._advance_store = advance
        self._request_flush = request_flush
        self._is_wanted = False
        self._is_sync = is_sync
        self._note_taken = note_taken or _ignore
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

    @property
    def waited_ms(self) -> int:
        """How long the oldest of them has waited."""
        return _milliseconds(self._now_s() - self._waiting[0].since_s) if self._waiting else 0

    def answer_when_safe(
        self, connection: Connection, request: Command, answer: Command, end: int
    ) -> Reply:
        """The answer, or None if it leaves later; ``end`` is where its messages end in the log."""
        if not self._is_sync:
            return answer
        connection.hold()
        self._waiting.append(_Waiting(end, self._now_s(), connection, request, answer, b""))
        return None

    def write_when_safe(self, connection: Connection, answer: bytes, end: int) -> None:
        """The same for an answer that is written already, as its frame."""
        if not self._is_sync:
            connection.put(answer)
            return
        connection.hold()
        self._waiting.append(_Waiting(end, self._now_s(), connection, None, None, answer))

    def want_flush(self) -> None:
        """A message waits for the disk: have it synced once this turn of the loop is over."""
        if not self._is_wanted and self._loop is not None:
            self._is_wanted = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_wanted = False
        self._request_flush()

    def refuse(self) -> NoReturn:
        """Raise what a send is told while the disk is busy."""
        raise RequestError(
            ResponseCode.SYSTEM_BUSY,
            "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue:"
            f" {self.waited_ms}ms, size of queue: {len(self._waiting)}: the disk has synced"
            f" nothing for longer than {self.busy_after_s * 1000:g} ms"
            " (osPageCacheBusyTimeOutMills); send to another broker",
        )

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
        now_s = self._now_s()
        touched: dict[Connection, None] = {}
        while waiting and waiting[0].end <= flushed:
            entry = waiting.popleft()
            self._note_taken(_milliseconds(now_s - entry.since_s))
            entry.release()
            touched[entry.connection] = None
        for connection in touched:
            connection.proceed()
        if self._failure is not None:
            reason = f"a write to the disk has failed: {self._failure}"
            self._give_up(len(waiting), reason, now_s)
        if self.is_busy:
            self._judge(now_s)

    def expire(self) -> None:
        """Answer what has waited too long: it is stored, and nobody knows how safely."""
        now_s = self._now_s()
        late = 0
        for entry in self._waiting:
            if now_s - entry.since_s < self.timeout_s:
                break
            late += 1
        reason = f"the disk took more than {self.timeout_s:g} s (syncFlushTimeout)"
        self._give_up(late, reason, now_s)
        self._judge(now_s)

    def _give_up(self, count: int, reason: str, now_s: float) -> None:
        for _ in range(count):
            entry = self._waiting.popleft()
            self._note_taken(_milliseconds(now_s - entry.since_s))
            entry.fail(reason)
            entry.connection.proceed()

    def _judge(self, now_s: float) -> None:
        waiting = self._waiting
        self.is_busy = (
            len(waiting) >= _BUSY_LEAST and now_s - waiting[0].since_s > self.busy_after_s
        )


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _ignore(_taken_ms: int) -> None:
    """What happens to times that nobody asked for."""
