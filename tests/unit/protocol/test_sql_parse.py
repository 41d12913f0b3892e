"""Proves the grammar of filters: precedence, what is refused and where, and the bounds."""

import contextlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roketto.protocol.errors import FilterError
from roketto.protocol.limits import FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_HEIGHT_MAX
from roketto.protocol.sql_nodes import Truth
from roketto.protocol.sql_numbers import EvaluationError
from roketto.protocol.sql_parse import parse

PROPERTIES = {"a": "5", "b": "x", "c": "7", "s": "hello", "t": "true"}


def truth_of(text: str) -> Truth:
    return parse(text).evaluate(PROPERTIES)


@pytest.mark.parametrize(
    "text",
    [
        "a = 5",
        "a = 5.0",
        "a = '5'",
        "a <> 6",
        "a > 4 AND a >= 5 AND a < 6 AND a <= 5",
        "a BETWEEN 4 AND 6",
        "a NOT BETWEEN 6 AND 7",
        "b IN ('w', 'x', 'y')",
        "b NOT IN ('w')",
        "missing IS NULL",
        "a IS NOT NULL",
        "s CONTAINS 'ell' AND s STARTSWITH 'he' AND s ENDSWITH 'lo'",
        "s NOT CONTAINS 'x' AND s NOT STARTSWITH 'x' AND s NOT ENDSWITH 'x'",
        "t = TRUE",
        "NOT FALSE",
        "NOT NOT TRUE",
        "NULL IS NULL",
        "+a = +5",
        "-5 = - 5",
        "--5 = 5",
        "'it''s' = 'it''s'",
        "'a''b' CONTAINS ''''",
        "(((a))) = ((5))",
        "a/* five */=5 -- indeed\n",
    ],
)
def test_every_form_of_the_grammar_is_understood(text: str) -> None:
    """Each production, in a filter that is true."""
    assert truth_of(text) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE OR FALSE AND FALSE", True),
        ("(TRUE OR FALSE) AND FALSE", False),
        ("a > 4 = TRUE", True),
        ("a = 5 IS NULL", False),
        ("NOT t = FALSE", False),
        ("NOT (t = FALSE)", True),
        ("a BETWEEN 4 AND 6 AND FALSE", False),
        ("a = 5 = TRUE <> FALSE", True),
        ("missing IS NULL IS NOT NULL", True),
    ],
)
def test_operators_bind_as_the_grammar_says(text: str, expected: Truth) -> None:
    """OR, AND, equality, comparison, prefix: from loose to tight, left to right."""
    assert truth_of(text) is expected


@pytest.mark.parametrize(
    "text", ["a = 5 garbage", "a = 5 garbage #'", "a = 5 6", "a = 5 - 1", "a = 5)", "b IS NULL ("]
)
def test_text_behind_a_complete_expression_is_ignored(text: str) -> None:
    """As long as its first token can be read; Java asks no more."""
    assert truth_of(text) is truth_of(text[:9])


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", 1, "found the end, expected a literal, a property, NOT, a sign or '\\('"),
        ("a >", 4, "found the end, expected a literal"),
        ("a > AND", 5, "found 'AND', expected a literal"),
        ("a != 5", 3, "found '!', which starts no token"),
        ("(a = 5", 7, r"found the end, expected \)"),
        ("a IS 5", 6, "found '5', expected NULL or NOT"),
        ("a IS NOT 5", 10, "found '5', expected NULL"),
        ("a NOT 5", 7, "expected BETWEEN or IN or CONTAINS or STARTSWITH or ENDSWITH"),
        ("a BETWEEN 1 OR 2", 13, "found 'OR', expected AND"),
        ("a IN 'x'", 6, r"found \"'x'\", expected \("),
        ("a IN ('x' 'y')", 11, r"expected , or \)"),
        ("a IN (5)", 7, "found '5', expected a string"),
        ("a CONTAINS b", 12, "found 'b', expected a string"),
        ("NOT a > 3", 7, "a condition has no order"),
        ("b = 'x' AND 5", 13, "the literal 5 is neither true nor false"),
        ("5 OR b = 'x'", 1, "the literal 5 is neither true nor false"),
        ("NOT 5", 5, "the literal 5 is neither true nor false"),
        ("a > 'x'", 3, "the literal 'x' has no order"),
        ("a = NULL", 3, "write IS NULL"),
        ("a BETWEEN 7 AND 5", 3, "swap the two"),
        ("5 IN ('5')", 3, "IN needs a property"),
        ("a = 9223372036854775808", 5, "is above 9223372036854775807"),
        ("a = 0.0", 5, "below the smallest positive double"),
        ("a IS " + "x" * 100, 6, f"found '{'x' * 40}', expected NULL"),
    ],
)
def test_errors_name_place_found_and_expected(text: str, place: int, reason: str) -> None:
    """A user can find the mistake from the text alone."""
    with pytest.raises(FilterError, match=f"^SQL92 filter, character {place}: .*{reason}"):
        parse(text)


