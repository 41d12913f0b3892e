"""FastJSON's dialect is read in all its oddities, in linear time and bounded depth."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import (
    Node,
    ObjectKey,
    excerpt,
    follow,
    parse,
    parse_number,
    quote_integer_keys,
)
from roketto.protocol.limits import JSON_DEPTH_MAX

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


# --- reading --------------------------------------------------------------------------------------


@given(TREES)
def test_any_json_is_read_as_the_standard_library_reads_it(tree: Any) -> None:
    assert parse(json.dumps(tree, ensure_ascii=True).encode()) == tree
    assert parse(json.dumps(tree, ensure_ascii=False, indent=1).encode()) == tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{0:"a",-1:"b"}', {"0": "a", "-1": "b"}),
        (b"{'a':'b\"c'}", {"a": 'b"c'}),
        (b"{name:1, other : [ true , false , null ] }", {"name": 1, "other": [True, False, None]}),
        (b'{"a":1,}', {"a": 1}),
        (b"[1,2,]", [1, 2]),
        (b" \t\r\n{}\n", {}),
        (b"[+7,007,-0.5,.5,5.,1e3]", [7, 7, -0.5, 0.5, 5.0, 1000.0]),
        (rb'"\"\\\/\b\f\F\n\r\t\v\0\7\'"', "\"\\/\b\f\f\n\r\t\v\0\7'"),
        (rb'"\x41\u00e9"', "A\u00e9"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ud83d!"', "\ufffd!"),
        (b'"\xff"', "\ufffd"),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_oddities_of_the_dialect_are_read(text: bytes, expected: Node) -> None:
    assert parse(text) == expected
    assert parse(memoryview(text)) == expected


def test_object_that_serves_as_a_key_is_kept_as_an_object() -> None:
    tree = parse(b'{"t":{{"brokerName":"b","queueId":0}:5,{1:2}:6}}')
    assert isinstance(tree, dict)
    table = tree["t"]
    assert isinstance(table, dict)
    keys = [key.members for key in table if isinstance(key, ObjectKey)]
    assert keys == [{"brokerName": "b", "queueId": 0}, {"1": 2}]
    assert list(table.values()) == [5, 6]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "the text ends; expected a value"),
        (b"   ", "character 3: the text ends"),
        (b"nonsense", "found 'nonsense'; expected a value"),
        (b"[1 2]", "expected ',' or ']'"),
        (b'{"a":1', "expected ',' or '}'"),
        (b'{"a"}', "expected ':' after a member's name"),
        (b"{[1]:2}", "expected a member's name"),
        (b'{"a":}', "expected a value"),
        (b'{"a":1} x', "found 'x'; expected nothing more"),
        (b'"open', "expected a string with its closing quote"),
        (rb'"\q"', "no escape '\\\\q'"),
        (rb'"\u12"', "no escape '\\\\u'"),
        (b"9" * 41, "expected a value"),
    ],
)
def test_what_even_fastjson_does_not_read_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(BodyError) as caught:
        parse(text)
    assert complaint in caught.value.reason


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"{"])
def test_depth_is_bounded(opening: bytes) -> None:
    with pytest.raises(BodyError, match=f"deeper than {JSON_DEPTH_MAX} levels"):
        parse(opening * 1_000_000)


def test_deepest_allowed_tree_is_read() -> None:
    text = b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX
    depth, node = 0, parse(text)
    while node:
        assert isinstance(node, list)
        depth, node = depth + 1, node[0]
    assert depth == JSON_DEPTH_MAX - 1


@given(st.binary(max_size=60) | st.text("{}[]:,'\"\\ux0a1-$. ", max_size=60).map(str.encode))
def test_arbitrary_bytes_give_a_tree_or_a_body_error(data: bytes) -> None:
    with suppress(BodyError):
        parse(data)


def test_reasons_stay_short_whatever_the_text() -> None:
    with pytest.raises(BodyError) as caught:
        parse(b"[" + b"x" * 100_000)
    assert len(caught.value.reason) < 200


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [b'"' + b'\\"' * 500_000, b"'" * 1_000_001, b"[" + b"1," * 50_000, b"{" + b"1:1," * 50_000],
)
def test_hostile_text_takes_linear_time(text: bytes) -> None:
    """Quadratic work on the first two would take minutes."""
    with pytest.raises(BodyError):
        parse(text)
    assert len(quote_integer_keys(text)) >= len(text)


def test_excerpts_are_short() -> None:
    assert excerpt("short") == "'short'"
    assert excerpt("x" * 1000) == repr("x" * 40 + "...")


def test_numbers_are_numbers_or_none() -> None:
    assert parse_number("12") == 12
    assert parse_number("1.5e3") == 1500.0
    assert parse_number("1_000") is None
    assert parse_number("\u0661") is None
    assert parse_number("") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{0:"a",-1:{2:3}}', b'{"0":"a","-1":{"2":3}}'),
        (b'{"x{0:":1,"y\\",1:":2}', b'{"x{0:":1,"y\\",1:":2}'),
        (b'{"a":[1,2,3],5:6}', b'{"a":[1,2,3],"5":6}'),
        (b'{0:"open', b'{"0":"open'),
    ],
)
def test_integer_keys_get_their_quotes_and_nothing_else_changes(
    text: bytes, expected: bytes
) -> None:
    assert quote_integer_keys(text) == expected


# --- references -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", {"a": [{"b": 1}]}),
        ("$.a", [{"b": 1}]),
        ("$.a[0]", {"b": 1}),
        ("$.a[0].b", 1),
        ("$.a[1]", None),
        ("$.a.b", None),
        ("$[0]", None),
        ("$.c", None),
        ("$.c.d", None),
        ("$?", None),
        ("..", None),
        ("@", None),
    ],
)
def test_references_lead_to_a_node_or_nowhere(path: str, expected: Node) -> None:
    assert follow({"a": [{"b": 1}]}, path) == expected
