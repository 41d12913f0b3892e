"""Properties text is read as java.util.Properties reads it, and written for it to read."""

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.errors import BodyError
from roketto.protocol.properties_text import format_properties, parse_properties

GOLDEN = Path(__file__).parents[2] / "golden" / "bodies" / "properties.json"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


def test_tricky_texts_are_read_as_java_reads_them() -> None:
    cases = msgspec.json.decode(GOLDEN.read_bytes(), type=list[tuple[str, dict[str, str] | None]])
    assert len(cases) >= 300
    for text, expected in cases:
        if expected is None:
            with pytest.raises(BodyError, match="expected four hexadecimal digits"):
                parse_properties(text)
        else:
            assert parse_properties(text) == expected, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# a comment\n! another\n\n   \t\n", {}),
        ("a=1\nb:2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("  a \t=\f 1 ", {"a": "1 "}),
        ("a==b", {"a": "=b"}),
        ("a=1\r\na=2\rb=3", {"a": "2", "b": "3"}),
        ("a=one \\\n   two\\\n\n# no\n", {"a": "one two"}),
        ("a=one\\\n# two", {"a": "one# two"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b=c\\:d\\ e", {"a=b": "c:d e"}),
        (r"a=\t\n\r\f\q\u00e9\ud83d\ude00\ud83d", {"a": "\t\n\r\fq\u00e9\U0001f600\ufffd"}),
        ("a=last\\", {"a": "last"}),
        ("\\", {}),
    ],
)
def test_text_is_read_as_java_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_plain_entries_are_written_as_java_writes_them() -> None:
    table = {"listenPort": "10911", "storePathRootDir": "/root/my store", "a.b-c_d": "x=y:z#!"}
    assert format_properties(table) == (
        "listenPort=10911\nstorePathRootDir=/root/my store\na.b-c_d=x=y:z#!\n"
    )


def test_what_would_be_read_differently_is_escaped() -> None:
    table = {"a b=c:#!\\": " two  blanks\n\\", "caf\u00e9": "\t\r\f\x00\U0001f600"}
    assert format_properties(table) == (
        "a\\ b\\=c\\:\\#\\!\\\\=\\ two  blanks\\n\\\\\ncaf\\u00e9=\\t\\r\\f\\u0000\\ud83d\\ude00\n"
    )


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_any_table_survives(table: dict[str, str]) -> None:
    text = format_properties(table)
    assert text.isascii()
    assert parse_properties(text) == table


@given(st.text("ab=: \t\f\\\n\r#!u0é", max_size=40) | TEXTS)
def test_any_text_gives_a_table_or_a_body_error(text: str) -> None:
    with suppress(BodyError):
        table = parse_properties(text)
        assert parse_properties(format_properties(table)) == table


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text", ["\\" * 1_000_001 + "a", "a\\\n" * 300_000, "a" * 1_000_000 + "\n"]
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    """Quadratic work on any of these would take minutes."""
    assert len(parse_properties(text)) == 1
