"""#8239: under SYNC_FLUSH messages were consumed before they were safe, and skipped after a crash.

The consumer's offset was then ahead of the log that the crash had cut, and new messages took the
places that it believed to have read.
"""

from datetime import UTC
from pathlib import Path

import pytest

from roketto.protocol.record import Record, decode_records
from roketto.store.flush import FlushSettings
from roketto.store.store import Store, StoreSettings
from sim.files import CrashFiles

SETTINGS = StoreSettings(
    segment_bytes=4_096, queue_file_bytes=400, index_enable=False, is_flush_sync=True,
    flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
ROOT = Path("/store")
MESSAGES = 5


def open_store(files: CrashFiles) -> Store:
    """A store whose disk does not answer until it is told to."""
    store = Store(ROOT, SETTINGS, files=files, zone=UTC)
    store.open(1)
    assert store._flusher is not None
    store._flusher.request = lambda: None  # type: ignore[method-assign]
    return store


def consume(store: Store, offset: int) -> tuple[list[tuple[int, bytes]], int]:
    """What a consumer is given from an offset on, and where it goes on."""
    result = store.get("T", 0, offset, 32)
    records = [it for view in result.views for it in decode_records(view, strict=True)]
    return [(it.queue_offset, bytes(it.body)) for it in records], result.next_offset


def lose_what_is_not_safe(*, is_shown_at_once: bool = False) -> None:
    """A consumer, a power loss in which all is lost that was not synced, and the consumer again."""
    files = CrashFiles()
    store = open_store(files)
    if is_shown_at_once:
        store.appender._is_flush_sync = False
    for _ in range(MESSAGES):
        store.append(Record("T", b"not safe yet"))
    _, consume_offset = consume(store, 0)
    after = files.crash(1, keep=0.0)
    store.close()

    survivor = open_store(after)
    queue = survivor.queue("T", 0)
    try:
        assert consume_offset <= (queue.queue_offset_max if queue else 0), "the consumer is ahead"
        assert survivor.append(Record("T", b"new")).queue_offset == consume_offset == 0
    finally:
        survivor.close()


def test_no_consumer_gets_ahead_of_what_survives() -> None:
    """What was visible before the power loss is there after it, at the same offset."""
    lose_what_is_not_safe()


def test_what_is_safe_is_visible_at_its_offset() -> None:
    """Nothing before the sync, all of it after, and the power may go then."""
    files = CrashFiles()
    store = open_store(files)
    sent = [(number, b"message %d" % number) for number in range(MESSAGES)]
    for number, body in sent:
        assert store.append(Record("T", body)).queue_offset == number
        assert consume(store, 0) == ([], 0)
    assert store._flusher is not None
    store._flusher._flush(is_wanted=True)
    store.advance()
    assert consume(store, 0) == (sent, MESSAGES)
    after = files.crash(1, keep=0.0)
    store.close()

    survivor = open_store(after)
    assert consume(survivor, 0) == (sent, MESSAGES)
    survivor.close()


def test_showing_messages_at_once_is_noticed() -> None:
    """The planted bug: visible before durable."""
    with pytest.raises(AssertionError, match="the consumer is ahead"):
        lose_what_is_not_safe(is_shown_at_once=True)
