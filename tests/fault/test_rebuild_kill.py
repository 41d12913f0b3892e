"""A rebuild that is killed at any moment leaves a store that opens and has every message."""

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC
from pathlib import Path

import pytest

from patience import in_time
from roketto.clock import wall_ms
from roketto.protocol.record import decode_records
from roketto.store.abort import AbortMark
from roketto.store.delay_levels import DelayLevels
from roketto.store.disk import Disk
from roketto.store.files import Files
from roketto.store.store import Store
from roketto.storetool import rebuild as rebuild_module
from roketto.storetool.directory import Options, StoreDirectory
from roketto.storetool.findings import Findings
from roketto.storetool.rebuild import Part, Rebuild
from unit.storetool.stores import COUNT, SETTINGS, Clock, Sent, check, make_store

CHANGING = ("set_length", "write", "sync", "sync_mapped", "make_directory", "remove_file",
            "remove_tree", "link", "rename", "sync_names", "reserve")  # fmt: skip
MARKS_AT = 64
WAIT_S = 30.0


class KilledError(BaseException):
    """The process is dead from here on."""


class MortalDisk(Disk):
    """Kills the process before its n-th change; what was changed before stays, as after kill -9."""

    def __init__(self, dies_at: int) -> None:
        self.changes = 0
        self._dies_at = dies_at

    def _change(self) -> None:
        self.changes += 1
        if self.changes >= self._dies_at:
            raise KilledError  # and again, if somebody tries to clean up


def _mortal(name: str) -> object:
    original = getattr(Disk, name)

    def change(self: MortalDisk, *arguments: object, **named: object) -> object:
        self._change()
        return original(self, *arguments, **named)

    return change


for _name in CHANGING:
    setattr(MortalDisk, _name, _mortal(_name))


def rebuild(root: Path, dies_at: int) -> int:
    """Rebuild on a disk that ends the process at some change; how many there were."""
    disk = MortalDisk(dies_at)
    store = StoreDirectory(root, Files(disk=disk), wall_ms(), Options(), has_lock=True)
    try:
        work = Rebuild(store, Part.BOTH, DelayLevels(), wall_ms)
        work.verify(Findings())
        work.run()
    except KilledError:
        return disk.changes
    finally:
        store.close()
    return 0


def lost(root: Path, sent: list[Sent]) -> list[Sent]:
    """Open the store: which messages are not in their queue, or not found by their key?"""
    store = Store(root, SETTINGS, clock_ms=Clock(), zone=UTC)
    store.open(1)
    try:
        found: dict[tuple[str, int, int], bytes] = {}
        for topic, queue_ids in store.topics():
            for queue_id in queue_ids:
                offset = 0
                while (result := store.get(topic, queue_id, offset, 32)).count:
                    for view in result.views:
                        for record in decode_records(view, strict=True):
                            found[topic, queue_id, record.queue_offset] = bytes(record.body)
                    offset = result.next_offset
        return [
            it
            for it in sent
            if found.get((it.topic, it.queue_id, it.queue_offset)) != it.body
            or it.log_offset not in store.query(it.topic, it.key, 9, 0, 1 << 60)
        ]
    finally:
        store.close()


def forget_marks(root: Path) -> None:
    """Leave what Java leaves: from what ours knows it could tell that a queue is missing."""
    path = root / "checkpoint"
    (root / "lock").write_bytes(b"lock")
    path.write_bytes(path.read_bytes()[:MARKS_AT].ljust(4_096, b"\0"))


def kill_everywhere(tmp_path: Path, stride: int) -> tuple[int, int]:
    """Kill a rebuild at each change, ``stride`` apart, up to the first loss; kills and losses."""
    base = tmp_path / "base"
    sent = make_store(base)
    forget_marks(base)
    kills = 0
    dies_at = 1
    while True:
        root = tmp_path / "killed"
        shutil.copytree(base, root)
        was_killed = rebuild(root, dies_at)
        if not was_killed:
            assert not check(root)[1].kept
            return kills, 0
        kills += 1
        missing = lost(root, sent)
        if missing:
            return kills, len(missing)
        assert not check(root)[1].damages, f"killed at change {dies_at}"
        shutil.rmtree(root)
        dies_at += stride


def test_a_rebuild_killed_at_any_change_costs_nothing(tmp_path: Path) -> None:
    """Before each fourth write, sync, rename or removal of it."""
    kills, losses = kill_everywhere(tmp_path, 4)
    assert kills > 8
    assert losses == 0


@pytest.mark.slow
def test_a_rebuild_killed_at_every_change_costs_nothing(tmp_path: Path) -> None:
    """Before each of them."""
    kills, losses = kill_everywhere(tmp_path, 1)
    assert kills > 30
    assert losses == 0


def test_a_rebuild_that_leaves_no_mark_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: nobody would know that queues and index are not whole."""
    monkeypatch.setattr(AbortMark, "set", lambda self, process_id: None)
    monkeypatch.setattr(rebuild_module, "save_checkpoint", lambda files, path, checkpoint: None)
    kills, losses = kill_everywhere(tmp_path, 1)
    assert losses > 0, f"{kills} kills and nothing lost"


def test_kill_9_in_the_middle_of_a_rebuild_costs_nothing(tmp_path: Path) -> None:
    """A real process and a real signal, after it has begun to change the store."""
    sent = make_store(tmp_path / "store", count=COUNT * 6)
    killed = 0
    for delay_s in (0.0, 0.02):
        root = tmp_path / "killed"
        shutil.copytree(tmp_path / "store", root)
        forget_marks(root)
        process = subprocess.Popen(
            [sys.executable, "-m", "roketto", "store", "rebuild", str(root), "--write"],
            stdout=subprocess.DEVNULL,
        )
        deadline_s = time.monotonic() + WAIT_S
        while not (root / "abort").exists() and process.poll() is None:
            in_time(deadline_s, "it was not so in time")
        time.sleep(delay_s)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        killed += process.wait(WAIT_S) == -signal.SIGKILL
        assert lost(root, sent) == []
        shutil.rmtree(root)
    assert killed, "none of them was killed in time"
