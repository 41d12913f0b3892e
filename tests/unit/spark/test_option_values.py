"""Options: every value is read as what it means, and every mistake is named with its remedy."""

from collections.abc import Callable

import pytest

from roketto.spark.option_values import OptionError, OptionValues

KNOWN = ["topic", "failOnDataLoss", "maxTriggerDelay", "pullBatchSize", "assign"]


def values(**given: str) -> OptionValues:
    return OptionValues(given, KNOWN, "source")


def test_names_are_taken_whatever_their_case() -> None:
    assert values(FAILONDATALOSS="False").flag("failOnDataLoss", True) is False


def test_an_unknown_option_names_the_nearest_one() -> None:
    with pytest.raises(OptionError, match=r"unknown option 'failOnDataLos'.*'failOnDataLoss'"):
        values(failOnDataLos="true")


def test_an_option_like_no_other_shows_all_of_them() -> None:
    with pytest.raises(OptionError, match="there are assign, failOnDataLoss"):
        values(zzz="1")


def test_what_spark_puts_there_is_passed_over() -> None:
    given = {"checkpointLocation": "/x", "topic": "T"}
    assert OptionValues(given, KNOWN, "sink", ["checkpointLocation"]).text("topic") == "T"


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("15m", 900_000), ("30 s", 30_000), ("500", 500), ("1h", 3_600_000)]
)
def test_times_are_read_with_their_units(text: str, expected_ms: int) -> None:
    assert values(maxTriggerDelay=text).duration_ms("maxTriggerDelay", 0) == expected_ms


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda found: found.flag("topic", True), "maybe"),
        (lambda found: found.number("topic", 1, 1, 9), "10"),
        (lambda found: found.number("topic", 1, 1, 9), "many"),
        (lambda found: found.duration_ms("topic", 1), "soon"),
        (lambda found: found.table("topic", "{}"), "[1]"),
        (lambda found: found.table("topic", "{}"), "{"),
        (lambda found: found.choice("topic", ["map", "raw"], "map"), "list"),
    ],
)
def test_a_wrong_value_is_shown_with_what_to_write(
    read: Callable[[OptionValues], object], text: str
) -> None:
    with pytest.raises(OptionError, match=r"source: option topic is .*write"):
        read(values(topic=text))


def test_what_is_not_given_has_its_default() -> None:
    found = values(topic=" ")
    assert not found.has("topic")
    assert found.text("topic", "x") == "x"
    assert found.maybe_number("pullBatchSize") is None
    assert found.table("assign", "{}") is None
