"""#9328: a shorter consumerOffset.json kept the end of the longer one, and could not be read.

After an abnormal stop its backup was no better, and the start died of a null pointer.
"""

from pathlib import Path

from roketto.store.files import Files
from roketto.store.offset_table import ConsumeOffsetTable


def filled(folder: Path, groups: int) -> ConsumeOffsetTable:
    table = ConsumeOffsetTable(Files(), folder)
    for number in range(groups):
        table.put("Orders", f"group{number}", 0, number)
    return table


def test_a_table_that_shrinks_leaves_nothing_behind_its_end(tmp_path: Path) -> None:
    """Also where an earlier save was interrupted and left its temporary file."""
    (tmp_path / "consumerOffset.json.tmp").write_bytes(b"x" * 100_000)
    table = filled(tmp_path, 500)
    table.save_if_changed()
    for number in range(1, 500):
        table.remove_group(f"group{number}")
    table.save_if_changed()
    assert (tmp_path / "consumerOffset.json").read_bytes() == table.text()
    again = ConsumeOffsetTable(Files(), tmp_path)
    assert again.load() is None
    assert list(again.pairs()) == [("Orders", "group0")]


def test_a_table_with_the_end_of_an_older_one_is_not_believed(tmp_path: Path) -> None:
    """As Java left it: the backup is taken instead, and the reason given."""
    short, long = filled(tmp_path, 1).text(), filled(tmp_path, 50).text()
    (tmp_path / "consumerOffset.json").write_bytes(short + long[len(short) :])
    (tmp_path / "consumerOffset.json.bak").write_bytes(long)
    table = ConsumeOffsetTable(Files(), tmp_path)
    problem = table.load()
    assert problem is not None
    assert "consumerOffset.json cannot be read" in problem
    assert len(table) == 50
