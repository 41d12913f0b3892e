"""Trees become values with the conversions that Java makes, and nothing but BodyError otherwise."""

from contextlib import suppress
from enum import Enum
from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.bodies.shape import aliases_of, shape
from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import Node, ObjectKey, parse

Byte = Annotated[int, msgspec.Meta(ge=-128, le=127)]


class Suit(Enum):
    CLUBS = "CLUBS"
    HEARTS = "HEARTS"


class Key(msgspec.Struct, frozen=True):
    name: str = ""


class Card(msgspec.Struct, rename="camel"):
    ALIASES: ClassVar[dict[str, str]] = {"oldRank": "rank"}

    is_open: bool = False
    notes: list[str] = msgspec.field(default_factory=list)
    rank: Byte = 7
    seen_by: dict[Key, int] = msgspec.field(default_factory=dict)
    suit: Suit | None = None
    trump: Suit = Suit.CLUBS
    weight: float = 1.5
    worth: int | None = None


class Hand(msgspec.Struct):
    cards: list[Card] = msgspec.field(default_factory=list)
    first: Card | None = None
    spare: Card | None = None


@pytest.mark.parametrize(
    ("node", "rank"),
    [(5, 5), ("5", 5), (" 5 ", 5), (5.9, 5), ("1e2", 100), (True, 1), (None, 7), ("", 7)],
)
def test_integers_may_be_strings_decimals_or_absent(node: Node, rank: int) -> None:
    assert shape({"rank": node}, Card) == Card(rank=rank)


@pytest.mark.parametrize("node", [128, -129, "300", float("inf"), "x", "1_0", [], {}, "9" * 50])
def test_unusable_integers_are_refused(node: Node) -> None:
    with pytest.raises(BodyError, match=r"Card\.rank in a JSON body is .*; expected a"):
        shape({"rank": node}, Card)


@pytest.mark.parametrize(
    ("node", "weight"), [(2, 2.0), ("2.5", 2.5), (None, 1.5), ("null", 1.5), ("", 1.5)]
)
def test_decimals_may_be_integers_strings_or_absent(node: Node, weight: float) -> None:
    assert shape({"weight": node}, Card) == Card(weight=weight)


@pytest.mark.parametrize(("node", "worth"), [("", None), ("null", None), (None, None), ("3", 3)])
def test_optional_numbers_may_be_empty(node: Node, worth: int | None) -> None:
    assert shape({"worth": node}, Card) == Card(worth=worth)
    assert shape([node], list[float | None]) == [worth]


@pytest.mark.parametrize(
    ("node", "is_open"),
    [
        (True, True),
        (1, True),
        ("TRUE", True),
        ("1", True),
        (False, False),
        (2, False),
        ("x", False),
    ],
)
def test_booleans_may_be_numbers_or_strings(node: Node, is_open: bool) -> None:
    assert shape({"isOpen": node}, Card) == Card(is_open=is_open)


def test_strings_may_be_any_scalar_and_nulls_are_dropped() -> None:
    tree: Node = ["a", 1, True, False, 1.5, None]
    assert shape(tree, list[str]) == ["a", "1", "true", "false", "1.5"]
    assert shape({"a": 1, "b": None}, dict[str, str]) == {"a": "1"}


@pytest.mark.parametrize(
    ("node", "suit"),
    [("HEARTS", Suit.HEARTS), (1, Suit.HEARTS), ("0", Suit.CLUBS), ("SPADES", None), (None, None)],
)
def test_enums_may_be_names_ordinals_or_unknown(node: Node, suit: Suit | None) -> None:
    assert shape({"suit": node}, Card) == Card(suit=suit)


def test_enum_that_may_not_be_null_keeps_its_default() -> None:
    assert shape({"trump": "SPADES"}, Card) == Card(trump=Suit.CLUBS)


@pytest.mark.parametrize("node", [2, -1, "7", 0.5, []])
def test_ordinals_outside_the_enum_are_refused(node: Node) -> None:
    with pytest.raises(BodyError, match="expected"):
        shape({"suit": node}, Card)


def test_unknown_members_are_ignored_and_aliases_are_not() -> None:
    assert shape({"nothing": {}, ObjectKey({}): 1, "oldRank": 3}, Card) == Card(rank=3)
    assert aliases_of(Card) == {"oldRank"}
    assert aliases_of(dict[str, list[Hand]]) == {"oldRank"}
    assert aliases_of(list[str]) == frozenset()


def test_object_keys_may_be_objects_or_strings() -> None:
    tree = parse(b'{"seenBy":{{"name":"a"}:1,"{\\"name\\":\\"b\\"}":2,"null":3}}')
    assert shape(tree, Card) == Card(seen_by={Key("a"): 1, Key("b"): 2})


def test_integer_keys_are_converted() -> None:
    assert shape({"1": "a", "": "b"}, dict[Byte, str]) == {1: "a"}


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        (5, Card),
        ([], Card),
        ({}, list[str]),
        ("x", list[str]),
        ([], dict[str, str]),
        ([[]], list[str]),
        ([{}], list[bool]),
        ({ObjectKey({}): "a"}, dict[str, str]),
        ({"x": "a"}, dict[int, str]),
        ({"{": 1}, dict[Key, int]),
        (None, Card),
        (None, list[str]),
    ],
)
def test_values_of_another_kind_are_refused(node: Node, kind: Any) -> None:
    with pytest.raises(BodyError, match="JSON body"):
        shape(node, kind)


def test_reference_gives_the_object_that_it_names() -> None:
    tree = parse(b'{"cards":[{"rank":9},{"$ref":"$.cards[0]"}],"first":{"$ref":"$.cards[0]"}}')
    assert shape(tree, Hand) == Hand([Card(rank=9), Card(rank=9)], Card(rank=9))


def test_references_to_one_object_share_one_value() -> None:
    tree = parse(b'{"cards":[{"$ref":"$.spare"},{"$ref":"$.spare"}],"spare":{"rank":9}}')
    hand = shape(tree, Hand)
    assert hand.cards[0] is hand.cards[1]


@pytest.mark.parametrize("path", ["$.nowhere", "@", "..", "$.cards[5]", "$.first"])
def test_references_that_lead_nowhere_are_unknown(path: str) -> None:
    tree: Node = {"cards": [{"$ref": path}], "first": {"$ref": "$.first"}}
    assert shape(tree, Hand) == Hand()


def test_member_named_like_a_reference_is_a_member() -> None:
    assert shape({"$ref": "plain"}, dict[str, str]) == {"$ref": "plain"}
    assert shape({"$ref": 5}, dict[str, int]) == {"$ref": 5}
    assert shape({"$ref": "$", "b": "c"}, dict[str, str]) == {"$ref": "$", "b": "c"}


@pytest.mark.timeout(30)
def test_many_references_to_a_large_object_take_linear_time() -> None:
    notes: Node = [str(number) for number in range(20_000)]
    cards: Node = [{"$ref": "$.spare"} for _ in range(20_000)]
    hand = shape({"cards": cards, "spare": {"notes": notes}}, Hand)
    assert len(hand.cards) == 20_000


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["cards", "first", "rank", "suit", "seenBy", "notes", "$ref", "1"]),
                inner | st.sampled_from(["$", "$.cards", "$.cards[0]"]),
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_tree_gives_a_value_or_a_body_error(tree: Node) -> None:
    with suppress(BodyError):
        assert isinstance(shape(tree, Hand), Hand)
