"""#9728, #10108: an empty last file of a consume queue kept the broker from starting."""

from datetime import UTC
from pathlib import Path

import pytest

from roketto.protocol.record import Record
from roketto.store.store import Store, StoreSettings

SETTINGS = StoreSettings(segment_bytes=65_536, queue_file_bytes=400, index_enable=False)


@pytest.mark.parametrize("is_crash", [False, True])
def test_an_empty_last_queue_file_is_no_obstacle(tmp_path: Path, is_crash: bool) -> None:
    """A crash came while the file was made: it has a name and no content."""
    store = Store(tmp_path, SETTINGS, zone=UTC)
    store.open(1)
    for number in range(50):
        store.append(Record("T", b"%d" % number))
    store.close()
    directory = tmp_path / "consumequeue" / "T" / "0"
    (directory / f"{len(list(directory.iterdir())) * 400:020d}").touch()
    if is_crash:
        (tmp_path / "abort").touch()
    store = Store(tmp_path, SETTINGS, zone=UTC)
    store.open(2)
    assert store.append(Record("T", b"goes on")).queue_offset == 50
    found = store.get("T", 0, 40, 32)
    assert found.count == 11
    store.close()
