"""One turn of a client that is a program in Python: so long of sending, or one backlog."""

import time
from collections.abc import Sequence
from typing import Final

from broker_servers import Server
from client_marks import Figures, Mark, make_figures, measure_for, take_mark
from client_process import ClientFailedError, ClientProcess
from client_sizes import BODY_BYTES, QUEUES

_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_CONSUME_TIMEOUT_S: Final = 90.0


def send_turn(
    process: ClientProcess,
    server: Server,
    topic: str,
    ramp_s: float,
    seconds: float,
    *,
    beside: Sequence[int] = (),
    may_fail: bool = False,
) -> Figures:
    """Let it send for so long, counted by the broker; then all that was acknowledged is there.

    Of one that ``may_fail`` that is not asked: what it sends again may be there twice.
    """

    def mark() -> Mark:
        return take_mark(process.pid, server, sum(server.queue_ends(topic, QUEUES)), beside)

    before = sum(server.queue_ends(topic, QUEUES))
    with process:
        process.hear("ready", _START_TIMEOUT_S)
        time.sleep(ramp_s)
        first, last = measure_for(seconds, mark)
        figures = make_figures(first, last, process.pid)
        process.stop()
        failed = process.hear("failed", _STOP_TIMEOUT_S)
        acknowledged = process.hear("acknowledged", _STOP_TIMEOUT_S)
    if not may_fail:
        if failed:
            raise ClientFailedError(f"{failed} of {failed + acknowledged} sends have failed")
        server.await_messages(topic, QUEUES, before + acknowledged)
    return figures


def consume_turn(
    process: ClientProcess,
    server: Server,
    *,
    beside: Sequence[int] = (),
    timeout_s: float = _CONSUME_TIMEOUT_S,
) -> Figures:
    """Let it consume until it says that the measured part of its backlog has come."""
    with process:
        first = _hear_mark(process, "first", server, beside, timeout_s)
        last = _hear_mark(process, "last", server, beside, timeout_s)
        return make_figures(first, last, process.pid)


def _hear_mark(
    process: ClientProcess, word: str, server: Server, beside: Sequence[int], timeout_s: float
) -> Mark:
    messages = process.hear(word, timeout_s)
    return take_mark(process.pid, server, messages, beside)


def send_words(body_bytes: int = BODY_BYTES, at_once: int = 1) -> list[str]:
    """What a program that sends is told behind where and what."""
    return [str(body_bytes), str(at_once)]


def consume_words(group: str, messages: int, seconds: float = _CONSUME_TIMEOUT_S) -> list[str]:
    """What a program that consumes is told: from the first tenth to the last one it is measured."""
    return [group, str(messages // 10), str(messages * 9 // 10), str(seconds)]
