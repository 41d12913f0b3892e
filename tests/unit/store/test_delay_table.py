"""Delay levels and how far each has been delivered are kept in Java's file."""

from pathlib import Path

import pytest

from roketto.store import delay_table
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.errors import TableFullError
from roketto.store.files import Files

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


def load(folder: Path) -> DelayOffsetTable:
    table = DelayOffsetTable(Files(), folder)
    assert table.load() is None
    return table


def test_levels_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Put, replaced, removed and saved; the same offset again is no change."""
    table = load(tmp_path)
    table.put(1, 5)
    table.put(1, 6)
    table.put(18, 0)
    assert table.remove(18) == 0
    assert table.remove(18) is None
    assert table.save_if_changed()
    table.put(1, 6)
    assert not table.is_changed
    again = load(tmp_path)
    assert again.offsets == {1: 6}
    assert (again.get(1), again.get(18)) == (6, None)
    assert b"1:6" in (tmp_path / "delayOffset.json").read_bytes()


@pytest.mark.parametrize(("version", "offset"), [("4.9.7", 2), ("5.5.0", 3)])
def test_the_levels_of_a_java_broker_are_read(version: str, offset: int) -> None:
    """4.9 has no data version there, and gets one."""
    table = load(GOLDEN / version)
    assert table.offsets == {1: offset}
    assert table.body.data_version is not None
    assert table.body.data_version.timestamp > 0


def test_a_table_takes_so_many_levels_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come from the configuration."""
    monkeypatch.setattr(delay_table, "LEVELS_MAX", 1)
    table = load(tmp_path)
    table.put(1, 1)
    with pytest.raises(TableFullError, match="has 1 entries"):
        table.put(2, 1)


@pytest.mark.parametrize(("level", "offset"), [(0, 0), (1 << 31, 0), (1, 1 << 63)])
def test_numbers_that_java_could_not_read_are_a_bug(
    tmp_path: Path, level: int, offset: int
) -> None:
    """They would make the whole file unreadable."""
    with pytest.raises(AssertionError, match="Java"):
        load(tmp_path).put(level, offset)
