"""A process that appends to a store until it is killed; run by test_kill.py.

    python -m fault.appender ROOT sync|async FIRST

Prints "number queue_id queue_offset" for each message that it may call safe: under SYNC_FLUSH once
it is on the disk, under ASYNC_FLUSH once it is appended, for then the kernel has it.
"""

import os
import sys
import threading
from datetime import UTC
from itertools import count
from pathlib import Path

from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.flush import FlushSettings
from roketto.store.store import Store, StoreSettings

QUEUES = 4


def settings(*, is_sync: bool) -> StoreSettings:
    return StoreSettings(
        segment_bytes=65_536, queue_file_bytes=2_000, index_slots=500, index_entries=5_000,
        is_flush_sync=is_sync, flush=FlushSettings(interval_ms=20, pages_least=1),
    )  # fmt: skip


def body_of(number: int) -> bytes:
    return b"%d " % number * (1 + number % 50)


def main(root: Path, mode: str, first: int) -> None:
    is_sync = mode == "sync"
    flushed = threading.Semaphore(0)
    store = Store(
        root, settings(is_sync=is_sync), zone=UTC, on_flushed=lambda offset: flushed.release()
    )
    store.open(os.getpid())
    for number in count(first):
        properties = encode_properties({"UNIQ_KEY": f"U{number}", "TAGS": "t"})
        where = store.append(Record("T", body_of(number), properties, number % QUEUES))
        while is_sync and store.flushed < where.end:
            assert flushed.acquire(timeout=30), "the disk does not answer"
        store.advance()
        if number % 64 == 0:
            store.tick()
        os.write(1, b"%d %d %d\n" % (number, number % QUEUES, where.queue_offset))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
