"""#3401: a crash of the system turned offset tables into gibberish, and all was consumed again.

delayOffset.json and consumerOffset.json had no readable character left; their backups were right.
The broker did not start, and once somebody had written new files by hand, every offset was gone.
"""

from pathlib import Path
from random import Random

import pytest

from roketto.store.delay_table import DelayOffsetTable
from roketto.store.files import Files
from roketto.store.offset_table import ConsumeOffsetTable


@pytest.mark.parametrize("seed", range(20))
def test_offsets_come_from_the_backups_when_both_files_are_gibberish(
    tmp_path: Path, seed: int
) -> None:
    """Nothing has to be written by hand, both files are named, and the offsets are those before."""
    consumed, delays = ConsumeOffsetTable(Files(), tmp_path), DelayOffsetTable(Files(), tmp_path)
    for offset in (100, 200):
        consumed.put("Orders", "billing", 0, offset)
        delays.put(3, offset)
        consumed.save_if_changed()
        delays.save_if_changed()
    random = Random(seed)
    for path in (consumed.path, delays.path):
        path.write_bytes(random.randbytes(path.stat().st_size))

    consumed, delays = ConsumeOffsetTable(Files(), tmp_path), DelayOffsetTable(Files(), tmp_path)
    for table in (consumed, delays):
        problem = table.load()
        assert problem is not None
        assert str(table.path) in problem
    assert consumed.get("Orders", "billing", 0) == 100
    assert delays.get(3) == 100
