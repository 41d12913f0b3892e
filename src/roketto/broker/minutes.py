"""What a broker has done in the last minute, as one line for its log.

    last 60 s: put 1200 (0.3 MB), got 900, 0.4 MB in, 0.5 MB out; requests: 1200 SEND_MESSAGE_V2,
    40 PULL_MESSAGE; refused: 3 SEND_MESSAGE_V2 (SYSTEM_BUSY)

Counters only grow, so a minute is what they have more than a minute before. One in which nobody
asked for anything has no line.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeVar

from roketto.broker.stats import UNKNOWN_CODE, Statistics
from roketto.protocol.codes import RequestCode, ResponseCode

__all__ = ["Minutes"]

_KINDS_MAX: Final = 12
"""Kinds of requests, or of refusals, that a line tells apart; the most frequent ones."""
_MB: Final = 1e6

_Key = TypeVar("_Key")


class Minutes:
    """Looks at the counters of a broker from time to time.

    minutes = Minutes(stats)
    minutes.describe(60)     # None: nobody has asked for anything since it was asked last
    """

    def __init__(self, stats: Statistics) -> None:
        self._stats = stats
        self._note()

    def _note(self) -> None:
        stats = self._stats
        self._requests = dict(stats.requests)
        self._refusals = dict(stats.refusals)
        self._totals = (
            stats.put.count, stats.put.size, stats.get.count, stats.bytes_in, stats.bytes_out,
        )  # fmt: skip

    def describe(self, seconds: int) -> str | None:
        """What has happened since this was asked last, ``seconds`` ago."""
        requests_before, refusals_before = self._requests, self._refusals
        totals_before = self._totals
        self._note()
        requests = _growth(self._requests, requests_before)
        if not requests:
            return None
        puts, put_bytes, gets, received, sent = (
            now - before for now, before in zip(self._totals, totals_before, strict=True)
        )
        line = (
            f"last {seconds} s: put {puts} ({put_bytes / _MB:.1f} MB), got {gets},"
            f" {received / _MB:.1f} MB in, {sent / _MB:.1f} MB out; requests: "
        )
        line += _listed({_name(RequestCode, code): count for code, count in requests.items()})
        refusals = {
            f"{_name(RequestCode, code)} ({_name(ResponseCode, answer)})": count
            for (code, answer), count in _growth(self._refusals, refusals_before).items()
        }
        return f"{line}; refused: {_listed(refusals)}" if refusals else line


def _growth(now: Mapping[_Key, int], before: Mapping[_Key, int]) -> dict[_Key, int]:
    grown = {key: count - before.get(key, 0) for key, count in now.items()}
    return {key: count for key, count in grown.items() if count > 0}


def _listed(counts: dict[str, int]) -> str:
    """The counts, the largest first; those that are too many as one."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    parts = [f"{counts[name]} {name}" for name in names[:_KINDS_MAX]]
    if rest := names[_KINDS_MAX:]:
        parts.append(f"{sum(counts[name] for name in rest)} of {len(rest)} other kinds")
    return ", ".join(parts)


def _name(codes: type[IntEnum], code: int) -> str:
    if code == UNKNOWN_CODE:
        return "unknown"
    try:
        return codes(code).name
    except ValueError:
        return str(code)
