"""Values are written byte by byte as Java writes them, in both forms."""

import json
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.fastjson import parse
from roketto.protocol.fastjson_write import write

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Colour(Enum):
    RED = "r"


class Point(msgspec.Struct, rename="camel", frozen=True, order=True):
    at_x: int = 0
    at_y: int | None = None


class Disordered(msgspec.Struct):
    b: int = 0
    a: int = 0


def test_dialect_has_bare_keys_in_their_own_order() -> None:
    table = {2: "b", 1: "a"}
    assert write(table) == b'{2:"b",1:"a"}'
    assert (
        write({Point(2): table, Point(1, 3): {}})
        == b'{{"atX":2}:{2:"b",1:"a"},{"atX":1,"atY":3}:{}}'
    )


def test_standard_form_has_quoted_keys_in_order() -> None:
    assert write({10: "b", 9: "a"}, standard=True) == b'{"9":"a","10":"b"}'
    assert write({Point(2): 1, Point(1): 2}, standard=True) == (
        b'{"{\\"atX\\":1}":2,"{\\"atX\\":2}":1}'
    )
    assert json.loads(write({Point(2): {"z": 1, "a": 2}}, standard=True)) == {
        '{"atX":2}': {"a": 2, "z": 1}
    }


def test_scalars_are_written_as_java_writes_them() -> None:
    values = [True, False, None, -1, 2**63 - 1, Colour.RED, 'caf\u00e9\u2028\x7f/"\\\x0b\t']
    expected = (
        b'[true,false,null,-1,9223372036854775807,"RED",'
        b'"caf\xc3\xa9\xe2\x80\xa8\x7f/\\"\\\\\\u000b\\t"]'
    )
    assert write(values) == expected
    assert write(values, standard=True) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, b"0.0"),
        (1.5, b"1.5"),
        (0.001, b"0.001"),
        (9999999.0, b"9999999.0"),
        (1e7, b"1.0E7"),
        (12345678.9, b"1.23456789E7"),
        (1e21, b"1.0E21"),
        (-1.25e-5, b"-1.25E-5"),
        (float("nan"), b"null"),
        (float("inf"), b"null"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: bytes) -> None:
    assert write(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_keep_their_value(value: float) -> None:
    assert float(write(value)) == value


def test_half_of_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert write("a\ud800") == b'"a?"'


def test_members_out_of_order_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="Disordered must declare"):
        write(Disordered())


def test_values_without_a_json_form_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="set has no JSON form"):
        write({1, 2})


@given(TREES)
def test_any_tree_is_read_again(tree: Any) -> None:
    assert parse(write(tree)) == tree
    assert json.loads(write(tree, standard=True)) == tree


class Size(Enum):
    SMALL = "SMALL"


class Plain(msgspec.Struct):
    """Nothing but what msgspec writes as the dialect has it."""

    flags: list[bool] = []
    number: int = 0
    size: Size = Size.SMALL
    texts: dict[str, str] = {}


class Mixed(msgspec.Struct):
    """Some of its members are like that."""

    by_number: dict[int, Plain] = {}
    colours: dict[str, Colour] = {}
    nothing: dict[str, int] | None = None
    plain: dict[str, Plain] = {}
    point: Point = Point()


PLAINS = st.builds(
    Plain,
    st.lists(st.booleans(), max_size=3),
    st.integers(-(2**63), 2**63 - 1),
    st.just(Size.SMALL),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)


def text_of(plain: Plain) -> str:
    """As it is written member by member."""
    flags = ",".join("true" if flag else "false" for flag in plain.flags)
    texts = write(plain.texts).decode("utf-8", "surrogatepass")
    return f'{{"flags":[{flags}],"number":{plain.number},"size":"SMALL","texts":{texts}}}'


@given(PLAINS)
def test_what_is_plain_is_written_as_all_else(plain: Plain) -> None:
    """Also where it has halves of surrogate pairs, which become question marks."""
    assert write(plain).decode() == text_of(plain)


@given(PLAINS, TEXTS)
def test_a_struct_with_some_plain_members_is_written_in_one_piece(plain: Plain, name: str) -> None:
    """Integer keys are bare, enums have their names, and what is absent is not there."""
    mixed = Mixed(by_number={7: plain}, colours={"a": Colour.RED}, plain={name: plain})
    key, text = write(name).decode(), text_of(plain)
    assert write(mixed).decode() == (
        f'{{"by_number":{{7:{text}}},"colours":{{"a":"RED"}},"plain":{{{key}:{text}}},'
        '"point":{"atX":0}}'
    )
