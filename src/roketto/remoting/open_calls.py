"""Requests of ours that wait for their answers, each with its deadline, and one timer for all.

A timer for each request would cost as much as its frame: nearly all of them are cancelled.
"""

import asyncio
from typing import Final

from roketto.protocol.command import Command
from roketto.remoting.errors import RemotingError, RequestTimeoutError

__all__ = ["OpenCalls"]

_LOOK_S_LEAST: Final = 0.01
"""How soon to look again for more that are late: many that end one by one are ended by some."""


class _Call:
    """One request; ``answer`` is what its caller waits for."""

    __slots__ = ("answer", "code", "deadline_s", "timeout_ms")

    def __init__(
        self, answer: "asyncio.Future[Command]", code: int, timeout_ms: int, deadline_s: float
    ) -> None:
        self.answer = answer
        self.code = code
        self.timeout_ms = timeout_ms
        self.deadline_s = deadline_s


class OpenCalls:
    """Those of one connection, by their opaques.

    answer = calls.open(command, timeout_ms)
    try:
        return await answer         # RequestTimeoutError, or what ``fail`` was given
    finally:
        calls.close(command.opaque)
    """

    __slots__ = ("_by_opaque", "_due_s", "_loop", "_timer", "peer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.peer = ""
        """What errors call the other end."""
        self._loop = loop
        self._by_opaque: dict[int, _Call] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due_s: float = 0.0

    def __len__(self) -> int:
        return len(self._by_opaque)

    def open(self, command: Command, timeout_ms: int) -> "asyncio.Future[Command]":
        """Let a request be answered, within so much time."""
        loop = self._loop
        answer: asyncio.Future[Command] = loop.create_future()
        deadline_s = loop.time() + timeout_ms / 1000
        self._by_opaque[command.opaque] = _Call(answer, command.code, timeout_ms, deadline_s)
        if self._timer is None or deadline_s < self._due_s:
            self._look_at(deadline_s)
        return answer

    def answer(self, answer: Command) -> bool:
        """Give an answer to who waits for it; whether anybody does."""
        call = self._by_opaque.get(answer.opaque)
        if call is None or call.answer.done():
            return False
        call.answer.set_result(answer)
        return True

    def close(self, opaque: int) -> None:
        """Nobody waits for it any more."""
        self._by_opaque.pop(opaque, None)

    def fail(self, error: RemotingError) -> None:
        """No answer will come: the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call in self._by_opaque.values():
            if not call.answer.done():
                call.answer.set_exception(error)

    def _look_at(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = when_s
        self._timer = self._loop.call_at(when_s, self._end_late)

    def _end_late(self) -> None:
        """End what is late by now, and look again when the next one would be."""
        self._timer = None
        now_s = self._loop.time()
        next_s = 0.0
        for call in self._by_opaque.values():
            if call.answer.done():
                continue
            if call.deadline_s <= now_s:
                call.answer.set_exception(
                    RequestTimeoutError(
                        self.peer,
                        f"no answer to request code {call.code} within {call.timeout_ms} ms",
                    )
                )
            elif not next_s or call.deadline_s < next_s:
                next_s = call.deadline_s
        if next_s:
            self._look_at(max(next_s, now_s + _LOOK_S_LEAST))
