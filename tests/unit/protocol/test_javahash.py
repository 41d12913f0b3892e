"""Proves that our hash of a string is Java's, for every kind of character."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load, text_of
from roketto.protocol import javahash
from roketto.protocol.javahash import hash_on, java_hash


@pytest.mark.parametrize("row", load("javahash"), ids=lambda row: str(row["hash"]))
def test_hash_is_the_one_java_computes(row: dict[str, object]) -> None:
    assert java_hash(text_of(str(row["text"]))) == row["hash"]


def test_there_are_200_random_strings_of_all_planes_among_the_vectors() -> None:
    texts = [text_of(row["text"]) for row in load("javahash")]
    assert len(texts) >= 200
    assert sum(any(ord(char) > 0xFFFF for char in text) for text in texts) > 50


@given(st.text(st.characters()))
def test_hash_is_the_polynomial_over_utf16_units(text: str) -> None:
    raw = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units))
    assert java_hash(text) & 0xFFFF_FFFF == total & 0xFFFF_FFFF
    assert -(2**31) <= java_hash(text) < 2**31


@given(st.text(max_size=8), st.text(st.characters(max_codepoint=0x7F)), st.text(max_size=3))
def test_a_hash_goes_on_over_ascii_in_the_middle_of_bytes(first: str, text: str, last: str) -> None:
    head = java_hash(first) & 0xFFFF_FFFF
    raw = first.encode() + text.encode() + last.encode()
    start = len(first.encode())
    value = hash_on(head, raw, start, start + len(text))
    assert value == java_hash(first + text) & 0xFFFF_FFFF


@given(st.binary(max_size=40))
def test_a_hash_does_not_go_on_over_other_bytes(raw: bytes) -> None:
    assert (hash_on(0, raw, 0, len(raw)) == -1) is not raw.isascii()


def test_examples_of_the_documentation_are_true() -> None:
    results = doctest.testmod(javahash)
    assert results.failed == 0
