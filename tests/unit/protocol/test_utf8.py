"""Proves that damaged UTF-8 reads as in Java and that no text or bytes raise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load, text_of
from roketto.protocol.utf8 import decode_utf8, encode_utf8

VECTORS = load("utf8")


@pytest.mark.parametrize("row", VECTORS["decode"], ids=lambda row: str(row["raw"]))
def test_damaged_bytes_read_as_java_reads_them(row: dict[str, str]) -> None:
    assert decode_utf8(bytes.fromhex(row["raw"])) == text_of(row["text"])


@pytest.mark.parametrize("row", VECTORS["encode"], ids=lambda row: str(row["text"]))
def test_text_is_written_as_java_writes_it(row: dict[str, str]) -> None:
    assert encode_utf8(text_of(row["text"])) == bytes.fromhex(row["raw"])


def test_a_view_is_read_like_bytes() -> None:
    assert decode_utf8(memoryview("名".encode())) == "名"
    assert decode_utf8(memoryview(b"a\xff")) == "a\ufffd"


@given(st.text())
def test_text_survives_both_ways(text: str) -> None:
    assert decode_utf8(encode_utf8(text)) == text


@given(st.binary())
def test_any_bytes_make_a_text_that_can_be_written(raw: bytes) -> None:
    text = decode_utf8(raw)
    assert decode_utf8(encode_utf8(text)) == text


@given(st.text(st.characters()))
def test_any_text_can_be_written_even_with_lone_surrogates(text: str) -> None:
    expected = ["?" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text]
    assert decode_utf8(encode_utf8(text)) == "".join(expected)
