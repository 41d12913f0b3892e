"""Rates of both sides in the same rounds, and the lines that come of them."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from report import Report, compare_with_promise
from spark_rig import Rig
from spark_sides import KAFKA, Side

_NAME_WIDTH: Final = 48
_LABEL_WIDTH: Final = 24


@dataclass(frozen=True, slots=True)
class Turn:
    """What takes turns with others: whose it is, under which name, and how it is measured."""

    label: str
    side: Side
    measure: Callable[[], float]


def take_turns(rig: Rig, turns: Sequence[Turn]) -> dict[str, list[float]]:
    """All of them once unmeasured, then in rounds, of which every other goes backwards."""
    found: dict[str, list[float]] = {turn.label: [] for turn in turns}
    for turn in turns:
        with rig.alone(turn.side):
            turn.measure()
    for number in range(rig.sizes.rounds):
        for turn in turns if number % 2 == 0 else reversed(turns):
            with rig.alone(turn.side):
                found[turn.label].append(turn.measure())
    return found


def add_rates(
    report: Report, name: str, found: Mapping[str, Sequence[float]], promised: Mapping[str, float]
) -> None:
    """A line for each rate, and for ours the ratio to Kafka's of the same round."""
    figure: dict[str, object] = {}
    lines = []
    for label, rates in found.items():
        rate = statistics.median(rates)
        figure[label] = {"rows_per_s": rate, "rounds": list(rates)}
        lines.append(f"  {name:{_NAME_WIDTH}} {label:{_LABEL_WIDTH}} {rate:12,.0f} rows/s")
    for label, rates in found.items() if KAFKA in found else ():
        if label == KAFKA:
            continue
        ratios = [ours / theirs for ours, theirs in zip(rates, found[KAFKA], strict=True)]
        ratio = statistics.median(ratios)
        promise, said = compare_with_promise(ratio, least=promised.get(label))
        key = "ratio" if len(found) == 2 else f"ratio, {label}"
        figure[key] = {"value": ratio, "rounds": ratios, **promise}
        lines.append(f"  {name:{_NAME_WIDTH}} {key:{_LABEL_WIDTH}} {ratio:11.2f}x{said}")
    report.keep(name, figure, "\n".join(lines))


def steady_rate(batches: Sequence[Mapping[str, Any]]) -> float:
    """Rows per second of a stream, without the first batch, which has its start in it."""
    counted = batches[1:] or batches
    begin, last = (datetime.fromisoformat(counted[at]["begin"]) for at in (0, -1))
    seconds = (last - begin).total_seconds() + counted[-1]["ms"] / 1000
    return float(sum(batch["rows"] for batch in counted) / seconds)


def median_ms(batches: Sequence[Mapping[str, Any]]) -> float:
    """Milliseconds of a batch; the first half of them warms the stream up."""
    return float(statistics.median(batch["ms"] for batch in batches[len(batches) // 2 :]))
