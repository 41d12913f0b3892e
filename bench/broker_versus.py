"""Both brokers under the same load in turns, and the lines of the table that come of it."""

import os
import signal
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Final

from broker_load import Figures
from broker_servers import JAVA, ROKETTO, Server
from report import Report, compare_with_promise

RATE_RATIO_LEAST: Final = 2.0
P99_RATIO_MOST: Final = 1.0

_NAME_WIDTH: Final = 30
_COLUMNS: Final = (
    f"  {'':{_NAME_WIDTH}} {'':8} {'messages/s':>12} {'p50 µs':>9} {'p99 µs':>9} {'CPU':>5} "
    f"{'µs/request':>10} {'generator':>9} {'others':>6}"
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Ours, or who stands for it, and Java's. Both live all the time, and only one has work."""

    ours: Server
    java: Server

    def __iter__(self) -> Iterator[Server]:
        yield self.java
        yield self.ours

    @contextmanager
    def alone(self, server: Server) -> Iterator[None]:
        """Let the other one stand still: what it has left to do would be done at our expense."""
        others = [other for other in self if other is not server]
        for other in others:
            os.kill(other.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for other in others:
                os.kill(other.pid, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Versus:
    """What both did in the same rounds."""

    ours: list[Figures]
    java: list[Figures]

    @property
    def rate_ratios(self) -> list[float]:
        pairs = zip(self.ours, self.java, strict=True)
        return sorted(ours.messages_per_s / java.messages_per_s for ours, java in pairs)

    @property
    def p99_ratio(self) -> float:
        pairs = zip(self.ours, self.java, strict=True)
        return statistics.median(ours.p99_us / max(java.p99_us, 0.1) for ours, java in pairs)


def take_turns(pair: Pair, rounds: int, measure: Callable[[Server], Figures]) -> Versus:
    """Every round has both, one after the other; every other round goes backwards."""
    found = Versus([], [])
    for number in range(rounds):
        turns = [(pair.java, found.java), (pair.ours, found.ours)]
        for server, figures in turns if number % 2 == 0 else reversed(turns):
            with pair.alone(server):
                figures.append(measure(server))
    return found


def begin_table(report: Report, key: str, title: str) -> None:
    report.begin(key, f"{title}\n{_COLUMNS}")


def add_versus(
    report: Report, name: str, found: Versus, *, rate_promised: bool = True
) -> tuple[Figures, Figures]:
    """Three lines: Java, ours, the ratios. What is shown is the median of the rounds."""
    ours, java = median_figures(found.ours), median_figures(found.java)
    ratio, p99_ratio = statistics.median(found.rate_ratios), found.p99_ratio
    least = RATE_RATIO_LEAST if rate_promised else None
    rate_promise, rate_said = compare_with_promise(ratio, least=least)
    p99_promise, p99_said = compare_with_promise(p99_ratio, most=P99_RATIO_MOST)
    rates = f"{ratio:11.2f}x{rate_said};" if rate_promised else f"{'':12}"
    lines = [
        _line(name, JAVA, java),
        _line(name, ROKETTO, ours),
        f"  {name:{_NAME_WIDTH}} {'ratio':8} {rates} p99 {p99_ratio:.2f}x{p99_said}",
    ]
    figure: dict[str, object] = {
        ROKETTO: ours.as_dict(),
        JAVA: java.as_dict(),
        "ratio": {"value": ratio, "rounds": found.rate_ratios, **rate_promise},
        "p99_ratio": {"value": p99_ratio, **p99_promise},
    }
    report.keep(name, figure, "\n".join(lines))
    return ours, java


def median_figures(rounds: Sequence[Figures]) -> Figures:
    """Each figure by itself."""
    medians = {
        field.name: statistics.median(getattr(figures, field.name) for figures in rounds)
        for field in fields(Figures)
    }
    return Figures(**medians)


def _line(name: str, server: str, figures: Figures) -> str:
    refused = f"  {figures.refused} refused" if figures.refused else ""
    return (
        f"  {name:{_NAME_WIDTH}} {server:8} {figures.messages_per_s:12,.0f} "
        f"{figures.p50_us:9,.0f} {figures.p99_us:9,.0f} {figures.server_cpu:5.2f} "
        f"{figures.server_us_per_request:10,.1f} {figures.generator_cpu:9.2f} "
        f"{figures.others_cpu:6.2f}{refused}"
    )
