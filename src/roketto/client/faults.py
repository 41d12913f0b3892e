"""Brokers that are slow or do not answer, and for how long others are preferred to them.

The table is Java's. A send that took so long keeps its broker from being chosen for so long:

    latency at least   50   100   550   1800   3000   5000   15000 ms
    unavailable for     0     0     2      5      6     10      30 s

A broker that failed counts as one that took 10 s. Besides that it may be *unreachable*: then it is
not chosen until a send to it, or the detector, has succeeded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from roketto.clock import monotonic_s

__all__ = ["Detector", "Faults", "unavailable_ms"]

log = logging.getLogger(__name__)

_TABLE: Final = (
    (15_000, 30_000), (5_000, 10_000), (3_000, 6_000), (1_800, 5_000), (550, 2_000),
)  # fmt: skip
ISOLATION_MS: Final = 10_000
"""The latency that a failure counts as."""
_ROUND_S: Final = 3.0
"""How often the detector looks whom to ask."""


def unavailable_ms(latency_ms: float) -> int:
    """For how long a broker with that latency is left alone."""
    for least_ms, away_ms in _TABLE:
        if latency_ms >= least_ms:
            return away_ms
    return 0


class _Fault:
    __slots__ = ("check_s", "is_reachable", "until_s")

    def __init__(self) -> None:
        self.until_s = 0.0
        self.check_s = 0.0
        self.is_reachable = True


class Faults:
    """What is known of each broker; one per producer. There are as many as routes have brokers.

    faults.note("broker-a", latency_ms=12)
    faults.note("broker-a", latency_ms=3_000, is_isolated=True, is_reachable=False)
    faults.is_available("broker-a")     # False for 10 s
    """

    def __init__(
        self, detect_interval_ms: int = 2_000, clock: Callable[[], float] = monotonic_s
    ) -> None:
        self._interval_s = detect_interval_ms / 1000
        self._clock = clock
        self._faults: dict[str, _Fault] = {}

    def note(
        self,
        broker_name: str,
        latency_ms: float,
        *,
        is_isolated: bool = False,
        is_reachable: bool = True,
    ) -> None:
        """A send has ended. How long a broker is left alone only ever grows by it."""
        fault = self._faults.get(broker_name)
        if fault is None:
            fault = self._faults[broker_name] = _Fault()
        away_ms = unavailable_ms(ISOLATION_MS if is_isolated else latency_ms)
        if away_ms:
            fault.until_s = max(fault.until_s, self._clock() + away_ms / 1000)
            log.info("broker %s is left alone for %d ms", broker_name, away_ms)
        if not is_reachable and fault.is_reachable:
            log.info("broker %s does not answer; others are preferred until it does", broker_name)
        fault.is_reachable = is_reachable

    def is_available(self, broker_name: str) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or self._clock() >= fault.until_s

    def is_reachable(self, broker_name: str) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or fault.is_reachable

    def due(self) -> list[str]:
        """Brokers that were not asked for an interval; they count as asked now."""
        now_s = self._clock()
        found = [name for name, fault in self._faults.items() if now_s >= fault.check_s]
        for name in found:
            self._faults[name].check_s = now_s + self._interval_s
        return found

    def note_answer(self, broker_name: str) -> None:
        """A broker that was asked has answered."""
        fault = self._faults.get(broker_name)
        if fault is not None and not fault.is_reachable:
            log.info("broker %s answers again", broker_name)
            fault.is_reachable = True

    def forget(self, broker_name: str) -> None:
        """A broker that is in no route any more."""
        self._faults.pop(broker_name, None)


class Detector:
    """Asks brokers that have failed whether they answer, from ``start`` to ``stop``.

    ``ask`` returns whether a broker of that name answers, None if there is none.
    """

    def __init__(self, faults: Faults, ask: Callable[[str], Awaitable[bool | None]]) -> None:
        self._faults = faults
        self._ask = ask
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_ROUND_S)
            await self.look()

    async def look(self) -> None:
        """One round."""
        for name in self._faults.due():
            answers = await self._ask(name)
            if answers is None:
                self._faults.forget(name)
            elif answers:
                self._faults.note_answer(name)
