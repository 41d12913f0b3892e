"""Proves that tag expressions mean what they mean to Java clients and brokers."""

import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load, text_of
from roketto.protocol import tags as tags_module
from roketto.protocol.errors import FilterError
from roketto.protocol.limits import TAG_EXPRESSION_BYTES_MAX
from roketto.protocol.tags import join_tags, parse_tags, tag_code

VECTORS = load("tags")


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: ascii(row["expression"]))
def test_expression_means_what_java_makes_of_it(row: dict[str, Any]) -> None:
    expression = None if row["expression"] is None else text_of(row["expression"])
    if "error" in row:
        with pytest.raises(FilterError, match="no tag"):
            parse_tags(expression)
        return
    parsed = parse_tags(expression)
    assert parsed.expression == text_of(row["subString"])
    assert parsed.tags == {text_of(tag) for tag in row["tags"]}
    assert sorted(parsed.codes) == row["codes"]


def test_the_broker_compares_codes_and_the_client_tags() -> None:
    wanted = parse_tags("Aa || TagB")
    assert tag_code("Aa") == tag_code("BB")  # the classic pair of strings with one hash
    assert wanted.matches_code(tag_code("BB"))
    assert not wanted.matches_tag("BB")
    assert wanted.matches_tag("Aa")
    assert not wanted.matches_code(tag_code("TagC"))


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_all_means_every_message_with_and_without_a_tag(expression: str | None) -> None:
    everything = parse_tags(expression)
    assert everything.matches_code(0)
    assert everything.matches_code(2598919)
    assert everything.matches_tag(None)
    assert everything.matches_tag("TagA")


def test_a_message_without_a_tag_is_not_wanted_by_an_expression() -> None:
    wanted = parse_tags("TagA")
    assert tag_code(None) == 0
    assert tag_code("") == 0
    assert not wanted.matches_code(0)
    assert not wanted.matches_tag(None)


def test_an_expression_of_blanks_finds_nothing_at_the_broker() -> None:
    blanks = parse_tags(" || ")
    assert not blanks.matches_code(0)
    assert not blanks.matches_code(tag_code("TagA"))


def test_the_longest_expression_is_parsed_and_a_longer_one_refused() -> None:
    longest = "t" * TAG_EXPRESSION_BYTES_MAX
    assert parse_tags(longest).tags == {longest}
    with pytest.raises(FilterError, match="more than 65536") as caught:
        parse_tags(longest + "t")
    assert len(caught.value.reason) < 250


tags = st.text(st.characters(blacklist_characters="|", min_codepoint=0x21)).filter(bool)


@given(st.lists(tags, min_size=1))
def test_joined_tags_are_parsed_back(wanted: list[str]) -> None:
    parsed = parse_tags(join_tags(wanted))
    if wanted == ["*"]:
        assert parsed.tags == set()
    else:
        assert parsed.tags == set(wanted)
    assert all(parsed.matches_tag(tag) and parsed.matches_code(tag_code(tag)) for tag in wanted)


def test_no_tags_join_to_all() -> None:
    assert join_tags([]) == "*"


@given(st.text(st.sampled_from("|* \x00aé😀")) | st.text())
def test_any_text_is_parsed_or_refused_as_a_filter(expression: str) -> None:
    try:
        parsed = parse_tags(expression)
    except FilterError:
        assert not expression.strip("|")
    else:
        assert all(parsed.matches_code(code) for code in parsed.codes)


def test_examples_of_the_documentation_are_true() -> None:
    results = doctest.testmod(tags_module)
    assert results.failed == 0
