"""Stay awake for the next request of a conversation instead of sleeping and being woken.

A client that asks, reads the answer and asks again leaves the server with nothing to do for a few
microseconds. Going to sleep and being woken costs several times as much as the whole answer, more
on a virtual machine. So while reads follow each other quickly, the event loop looks for the next
one without sleeping, for ``spin_s`` at most; then it sleeps as ever.

What this may waste is bounded. It begins only after two reads close to each other, and each watch
in vain makes it leave out twice as many reads as the one before it.

While it is awake it sees each turn of the loop, and how many connections have read in it. Where
they are many, their answers leave a few at a time: a client that sleeps until there is something to
read is then woken once for all of them, and not by each.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

from roketto.clock import monotonic_s

_NEAR: Final = 3
"""Reads this many times ``spin_s`` apart are near: the gap is measured with both ends sleeping."""

_VAIN_MAX: Final = 10
"""After so many watches in vain one read in 1,024 is followed by another try."""

_CROWD_LEAST: Final = 4
"""Reads in one turn; with fewer, nobody is woken much less often by answers that wait."""

_TOGETHER_MAX: Final = 16
"""Connections whose answers leave together; with more, the first of them would wait long for the
last."""


class Writer:
    """What has something to write; a connection."""

    __slots__ = ()

    def flush(self) -> None:
        """Write it."""
        raise NotImplementedError


class Vigil:
    """One event loop's decision whether to sleep; the connections of a server share it."""

    __slots__ = (
        "_call_soon", "_clock", "_is_crowded", "_is_watching", "_leave_out", "_read_s", "_reads",
        "_spin_s", "_vain", "_writers",
    )  # fmt: skip

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        spin_s: float,
        clock: Callable[[], float] = monotonic_s,
    ) -> None:
        self._call_soon = call_soon
        self._spin_s = spin_s
        self._clock = clock
        self._is_watching = False
        self._reads = 0  # in this turn
        self._is_crowded = False
        self._writers: list[Writer] = []
        self._read_s = float("-inf")
        self._leave_out = 0
        self._vain = 0

    def note_read(self) -> None:
        """A connection has read something."""
        if self._is_watching:
            self._reads += 1
            return
        now_s = self._clock()
        is_near = now_s - self._read_s <= self._spin_s * _NEAR
        self._read_s = now_s
        if not is_near:
            return
        if self._leave_out:
            self._leave_out -= 1
            return
        self._is_watching = True
        self._call_soon(self._watch)

    def hold(self, writer: Writer) -> bool:
        """Whether what there is to write leaves with that of others, in this turn; if not, it is
        left to the writer. It may write more, or all of it, meanwhile."""
        if not self._is_crowded:
            return False
        self._writers.append(writer)
        if len(self._writers) >= _TOGETHER_MAX:
            self._let_leave()
        return True

    def _let_leave(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.flush()

    def _watch(self) -> None:
        """One turn of the loop. Being called again at once is what keeps the loop from sleeping."""
        if self._writers:
            self._let_leave()
        now_s = self._clock()
        self._is_crowded = self._reads >= _CROWD_LEAST
        if self._reads:
            self._reads = 0
            self._read_s = now_s
            self._vain = 0
        elif now_s - self._read_s > self._spin_s:
            self._is_watching = False
            self._vain = min(self._vain + 1, _VAIN_MAX)
            self._leave_out = 1 << self._vain
            return
        self._call_soon(self._watch)


def make_vigil(loop: asyncio.AbstractEventLoop, spin_s: float) -> Vigil | None:
    """A vigil, or None where it is turned off or would keep the only processor from the client."""
    if spin_s <= 0 or _processors() < 2:
        return None
    return Vigil(loop.call_soon, spin_s)


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
