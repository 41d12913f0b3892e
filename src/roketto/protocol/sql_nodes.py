"""Meaning of the SQL92 filter language: each operator checked when built, then run as a closure.

Truth has three values: True, False and None, which is what an absent property makes of most
comparisons. Only True lets a message through. Comparing a text that is not a number with a number
raises EvaluationError, which passes through NOT, AND and OR and ends as "no match" too, except
where AND or OR was decided before it came to the offending side.

    Node        what it is                             value when evaluated
    Literal     'x'  5  1.5  TRUE  FALSE  NULL         str, int, float, bool, None
    Property    a                                      its text, or None when absent
    Negation    -a  -5  -(-5)                          int or float; None for all but numbers
    Condition   every comparison, NOT, AND, OR         bool or None

Java has two integer types here, which one Python int covers: a number is a 32-bit Integer exactly
when its absolute value fits one, since a literal has no sign and a negation keeps the type.
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from roketto.protocol.sql_numbers import (
    INT32_MAX,
    INT64_MAX,
    EvaluationError,
    compare_doubles,
    parse_double,
    parse_integer,
)

Properties = Mapping[str, str]
Value = str | int | float | None  # int includes bool
Truth = bool | None


class MeaningError(Exception):
    """Operands that the grammar allows and the operator does not; the parser adds the place."""


@dataclass(slots=True)
class Literal:
    """A constant of the filter."""

    value: Value
    height: ClassVar[int] = 0

    def evaluate(self, properties: Properties) -> Value:
        return self.value


@dataclass(slots=True)
class Property:
    """A property of the message, by its exact name."""

    name: str
    height: ClassVar[int] = 0

    def evaluate(self, properties: Properties) -> Value:
        return properties.get(self.name)


@dataclass(slots=True)
class Negation:
    """A minus sign before anything; Java applies it to numbers and turns the rest into null."""

    evaluate: Callable[[Properties], Value]
    height: int


@dataclass(slots=True)
class Condition:
    """Anything that is true, false or null."""

    evaluate: Callable[[Properties], Truth]
    height: int


Node = Literal | Property | Negation | Condition
_UNORDERED = (str, bool, type(None))
Comparison = Callable[[int, int], bool]


def integer(text: str) -> Literal:
    """Make an integer literal, with or without its L."""
    digits = text.rstrip("lL")
    # No literal has leading zeros, and int() refuses to convert thousands of digits.
    if len(digits) > len(str(INT64_MAX)) or int(digits) > INT64_MAX:
        raise MeaningError(f"the integer {_excerpt(digits)} is above {INT64_MAX}")
    return Literal(int(digits))


def number(text: str) -> Literal:
    """Make a floating point literal; zero is refused because it is below Double.MIN_VALUE."""
    value = float(text)
    if value == float("inf"):
        raise MeaningError(f"the number {_excerpt(text)} is above the largest double")
    if value == 0.0:
        raise MeaningError(
            f"the number {_excerpt(text)} is below the smallest positive double; write 0"
        )
    return Literal(value)


def as_condition(node: Node) -> Condition:
    """Use ``node`` where true or false is asked for; numbers and texts cannot be."""
    match node:
        case Condition():
            return node
        case Literal(value=bool() | None as truth):
            return Condition(lambda properties: truth, 0)
        case Property(name=name):
            # A property is text and never true, not even "true"; absent is still null.
            return Condition(lambda properties: False if name in properties else None, 0)
        case _:
            raise MeaningError(f"{_describe(node)} is neither true nor false; compare it")


def negative(operand: Node) -> Negation:
    """Put a minus sign before ``operand``."""
    evaluate_operand = operand.evaluate

    def evaluate(properties: Properties) -> Value:
        value = evaluate_operand(properties)
        return None if value is None or isinstance(value, (str, bool)) else -value

    return Negation(evaluate, operand.height + 1)


def inverse(operand: Condition) -> Condition:
    """Make NOT ``operand``; the inverse of null is null."""
    evaluate_operand = operand.evaluate

    def evaluate(properties: Properties) -> Truth:
        truth = evaluate_operand(properties)
        return None if truth is None else not truth

    return Condition(evaluate, operand.height + 1)


def combine(operands: Sequence[Condition], decisive: bool) -> Condition:
    """Make AND (``decisive`` False) or OR (True) of all operands, from left to right.

    The first decisive operand ends the evaluation. A whole run of ANDs is one node, so that a
    filter of a thousand of them is still one level high.
    """
    evaluators = tuple(operand.evaluate for operand in operands)

    def evaluate(properties: Properties) -> Truth:
        result: Truth = not decisive
        for evaluate_operand in evaluators:
            truth = evaluate_operand(properties)
            if truth is decisive:
                return decisive
            if truth is None:
                result = None
        return result

    return Condition(evaluate, _height_above(*operands))


def is_null(operand: Node) -> Condition:
    """Make IS NULL, which is never null itself."""
    evaluate_operand = operand.evaluate
    return Condition(lambda properties: evaluate_operand(properties) is None, operand.height + 1)


def equal(left: Node, right: Node) -> Condition:
    """Make ``left = right``; an absent left side is null, an absent right side alone is false."""
    _check_equal(left, right)
    if isinstance(left, Property) and isinstance(right, Literal) and isinstance(right.value, str):
        return _equal_text(left.name, right.value)
    evaluate_left, evaluate_right = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Truth:
        left_value, right_value = evaluate_left(properties), evaluate_right(properties)
        if left_value is None:
            return True if right_value is None else None
        return right_value is not None and _compare(left_value, right_value) == 0

    return Condition(evaluate, _height_above(left, right))


def _equal_text(name: str, text: str) -> Condition:
    """Make ``name = 'text'``, the comparison that most filters consist of."""

    def evaluate(properties: Properties) -> Truth:
        value = properties.get(name)
        return None if value is None else value == text

    return Condition(evaluate, 1)


def order(left: Node, right: Node, comparison: Comparison) -> Condition:
    """Make ``left < right`` or its like, of numbers; null on either side is null."""
    _check_ordered(left)
    _check_ordered(right)
    if isinstance(left, Property) and isinstance(right, Literal) and isinstance(right.value, int):
        return _order_integer(left.name, right.value, comparison)
    evaluate_left, evaluate_right = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Truth:
        left_value = evaluate_left(properties)
        if left_value is None:
            return None
        right_value = evaluate_right(properties)
        if right_value is None:
            return None
        if isinstance(left_value, str) and isinstance(right_value, str):
            left_value, right_value = parse_double(left_value), parse_double(right_value)
        return comparison(_compare(left_value, right_value), 0)

    return Condition(evaluate, _height_above(left, right))


def _order_integer(name: str, bound: int, comparison: Comparison) -> Condition:
    """Make ``name > 5`` and its like, the second most frequent comparison."""
    value_max = _integer_max(bound)

    def evaluate(properties: Properties) -> Truth:
        text = properties.get(name)
        return None if text is None else comparison(parse_integer(text, value_max), bound)

    return Condition(evaluate, 1)


def between(operand: Node, low: Node, high: Node) -> Condition:
    """Make BETWEEN, both ends included; two literals must be in order."""
    conditions = order(operand, low, operator.ge), order(operand, high, operator.le)
    if isinstance(low, Literal) and isinstance(high, Literal):
        assert low.value is not None, "order() takes numbers only"
        assert high.value is not None, "order() takes numbers only"
        if _compare(high.value, low.value) < 0:
            raise MeaningError(f"BETWEEN {low.value} AND {high.value} is empty; swap the two")
    return combine(conditions, decisive=False)


def not_between(operand: Node, low: Node, high: Node) -> Condition:
    """Make NOT BETWEEN; Java does not check the order of the ends here."""
    conditions = order(operand, low, operator.lt), order(operand, high, operator.gt)
    return combine(conditions, decisive=True)


def member(operand: Node, texts: Collection[str], expected: bool) -> Condition:
    """Make IN (``expected`` True) or NOT IN (False) of a property; absent is null."""
    if not isinstance(operand, Property):
        raise MeaningError(f"IN needs a property before it, not {_describe(operand)}")
    name, members = operand.name, frozenset(texts)

    def evaluate(properties: Properties) -> Truth:
        text = properties.get(name)
        return None if text is None else (text in members) is expected

    return Condition(evaluate, 1)


def search(
    operand: Node, text: str, found: Callable[[str, str], bool], expected: bool
) -> Condition:
    """Make CONTAINS, STARTSWITH, ENDSWITH (``expected`` True) or their NOT forms (False).

    Never null: without a text on the left, or with an empty one on the right, both the plain and
    the NOT form are false.
    """
    if text == "":
        return Condition(lambda properties: False, 1)
    evaluate_operand = operand.evaluate

    def evaluate(properties: Properties) -> Truth:
        value = evaluate_operand(properties)
        return isinstance(value, str) and found(value, text) is expected

    return Condition(evaluate, operand.height + 1)


def _check_equal(left: Node, right: Node) -> None:
    for operand in (left, right):
        if isinstance(operand, Literal) and operand.value is None:
            raise MeaningError("NULL equals nothing; write IS NULL or IS NOT NULL")
    if isinstance(left, Literal) and isinstance(right, Literal):
        mismatched = isinstance(left.value, bool) and not isinstance(right.value, bool)
        if mismatched:
            raise MeaningError(f"{_describe(left)} cannot equal {_describe(right)}")


def _check_ordered(operand: Node) -> None:
    if isinstance(operand, Condition) or (
        isinstance(operand, Literal) and isinstance(operand.value, _UNORDERED)
    ):
        raise MeaningError(f"{_describe(operand)} has no order; compare numbers and properties")


def _compare(left: str | float, right: str | float) -> int:
    """Order two values as Java does: below zero, zero or above; a text takes the other's type."""
    if isinstance(left, bool):
        if isinstance(right, str):
            raise EvaluationError("TRUE or FALSE on the left of a text; put the property first")
        return left - right if isinstance(right, bool) else -1
    if isinstance(right, bool):
        return (left.lower() == "true") - right if isinstance(left, str) else -1
    if isinstance(left, str):
        if isinstance(right, str):
            return 0 if left == right else 1
        left = _read_like(right, left)
    elif isinstance(right, str):
        right = _read_like(left, right)
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return compare_doubles(float(left), float(right))


def _read_like(pattern: float, text: str) -> float:
    """Read ``text`` as a number of the type that ``pattern`` has."""
    if isinstance(pattern, int):
        return parse_integer(text, _integer_max(pattern))
    return parse_double(text)


def _integer_max(value: int) -> int:
    return INT32_MAX if abs(value) <= INT32_MAX else INT64_MAX


def _height_above(*operands: Node) -> int:
    return 1 + max(operand.height for operand in operands)


def _describe(node: Literal | Negation | Condition) -> str:
    if isinstance(node, Condition):
        return "a condition"
    if isinstance(node, Negation):
        return "a negated value"
    if node.value is None:
        return "NULL"
    if isinstance(node.value, bool):
        return "TRUE" if node.value else "FALSE"
    return f"the literal {_excerpt(repr(node.value))}"


def _excerpt(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
