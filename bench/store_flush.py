"""Group commit under SYNC_FLUSH: how many messages one sync makes safe, and how many a second.

The writers are those of an event loop: each has one message on its way, and sends the next one when
``Store.advance`` says that this one is safe. The loop sleeps until the flushing thread wakes it.
"""

import os
import time
from collections import deque
from dataclasses import replace
from itertools import cycle
from typing import Final, NamedTuple

from report import Report
from store_load import QUEUES_PER_TOPIC, SMALL, make_records
from store_process import Host, StoreProcess, open_store
from store_sizes import Sizes, scratch

WRITERS: Final = (1, 8, 64)
_DEADLINE_S: Final = 30.0
_SYNCED_BYTES: Final = 1 << 24


class Flushed(NamedTuple):
    """What a while of group commit came to."""

    acked: int
    syncs: int
    seconds: float


def measure_flush(report: Report, sizes: Sizes) -> None:
    report.begin("flush", "SYNC_FLUSH, group commit, 128 B")
    settings = replace(sizes.settings, is_flush_sync=True)
    with scratch() as folder, StoreProcess(folder, settings, sizes.second_s) as process:
        process.call(open_store)
        bare = process.call(bare_syncs, sizes.flush_s / 3)
        report.add("the disk itself, 4 KiB and a sync each", bare, "fdatasyncs/s")
        for writers in WRITERS:
            found = process.call(group_commit, writers, sizes.flush_s)
            name = f"{writers} writer{'s' * (writers > 1)}"
            report.add(f"{name}: syncs", found.syncs / found.seconds, "fdatasyncs/s")
            report.add(f"{name}: messages of one sync", found.acked / found.syncs, "messages")
            report.add(f"{name}: safe", found.acked / found.seconds, "messages/s")


def group_commit(host: Host, writers: int, seconds: float) -> Flushed:
    """Let ``writers`` send for a while."""
    store = host.store
    records = cycle(make_records(SMALL, QUEUES_PER_TOPIC, 10_000))
    waiting: deque[int] = deque()
    acked = 0
    syncs = host.flushes
    started_s = now_s = time.perf_counter()
    while now_s < started_s + seconds:
        while len(waiting) < writers:
            waiting.append(store.append(next(records)).end)
        assert host.flushed.wait(_DEADLINE_S), "the disk does not answer"
        host.flushed.clear()
        safe = store.advance()
        while waiting and waiting[0] <= safe:
            waiting.popleft()
            acked += 1
        host.turn()
        now_s = time.perf_counter()
    return Flushed(acked, host.flushes - syncs, now_s - started_s)


def bare_syncs(host: Host, seconds: float) -> float:
    """What the disk can do without us: pages of a file that has its space, one behind the other."""
    path = host.root / "synced"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.write(descriptor, bytes(_SYNCED_BYTES))
        os.fsync(descriptor)
        page = bytes(range(256)) * 16
        sync = getattr(os, "fdatasync", os.fsync)
        count = 0
        started_s = now_s = time.perf_counter()
        while now_s < started_s + seconds:
            os.pwrite(descriptor, page, count * len(page) % _SYNCED_BYTES)
            sync(descriptor)
            count += 1
            now_s = time.perf_counter()
        return count / (now_s - started_s)
    finally:
        os.close(descriptor)
        path.unlink()
