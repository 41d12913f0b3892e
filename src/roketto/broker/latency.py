"""How long puts took: the distribution and the percentiles that brokerStatus shows; pure."""

from bisect import bisect_left, bisect_right
from typing import Final

__all__ = ["RANGE_NAMES", "Latency"]

RANGE_NAMES: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]",
    "[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
"""The ranges as Java's tools print them."""

_RANGE_ENDS_MS: Final = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)

_STEPS: Final = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1_000, 9))
"""The finer ranges that percentiles are made of: their width in milliseconds, how many follow."""


def _fine_ends() -> list[int]:
    ends: list[int] = []
    end = 0
    for width, number in _STEPS:
        for _ in range(number):
            end += width
            ends.append(end)
    return ends


_FINE_ENDS_MS: Final = _fine_ends()


class Latency:
    """The times of one period, and of the one before it, which is what is shown.

    ``turn`` ends a period; a broker does so every minute. Nearly all puts take less than a
    millisecond: these need not be noted, ``turn`` is told how many puts there were in all.
    """

    __slots__ = ("_fine", "_fine_before", "_puts_before", "max_ms", "ranges", "ranges_before")

    def __init__(self) -> None:
        self.max_ms: int = 0
        """Since the start."""
        self.ranges: list[int] = [0] * len(RANGE_NAMES)
        self.ranges_before: list[int] = [0] * len(RANGE_NAMES)
        self._fine: list[int] = [0] * (len(_FINE_ENDS_MS) + 1)
        self._fine_before: list[int] = [0] * (len(_FINE_ENDS_MS) + 1)
        self._puts_before: int = 0

    def note(self, taken_ms: int) -> None:
        self.ranges[bisect_right(_RANGE_ENDS_MS, taken_ms)] += 1
        self._fine[bisect_left(_FINE_ENDS_MS, taken_ms)] += 1
        if taken_ms > self.max_ms:
            self.max_ms = taken_ms

    def turn(self, puts: int) -> None:
        """Begin a new period. So many puts were done since the start, and those that nobody has
        noted took no time; 0 if all are noted."""
        quick = max(0, puts - self._puts_before - sum(self.ranges))
        self._puts_before = puts
        self.ranges[0] += quick
        self._fine[0] += quick
        self.ranges_before, self.ranges = self.ranges, [0] * len(self.ranges)
        self._fine_before, self._fine = self._fine, [0] * len(self._fine)

    def percentile_ms(self, share: float) -> float:
        """The time within which ``share`` of the last period's puts were done.

        Within a range the times are taken to be spread evenly, as Java does. Beyond ten seconds
        nothing finer is known than that.
        """
        wanted = int(sum(self._fine_before) * share)
        passed = 0
        begin_ms = 0
        for end_ms, number in zip(_FINE_ENDS_MS, self._fine_before, strict=False):
            if wanted <= passed + number:
                return begin_ms + (
                    (end_ms - begin_ms) * (wanted - passed) / number if number else 0
                )
            passed += number
            begin_ms = end_ms
        return float(begin_ms)
