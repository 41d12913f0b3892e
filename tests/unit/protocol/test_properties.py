"""Proves that property strings read and are written as in Java, whatever is in them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load, text_of
from roketto.protocol.properties import (
    decode_properties,
    encode_properties,
    find_spans,
    get_property,
    join_properties,
    remove_property,
)
from roketto.protocol.utf8 import decode_utf8

VECTORS = load("properties")
OLD_VECTORS = load("properties", "4.9.7")

# Few characters and many separators: most of these strings are odd in some way.
odd_strings = st.lists(
    st.sampled_from([b"\x01", b"\x02", b"A", b"BC", "名".encode(), b"\xff"])
).map(b"".join)
plain_text = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]))
plain_properties = st.dictionaries(plain_text.filter(bool), plain_text.filter(bool))


@pytest.mark.parametrize("row", VECTORS["decode"], ids=lambda row: str(row["raw"]))
def test_every_string_reads_as_java_reads_it(row: dict[str, Any]) -> None:
    expected = {text_of(name): text_of(value) for name, value in row["map"].items()}
    raw = bytes.fromhex(row["raw"])
    assert decode_properties(raw) == expected
    assert decode_properties(memoryview(raw)) == expected
    for name in (*expected, "A", "TAGS", "absent"):
        assert get_property(raw, name) == expected.get(name)


@pytest.mark.parametrize("row", VECTORS["encode"], ids=lambda row: str(row["raw"]))
def test_mappings_are_written_as_5_x_writes_them(row: dict[str, Any]) -> None:
    pairs = {text_of(name): value and text_of(value) for name, value in row["pairs"]}
    assert encode_properties(pairs) == bytes.fromhex(row["raw"])


@pytest.mark.parametrize("row", OLD_VECTORS["encode"], ids=lambda row: str(row["raw"]))
def test_what_4_x_writes_without_the_last_separator_reads_the_same(row: dict[str, Any]) -> None:
    pairs = {text_of(name): value and text_of(value) for name, value in row["pairs"]}
    old = bytes.fromhex(row["raw"])
    assert not old.endswith(b"\x02")
    assert decode_properties(old) == decode_properties(encode_properties(pairs))


@pytest.mark.parametrize("row", load("removals"), ids=lambda row: str(row["raw"]))
def test_a_property_is_removed_as_java_removes_it(row: dict[str, str]) -> None:
    assert remove_property(bytes.fromhex(row["raw"]), row["name"]) == bytes.fromhex(row["left"])


@given(plain_properties)
def test_properties_survive_both_ways_in_their_order(properties: dict[str, str]) -> None:
    assert list(decode_properties(encode_properties(properties)).items()) == list(
        properties.items()
    )


@given(odd_strings | st.binary(), st.sampled_from(["A", "BC", "名", "ABC", "", "A\x01A", "A\x02A"]))
def test_looking_for_one_gives_what_parsing_all_gives(raw: bytes, name: str) -> None:
    assert get_property(raw, name) == decode_properties(raw).get(name)
    assert get_property(memoryview(raw), name) == decode_properties(raw).get(name)


@given(odd_strings, st.sampled_from(["A", "BC", "名"]))
def test_removing_one_leaves_the_others(raw: bytes, name: str) -> None:
    left = decode_properties(remove_property(raw, name))
    expected = decode_properties(raw)
    expected.pop(name, None)
    assert left == expected


@given(plain_properties, plain_properties, st.booleans())
def test_joined_strings_read_as_both_and_the_second_wins(
    first: dict[str, str], second: dict[str, str], as_4_x: bool
) -> None:
    raw = encode_properties(first)
    joined = join_properties(raw[:-1] if as_4_x else raw, encode_properties(second))
    assert decode_properties(joined) == {**first, **second}


def test_joining_with_nothing_adds_no_separator() -> None:
    assert join_properties(b"A\x01B", b"") == b"A\x01B"
    assert join_properties(b"", b"A\x01B\x02") == b"A\x01B\x02"


def test_a_string_of_nothing_but_matches_is_searched_in_linear_time() -> None:
    hostile = b"TAGS\x01" * 6_000
    assert get_property(b"X\x01" + hostile, "TAGS") is None
    assert get_property(b"\x02".join([b"TAGS\x01"] * 6_000), "TAGS") is None


names = st.sampled_from(
    [b"UNIQ_KEY", b"KEYS", b"TAGS", b"UNIQ_KE", b"KEYSX", b"XTAGS", b"WAIT", b""]
)
values = st.binary(max_size=20) | st.sampled_from([b"", b"7F0000012A9F18B4AAC2", b"a b"])
items = st.builds(b"%b\x01%b".__mod__, st.tuples(names, values)) | st.binary(max_size=12)


@given(st.lists(items, max_size=6).map(b"\x02".join), st.sampled_from([b"", b"\x02", b"\x02\x02"]))
def test_the_values_that_are_filed_are_found_where_they_are(items: bytes, end: bytes) -> None:
    """Whatever is before and behind them, the last of each that is not empty."""
    raw = items + end
    spans = find_spans(raw)
    found = [raw[start:stop] for start, stop in zip(spans[::2], spans[1::2], strict=True)]
    expected = {}
    for item in raw.split(b"\x02"):
        name, _, value = item.partition(b"\x01")
        if value:
            expected[name] = value
    assert found == [expected.get(name, b"") for name in (b"UNIQ_KEY", b"KEYS", b"TAGS")]
    decoded = [get_property(raw, name) or "" for name in ("UNIQ_KEY", "KEYS", "TAGS")]
    assert [decode_utf8(value) for value in found] == decoded
