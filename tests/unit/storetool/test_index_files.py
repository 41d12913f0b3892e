"""The layout of an index file is found from what is in it."""

from datetime import UTC
from pathlib import Path

import pytest

from roketto.store.files import Files
from roketto.store.index import Index
from roketto.storetool.index_files import IndexTable, Layout


def make(folder: Path, slots: int, entries: int, puts: int) -> None:
    index = Index(Files(), folder, lambda: 1_700_000_000_000, UTC, slots, entries)
    for number in range(puts):
        index.put("T", f"U{number}", "a b", number * 100, 1_700_000_000_000 + number)
    index.sync()
    index.close()


@pytest.mark.parametrize("puts", [1, 2, 100])
@pytest.mark.parametrize(("slots", "entries"), [(100, 400), (101, 1_000), (7, 301), (5_000, 302)])
def test_slots_and_entries_are_found(tmp_path: Path, slots: int, entries: int, puts: int) -> None:
    """In Java's ratio and in any other, with one message and with many."""
    make(tmp_path, slots, entries, puts)
    assert IndexTable(Files(), tmp_path).layout == Layout(slots, entries)


def test_what_the_user_says_is_taken(tmp_path: Path) -> None:
    """And nothing is looked at."""
    assert IndexTable(Files(), tmp_path, 5, 6).layout == Layout(5, 6)


def test_an_entry_whose_slot_is_not_written_yet_tells_the_layout(tmp_path: Path) -> None:
    """A broker is putting it right now."""
    make(tmp_path, 101, 1_000, 30)
    [path] = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    newest = 90
    entry_at = 40 + 101 * 4 + newest * 20
    slot_at = 40 + int.from_bytes(content[entry_at : entry_at + 4]) % 101 * 4
    assert int.from_bytes(content[slot_at : slot_at + 4]) == newest
    content[slot_at : slot_at + 4] = content[entry_at + 16 : entry_at + 20]
    path.write_bytes(bytes(content))
    assert IndexTable(Files(), tmp_path).layout == Layout(101, 1_000)


def test_a_broken_file_takes_the_layout_of_the_others(tmp_path: Path) -> None:
    """Or what is usual for its length, or none."""
    make(tmp_path, 101, 400, 300)
    paths = sorted(tmp_path.iterdir())
    assert len(paths) > 1
    paths[-1].write_bytes(b"\xff" * paths[-1].stat().st_size)
    assert IndexTable(Files(), tmp_path).layout == Layout(101, 400)
    for path in paths:
        path.write_bytes(b"\xff" * (40 + 84 * 10))
    assert IndexTable(Files(), tmp_path).layout == Layout(10, 40)
    for path in paths:
        path.write_bytes(b"\xff" * 20)
    assert IndexTable(Files(), tmp_path).layout is None
    assert IndexTable(Files(), tmp_path / "none").layout is None
