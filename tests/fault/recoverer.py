"""A process that recovers a store and stops in the middle of that to be killed.

    python -m fault.recoverer ROOT STEP [forget]

A step is a record that is read, or a system call that changes something. In front of step number
STEP it says ``at`` and waits; if the recovery is over sooner it says ``done`` and how many steps
that took. With ``forget`` it has a bug: see ``forget_nothing``. For test_crash_in_recovery.py.
"""

import os
import sys
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Final

from roketto.store.disk import Disk
from roketto.store.dispatch import Stored
from roketto.store.files import Files
from roketto.store.flush import FlushSettings
from roketto.store.index import Index
from roketto.store.logscan import LogScan
from roketto.store.store import Store, StoreSettings

SETTINGS: Final = StoreSettings(
    segment_bytes=1 << 16, queue_file_bytes=4_000, index_slots=1_000, index_entries=500,
    flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
CHANGES: Final = (
    "open", "set_length", "reserve", "write", "sync", "sync_mapped", "sync_names",
    "make_directory", "remove_file", "rename",
)  # fmt: skip


class Steps:
    """Counts what a recovery does, and stops in front of one step."""

    def __init__(self, stop_at: int) -> None:
        self.count = 0
        self._stop_at = stop_at

    def take(self) -> None:
        self.count += 1
        if self.count == self._stop_at:
            os.write(1, b"at\n")
            sys.stdin.read()

    def counted(self, act: Callable[..., object]) -> Callable[..., object]:
        def take_and_act(*arguments: object) -> object:
            self.take()
            return act(*arguments)

        return take_and_act

    def watch(self) -> Files:
        """Count the records that are read from now on, and the calls of these files."""
        read = LogScan.read

        def read_and_count(
            scan: LogScan, segment: memoryview, at: int, log_offset: int, has_crc: bool
        ) -> Stored | None:
            self.take()
            return read(scan, segment, at, log_offset, has_crc)

        LogScan.read = read_and_count  # type: ignore[method-assign,assignment]
        disk = Disk()
        for name in CHANGES:
            setattr(disk, name, self.counted(getattr(disk, name)))
        return Files(disk=disk)


def forget_nothing(set_attribute: Callable[[type, str, object], None]) -> None:
    """The planted bug: what a recovery that was cut short has put into the index stays in it."""
    load = Index.load
    set_attribute(Index, "load", lambda index, _=None: load(index))
    set_attribute(Index, "truncate", lambda index, log_offset: None)


def main(root: Path, step: int, plant: str = "") -> None:
    if plant == "forget":
        forget_nothing(setattr)
    steps = Steps(step)
    store = Store(root, SETTINGS, files=steps.watch(), zone=UTC)
    store.open(os.getpid())
    os.write(1, b"done %d\n" % steps.count)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
