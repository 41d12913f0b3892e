"""The lines of the client's tables: each client at each broker, and how it compares."""

import statistics
from collections.abc import Sequence
from typing import Final

from client_marks import Figures, median_figures
from client_rig import Found
from report import Report, compare_with_promise

_NAME_WIDTH: Final = 36
_COLUMNS: Final = (
    f"  {'client':{_NAME_WIDTH}} {'broker':8} {'messages/s':>11} {'client µs':>9} "
    f"{'cores':>5} {'MB':>5} {'broker µs':>9} {'others':>6}"
)


def begin_table(report: Report, key: str, title: str) -> None:
    report.begin(key, f"{title}\n{_COLUMNS}")


def add_client(
    report: Report,
    name: str,
    found: Found,
    *,
    of: str = "",
    to: str = "",
    said: str = "",
    least: float | None = None,
    promised_at: Sequence[str] = (),
    note: str = "",
) -> None:
    """A line for each broker; with ``of`` and ``to``, the ratio of one client's rate to another's.

    With ``least`` the ratio is promised at some of the brokers. What is shown is the median.
    """
    figure: dict[str, object] = {}
    lines = []
    for broker, rounds in found[name].items():
        of_broker: dict[str, object] = median_figures(rounds).as_dict()
        of_broker["rounds"] = [round(one.messages_per_s) for one in rounds]
        line = _line(name, broker, median_figures(rounds))
        if to:
            ratios = rate_ratios(found[of][broker], found[to][broker])
            ratio = statistics.median(ratios)
            promise, held = compare_with_promise(ratio, least if broker in promised_at else None)
            of_broker["ratio"] = {"of": of, "to": to, "value": ratio, "rounds": ratios, **promise}
            line += f"  {said}: {ratio:.2f}x{held}"
        figure[broker] = of_broker
        lines.append(line)
    if note:
        figure["note"] = note
        lines.append(f"  {'':{_NAME_WIDTH}} ({note})")
    report.keep(name, figure, "\n".join(lines))


def rate_ratios(ours: Sequence[Figures], theirs: Sequence[Figures]) -> list[float]:
    """Round by round."""
    pairs = zip(ours, theirs, strict=True)
    return sorted(mine.messages_per_s / other.messages_per_s for mine, other in pairs)


def _line(name: str, broker: str, figures: Figures) -> str:
    return (
        f"  {name:{_NAME_WIDTH}} {broker:8} {figures.messages_per_s:11,.0f} "
        f"{figures.client_us:9,.1f} {figures.client_cpu:5.2f} {figures.memory_mb:5,.0f} "
        f"{figures.broker_us:9,.1f} {figures.others_cpu:6.2f}"
    )
