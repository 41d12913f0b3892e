"""Figures as they come: printed at once, beside what was promised, and kept for the file."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

_Key = TypeVar("_Key")

_NAME_WIDTH = 66


class Report:
    """What one part of the benchmark has found, by section.

    report.begin("append", "Appends, 8 queues")
    report.add("append 128 B", 80_000, "messages/s", least=150_000)
    report.result                        # what is written to the file
    """

    def __init__(self) -> None:
        self.result: dict[str, dict[str, dict[str, object]]] = {}
        self._section: dict[str, dict[str, object]] = {}

    def begin(self, key: str, title: str) -> None:
        """All figures from here on belong to this section."""
        self._section = self.result.setdefault(key, {})
        print(f"\n{title}", flush=True)

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        least: float | None = None,
        most: float | None = None,
        note: str = "",
    ) -> None:
        """One figure; ``least`` or ``most`` is the promise. Nothing fails if it does not hold."""
        promise, said = compare_with_promise(value, least, most)
        figure: dict[str, object] = {"value": value, "unit": unit, **promise}
        if note:
            figure["note"] = note
        self._section[name] = figure
        ending = f"  ({note})" if note else ""
        print(f"  {name:{_NAME_WIDTH}} {shown(value):>12} {unit}{said}{ending}", flush=True)

    def keep(self, name: str, figure: Mapping[str, object], text: str) -> None:
        """A figure with parts of its own, and how it is shown."""
        self._section[name] = dict(figure)
        print(text, flush=True)

    def lack(self, name: str, why: str) -> None:
        """A figure that could not be had here."""
        self._section[name] = {"value": None, "note": why}
        print(f"  {name:{_NAME_WIDTH}} {'-':>12} not measured: {why}", flush=True)


def compare_with_promise(
    value: float, least: float | None = None, most: float | None = None
) -> tuple[dict[str, object], str]:
    """What is kept of a promise, and whether it holds, in words; nothing without one."""
    for word, bound in (("at least", least), ("at most", most)):
        if bound is not None:
            holds = value >= bound if word == "at least" else value <= bound
            figure: dict[str, object] = {word.replace(" ", "_"): bound, "holds": holds}
            said = f"  promised: {word} {shown(bound)}, {'holds' if holds else 'does not hold'}"
            return figure, said
    return {}, ""


def shown(value: float) -> str:
    """A number with as many digits as mean something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"


def medians(rounds: int, measured: Sequence[tuple[_Key, Callable[[], float]]]) -> dict[_Key, float]:
    """The median of each; they take turns, so that a slow minute of the machine hits all alike."""
    found: dict[_Key, list[float]] = {key: [] for key, _ in measured}
    for number in range(rounds):
        # Every other round goes backwards: nobody always follows the same neighbour.
        for key, measure in measured if number % 2 == 0 else reversed(measured):
            found[key].append(measure())
    return {key: statistics.median(values) for key, values in found.items()}
