"""Seen on 5.5.0: one flipped byte in the synced middle of the log cut everything behind it off.

Without a word: the broker starts, and what it has lost is gone for good.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue, connected, read_queue, send
from fault.small_store import SmallStore, flip, segment_path
from fault.test_hostile_peers import until
from roketto.protocol.headers.send import SendMessageResponse
from roketto.protocol.ids import decode_offset_id
from roketto.store.errors import CorruptStoreError

BODY_AT = 90
"""Of a record over IPv4: somewhere in its body."""


def test_a_flipped_byte_in_the_middle_is_named_and_nothing_is_cut() -> None:
    """The store does not open; with the byte put back it does, with every message."""
    rig = SmallStore().open()
    for _ in range(20):
        rig.append()
    rig.flush()
    image = rig.image()
    rig.close()
    damaged = rig.known[9]
    flip(image, damaged.log_offset + 100, 0x10)
    with pytest.raises(CorruptStoreError, match="Nothing was cut") as caught:
        rig.reopen(image)
    assert caught.value.path == segment_path(damaged.log_offset)
    assert caught.value.offset == damaged.log_offset
    flip(image, damaged.log_offset + 100, 0x10)
    after = rig.reopen(image)
    after.check()
    after.close()


async def test_a_broker_cuts_nothing_for_a_flipped_byte_and_a_check_names_its_place(
    tmp_path: Path,
) -> None:
    """What the checkpoint says to be safe a start does not read; all of it is served as it is."""
    queue = Queue("T", 0)
    with Site(tmp_path, {**SMALL, "flushDiskType": "SYNC_FLUSH"}) as site:
        async with connected(site.start().address) as connection:
            sent = [await send(connection, queue, b"message %d" % n, {}) for n in range(50)]
            await until(is_newer(site.root / "checkpoint", time.time_ns()), 30)
        site.kill()
        at, segment = place(site, sent[20])
        flip_byte(segment, at + BODY_AT)
        async with connected(site.start().address) as connection:
            records = await read_queue(connection, queue)
        bodies = [bytes(record.body) for record in records]
        damaged = [n for n, body in enumerate(bodies) if body != b"message %d" % n]
        assert (len(bodies), damaged) == (50, [20])
        site.stop()
        assert "cut_bytes=0" in site.log
        assert "have been cut off" not in site.log
        done = check_store(site.root)
        assert done.returncode != 0
        assert str(segment) in done.stdout
        assert str(at) in done.stdout
        flip_byte(segment, at + BODY_AT)
        assert check_store(site.root).returncode == 0


async def test_a_broker_says_what_it_cuts_behind_the_last_checkpoint(tmp_path: Path) -> None:
    """Up to ten seconds of the log, which nobody can tell from a write that was torn."""
    queue = Queue("T", 0)
    with Site(tmp_path, SMALL) as site:
        async with connected(site.start().address) as connection:
            await until(is_newer(site.root / "checkpoint", time.time_ns()), 30)
            sent = [await send(connection, queue, b"message %d" % n, {}) for n in range(50)]
        site.kill()
        at, segment = place(site, sent[20])
        flip_byte(segment, at + BODY_AT)
        async with connected(site.start().address) as connection:
            assert len(await read_queue(connection, queue)) == 20
        site.stop()
        assert f"bytes behind offset {at} of the log were no whole records" in site.log


def place(site: Site, sent: SendMessageResponse) -> tuple[int, Path]:
    """Where a message is in the log."""
    return decode_offset_id(sent.msg_id).log_offset, site.root / "commitlog" / f"{0:020}"


def is_newer(path: Path, than_ns: int) -> Callable[[], bool]:
    return lambda: path.stat().st_mtime_ns > than_ns


def check_store(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "roketto", "store", "check", str(root)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def flip_byte(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        byte = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 0x10]), at)
