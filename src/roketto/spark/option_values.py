"""Options as Spark gives them: texts by name, read as what they mean, and every mistake named."""

import difflib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

__all__ = ["OptionError", "OptionValues"]

_TRUE: Final = frozenset(["true", "1", "yes"])
_FALSE: Final = frozenset(["false", "0", "no"])
_DURATION: Final = re.compile(r"\s*([0-9]+)\s*([a-z]*)\s*")
_UNITS_MS: Final = {
    "": 1, "ms": 1, "s": 1_000, "sec": 1_000, "second": 1_000, "seconds": 1_000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000, "d": 86_400_000,
}  # fmt: skip
_SHOWN_CHARS_MAX: Final = 80
LONG_MAX: Final = 2**63 - 1


class OptionError(ValueError):
    """An option that is unknown, missing or wrong; the text says which, and what to write."""


class OptionValues:
    """The options of one reader or writer, whatever the case of their names.

    values = OptionValues(options, ["topic", "failOnDataLoss"], "rocketmq source")
    values.flag("failOnDataLoss", True)

    ``ignored`` are names that Spark itself puts there.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        known: Collection[str],
        what: str,
        ignored: Collection[str] = (),
    ) -> None:
        self._what = what
        self._values: dict[str, str] = {}
        names = {name.lower(): name for name in known}
        passed = {name.lower() for name in ignored}
        for key, value in given.items():
            name = names.get(key.lower())
            if name is not None:
                self._values[name] = str(value)
            elif key.lower() not in passed:
                raise OptionError(self._unknown(key, names))

    def _unknown(self, key: str, names: Mapping[str, str]) -> str:
        near = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.6)
        if near:
            return f"{self._what}: unknown option {key!r}; did you mean {names[near[0]]!r}?"
        return (
            f"{self._what}: unknown option {key!r}; there are {', '.join(sorted(names.values()))}"
        )

    def error(self, name: str, value: object, remedy: str) -> OptionError:
        """What is to be raised where a value is wrong."""
        shown = repr(value)
        if len(shown) > _SHOWN_CHARS_MAX:
            shown = f"{shown[:_SHOWN_CHARS_MAX]}..."
        return OptionError(f"{self._what}: option {name} is {shown}; {remedy}")

    def has(self, name: str) -> bool:
        """Whether it is given, and not empty."""
        return bool(self._values.get(name, "").strip())

    def given(self, *names: str) -> list[str]:
        """Those of the names that are given."""
        return [name for name in names if self.has(name)]

    def text(self, name: str, default: str = "") -> str:
        """The value without blanks around it; the default if there is none."""
        return self._values[name].strip() if self.has(name) else default

    def secret(self, name: str) -> str:
        """The value as it is, which no error shows."""
        return self._values.get(name, "")

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """One of some words, whatever its case."""
        value = self.text(name, default)
        for choice in choices:
            if value.lower() == choice.lower():
                return choice
        raise self.error(name, value, f"write one of {', '.join(choices)}")

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        if not self.has(name):
            return default
        value = self.text(name).lower()
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise self.error(name, value, "write true or false")

    def number(self, name: str, default: int, low: int = 0, high: int = LONG_MAX) -> int:
        """A whole number within bounds."""
        found = self.maybe_number(name, low, high)
        return default if found is None else found

    def maybe_number(self, name: str, low: int = 0, high: int = LONG_MAX) -> int | None:
        """The same, or None if it is not given."""
        if not self.has(name):
            return None
        value = self.text(name)
        try:
            number = int(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            bounds = f"from {low} on" if high == LONG_MAX else f"from {low} to {high}"
            raise self.error(name, value, f"write a whole number {bounds}")
        return number

    def duration_ms(self, name: str, default_ms: int) -> int:
        """A time such as ``15m``, ``30s`` or ``500`` (milliseconds)."""
        if not self.has(name):
            return default_ms
        value = self.text(name).lower()
        found = _DURATION.fullmatch(value)
        if found is None or found[2] not in _UNITS_MS:
            raise self.error(name, value, "write a time such as 500ms, 30s, 15m or 1h")
        return int(found[1]) * _UNITS_MS[found[2]]

    def table(self, name: str, example: str) -> dict[str, Any] | None:
        """A JSON object, or None if it is not given."""
        if not self.has(name):
            return None
        try:
            value = json.loads(self.text(name))
        except ValueError as error:
            raise self.error(
                name, self.text(name), f"that is no JSON ({error}): write {example}"
            ) from None
        if not isinstance(value, dict):
            raise self.error(name, self.text(name), f"write a JSON object such as {example}")
        return value
