"""CVE-2019-17572: a topic named ../../x made directories outside the store."""

from datetime import UTC
from pathlib import Path

import pytest

from roketto.protocol.errors import IllegalNameError
from roketto.protocol.record import Record
from roketto.store.store import Store, StoreSettings

SETTINGS = StoreSettings(segment_bytes=65_536, queue_file_bytes=400, index_enable=False)


@pytest.mark.parametrize("topic", ["../../../../x", "..", "a/b", "/etc/x", ".", "a\0b"])
def test_no_topic_leads_out_of_the_store(tmp_path: Path, topic: str) -> None:
    """The store itself refuses it, whoever has let the name through before."""
    root = tmp_path / "deep" / "down" / "store"
    store = Store(root, SETTINGS, zone=UTC)
    store.open(1)
    before = sorted(path for path in tmp_path.rglob("*") if root not in path.parents)
    with pytest.raises(IllegalNameError):
        store.append(Record(topic, b"x"))
    store.close()
    again = Store(root, SETTINGS, zone=UTC)
    assert again.open(2).end == 0, "the log has a record of that topic"
    again.close()
    assert sorted(path for path in tmp_path.rglob("*") if root not in path.parents) == before
