"""#6096: a delayOffset.json without content kept the broker from starting, and it said nothing.

The file had its old length and no character that means anything; the start ended without a word on
the terminal.
"""

from pathlib import Path

import pytest

from roketto.store.delay_table import DelayOffsetTable
from roketto.store.errors import CorruptStoreError
from roketto.store.files import Files


@pytest.mark.parametrize("content", [bytes(21), b" " * 21, b"\n", b""])
def test_a_table_without_content_is_replaced_by_its_backup(tmp_path: Path, content: bytes) -> None:
    """The start goes on, and says why."""
    table = DelayOffsetTable(Files(), tmp_path)
    for offset in (5, 6):
        table.put(1, offset)
        table.save_if_changed()
    table.path.write_bytes(content)
    again = DelayOffsetTable(Files(), tmp_path)
    problem = again.load()
    assert problem is not None
    assert "delayOffset.json.bak, the version before the last, is used" in problem
    assert again.get(1) == 5


@pytest.mark.parametrize("content", [bytes(21), b" " * 21, b"\n", b""])
def test_a_table_and_a_backup_without_content_are_named_with_the_remedy(
    tmp_path: Path, content: bytes
) -> None:
    """A start that fails says which files, why, and what to do; which then helps."""
    main, backup = tmp_path / "delayOffset.json", tmp_path / "delayOffset.json.bak"
    main.write_bytes(content)
    backup.write_bytes(content)
    table = DelayOffsetTable(Files(), tmp_path)
    with pytest.raises(CorruptStoreError) as raised:
        table.load()
    for words in (str(main), str(backup), "restore one of the files, or remove both to start"):
        assert words in str(raised.value)
    main.unlink()
    backup.unlink()
    assert table.load() is None
