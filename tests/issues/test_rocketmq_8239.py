"""#8239: under SYNC_FLUSH messages were consumed before they were safe, and skipped after a crash.

The consumer's offset was then ahead of the log that the crash had cut, and new messages took the
places that it believed to have read.
"""

from datetime import UTC
from pathlib import Path

from roketto.protocol.record import Record
from roketto.store.flush import FlushSettings
from roketto.store.store import Store, StoreSettings
from sim.files import CrashFiles

SETTINGS = StoreSettings(
    segment_bytes=4_096, queue_file_bytes=400, index_enable=False, is_flush_sync=True,
    flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
ROOT = Path("/store")


def test_no_consumer_gets_ahead_of_what_survives() -> None:
    """What was visible before the power loss is there after it, at the same offset."""
    files = CrashFiles()
    store = Store(ROOT, SETTINGS, files=files, zone=UTC)
    store.open(1)
    assert store._flusher is not None
    store._flusher.request = lambda: None  # type: ignore[method-assign]  # the disk never answers
    for _ in range(5):
        store.append(Record("T", b"not safe yet"))
    consumed = store.get("T", 0, 0, 32)
    assert consumed.count == 0
    after = files.crash(1, keep=0.0)
    store.close()

    survivor = Store(ROOT, SETTINGS, files=after, zone=UTC)
    survivor.open(2)
    queue = survivor.queue("T", 0)
    assert consumed.next_offset <= (queue.queue_offset_max if queue else 0)
    assert survivor.append(Record("T", b"new")).queue_offset == consumed.next_offset == 0
    survivor.close()
