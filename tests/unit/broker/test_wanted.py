"""Proves what subscriptions let through: tags by codes, SQL by properties, retries by both."""

import pytest

from roketto.broker.wanted import (
    ALL,
    WantedAgain,
    WantedBySql,
    is_tag_type,
    wanted_by_heartbeat,
    wanted_tags,
)
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.errors import FilterError
from roketto.protocol.properties import encode_properties
from roketto.protocol.sql import compile_filter
from roketto.protocol.tags import tag_code


def test_tags_are_wanted_by_their_codes_alone() -> None:
    wanted = wanted_tags("a || b")
    assert wanted.codes == frozenset({tag_code("a"), tag_code("b")})
    assert not wanted.needs_properties
    assert wanted.matches(b"")


@pytest.mark.parametrize("expression", ["*", "", None])
def test_no_expression_wants_everything(expression: str | None) -> None:
    assert wanted_tags(expression) is ALL
    assert ALL.codes is None


def test_only_an_empty_type_and_tag_are_types_of_tags() -> None:
    assert is_tag_type(None)
    assert is_tag_type("")
    assert is_tag_type("TAG")
    assert not is_tag_type("SQL92")


def test_codes_of_a_heartbeat_are_made_here() -> None:
    wrong = SubscriptionData(topic="T", sub_string="a", code_set=[1], tags_set=["a"])
    assert wanted_by_heartbeat(wrong).codes == frozenset({tag_code("a")})


def test_codes_of_a_heartbeat_count_where_there_is_no_expression() -> None:
    assert wanted_by_heartbeat(SubscriptionData(topic="T", code_set=[7])).codes == frozenset({7})
    odd = SubscriptionData(topic="T", sub_string="||", code_set=[8])
    assert wanted_by_heartbeat(odd).codes == frozenset({8})


def test_class_filters_of_old_want_everything() -> None:
    old = SubscriptionData(topic="T", sub_string="Some.Class", class_filter_mode=True)
    assert wanted_by_heartbeat(old) is ALL


def test_bars_without_tags_are_no_expression() -> None:
    with pytest.raises(FilterError, match="no tag"):
        wanted_tags("||")


def test_sql_looks_at_properties() -> None:
    wanted = WantedBySql(compile_filter("age > 5"))
    assert wanted.needs_properties
    assert wanted.codes is None
    assert wanted.matches(encode_properties({"age": "7"}))
    assert not wanted.matches(memoryview(encode_properties({"age": "3"})))


def test_retries_are_wanted_by_the_filter_on_their_own_topic() -> None:
    filters = {"Orders": compile_filter("age > 5")}
    wanted = WantedAgain(filters.get)
    assert wanted.matches(encode_properties({"RETRY_TOPIC": "Orders", "age": "7"}))
    assert not wanted.matches(encode_properties({"RETRY_TOPIC": "Orders", "age": "3"}))
    assert wanted.matches(encode_properties({"RETRY_TOPIC": "Other", "age": "3"}))
    assert wanted.matches(encode_properties({"age": "3"}))
