"""A subscription says what Java's clients say in heartbeats, and knows which messages it wants."""

import pytest

from roketto.client.subscription import (
    SQL92,
    TAG,
    IllegalSubscriptionError,
    Sql,
    make_subscription,
)
from roketto.protocol.javahash import java_hash
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record


def tagged(tag: str | None) -> Record:
    return Record("T", b"x", encode_properties({"TAGS": tag, "KEYS": "k"}))


def test_tags_travel_as_texts_and_as_hashes() -> None:
    """As they were written, and taken apart."""
    wanted = make_subscription("T", " a ||b||  ", 17)
    data = wanted.data()
    assert (data.topic, data.sub_string, data.expression_type) == ("T", " a ||b||  ", TAG)
    assert (data.sub_version, data.tags_set, data.code_set) == (17, ["a", "b"], [97, 98])


@pytest.mark.parametrize("expression", ["", "*"])
def test_everything_is_wanted_without_a_tag(expression: str) -> None:
    """Messages with a tag or without one."""
    wanted = make_subscription("T", expression, 1)
    assert wanted.expression == "*"
    assert (wanted.data().tags_set, wanted.data().code_set) == ([], [])
    assert wanted.wants(tagged("a"))
    assert wanted.wants(tagged(None))


def test_a_tag_with_the_same_hash_is_not_wanted() -> None:
    """Brokers cannot tell AaAa from BBBB; the client can."""
    assert java_hash("AaAa") == java_hash("BBBB")
    wanted = make_subscription("T", "AaAa", 1)
    assert wanted.wants(tagged("AaAa"))
    assert not wanted.wants(tagged("BBBB"))
    assert not wanted.wants(tagged(None))


def test_sql_is_left_to_brokers() -> None:
    """The client sends it as it is, and takes what they find."""
    wanted = make_subscription("T", Sql("a > 3 || b"), 2)
    data = wanted.data()
    assert (data.expression_type, data.sub_string, data.tags_set) == (SQL92, "a > 3 || b", [])
    assert type(wanted.expression) is str
    assert wanted.wants(tagged("whatever"))


def test_a_renewed_one_differs_by_its_version_alone() -> None:
    """Brokers believe the later one."""
    wanted = make_subscription("T", "a", 1)
    renewed = wanted.renewed(9)
    assert (renewed.version_ms, renewed.tags, renewed.topic) == (9, frozenset({"a"}), "T")
    assert renewed != wanted
    assert renewed.renewed(1) == wanted


@pytest.mark.parametrize("expression", ["||", "|| ||||||", "x" * 70_000, Sql(" ")])
def test_an_expression_without_sense_is_refused_in_words(expression: str) -> None:
    """Before a broker sees it; what nobody would match is not the same as everything."""
    if expression == "|| ||||||":
        assert not make_subscription("T", expression, 1).tags  # Java's oddity: it matches nothing
        return
    with pytest.raises(IllegalSubscriptionError, match="T"):
        make_subscription("T", expression, 1)
