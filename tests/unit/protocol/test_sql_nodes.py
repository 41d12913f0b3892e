"""Proves what each operator of a filter means: its checks when built and its three truths."""

import operator
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.sql_nodes import (
    Condition,
    Literal,
    MeaningError,
    Node,
    Property,
    Truth,
    as_condition,
    between,
    combine,
    equal,
    integer,
    inverse,
    is_null,
    member,
    negative,
    not_between,
    number,
    order,
    search,
)
from roketto.protocol.sql_numbers import EvaluationError

A, B, MISSING = Property("a"), Property("b"), Property("missing")
TRUE, FALSE, NULL = Literal(True), Literal(False), Literal(None)
TRUTHS: list[Truth] = [True, False, None]

fails = order(Literal(1), A, operator.gt)
"""Raises for every property a that is not an integer."""


def condition(truth: Truth) -> Condition:
    return as_condition(Literal(truth))


def truth_of(node: Condition, properties: Mapping[str, str] | None = None) -> Truth:
    return node.evaluate(properties or {})


def test_integers_have_64_bits_and_an_optional_suffix() -> None:
    """The suffix changes nothing; a longer number is refused however long it is."""
    assert integer("5") == integer("5L") == integer("5l") == Literal(5)
    assert integer("9223372036854775807") == Literal(2**63 - 1)
    for text in ("9223372036854775808", "9" * 8_000):
        with pytest.raises(MeaningError, match="is above 9223372036854775807"):
            integer(text)


def test_floats_are_positive_and_finite() -> None:
    """Zero and what rounds to it are refused, as is what rounds to infinity."""
    assert number("1.5E1") == Literal(15.0)
    for text in ("0.0", "0E5", "1e-400"):
        with pytest.raises(MeaningError, match="write 0"):
            number(text)
    with pytest.raises(MeaningError, match="above the largest double"):
        number("1e400")


def test_only_what_can_be_true_is_a_condition() -> None:
    """Boolean literals, NULL, properties and conditions are; numbers, texts and signs are not."""
    assert [truth_of(as_condition(Literal(truth))) for truth in TRUTHS] == TRUTHS
    assert as_condition(fails) is fails
    for node, name in (
        (Literal(5), "the literal 5"),
        (Literal("x" * 99), f"the literal '{'x' * 39}…"),
        (negative(A), "a negated value"),
    ):
        with pytest.raises(MeaningError, match=f"{name} is neither true nor false"):
            as_condition(node)


def test_a_bare_property_is_never_true() -> None:
    """Even the text true is text; an absent property is null."""
    assert truth_of(as_condition(A), {"a": "true"}) is False
    assert truth_of(as_condition(A)) is None


def test_a_minus_sign_negates_numbers_and_makes_all_else_null() -> None:
    """Texts, properties that look like numbers, and booleans become null."""
    assert negative(Literal(5)).evaluate({}) == -5
    assert negative(negative(Literal(1.5))).evaluate({}) == 1.5
    for node in (A, Literal("5"), TRUE, NULL, condition(True)):
        assert negative(node).evaluate({"a": "5"}) is None


def test_not_and_and_or_follow_three_valued_logic() -> None:
    """All pairs: false decides AND, true decides OR, null taints the rest."""
    assert [truth_of(inverse(condition(truth))) for truth in TRUTHS] == [False, True, None]
    for left in TRUTHS:
        for right in TRUTHS:
            pair = [condition(left), condition(right)]
            both = False if False in (left, right) else None if None in (left, right) else True
            either = True if True in (left, right) else None if None in (left, right) else False
            assert truth_of(combine(pair, decisive=False)) is both
            assert truth_of(combine(pair, decisive=True)) is either


def test_a_decided_list_is_not_evaluated_further() -> None:
    """What would raise behind the decisive operand does not; before it, it does."""
    properties = {"a": "x"}
    for decisive in (False, True):
        decided = combine([condition(None), condition(decisive), fails], decisive)
        assert truth_of(decided, properties) is decisive
        with pytest.raises(EvaluationError):
            truth_of(combine([fails, condition(decisive)], decisive), properties)


def test_height_counts_operators_but_not_operands_of_a_list() -> None:
    """A list is one level however long; everything else adds one to its highest operand."""
    nodes: list[Condition] = [
        equal(A, Literal("x")),
        equal(A, B),
        order(A, Literal(5), operator.gt),
        order(A, Literal(5.5), operator.gt),
        member(A, ["x"], expected=True),
        search(A, "x", operator.contains, expected=True),
        search(A, "", operator.contains, expected=True),
        is_null(A),
    ]
    assert {node.height for node in nodes} == {1}
    assert combine(nodes * 500, decisive=True).height == 2
    assert inverse(nodes[0]).height == negative(nodes[0]).height == is_null(nodes[0]).height == 2
    assert equal(inverse(nodes[0]), A).height == 3
    assert between(A, Literal(1), Literal(2)).height == 2


def test_is_null_is_true_or_false() -> None:
    """Null conditions and negated texts are null like absent properties."""
    for node in (MISSING, NULL, negative(A), condition(None)):
        assert truth_of(is_null(node), {"a": "5"}) is True
    for node in (A, Literal(5), condition(False)):
        assert truth_of(is_null(node), {"a": "5"}) is False


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (A, Literal("5"), True),
        (A, Literal("05"), False),
        (MISSING, Literal("5"), None),
        (A, Literal(5), True),
        (Literal(5), A, True),
        (A, Literal(5.0), True),
        (Literal(5.0), A, True),
        (A, B, False),
        (A, A, True),
        (MISSING, A, None),
        (A, MISSING, False),
        (MISSING, MISSING, True),
        (Literal(5), Literal(5.0), True),
        (Literal(2**53 + 1), Literal(2.0**53), True),
        (Literal("TRUE"), TRUE, True),
        (Literal("yes"), TRUE, False),
        (Literal("yes"), FALSE, True),
        (Literal(5), TRUE, False),
        (Literal(1.5), FALSE, False),
        (condition(True), negative(Literal(1)), False),
        (TRUE, TRUE, True),
        (FALSE, TRUE, False),
    ],
)
def test_equality_converts_texts_to_the_other_type(
    left: Node, right: Node, expected: Truth
) -> None:
    """Numbers, booleans and texts are compared as Java compares them; null only on the left."""
    assert truth_of(equal(left, right), {"a": "5", "b": "x"}) is expected


