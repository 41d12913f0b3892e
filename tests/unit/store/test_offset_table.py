"""Consume offsets are kept by topic, group and queue, in Java's file with its integer keys."""

from pathlib import Path

import pytest

from roketto.store import offset_table
from roketto.store.errors import TableFullError
from roketto.store.files import Files
from roketto.store.offset_table import ConsumeOffsetTable

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


def load(folder: Path) -> ConsumeOffsetTable:
    table = ConsumeOffsetTable(Files(), folder)
    assert table.load() is None
    return table


def test_offsets_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Also smaller ones: whoever resets a group goes back."""
    table = load(tmp_path)
    table.put("T", "G", 0, 7)
    table.put("T", "G", 1, 8)
    table.put("T", "G", 0, 5)
    table.put("%LMQ%a@b", "G", 0, 1)
    table.save_if_changed()
    again = load(tmp_path)
    assert (again.get("T", "G", 0), again.get("T", "G", 1)) == (5, 8)
    assert again.get("T", "G", 2) is None
    assert again.get("T", "H", 0) is None
    assert again.offsets("T", "G") == {0: 5, 1: 8}
    assert again.offsets("U", "G") == {}
    assert list(again.pairs()) == [("T", "G"), ("%LMQ%a@b", "G")]
    assert len(again) == 3


def test_the_file_has_integers_as_keys_and_the_topics_of_each_group(tmp_path: Path) -> None:
    """As Java 5 writes it; the topics of a group are those of the moment."""
    table = ConsumeOffsetTable(Files(), tmp_path, clock_ms=lambda: 5)
    table.put("T", "G", 0, 7)
    table.put("U", "G", 1, 8)
    table.save_if_changed()
    assert (tmp_path / "consumerOffset.json").read_text().replace("\t", "  ") == (
        '{\n  "dataVersion":{\n    "counter":0,\n    "stateVersion":0,\n    "timestamp":5\n  },\n'
        '  "groupTopicMap":{\n    "G":[\n      "T",\n      "U"\n    ]\n  },\n'
        '  "offsetTable":{\n    "T@G":{\n      0:7\n    },\n    "U@G":{\n      1:8\n    }\n  }\n}'
    )
    table.remove("T", "G")
    assert table.text().count(b'"T') == 0


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_offsets_of_a_java_broker_are_read(version: str) -> None:
    """4.9 writes the queues of a group on one line."""
    table = load(GOLDEN / version)
    assert sum(table.offsets("GoldenMany", "C_GoldenMany").values()) in (49, 50)
    assert table.get("GoldenOrdered", "GoldenOrder", 1) == 4
    assert ("Golden", "GoldenSql") in table.pairs()
    assert len(table) == sum(len(table.offsets(*pair)) for pair in table.pairs()) > 15


def test_an_offset_that_stays_the_same_is_no_change(tmp_path: Path) -> None:
    """Idle consumers commit every five seconds."""
    table = load(tmp_path)
    table.put("T", "G", 0, 7)
    table.save_if_changed()
    table.put("T", "G", 0, 7)
    assert not table.is_changed


def test_offsets_go_with_their_topic_or_group() -> None:
    """And so does how far the group had pulled; names that only begin alike stay."""
    table = load(GOLDEN / "5.5.0")
    assert table.body.pull_offset_table is not None
    assert "Golden@GoldenLive" in table.body.pull_offset_table
    before = len(table)
    table.remove_topic("Golden")
    assert table.is_changed
    assert len(table) == before - 12
    assert "Golden@GoldenLive" not in table.body.pull_offset_table
    assert {topic for topic, _ in table.pairs()} >= {"GoldenMany", "GoldenOrdered"}
    table.remove_group("GoldenOrder")
    assert table.offsets("GoldenOrdered", "GoldenOrder") == {}
    table.remove("Never", "Seen")
    assert len(table) == sum(len(table.offsets(*pair)) for pair in table.pairs())


def test_a_table_takes_so_many_offsets_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients name groups and queues as they like. What is there goes on."""
    monkeypatch.setattr(offset_table, "OFFSETS_MAX", 2)
    table = load(tmp_path)
    table.put("T", "G", 0, 1)
    table.put("T", "G", 1, 1)
    with pytest.raises(TableFullError, match="has 2 entries"):
        table.put("T", "G", 2, 1)
    with pytest.raises(TableFullError, match="has 2 entries"):
        table.put("T", "H", 0, 1)
    table.put("T", "G", 1, 2)
    assert list(table.pairs()) == [("T", "G")]
    table.remove("T", "G")
    table.put("T", "H", 0, 1)


@pytest.mark.parametrize(("queue_id", "offset"), [(1 << 31, 0), (0, 1 << 63), (0, -(1 << 63) - 1)])
def test_numbers_that_java_could_not_read_are_a_bug(
    tmp_path: Path, queue_id: int, offset: int
) -> None:
    """They would make the whole file unreadable."""
    with pytest.raises(AssertionError, match="is no Java"):
        load(tmp_path).put("T", "G", queue_id, offset)
