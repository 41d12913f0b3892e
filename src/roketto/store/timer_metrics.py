"""How many timer messages wait for each topic: ``config/timermetrics``."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.bodies.stats import TimerMetric, TimerMetricsSerializeWrapper
from roketto.store.files import Files
from roketto.store.table import Table

__all__ = ["TIMER_METRICS_FILE", "TimerMetricsTable"]

TIMER_METRICS_FILE: Final = "timermetrics"
TOPICS_MAX: Final = 200_000
"""As many as there may be in the table of topics; what is beyond is not counted."""


class TimerMetricsTable(Table[TimerMetricsSerializeWrapper]):
    """Topic -> the messages that wait for it. See ``Table``."""

    def __init__(
        self, files: Files, config: Path, *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        super().__init__(
            files, config / TIMER_METRICS_FILE, TimerMetricsSerializeWrapper, "timingCount",
            clock_ms=clock_ms,
        )  # fmt: skip

    def count(self, topic: str) -> int:
        """How many wait for a topic."""
        found = self._body.timing_count.get(topic)
        return 0 if found is None else found.count

    def clear(self) -> None:
        """Nothing waits, or all is counted anew."""
        self._body.timing_count.clear()
        self._change()

    def add(self, topic: str, step: int) -> None:
        """One came, or went."""
        table = self._body.timing_count
        found = table.get(topic)
        if found is None:
            if len(table) >= TOPICS_MAX:
                return
            found = table[topic] = TimerMetric()
        found.count += step
        found.time_stamp = self._clock_ms()
        self._change()
