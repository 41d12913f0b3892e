"""Filters are kept by topic and group, in Java's file."""

from pathlib import Path

import pytest

from roketto.store import filter_table
from roketto.store.errors import TableFullError
from roketto.store.files import Files
from roketto.store.filter_table import BloomFilterData, ConsumerFilter, FilterTable

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


def load(folder: Path) -> FilterTable:
    table = FilterTable(Files(), folder)
    assert table.load() is None
    return table


def sql(topic: str, group: str, expression: str = "a > 1") -> ConsumerFilter:
    return ConsumerFilter(
        BloomFilterData(112, [1, 2, 3]), 1000, 5, group, dead_time=0,
        expression=expression, expression_type="SQL92", topic=topic,
    )  # fmt: skip


def test_filters_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Put, replaced, removed and saved; a topic goes with its last filter."""
    table = load(tmp_path)
    for filter_ in (sql("T", "G"), sql("T", "H"), sql("U", "G"), sql("T", "G", "b")):
        table.put(filter_)
    assert table.remove("U", "G") == sql("U", "G")
    assert table.remove("U", "G") is None
    assert table.remove("T", "I") is None
    table.save_if_changed()
    again = load(tmp_path)
    assert list(again) == [sql("T", "G", "b"), sql("T", "H")]
    assert again.get("T", "H") == sql("T", "H")
    assert again.get("T", "I") is None
    assert again.get("U", "G") is None
    assert again.remove("T", "G")
    assert [filter_.consumer_group for filter_ in again] == ["H"]


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_filters_of_a_java_broker_are_read(version: str) -> None:
    """Either version writes the same."""
    table = load(GOLDEN / version)
    found = table.get("Golden", "GoldenSql")
    assert found is not None
    assert found.expression == "age BETWEEN 5 AND 9"
    assert found.bloom_filter_data == BloomFilterData(112, [7, 98, 34])
    assert found.dead
    text = table.text()
    table.put(found)
    assert table.text() == text


def test_a_filter_is_dead_if_it_died_after_its_birth(tmp_path: Path) -> None:
    """Java derives it, and writes it."""
    table = load(tmp_path)
    filter_ = sql("T", "G")
    filter_.dead_time = 1000
    table.put(filter_)
    assert b'"dead":true' in table.text()
    filter_.dead_time = 999
    table.put(filter_)
    assert b'"dead":false' in table.text()


def test_a_filter_that_was_removed_and_made_again_is_a_new_one(tmp_path: Path) -> None:
    """What a newer broker said of the old one, or of its topic, is gone."""
    (tmp_path / "consumerFilter.json").write_text(
        '{"filterDataByTopic":{"T":{"groupFilterData":{"G":{"new":1,"topic":"T"},'
        '"H":{"new":2,"topic":"T"}},"new":3,"topic":"T"}}}'
    )
    table = load(tmp_path)
    table.put(sql("T", "G"))
    assert table.text().count(b'"new":') == 3
    table.remove("T", "G")
    table.put(sql("T", "G"))
    assert b'"new":1' not in table.text()
    table.remove("T", "G")
    table.remove("T", "H")
    table.put(sql("T", "H"))
    assert b'"new":' not in table.text()


def test_a_table_takes_so_many_filters_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all topics together, and each of a bounded size."""
    monkeypatch.setattr(filter_table, "FILTERS_MAX", 2)
    table = load(tmp_path)
    table.put(sql("T", "G"))
    with pytest.raises(TableFullError, match="65536"):
        table.put(sql("U", "G", "x" * 70_000))
    table.put(sql("U", "G"))
    with pytest.raises(TableFullError, match="has 2 entries"):
        table.put(sql("V", "G"))
    table.put(sql("T", "G", "b"))
    assert [filter_.topic for filter_ in table] == ["T", "U"]
