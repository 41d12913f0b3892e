"""Proves that texts are read and ordered as numbers exactly as Java 17 reads and orders them."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.sql_numbers import (
    INT32_MAX,
    INT64_MAX,
    EvaluationError,
    compare_doubles,
    parse_double,
    parse_integer,
)

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden/sql/numbers.json").read_text("utf-8")
)


def read_integer(text: str, value_max: int) -> int | None:
    try:
        return parse_integer(text, value_max)
    except EvaluationError:
        return None


def read_double_bits(text: str) -> str | None:
    """The bits as Double.doubleToLongBits gives them: one NaN for all."""
    try:
        value = parse_double(text)
    except EvaluationError:
        return None
    bits: int = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(value) else value))[0]
    return f"{bits:x}"


def test_integers_are_those_that_java_reads() -> None:
    """Integer.valueOf and Long.valueOf accept and refuse the same texts, with the same values."""
    assert len(GOLDEN["numbers"]) > 200
    for text, int32, int64, _ in GOLDEN["numbers"]:
        assert read_integer(text, INT32_MAX) == int32, text
        assert read_integer(text, INT64_MAX) == int64, text


def test_doubles_are_those_that_java_reads() -> None:
    """Double.valueOf accepts and refuses the same texts and rounds to the same bits."""
    for text, _, _, bits in GOLDEN["numbers"]:
        assert read_double_bits(text) == bits, text


def test_digits_of_all_scripts_are_those_of_java() -> None:
    """Every UTF-16 unit that Java takes for a digit is one to us, with the same value."""
    ours = [unit for unit in range(0x10000) if read_integer(chr(unit), INT32_MAX) is not None]
    java = [unit for first, last in GOLDEN["digit_ranges"] for unit in range(first, last + 1)]
    assert ours == java
    for first, _ in GOLDEN["digit_ranges"]:
        assert [parse_integer(chr(first + n), INT32_MAX) for n in range(10)] == list(range(10))


def test_long_texts_cost_one_pass_and_are_cut_in_the_error() -> None:
    """The longest property, nearly a number, is refused at once with a readable reason."""
    for text in ("1" * 32_767 + "x", "9" * 32_767):
        with pytest.raises(EvaluationError) as caught:
            parse_integer(text, INT64_MAX)
        assert len(str(caught.value)) < 120
    with pytest.raises(EvaluationError, match="is not a number"):
        parse_double("1" * 32_767 + "x")


@given(st.integers())
def test_integers_in_range_are_read_and_others_refused(value: int) -> None:
    """Whatever an integer's size, it is read exactly or not at all."""
    for value_max in (INT32_MAX, INT64_MAX):
        expected = value if -value_max - 1 <= value <= value_max else None
        assert read_integer(str(value), value_max) == expected


@given(st.text())
def test_any_text_is_a_number_or_an_evaluation_error(text: str) -> None:
    """No text makes the readers raise anything else."""
    read_integer(text, INT32_MAX)
    read_double_bits(text)


@given(st.floats(allow_nan=False))
def test_doubles_survive_being_written_and_read(value: float) -> None:
    """Python's shortest form and the hexadecimal form both read back to the same bits."""
    text = repr(value).replace("inf", "Infinity")
    assert struct.pack(">d", parse_double(text)) == struct.pack(">d", value)
    if math.isfinite(value):
        assert struct.pack(">d", parse_double(value.hex())) == struct.pack(">d", value)


def test_doubles_are_ordered_as_by_compareto() -> None:
    """-0.0 stands below 0.0 and NaN, equal to itself, above infinity."""
    ascending = [-math.inf, -1.5, -0.0, 0.0, 4.9e-324, 1.5, math.inf, math.nan]
    for i, left in enumerate(ascending):
        for j, right in enumerate(ascending):
            answer = compare_doubles(left, right)
            assert (answer > 0) - (answer < 0) == (i > j) - (i < j), (left, right)
