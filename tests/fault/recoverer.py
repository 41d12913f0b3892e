"""A process that recovers a store and waits to be killed, for test_crash_in_recovery.

It says ``begin`` before recovery and ``done`` after it.
"""

import os
import sys
from datetime import UTC
from pathlib import Path

from roketto.store.flush import FlushSettings
from roketto.store.store import Store, StoreSettings

SETTINGS = StoreSettings(
    segment_bytes=1 << 18, queue_file_bytes=20_000, index_slots=1_000, index_entries=4_000,
    flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip


def main(root: Path) -> None:
    store = Store(root, SETTINGS, zone=UTC)
    os.write(1, b"begin\n")
    store.open(os.getpid())
    os.write(1, b"done\n")
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
