"""How many timer messages wait for each topic is kept in Java's file."""

from pathlib import Path

import pytest

from roketto.store import timer_metrics
from roketto.store.files import Files
from roketto.store.timer_metrics import TimerMetricsTable


def load(folder: Path) -> TimerMetricsTable:
    table = TimerMetricsTable(Files(), folder, clock_ms=lambda: 1_700_000_000_000)
    assert table.load() is None
    return table


def test_counts_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """They go up and down; a topic that has had some stays."""
    table = load(tmp_path)
    table.add("T", 1)
    table.add("T", 1)
    table.add("U", 1)
    table.add("U", -1)
    assert table.save_if_changed()
    again = load(tmp_path)
    assert (again.count("T"), again.count("U"), again.count("V")) == (2, 0, 0)
    text = (tmp_path / "timermetrics").read_bytes()
    assert b'"count":2' in text
    assert b'"timeStamp":1700000000000' in text
    again.clear()
    assert again.is_changed
    assert again.count("T") == 0


def test_the_counts_of_a_java_broker_are_read(tmp_path: Path) -> None:
    """As 5.5.0 writes them."""
    (tmp_path / "timermetrics").write_text(
        '{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1700000000000},'
        '"timingCount":{"T":{"count":2,"timeStamp":1700000000000}}}'
    )
    assert load(tmp_path).count("T") == 2


def test_a_table_counts_so_many_topics_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else rests on it, so nothing is refused."""
    monkeypatch.setattr(timer_metrics, "TOPICS_MAX", 1)
    table = load(tmp_path)
    table.add("T", 1)
    table.add("U", 1)
    assert (table.count("T"), table.count("U")) == (1, 0)