def test_equality_refuses_null_and_mismatched_literals() -> None:
    """NULL literals, and a boolean literal before one of another type, are no comparison."""
    for left, right in ((A, NULL), (NULL, A)):
        with pytest.raises(MeaningError, match="write IS NULL"):
            equal(left, right)
    with pytest.raises(MeaningError, match="TRUE cannot equal the literal 5"):
        equal(TRUE, Literal(5))
    with pytest.raises(MeaningError, match="FALSE cannot equal the literal 'x'"):
        equal(FALSE, Literal("x"))


def test_a_boolean_before_a_text_cannot_be_compared() -> None:
    """Java fails on TRUE = t; the message does not match."""
    with pytest.raises(EvaluationError, match="put the property first"):
        truth_of(equal(TRUE, A), {"a": "true"})


def test_integers_are_read_with_the_width_of_the_other_side() -> None:
    """A text above 32 bits equals a 64-bit literal and cannot be compared with a 32-bit one."""
    properties = {"a": "3000000000"}
    assert truth_of(equal(A, Literal(3_000_000_000)), properties) is True
    assert truth_of(order(A, Literal(2**31), operator.gt), properties) is True
    assert truth_of(order(A, negative(Literal(2**31)), operator.gt), properties) is True
    for node in (equal(A, Literal(5)), order(A, Literal(5), operator.gt)):
        with pytest.raises(EvaluationError, match="outside"):
            truth_of(node, properties)


def test_two_properties_are_ordered_as_doubles() -> None:
    """Both texts are read as doubles or the comparison fails."""
    assert truth_of(order(A, B, operator.lt), {"a": "9", "b": "1e1"}) is True
    with pytest.raises(EvaluationError):
        truth_of(order(A, B, operator.lt), {"a": "9", "b": "x"})


def test_order_with_null_is_null() -> None:
    """An absent property, or the negation of a text, on either side."""
    for left, right in ((MISSING, A), (A, MISSING), (MISSING, Literal(5)), (negative(A), A)):
        assert truth_of(order(left, right, operator.lt), {"a": "5"}) is None


def test_only_numbers_and_properties_have_an_order() -> None:
    """Texts, booleans, NULL and conditions are refused on either side."""
    for node, name in (
        (Literal("x"), "the literal 'x'"),
        (TRUE, "TRUE"),
        (NULL, "NULL"),
        (condition(True), "a condition"),
    ):
        for left, right in ((node, A), (A, node)):
            with pytest.raises(MeaningError, match=f"{name} has no order"):
                order(left, right, operator.lt)


@given(st.integers(-20, 20), st.integers(0, 20), st.integers(0, 20))
def test_between_includes_its_ends(value: int, low: int, width: int) -> None:
    """BETWEEN and NOT BETWEEN are each other's inverse for numbers."""
    ends = Literal(low), Literal(low + width)
    properties = {"a": str(value)}
    assert truth_of(between(A, *ends), properties) is (low <= value <= low + width)
    assert truth_of(not_between(A, *ends), properties) is not (low <= value <= low + width)


def test_between_wants_its_literals_in_order_and_not_between_does_not() -> None:
    """Only two literals can be checked; a sign makes an end something else."""
    with pytest.raises(MeaningError, match="BETWEEN 7 AND 5 is empty"):
        between(A, Literal(7), Literal(5))
    with pytest.raises(MeaningError, match=r"BETWEEN 1 AND 0\.5 is empty"):
        between(A, Literal(1), Literal(0.5))
    assert truth_of(between(A, Literal(7), negative(Literal(5))), {"a": "6"}) is False
    assert truth_of(not_between(A, Literal(7), Literal(5)), {"a": "6"}) is True


def test_in_is_for_properties() -> None:
    """Absent is null for IN and NOT IN alike; other operands are refused."""
    for expected in (True, False):
        node = member(A, ["x", "y"], expected)
        assert truth_of(node, {"a": "x"}) is expected
        assert truth_of(node, {"a": "X"}) is not expected
        assert truth_of(node) is None
    with pytest.raises(MeaningError, match="IN needs a property before it, not the literal 'x'"):
        member(Literal("x"), ["x"], expected=True)
    with pytest.raises(MeaningError, match="not a condition"):
        member(condition(True), ["x"], expected=True)


def test_searches_are_never_null() -> None:
    """An absent property, a number or an empty text makes the plain and the NOT form false."""
    for expected in (True, False):
        node = search(A, "ell", operator.contains, expected)
        assert truth_of(node, {"a": "hello"}) is expected
        assert truth_of(node, {"a": "help"}) is not expected
        assert truth_of(node) is False
        assert truth_of(search(Literal(5), "5", operator.contains, expected)) is False
        assert truth_of(search(A, "", operator.contains, expected), {"a": "hello"}) is False
        # Nothing is looked for, so what would raise is not even evaluated.
        assert truth_of(search(fails, "", operator.contains, expected), {"a": "x"}) is False
