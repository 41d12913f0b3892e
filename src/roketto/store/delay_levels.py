"""Delay levels: how long a message of each level waits, written as Java's ``messageDelayLevel``."""

from typing import Final

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""Java's default."""

_UNKNOWN_MS: Final = 1_000
"""What Java grants a message whose level it does not know."""
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels:
    """The delays of a broker: ``DelayLevels("1s 5s").delay_ms(2)`` is 5000. ValueError for others.

    Levels count from 1; ``count`` is the last one.
    """

    def __init__(self, text: str = DELAY_LEVELS) -> None:
        self._delays_ms = [_parse(word) for word in text.split()]
        self.count: int = len(self._delays_ms)

    def delay_ms(self, level: int) -> int:
        """The milliseconds of a level; those above the last count as the last."""
        if level < 1 or not self._delays_ms:
            return _UNKNOWN_MS
        return self._delays_ms[min(level, self.count) - 1]


def _parse(word: str) -> int:
    number, unit = word[:-1], word[-1:]
    if not (number.isascii() and number.isdigit() and unit in _UNITS_MS):
        raise ValueError(f"delay level {word!r} is no number with s, m, h or d behind it")
    return int(number) * _UNITS_MS[unit]
