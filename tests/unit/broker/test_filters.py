"""Proves that SQL filters are kept as Java's broker keeps them, and wants worked out once."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from roketto.broker.config import BrokerConfig
from roketto.broker.filter_work import WAITING_MAX, FilterWork
from roketto.broker.filters import PARSING_UNITS, Filters
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import FilterError, RequestError
from roketto.protocol.properties import encode_properties
from roketto.protocol.tags import tag_code
from roketto.store import filter_table
from roketto.store.files import Files
from roketto.store.filter_table import FilterTable

DAY_MS = 86_400_000
AGE = encode_properties({"age": "7"})
YOUNG = encode_properties({"age": "1"})


class Rig:
    """Filters with a clock that is set by hand."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now_ms = 1_000_000
        self.config = BrokerConfig(
            store_path_root_dir=directory, enable_property_filter=True, broker_ip1="127.0.0.1"
        )
        self.start()

    def start(self) -> None:
        self.table = FilterTable(Files(), self.directory / "config", clock_ms=lambda: self.now_ms)
        self.table.load()
        self.filters = Filters(self.table, self.config, lambda: self.now_ms)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def sql(expression: str, version: int = 1, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(
        topic=topic, sub_string=expression, expression_type="SQL92", sub_version=version
    )


def tags(expression: str, version: int = 1, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version)


def test_a_filter_is_found_by_topic_and_group_once_it_was_told(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5"), tags("*", topic="Other")])
    assert rig.filters.find("T", "G", 1).matches({"age": "7"})
    assert rig.filters.get("T", "G") is rig.filters.find("T", "G", 0)
    assert rig.filters.get("Other", "G") is None


def test_a_filter_that_nobody_told_is_a_code_of_its_own(rig: Rig) -> None:
    with pytest.raises(RequestError) as refused:
        rig.filters.find("T", "G", 0)
    assert refused.value.code == ResponseCode.FILTER_DATA_NOT_EXIST


def test_a_filter_older_than_the_pull_is_a_code_of_its_own(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5", version=3)])
    with pytest.raises(RequestError, match="version 3, older than 4") as refused:
        rig.filters.find("T", "G", 4)
    assert refused.value.code == ResponseCode.FILTER_DATA_NOT_LATEST


def test_a_newer_expression_replaces_the_older_and_not_the_other_way(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5", version=2)])
    rig.filters.register("G", [sql("age > 6", version=1)])
    rig.filters.register("G", [sql("age > 6", version=2)])
    assert rig.filters.find("T", "G", 0).text == "age > 5"
    rig.filters.register("G", [sql("age > 7", version=3)])
    assert rig.filters.find("T", "G", 3).text == "age > 7"


def test_the_same_expression_of_a_newer_version_is_as_new(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5", version=2)])
    rig.now_ms += 5
    rig.filters.register("G", [sql("age > 5", version=9)])
    assert rig.filters.find("T", "G", 9).text == "age > 5"
    found = rig.table.get("T", "G")
    assert found is not None
    assert found.born_time == 1_000_000


def test_a_newer_expression_that_is_none_leaves_no_filter(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5", version=2)])
    rig.filters.register("G", [sql("age >", version=3)])
    assert rig.filters.get("T", "G") is None
    rig.filters.register("G", [sql("age > 8", version=4)])
    assert rig.filters.get("T", "G") is not None


def test_expressions_of_an_unknown_type_are_no_filters(rig: Rig) -> None:
    odd = SubscriptionData(topic="T", sub_string="x", expression_type="XPATH", sub_version=1)
    rig.filters.register("G", [odd])
    assert rig.filters.get("T", "G") is None
    with pytest.raises(FilterError, match="type XPATH are unknown"):
        rig.filters.wanted_in("G", "T", "x", "XPATH")


def test_a_full_table_costs_a_group_its_filter_and_nothing_else(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_table, "FILTERS_MAX", 1)
    rig.filters.register("G", [sql("age > 5")])
    rig.filters.register("H", [sql("age > 5")])
    assert rig.filters.get("T", "G") is not None
    assert rig.filters.get("T", "H") is None


def test_filters_die_with_their_group_and_live_again_with_it(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5")])
    rig.filters.unregister("G")
    rig.filters.unregister("H")
    found = rig.table.get("T", "G")
    assert found is not None
    assert (found.dead, found.dead_time) == (True, 1_000_000)
    assert rig.filters.get("T", "G") is not None, "pulls need it before the next heartbeat"
    rig.now_ms += 1
    rig.filters.unregister("G")
    assert found.dead_time == 1_000_000
    rig.filters.register("G", [sql("age > 5")])
    assert (found.dead, found.dead_time) == (False, 0)


def test_a_topic_that_is_no_longer_subscribed_to_loses_its_filter(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5"), sql("age > 6", topic="U")])
    rig.filters.register("G", [sql("age > 6", topic="U")])
    left, kept = rig.table.get("T", "G"), rig.table.get("U", "G")
    assert left is not None
    assert kept is not None
    assert left.dead
    assert not kept.dead


def test_what_has_been_dead_for_a_day_is_forgotten(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5"), sql("age > 5", topic="U")])
    rig.filters.unregister("G")
    rig.now_ms += DAY_MS - 1
    assert rig.filters.save()
    assert rig.table.get("T", "G") is not None
    rig.now_ms += 1
    assert rig.filters.save()
    assert list(rig.table) == []
    assert not rig.filters.save()


def test_the_dead_are_forgotten_when_others_come(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5")])
    rig.filters.unregister("G")
    rig.now_ms += 2 * DAY_MS
    rig.filters.register("H", [sql("age > 5")])
    assert [found.consumer_group for found in rig.table] == ["H"]


def test_filters_survive_a_restart_as_those_of_the_dead(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5")])
    rig.filters.save()
    saved = json.loads((rig.directory / "config" / "consumerFilter.json").read_text())
    entry = saved["filterDataByTopic"]["T"]["groupFilterData"]["G"]
    assert entry["bloomFilterData"]["bitNum"] == 112
    assert len(entry["bloomFilterData"]["bitPos"]) == 3
    rig.now_ms += 100_000
    rig.start()
    found = rig.table.get("T", "G")
    assert found is not None
    assert found.dead_time == rig.now_ms - 30_000
    assert rig.filters.find("T", "G", 1).text == "age > 5"
    rig.filters.register("G", [])
    rig.filters.register("G", [sql("age > 5")])
    assert not found.dead


def test_a_filter_of_a_file_that_cannot_be_compiled_is_none(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5")])
    found = rig.table.get("T", "G")
    assert found is not None
    found.expression = "age >"
    assert rig.filters.get("T", "G") is None
    with pytest.raises(FilterError):
        rig.filters.find("T", "G", 0)


def test_what_a_heartbeat_wants_is_worked_out_once(rig: Rig) -> None:
    said = tags("a")
    wanted = rig.filters.wanted_by("G", "T", said, 0)
    assert wanted.codes == frozenset({tag_code("a")})
    assert rig.filters.wanted_by("G", "T", said, 0) is wanted
    assert rig.filters.wanted_by("G", "T", tags("b"), 0).codes == frozenset({tag_code("b")})
    changed = tags("b")
    rig.filters.wanted_by("G", "T", changed, 0)
    changed.sub_string, changed.sub_version = "c", 2
    assert rig.filters.wanted_by("G", "T", changed, 0).codes == frozenset({tag_code("c")})


def test_what_a_heartbeat_wants_by_sql_follows_the_filter(rig: Rig) -> None:
    said = sql("age > 5")
    with pytest.raises(RequestError):
        rig.filters.wanted_by("G", "T", said, 0)
    rig.filters.register("G", [said])
    assert rig.filters.wanted_by("G", "T", said, 1).matches(AGE)
    assert not rig.filters.wanted_by("G", "T", said, 1).matches(YOUNG)


def test_what_a_request_wants_is_worked_out_once(rig: Rig) -> None:
    wanted = rig.filters.wanted_in("G", "T", "a || b", None)
    assert wanted.codes == frozenset({tag_code("a"), tag_code("b")})
    assert rig.filters.wanted_in("H", "U", "a || b", "TAG") is wanted
    assert rig.filters.wanted_in("G", "T", None, "TAG").codes is None
    assert rig.filters.wanted_in("G", "T", "age > 5", "SQL92").matches(AGE)


def test_caches_are_bounded(rig: Rig) -> None:
    kept = Filters(rig.table, rig.config, kept_max=2)
    for number in range(5):
        kept.wanted_in("G", "T", f"t{number}", "TAG")
        kept.wanted_in("G", "T", f"a = {number}", "SQL92")
        kept.wanted_by(f"G{number}", "T", tags("a"), 0)
    assert max(len(kept._by_text), len(kept._compiled), len(kept._by_heartbeat)) <= 2


def test_long_expressions_are_not_kept_by_the_thousand(rig: Rig) -> None:
    kept = Filters(rig.table, rig.config, kept_chars_max=100)
    for number in range(50):
        kept.wanted_in("G", "T", f"tag{number}" * 5, "TAG")
        kept.wanted_in("G", "T", f"a = {number}" + " OR a = 1" * 3, "SQL92")
        for texts in (kept._by_text, kept._compiled):
            assert sum(map(len, texts)) <= 100
    assert len(kept._by_text) > 1
    kept.wanted_in("G", "T", "a = 1" + " OR a = 1" * 50, "SQL92")
    assert len(kept._compiled) == 1, "one that is longer than all is kept alone"


def test_a_heartbeat_with_many_filters_takes_many_turns(rig: Rig) -> None:
    """And whoever comes with one in between waits behind them."""
    soon: list[Callable[[], None]] = []
    units = 2 * len("a > 10") * PARSING_UNITS
    rig.filters.work = FilterWork(units_per_turn=units, call_soon=soon.append)
    rig.filters.register(
        "G", [sql(f"a > {number}", topic=f"T{number}") for number in range(10, 17)]
    )
    rig.filters.register("H", [sql("b > 10")])
    taken = [len(list(rig.table))]
    while soon:
        soon.pop()()
        taken.append(len(list(rig.table)))
    assert taken == [2, 4, 6, 8, 8], "the last turn only makes room for others"
    assert rig.filters.find("T", "H", 1).matches({"b": "11"})
    for _ in range(WAITING_MAX + 5):
        rig.filters.work.wait(lambda: None)
    rig.filters.register("G", [sql("c > 10", topic="Late")])
    assert len(rig.filters.work) == WAITING_MAX + 5
    assert rig.filters.get("Late", "G") is None


def test_sql_is_refused_while_it_is_switched_off(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5")])
    rig.config.enable_property_filter = False
    for ask in (
        lambda: rig.filters.wanted_in("G", "T", "age > 5", "SQL92"),
        lambda: rig.filters.wanted_by("G", "T", sql("age > 5"), 1),
        lambda: rig.filters.check("SQL92", "age > 5"),
    ):
        with pytest.raises(RequestError, match="set enablePropertyFilter=true") as refused:
            ask()
        assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_a_client_may_ask_whether_its_expression_is_one(rig: Rig) -> None:
    rig.filters.check("TAG", "||")
    rig.filters.check("SQL92", "age > 5")
    with pytest.raises(RequestError) as refused:
        rig.filters.check("SQL92", "age >")
    assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_retries_are_filtered_as_their_topic_is_if_that_is_switched_on(rig: Rig) -> None:
    rig.filters.register("G", [sql("age > 5")])
    again = encode_properties({"RETRY_TOPIC": "T", "age": "1"})
    assert rig.filters.wanted_in("G", "%RETRY%G", "age < 5", "SQL92").matches(again)
    rig.config.filter_support_retry = True
    assert not rig.filters.wanted_in("G", "%RETRY%G", "age < 5", "SQL92").matches(again)
    assert rig.filters.wanted_in("H", "%RETRY%H", "age > 5", "SQL92").matches(again)