def test_nesting_is_accepted_up_to_its_bound_and_no_further() -> None:
    """Parentheses, NOT and signs count together."""
    for opening, closing in (("(", ")"), ("NOT ", ""), ("+", ""), ("+NOT(", ")")):
        prefixes = 3 if opening == "+NOT(" else 1
        times = FILTER_DEPTH_MAX // prefixes
        assert parse(opening * times + "TRUE" + closing * times)
        with pytest.raises(FilterError, match=f"nest deeper than {FILTER_DEPTH_MAX}; flatten"):
            parse(opening * (times + 1) + "TRUE" + closing * (times + 1))


def test_nesting_beside_each_other_does_not_add_up() -> None:
    """Leaving a parenthesis gives its depth back."""
    deep = "-" * (FILTER_DEPTH_MAX - 2) + "5"
    assert truth_of(" AND ".join([f"((5 = {deep} AND 5 = {deep}))"] * 20)) is True


def test_a_filter_of_the_full_nesting_with_every_level_of_operators_is_accepted() -> None:
    """The height bound leaves room for all that 64 levels of parentheses can hold."""
    text = "TRUE"
    for _ in range(FILTER_DEPTH_MAX):
        text = f"({text} = TRUE AND TRUE OR FALSE)"
    assert parse(text).height <= FILTER_HEIGHT_MAX
    assert truth_of(text) is True


def test_runs_without_parentheses_are_bounded_by_height() -> None:
    """Such a run would be evaluated by recursion; a run of AND or OR would not."""
    for link in (" = TRUE", " IS NULL", " <> FALSE", " CONTAINS 'x'"):
        with pytest.raises(FilterError, match=f"more than {FILTER_HEIGHT_MAX} operators stacked"):
            parse("TRUE" + link * (FILTER_HEIGHT_MAX + 1))
    for separator in (" AND ", " OR "):
        text = separator.join(["TRUE"] * (FILTER_BYTES_MAX // len(separator + "TRUE")))
        assert truth_of(text) is True


def test_height_is_bounded_across_parentheses() -> None:
    """Runs inside nested parentheses add up, so no filter can exhaust the stack."""
    text = "TRUE"
    for _ in range(8):
        text = f"({text}{'=TRUE' * (FILTER_HEIGHT_MAX // 8)})"
    assert truth_of(text) is True
    with pytest.raises(FilterError, match="operators stacked"):
        parse(f"{text}=TRUE")


def test_length_is_bounded_in_bytes() -> None:
    """The bound counts UTF-8, and lone surrogates are counted rather than raised."""
    assert parse("b = '" + "x" * (FILTER_BYTES_MAX - 6) + "'")
    for filling in ("x" * (FILTER_BYTES_MAX - 5), "é" * (FILTER_BYTES_MAX // 2), "\ud800" * 2_800):
        with pytest.raises(FilterError, match=rf"has \d+ bytes \(limit {FILTER_BYTES_MAX}\)"):
            parse(f"b = '{filling}'")
    assert parse("b = '\ud800'").evaluate(PROPERTIES) is False


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a = 1" + ")" * 10_000,
        "(" * FILTER_BYTES_MAX,
        "NOT " * (FILTER_BYTES_MAX // 4),
        "-" * FILTER_BYTES_MAX,
        "+" * FILTER_BYTES_MAX,
        "+(" * (FILTER_BYTES_MAX // 2),
        "a = " + "9" * (FILTER_BYTES_MAX - 4),
        "a" + "=a" * (FILTER_BYTES_MAX // 2 - 1),
        "a = --1 AND " * (FILTER_BYTES_MAX // 12),
        "/*" * (FILTER_BYTES_MAX // 2),
        "'" * (FILTER_BYTES_MAX - 1),
        "a = 'x" + "''" * (FILTER_BYTES_MAX // 2 - 4),
        "a IN (" + "'x'," * (FILTER_BYTES_MAX // 4 - 2),
        "x" * 1_048_576,
        "(" * 1_048_576,
        "a = 1 OR " * 116_508,
    ],
)
@pytest.mark.timeout(30)
def test_hostile_filters_are_refused(text: str) -> None:
    """Deep, long and pattern-breaking texts; backtracking on any of them would take for ever."""
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert len(caught.value.reason) < 200


def test_the_highest_filter_evaluates_within_half_of_the_recursion_limit() -> None:
    """A caller that is itself hundreds of frames deep can still match messages."""
    text = "TRUE" + "=TRUE" * FILTER_HEIGHT_MAX
    assert sys.getrecursionlimit() > FILTER_HEIGHT_MAX * 2
    assert truth_of(text) is True


WORDS = """
a b missing 5 0 1.5 0.0 3000000000 'x' '' TRUE FALSE NULL NOT AND OR BETWEEN IN IS CONTAINS
STARTSWITH ENDSWITH = <> < <= > >= ( ) , + - # -- /* */
"""


@settings(max_examples=500)
@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS.split()), max_size=20).map(" ".join)))
def test_any_text_is_a_filter_or_a_filter_error(text: str) -> None:
    """Whatever parses also evaluates to one of three truths or its documented error."""
    try:
        condition = parse(text)
    except FilterError:
        return
    with contextlib.suppress(EvaluationError):
        assert condition.evaluate({"a": "1", "b": "x"}) in (True, False, None)
