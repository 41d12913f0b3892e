"""#10518: a truncated offset file stopped the start with "maybe fastjson version too low".

It came from power loss while the offsets were saved; the reason that was given led nowhere, and
there was no way to start without the file.
"""

from pathlib import Path

import pytest

from roketto.store.errors import CorruptStoreError
from roketto.store.files import Files
from roketto.store.offset_table import ConsumeOffsetTable


def test_truncated_offsets_are_called_so_and_can_be_done_without(tmp_path: Path) -> None:
    """Cut at every byte, main file and backup alike: what, where, and the way out."""
    table = ConsumeOffsetTable(Files(), tmp_path)
    for queue_id in range(4):
        table.put("Orders", "billing", queue_id, 1000)
    text = table.text()
    main, backup = tmp_path / "consumerOffset.json", tmp_path / "consumerOffset.json.bak"
    for size in range(1, len(text)):
        main.write_bytes(text[:size])
        backup.write_bytes(text[:size])
        with pytest.raises(CorruptStoreError) as raised:
            table.load()
        reason = str(raised.value)
        assert "cannot be read: JSON body at character" in reason
        assert str(main) in reason
        assert str(backup) in reason
        assert "remove both to start without this table" in reason
        assert "version" not in reason
    main.unlink()
    backup.unlink()
    assert table.load() is None
    assert len(table) == 0
