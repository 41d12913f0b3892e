"""A sync fails, the process starts again on the same machine, and later the power goes.

The system may keep in memory what it failed to write and take it for written. A start reads it from
there, consumers see it, and no later sync would bring it to the disk: recovery has to write it
again before it lets anybody read it.
"""

import errno
import os
from datetime import UTC
from pathlib import Path
from typing import Final

import pytest

from roketto.protocol.record import Record, decode_records
from roketto.store.flush import FlushSettings
from roketto.store.mappedfile import MappedFile
from roketto.store.put_status import PutRefusedError
from roketto.store.store import Store, StoreSettings
from sim.disk import CrashDisk
from sim.files import CrashFiles

ROOT: Final = Path("/store")
SETTINGS: Final = StoreSettings(
    segment_bytes=4_096, queue_file_bytes=400, index_slots=10, index_entries=50,
    is_flush_sync=True, flush=FlushSettings(interval_ms=3_600_000),
)  # fmt: skip
SEEDS: Final = 20
SAFE: Final = 25
"""Messages appended before syncs begin to fail."""


class FailingDisk(CrashDisk):
    """Syncs of the log fail while it is told to let them."""

    is_failing = False

    def sync_mapped(self, descriptor: int, view: memoryview) -> None:
        opened = self._opened(descriptor)
        if self.is_failing and "commitlog" in opened.path.parts:
            opened.file.fail_sync()
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(opened.path))
        super().sync_mapped(descriptor, view)

    def forgotten(self) -> int:
        """How many sectors of the log the system wrongly believes to have written."""
        descriptor = self.open(ROOT / "commitlog" / f"{0:020d}", os.O_RDONLY)
        count = len(self._opened(descriptor).file.forgotten)
        self.close(descriptor)
        return count


def fail_a_sync(files: CrashFiles, disk: FailingDisk) -> None:
    """Append until a sync of the log fails; then the process is gone without a word."""
    store = Store(ROOT, SETTINGS, files=files, zone=UTC)
    store.open(1)
    for number in range(40):
        disk.is_failing = number >= SAFE
        try:
            store.append(Record("T", b"%d" % number))
        except PutRefusedError:
            break
    flusher = store._flusher
    assert flusher is not None
    flusher.stop()
    assert flusher.failure is not None, "the fault must happen"
    disk.is_failing = False
    store._flusher = None
    store._release()


def readable(store: Store) -> list[bytes]:
    """All messages that a consumer can get."""
    found: list[bytes] = []
    offset = 0
    while (result := store.get("T", 0, offset, 32)).count:
        found += [bytes(r.body) for view in result.views for r in decode_records(view)]
        offset = result.next_offset
    return found


def check() -> int:
    """What was readable after the restart stays readable; how many messages were in danger."""
    in_danger = 0
    for seed in range(SEEDS):
        disk = FailingDisk()
        files = CrashFiles(disk)
        fail_a_sync(files, disk)
        in_danger += disk.forgotten()
        store = Store(ROOT, SETTINGS, files=files, zone=UTC)
        store.open(2)
        seen = readable(store)
        assert len(seen) >= SAFE
        after = files.crash(seed, keep=seed / SEEDS)
        store.close()
        again = Store(ROOT, SETTINGS, files=after, zone=UTC)
        again.open(3)
        found = readable(again)
        again.close()
        assert found[: len(seen)] == seen, f"seed {seed}"
    return in_danger


def test_what_a_restart_shows_survives_a_later_power_loss() -> None:
    assert check() > 0, "no sector was forgotten: the fault did not happen"


def test_trusting_the_memory_of_the_system_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: recovery syncs without writing again."""
    monkeypatch.setattr(MappedFile, "write_again", lambda self, start, end: None)
    with pytest.raises(AssertionError, match="seed"):
        check()
