"""One peer: decoder, answers in order of readiness, back-pressure, idle and frame deadlines.

Everything that one read brings is handled before one write: a handler that needs no waiting
answers at once, into a list that goes out in a single call when the read is used up, or a little
later where many connections read in one turn of the loop (vigil.py). Only a handler that waits
costs a task.

A handler that returns None answers later (``reply``) or never. ``hold`` and ``release`` do the same
for requests that count as under way, so that a peer cannot pile them up.

Both ends may ask. A command without the response bit goes to the handler; one with it completes
the call of ours that has its opaque.

Back-pressure has one rule: while the peer does not read (its write buffer is above the bound) or
has too many requests waiting, we do not read from it, and what was already read stays undecoded.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeAlias, cast

from mypy_extensions import i64

from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import ONE_WAY_FLAG, Body, Command, decode_command, encode_head
from roketto.protocol.errors import ProtocolError, RequestError
from roketto.protocol.frame import LENGTH_BYTES, FrameDecoder, whole_frame
from roketto.protocol.hosts import NO_HOST
from roketto.remoting.errors import (
    ConnectionLostError,
    RemotingError,
    TooManyRequestsError,
)
from roketto.remoting.lane import Lane
from roketto.remoting.load import Load
from roketto.remoting.memo import Memo
from roketto.remoting.open_calls import OpenCalls
from roketto.remoting.outlet import Outlet
from roketto.remoting.peer_address import address_text, host_bytes
from roketto.remoting.settings import ConnectionSettings
from roketto.remoting.vigil import Vigil, Writer

log = logging.getLogger(__name__)

Reply: TypeAlias = Command | Coroutine[Any, Any, Command | None] | None
Handler: TypeAlias = "Callable[[Connection, Command], Reply]"

_FLUSH_BYTES = 256 * 1024
"""Answers of one read go out together, but not more than this is held back for it."""

_CALL_PIECES_MAX = 32
"""Heads and bodies of our own requests that leave together: the peer begins with these while we
still write others."""

_opaques = count(1)


def next_opaque() -> int:
    """A number for a new request: unique among those in flight, a positive 31-bit integer."""
    return next(_opaques) & 0x7FFF_FFFF


def refuse_requests(connection: "Connection", request: Command) -> Command:
    """The handler of an end that serves nothing: what Java answers to an unknown code."""
    return request.answer(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        remark=f" request type {request.code} not supported",
    )


class Connection(Writer):
    """One TCP connection, on either side of it.

    Made by Server or connect(); lives until ``close`` or until the peer goes. ``sweep`` must be
    called about once a second by whoever owns the connection: it enforces the deadlines, so that
    no read has to start a timer.
    """

    __slots__ = (
        "_calls", "_close_callbacks", "_decoder", "_flush_soon", "_frame_started_s", "_frames",
        "_held", "_is_active", "_last_active_s", "_load", "_loop", "_memo", "_out", "_out_bytes",
        "_outlet", "_plain", "_reading", "_settings", "_tasks", "_transport", "_vigil",
        "_waiting_since_s", "_writable", "_write_stalled_s", "close_reason", "closed", "handler",
        "lane", "peer", "peer_host", "waited_s",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        settings: ConnectionSettings,
        load: Load | None = None,
        memo: Memo | None = None,
        vigil: Vigil | None = None,
        lane: Lane | None = None,
        plain: socket.socket | None = None,
    ) -> None:
        """``plain`` is the socket where no TLS lies between it and the transport."""
        self.handler = handler
        self.lane: Lane | None = lane
        self._plain = plain
        self._outlet: Outlet | None = None
        self._memo = memo
        self._vigil = vigil
        self._settings = settings
        self._load = load or Load(settings.requests_in_flight_max)
        self._decoder = FrameDecoder(settings.frame_bytes_max)
        self._frames: deque[memoryview] = deque()
        self._waiting_since_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._calls: OpenCalls = OpenCalls(self._loop)
        self._tasks: dict[asyncio.Task[Command | None], Command] = {}
        self._held = 0
        self._out: list[Body] = []
        self._out_bytes = 0
        self._flush_soon = False
        self._close_callbacks: list[Callable[[Connection], None]] = []
        self._transport: asyncio.Transport | None = None
        self._reading = False
        self._is_active = False
        self._last_active_s = monotonic_s()
        self._frame_started_s: float | None = None
        self._write_stalled_s: float | None = None
        self._writable: asyncio.Future[None] | None = None
        self.peer = "unconnected"
        self.peer_host = NO_HOST
        self.closed = False
        self.close_reason: str | None = None
        self.waited_s = 0.0
        """How long the request that is handled now had to wait since it was read; mostly not."""

    # --- what users of a connection call ----------------------------------------------------------

    async def request(self, command: Command, timeout_ms: int) -> Command:
        """Send a request and return its answer, or raise a RemotingError."""
        if self.closed:
            raise ConnectionLostError(self.peer, self._lost_text())
        if len(self._calls) >= self._settings.calls_in_flight_max:
            raise TooManyRequestsError(
                self.peer,
                f"{len(self._calls)} requests without an answer, the bound; wait for some of them",
            )
        command.opaque = next_opaque()
        self._calls.peer = self.peer
        call = self._calls.open(command, timeout_ms)
        try:
            if self._writable is not None:  # the call's own deadline ends this wait, too
                await asyncio.wait((self._writable, call), return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                self._send_call(command)
            return await call
        finally:
            self._calls.close(command.opaque)

    def send_one_way(self, command: Command) -> bool:
        """Send a request that nobody answers; False if the peer is gone or does not read."""
        if self.closed or self._write_stalled_s is not None:
            return False
        command.opaque = next_opaque()
        command.flag |= ONE_WAY_FLAG
        self._send(command)
        return True

    def reply(self, request: Command, answer: Command) -> None:
        """Answer a request whose handler returned None; all replies of a turn are one write."""
        self._answer(request, answer)
        if self._out and not self._flush_soon:
            self._flush_soon = True
            self._loop.call_soon(self._flush_replies)

    def hold(self) -> None:
        """Count a request whose handler returned None as under way, until ``release``."""
        self._held += 1
        self._load.in_flight += 1

    def release(self, request: Command, answer: Command) -> None:
        """Answer a request that was held; the answer leaves with the next ``proceed``."""
        self._held -= 1
        self._load.in_flight -= 1
        self._answer(request, answer)

    def release_written(self, answer: bytes) -> None:
        """The same for an answer that is written already, as its frame."""
        self._held -= 1
        self._load.in_flight -= 1
        if not self.closed:
            self.put(answer)

    def proceed(self) -> None:
        """Let the answers to what was held leave, and go on with what had to wait for that."""
        if self._frames or not self._reading:
            self._handle_waiting()
        else:
            self._flush()

    def flush(self) -> None:
        """Let answers leave that were kept for those of other connections."""
        if not self.closed:
            self._flush()

    def add_close_callback(self, callback: "Callable[[Connection], None]") -> None:
        """Call ``callback(connection)`` once, when the connection has ended."""
        self._close_callbacks.append(callback)

    def close(self, reason: str) -> None:
        """End the connection; what is buffered for the peer still goes out."""
        if not self.closed and self._transport is not None:
            self._note_close(reason)
            self._flush()
            self._transport.close()

    def abort(self, reason: str) -> None:
        """End the connection at once; buffered bytes are dropped."""
        if not self.closed and self._transport is not None:
            self._note_close(reason)
            self._transport.abort()

    @property
    def tasks(self) -> frozenset[asyncio.Task[Command | None]]:
        """The handlers still at work for this peer."""
        return frozenset(self._tasks)

    @property
    def is_serving(self) -> bool:
        """Whether requests of this peer are under way, in tasks or held."""
        return bool(self._tasks or self._held)

    @property
    def bytes_in(self) -> int:
        """What has come from the peer; of a server's connection, from all its peers."""
        return self._load.bytes_in

    @property
    def waiting(self) -> int:
        """How many requests have been read and wait until they may be handled."""
        return len(self._frames)

    @property
    def is_write_stalled(self) -> bool:
        """Whether the peer has let its write buffer fill up."""
        return self._write_stalled_s is not None

    def sweep(self, now_s: float) -> None:
        """Close or drop the connection if one of its deadlines has passed."""
        limits = self._settings
        if self._is_active:  # noted here and not with every read: a read needs no clock
            self._is_active = False
            self._last_active_s = now_s
        stalled_s = self._write_stalled_s
        if stalled_s is not None and now_s - stalled_s > limits.write_deadline_s:
            self._drop(
                f"it did not read for {limits.write_deadline_s:g} s while "
                f"{limits.write_buffer_bytes_max} bytes waited"
            )
        elif (
            self._frame_started_s is not None
            and self._reading
            and now_s - self._frame_started_s > limits.frame_deadline_s
        ):
            self._drop(
                f"a frame was not complete after {limits.frame_deadline_s:g} s "
                f"({self._decoder.pending_bytes} bytes came)"
            )
        elif now_s - self._last_active_s > limits.idle_s and not (self._calls or self.is_serving):
            self.close(f"idle for {limits.idle_s:g} s")

    # --- what the event loop calls ----------------------------------------------------------------

    def as_protocol(self) -> asyncio.Protocol:
        """This connection, as event loops want to be given it.

        They ask for these methods and not for the class; a class that is compiled cannot be
        derived from one that is not.
        """
        return cast("asyncio.Protocol", self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(self._settings.write_buffer_bytes_max)
        self._outlet = Outlet(self._transport, self._plain)
        peername = transport.get_extra_info("peername")
        self.peer = address_text(peername)
        self.peer_host = host_bytes(peername)
        self._reading = True

    def data_received(self, data: bytes) -> None:
        self._is_active = True
        self._load.bytes_in += len(data)
        if self._vigil is not None:
            self._vigil.note_read()
        decoder = self._decoder
        memo = self._memo
        if memo is not None and not decoder.pending_bytes and not self._frames:
            # A read is often exactly one frame, and then there is nothing to take apart.
            known = memo.recall(data) if self._may_handle() else None
            if known is not None:
                self._write(known)
                return
        try:
            has_frame = self._receive(data)
        except ProtocolError as error:
            self._break(error)
            return
        if not decoder.pending_bytes:
            self._frame_started_s = None
        elif has_frame or self._frame_started_s is None:
            self._frame_started_s = monotonic_s()
        if self._out and (self._vigil is None or not self._vigil.hold(self)):
            self._flush()

    def pause_writing(self) -> None:
        self._write_stalled_s = monotonic_s()
        self._writable = self._loop.create_future()
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._write_stalled_s = None
        self._release_writers()
        self._handle_waiting()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._note_close("the peer closed it" if error is None else f"it broke: {error}")
        self._frames.clear()
        self._out.clear()
        self._release_writers()
        self._calls.fail(ConnectionLostError(self.peer, self._lost_text()))
        for task in self._tasks:
            task.cancel()
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            callback(self)

    # --- one read ---------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> bool:
        """Handle the frames that are whole now, as far as they may be; whether there were any."""
        decoder = self._decoder
        at: i64 = 0
        has_frame = False
        if decoder.pending_bytes:
            frame, at = decoder.complete(data)
            if frame is not None:
                has_frame = True
                self._take_frame(frame)
        lane = self.lane
        while True:
            end = decoder.end_of_frame(data, at)
            if not end:
                break
            begin = at + LENGTH_BYTES
            at = end
            has_frame = True
            if self._frames or not self._may_handle():
                self._let_wait(memoryview(data)[begin:end])
            elif lane is None or self._load.is_full or not self._ask(lane, data, begin, end):
                self._handle_frame(memoryview(data)[begin:end])
        decoder.keep(data, at)
        return has_frame

    def _ask(self, lane: Lane, data: bytes, begin: i64, end: i64) -> bool:
        """Whether the lane has taken a frame. One in which it fails is not handled a second time:
        nobody knows how much was done for it."""
        try:
            return lane.answer(self, data, begin, end)
        except Exception as error:  # noqa: BLE001 (as that of a handler, it becomes an answer)
            request = decode_command(memoryview(data)[begin:end])
            self._answer(request, failure_answer(request, error))
            return True

    def _take_frame(self, frame: memoryview) -> None:
        """Handle a frame that came in pieces, now or when its turn comes."""
        if self._frames or not self._may_handle():
            self._let_wait(frame)
        else:
            self._handle_frame(frame)

    def _let_wait(self, frame: memoryview) -> None:
        """Keep a frame until it may be handled, and read no more before that."""
        if not self._frames:
            self._waiting_since_s = monotonic_s()
        self._frames.append(frame)
        self._adjust_reading()

    # --- one frame --------------------------------------------------------------------------------

    def _may_handle(self) -> bool:
        return (
            not self.closed
            and self._write_stalled_s is None
            and len(self._tasks) + self._held < self._settings.requests_in_flight_max
        )

    def _handle_waiting(self) -> None:
        """Go on with frames that had to wait, then read again."""
        if self._frames and self._may_handle():
            self.waited_s = monotonic_s() - self._waiting_since_s
            while self._frames and self._may_handle():
                self._handle_frame(self._frames.popleft())
            self.waited_s = 0.0
        self._flush()
        self._adjust_reading()

    def _handle_frame(self, frame: memoryview) -> None:
        memo = self._memo
        if memo is not None:
            whole = whole_frame(frame)
            known = memo.recall(whole)
            if known is not None:
                self.put(known)
                return
        try:
            command = decode_command(frame)
        except ProtocolError as damage:
            self._break(damage)
            return
        if command.flag & 1:
            self._complete_call(command)
            return
        if self._load.is_full:
            self._answer(
                command, command.answer(ResponseCode.SYSTEM_BUSY, remark=self._load.text())
            )
            return
        try:
            reply = self.handler(self, command)
        except Exception as error:  # noqa: BLE001 (every failure of a handler becomes an answer)
            self._answer(command, failure_answer(command, error))
            return
        if reply is None:
            return
        if isinstance(reply, Command):
            self._answer(command, reply)
            if memo is not None:
                memo.remember(whole, command, reply)
        else:
            self._start_task(command, reply)

    def _complete_call(self, answer: Command) -> None:
        if not self._calls.answer(answer):
            log.debug("%s: answer %d has no request waiting for it", self.peer, answer.opaque)

    def _start_task(self, request: Command, work: Coroutine[Any, Any, Command | None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = request
        self._load.in_flight += 1
        task.add_done_callback(self._task_done)
        self._adjust_reading()

    def _task_done(self, task: asyncio.Task[Command | None]) -> None:
        request = self._tasks.pop(task)
        self._load.in_flight -= 1
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._answer(request, task.result())
        elif isinstance(error, Exception):
            self._answer(request, failure_answer(request, error))
        self._handle_waiting()

    def _answer(self, request: Command, answer: Command | None) -> None:
        if answer is None or request.flag & ONE_WAY_FLAG or self.closed:
            return
        try:
            self._queue(answer)
        except ProtocolError as error:  # it cannot be written in the request's serialisation
            self._queue(failure_answer(request, error))

    # --- writing ----------------------------------------------------------------------------------

    def _send(self, command: Command) -> None:
        if not self.closed:
            self._queue(command)
            self._flush()

    def _send_call(self, command: Command) -> None:
        """Where several callers have requests under way, those of a turn are one write: a write
        each costs more than all the rest of a request."""
        if self.closed:
            return
        self._queue(command)
        if len(self._calls) == 1 or len(self._out) >= _CALL_PIECES_MAX:
            self._flush()
        elif not self._flush_soon:
            self._flush_soon = True
            self._loop.call_soon(self._flush_replies)

    def _queue(self, command: Command) -> None:
        if not command.views:
            self.put(encode_head(command), command.body)
            return
        self.put(encode_head(command), command.views[0])
        for view in command.views[1:]:
            self.put(view)

    def put(self, head: Body, body: Body = b"") -> None:
        """Let an answer, as its frame or in two pieces, go out with the others of this read."""
        self._out.append(head)
        self._out_bytes += len(head)
        if body:
            self._out.append(body)
            self._out_bytes += len(body)
        if self._out_bytes > _FLUSH_BYTES:
            self._flush()

    def _flush_replies(self) -> None:
        self._flush_soon = False
        self.flush()

    def _flush(self) -> None:
        out = self._out
        outlet = self._outlet
        if not out or outlet is None:
            return
        self._load.bytes_out += self._out_bytes
        self._out = []
        self._out_bytes = 0
        self._is_active = True
        if len(out) == 1:
            outlet.write(out[0])
        else:
            outlet.write_all(out)

    def _write(self, data: bytes) -> None:
        assert self._outlet is not None
        self._load.bytes_out += len(data)
        self._outlet.write(data)

    def _adjust_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        may_read = self._may_handle() and not self._frames
        if may_read != self._reading:
            self._reading = may_read
            if may_read:
                if self._frame_started_s is not None:  # the pause was ours, not the peer's
                    self._frame_started_s = monotonic_s()
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _release_writers(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)

    # --- ends -------------------------------------------------------------------------------------

    def _drop(self, reason: str) -> None:
        log.warning("%s: dropped, %s", self.peer, reason)
        self.abort(reason)

    def _break(self, error: ProtocolError) -> None:
        log.warning("%s: closed, it broke the protocol: %s", self.peer, error)
        self._frames.clear()
        self.abort(str(error))

    def _note_close(self, reason: str) -> None:
        if not self.closed:
            self.closed = True
            self.close_reason = reason

    def _lost_text(self) -> str:
        return f"connection lost: {self.close_reason}"


def failure_answer(request: Command, error: Exception) -> Command:
    """The answer for a handler that raised: a refusal as it says, anything else code 1."""
    if isinstance(error, RequestError):
        return request.answer(error.code, remark=error.reason)
    if not isinstance(error, RemotingError):
        log.error("request code %d failed", request.code, exc_info=error)
    return request.answer(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
