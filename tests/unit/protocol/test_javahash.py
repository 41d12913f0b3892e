"""Proves that our hash of a string is Java's, for every kind of character."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load, text_of
from roketto.protocol import javahash
from roketto.protocol.javahash import java_hash


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


def test_examples_of_the_documentation_are_true() -> None:
    results = doctest.testmod(javahash)
    assert results.failed == 0
