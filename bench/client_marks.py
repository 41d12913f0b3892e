"""What a client did between two moments: its messages, its processor time, and that of others."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from broker_servers import Server
from client_process import ClientFailedError
from load import process_cpu_s, resident_mb

_IDLE_FIELDS: Final = (3, 4)
"""Of the first line of /proc/stat: idle, and waiting for a disk."""
_BUSY_FIELDS: Final = 8
"""User, nice, system, idle, waiting, two kinds of interrupts, and what the host kept."""


_NOTHING_S_MAX: Final = 10.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment of a turn."""

    at_s: float
    messages: int
    client_cpu_s: float
    broker_cpu_s: float
    busy_cpu_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One turn of a client at a broker."""

    messages_per_s: float
    client_us: float
    """Processor time of the client's process for a message."""
    broker_us: float
    """And of the broker, with a proxy where there is one."""
    client_cpu: float
    """Cores that the client had."""
    others_cpu: float
    """Cores of all other processes, and what the host kept for itself: should be near zero."""
    memory_mb: float
    """Of the client's process, resident."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def take_mark(pid: int, server: Server, messages: int, beside: Sequence[int] = ()) -> Mark:
    """How things stand now; ``beside`` are processes that do a part of the broker's work."""
    return Mark(
        at_s=time.monotonic(),
        messages=messages,
        client_cpu_s=process_cpu_s(pid),
        broker_cpu_s=server.cpu_s() + sum(map(process_cpu_s, beside)),
        busy_cpu_s=busy_cpu_s(),
    )


def measure_for(seconds: float, mark: Callable[[], Mark]) -> tuple[Mark, Mark]:
    """Marks so far apart; further where nothing was done, which a busy machine needs."""
    first = mark()
    time.sleep(seconds)
    last = mark()
    while last.messages == first.messages and last.at_s - first.at_s < seconds + _NOTHING_S_MAX:
        time.sleep(_LOOK_S)
        last = mark()
    return first, last


def make_figures(first: Mark, last: Mark, pid: int) -> Figures:
    """From one mark to the other; the process must still be there."""
    seconds = last.at_s - first.at_s
    messages = last.messages - first.messages
    if not messages:
        raise ClientFailedError(f"nothing was done in {seconds:.1f} s")
    client_s = last.client_cpu_s - first.client_cpu_s
    broker_s = last.broker_cpu_s - first.broker_cpu_s
    busy_s = last.busy_cpu_s - first.busy_cpu_s
    return Figures(
        messages_per_s=messages / seconds,
        client_us=client_s * 1e6 / messages,
        broker_us=broker_s * 1e6 / messages,
        client_cpu=client_s / seconds,
        others_cpu=max(0.0, busy_s - client_s - broker_s) / seconds,
        memory_mb=resident_mb(pid),
    )


def median_figures(rounds: Sequence[Figures]) -> Figures:
    """Each figure by itself."""
    return Figures(
        *(
            statistics.median(getattr(one, field.name) for one in rounds)
            for field in fields(Figures)
        )
    )


def busy_cpu_s() -> float:
    """Seconds that all cores together have worked since the machine was started."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(word) for word in line.split()[1 : _BUSY_FIELDS + 1]]
    idle = sum(ticks[field] for field in _IDLE_FIELDS)
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")
