"""Proves that filters give, for every golden expression and message, what RocketMQ 5.5.0 gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from roketto.protocol.errors import FilterError
from roketto.protocol.sql import EvaluationError, compile_filter

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden/sql/filters.json").read_text("utf-8")
)
LETTERS = {True: "T", False: "F", None: "N"}

STRICTER_THAN_JAVA = {
    "(" * 65 + "TRUE" + ")" * 65: "nesting has a bound; Java's is its stack",
    "TRUE" + " = TRUE" * 257: "stacked operators have a bound, for the same reason",
    "b = '" + "x" * 8_187 + "'": "length has a bound; Java takes what fits a frame",
}
"""Filters that Java accepts and we refuse on purpose, with the reason."""


def answer(text: str) -> str:
    """One letter per golden property map, as AnswerSql.java writes it; - if it does not parse."""
    try:
        compiled = compile_filter(text)
    except FilterError:
        return "-"
    letters = []
    for properties in GOLDEN["properties"]:
        try:
            letters.append(LETTERS[compiled.evaluate(properties)])
        except EvaluationError:
            letters.append("E")
        assert compiled.matches(properties) is (letters[-1] == "T")
    return "".join(letters)


def test_every_golden_filter_answers_as_java_does() -> None:
    """Parse errors, true, false, null and evaluation errors agree without exception."""
    filters: list[tuple[str, str]] = GOLDEN["filters"]
    assert len(filters) > 5_000
    differences = [(text, java, answer(text)) for text, java in filters if answer(text) != java]
    assert differences == []


def test_the_golden_filters_cover_every_outcome() -> None:
    """The comparison is no empty one: each outcome occurs a thousand times or more."""
    outcomes = "".join(letters for _, letters in GOLDEN["filters"])
    assert all(outcomes.count(letter) >= 1_000 for letter in "TFNE-")


@pytest.mark.parametrize("text", STRICTER_THAN_JAVA)
def test_only_our_bounds_refuse_what_java_accepts(text: str) -> None:
    """What Java would take and we do not is refused by a bound, not by the grammar."""
    with pytest.raises(FilterError, match=r"limit|deeper|stacked"):
        compile_filter(text)


def test_half_a_surrogate_pair_is_not_found_in_a_whole_one() -> None:
    """The one other difference from Java, whose strings can be cut inside a character."""
    assert compile_filter("s CONTAINS '\ud83d'").matches({"s": "\U0001f600"}) is False


def test_a_message_that_cannot_be_compared_does_not_match() -> None:
    """matches() swallows what evaluate() explains, and negation does not turn it around."""
    for text in ("a > 5", "NOT (a > 5)", "a > 5 OR TRUE"):
        compiled = compile_filter(text)
        assert compiled.matches({"a": "x"}) is False
        with pytest.raises(EvaluationError, match="'x' is not an integer"):
            compiled.evaluate({"a": "x"})


def test_filters_of_the_same_text_are_equal_and_show_it() -> None:
    """A filter can be a dictionary key and appear in a log."""
    first, second = compile_filter("a = 5"), compile_filter("a = 5")
    assert first == second
    assert hash(first) == hash(second)
    assert first != compile_filter("a = 6")
    assert repr(first) == "SqlFilter(text='a = 5')"
