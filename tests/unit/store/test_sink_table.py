"""How far sinks are is found again after a restart, of as many of them as are kept."""

import json
from pathlib import Path

import pytest

from roketto.protocol.bodies.staged import SinkEntry
from roketto.store import sink_table
from roketto.store.errors import TableFullError
from roketto.store.files import Files
from roketto.store.sink_table import SINKS_FILE, SinkTable

ENTRY = SinkEntry(
    begun_at=500, begun_batch_id=7, decided_at=400, decided_batch_id=7, digest="d" * 64,
    has_pieces_here=True, published_batch_id=6, query_id="q", used_ms=1_700_000_000_000,
)  # fmt: skip


def load(folder: Path) -> SinkTable:
    table = SinkTable(Files(), folder)
    assert table.load() is None
    return table


def test_sinks_are_found_again_after_a_restart(tmp_path: Path) -> None:
    table = load(tmp_path)
    assert (table.next_offset, dict(table.sinks)) == (0, {})
    table.put("a", ENTRY)
    table.put("b", SinkEntry(query_id="r"))
    table.note_next(12)
    assert table.save_if_changed()
    again = load(tmp_path)
    assert again.sinks == {"a": ENTRY, "b": SinkEntry(query_id="r")}
    assert again.next_offset == 12
    assert not again.is_changed


def test_the_file_is_json_under_the_names_of_the_page(tmp_path: Path) -> None:
    table = load(tmp_path)
    table.put("a", ENTRY)
    table.save_if_changed()
    written = json.loads((tmp_path / SINKS_FILE).read_text())
    assert written["nextOffset"] == 0
    assert written["sinkTable"]["a"]["publishedBatchId"] == 6


def test_only_what_has_changed_is_saved(tmp_path: Path) -> None:
    table = load(tmp_path)
    table.note_next(0)
    table.remove("nobody")
    assert not table.save_if_changed()
    table.put("a", ENTRY)
    table.save_if_changed()
    table.remove("a")
    assert table.save_if_changed()
    assert not load(tmp_path).sinks


def test_a_table_takes_so_many_sinks_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_table, "SINKS_MAX", 1)
    table = load(tmp_path)
    table.put("a", ENTRY)
    table.put("a", SinkEntry())
    with pytest.raises(TableFullError, match="has 1 entries"):
        table.put("b", ENTRY)
