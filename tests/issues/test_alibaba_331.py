"""alibaba#331: the disk was full for a while, and the broker refused messages ever after.

Messages that were in the log but not yet in their queues met the mark of the full disk there, were
taken for an error of the queue, and that mark nobody ever took back.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from roketto.protocol.record import Record
from roketto.store.flush import FlushSettings
from roketto.store.put_status import PutRefusedError
from roketto.store.store import Store, StoreSettings
from sim.files import CrashFiles

SETTINGS = StoreSettings(
    segment_bytes=4_096, queue_file_bytes=400, index_slots=20, index_entries=100,
    is_flush_sync=True, flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


def test_a_disk_that_was_full_is_used_again_when_it_is_not() -> None:
    """What waited for its queue gets there meanwhile, and the next message is taken at once."""
    files = CrashFiles()
    store = Store(Path("/store"), SETTINGS, files=files, clock_ms=lambda: NOON_MS, zone=UTC)
    store.open(1)
    for number in range(10):
        store.append(Record("T", b"%d" % number))
    waiting = len(store.appender.waiting.messages)
    files.set_usage(100, 3)
    store.retention.measure()
    assert waiting == 10
    with pytest.raises(PutRefusedError, match="97 % full"):
        store.append(Record("T", b"refused"))
    assert store._flusher is not None
    store._flusher.stop()  # the last sync: now all of them are safe
    store.tick()
    assert store.get("T", 0, 0, 32).count == 10
    with pytest.raises(PutRefusedError, match="97 % full"):
        store.append(Record("T", b"refused"))
    files.set_usage(100, 50)
    store.tick()
    assert store.append(Record("T", b"taken")).queue_offset == 10
    store.close()
