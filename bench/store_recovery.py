"""A store of 10 GiB: what its backlog costs, and how long it takes to open after kill -9.

One store serves for all of it. A process fills it with messages of 1 KiB, in batches, and stops
cleanly. Another one opens it and takes turns with an empty store. A third appends messages of 128 B
as fast as it can, and is killed when it is about to replace the checkpoint: then most is to be
read. What it leaves is opened twice by new processes, once with the system's cache as it was then
and once with nothing in it; for that, the files that a recovery changes are copied.
"""

import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from report import Report, medians
from store_load import (
    LARGE,
    LARGE_BATCHES,
    PULL,
    QUEUES_PER_TOPIC,
    SMALL,
    SMALL_BATCHES,
    Consumers,
    Kind,
    append_bytes,
    append_messages,
    append_rate,
    prepare,
    read_rate,
    stored,
)
from store_process import Host, Opened, StoreProcess, close_store, open_store
from store_sizes import Sizes, evict, missing_room, modified_ns, scratch, size_text

_RATIO_LEAST = 0.9
_RECOVERY_S_MOST = 10.0
_FOREVER_S = 3600.0
_DISTANCE_WAITED = 0.9
_POLL_S = 0.002
_COPIED_SEGMENTS = 4
_KINDS = (SMALL, SMALL_BATCHES, LARGE)
_TAIL = f"read 128 B in pulls of {PULL}, the newest"


class Old(NamedTuple):
    """What reading the old end of a backlog came to."""

    rate: float
    mb_per_s: float


def measure_backlog(report: Report, sizes: Sizes) -> None:
    """The backlog and the recovery: one store, see above."""
    size = size_text(sizes.backlog_bytes)
    report.begin("backlog", f"a backlog of {size} of 1 KiB messages, against an empty store")
    with scratch() as folder:
        wanted = sizes.backlog_bytes + (_COPIED_SEGMENTS + 4) * sizes.settings.segment_bytes
        if lacking := missing_room(folder, wanted + wanted // 10):
            report.lack("backlog and recovery", lacking)
            return
        root = folder / "backlog"
        with StoreProcess(root, sizes.settings, sizes.second_s) as process:
            process.call(open_store)
            process.call(prepare, LARGE_BATCHES, QUEUES_PER_TOPIC, sizes.messages)
            taken_s = process.call(append_bytes, LARGE_BATCHES, sizes.backlog_bytes)
            filled = process.call(stored)
            process.call(close_store)
        report.add(f"filling it, {filled:,} messages", sizes.backlog_bytes / 1e6 / taken_s, "MB/s")
        _compare(report, sizes, root, folder / "empty")
        shutil.rmtree(folder / "empty")
        report.begin("recovery", f"opening {size} after kill -9, while it appended 128 B")
        _measure_recovery(report, sizes, root, folder / "copy")


def _compare(report: Report, sizes: Sizes, root: Path, empty_root: Path) -> None:
    is_cold = evict(root)
    with (
        StoreProcess(root, sizes.settings, sizes.second_s) as backlog,
        StoreProcess(empty_root, sizes.settings, sizes.second_s) as empty,
    ):
        opened = backlog.call(open_store)
        report.add("opening it after a clean stop", opened.seconds, "s", note=_read(opened))
        empty.call(open_store)
        name = f"read 1 KiB in pulls of {PULL}, the old end, every page touched"
        if is_cold:
            cold = backlog.call(read_old, sizes.old_read_s)
            report.add(f"{name}, from the disk", cold.rate, "messages/s", note=_mb(cold))
        else:
            report.lack(f"{name}, from the disk", "the cache of the system cannot be emptied")
        warm = backlog.call(read_old, sizes.old_read_s)
        report.add(f"{name}, again", warm.rate, "messages/s", note=_mb(warm))
        measured = []
        for label, process in (("empty", empty), ("backlog", backlog)):
            for kind in _KINDS:
                process.call(prepare, kind, QUEUES_PER_TOPIC, sizes.messages)
                work = partial(process.call, append_rate, kind, sizes.round_s / 2)
                measured.append(((kind.name, label), work))
            process.call(start_at_end)
            process.call(append_messages, SMALL, sizes.messages)
            measured.append(((_TAIL, label), partial(process.call, read_rate, sizes.read_s)))
        measured.sort(key=lambda item: item[0][0])
        found = medians(sizes.pairs, measured)
        for name in [kind.name for kind in _KINDS] + [_TAIL]:
            base, rate = found[name, "empty"], found[name, "backlog"]
            report.add(f"empty: {name}", base, "messages/s")
            report.add(f"backlog: {name}", rate, "messages/s")
            report.add(f"backlog: {name}, ratio", rate / base, "x", least=_RATIO_LEAST)
        backlog.call(close_store)


def _mb(old: Old) -> str:
    return f"{old.mb_per_s:,.0f} MB/s"


def _read(opened: Opened) -> str:
    from_disk = "" if opened.disk_bytes < 0 else f", {opened.disk_bytes / 1e6:,.0f} MB from disk"
    log_mb = opened.read_bytes / 1e6
    return f"{opened.records:,} records, {log_mb:,.0f} MB of the log read{from_disk}"


# --- recovery -------------------------------------------------------------------------------------


def _measure_recovery(report: Report, sizes: Sizes, root: Path, copy: Path) -> None:
    known = _write_and_kill(report, sizes, root)
    _copy_store(root, copy)
    for name, where in (
        ("with the cache as the kill left it", root),
        ("with nothing in the cache", copy),
    ):
        if where is copy and not evict(copy):
            report.lack(f"opening {name}", "the cache of the system cannot be emptied")
            continue
        with StoreProcess(where, sizes.settings) as process:
            opened = process.call(open_store)
            found = process.call(stored)
        assert found >= known, f"{known} messages were stored before the kill, {found} are there"
        report.add(
            f"opening {name}", opened.seconds, "s", most=_RECOVERY_S_MOST, note=_read(opened)
        )


def _write_and_kill(report: Report, sizes: Sizes, root: Path) -> int:
    """Append until the moment before a checkpoint, and kill; how many messages are safe at least.

    Checkpoints come at about equal distances, so a few of them tell when the next one is due.
    """
    with StoreProcess(root, sizes.settings, sizes.second_s) as process:
        process.call(open_store)
        process.call(prepare, SMALL, QUEUES_PER_TOPIC, sizes.messages)
        rate = process.call(append_rate, SMALL, sizes.round_s)
        known = process.call(stored)
        process.start(append_rate, SMALL, _FOREVER_S)
        begun_s = time.perf_counter()
        distance_s = _wait_for_checkpoints(root / "checkpoint", sizes)
        time.sleep(_DISTANCE_WAITED * distance_s)
        process.kill()  # says so if anything else has ended it
    report.add("appending before the kill", rate, "messages/s")
    report.add("until the kill", time.perf_counter() - begun_s, "s")
    report.add("from one checkpoint to the next", distance_s, "s")
    return known


def _wait_for_checkpoints(path: Path, sizes: Sizes) -> float:
    """Return right after one, with how long it was since the one before."""
    deadline_s = time.perf_counter() + sizes.checkpoint_wait_s
    before = modified_ns(path)
    seen_s = [time.perf_counter()]
    while len(seen_s) <= sizes.checkpoints and time.perf_counter() < deadline_s:
        time.sleep(_POLL_S)
        if (modified := modified_ns(path)) != before:
            before = modified
            seen_s.append(time.perf_counter())
    return seen_s[-1] - seen_s[-2] if len(seen_s) > 1 else 0.0


def _copy_store(root: Path, copy: Path) -> None:
    """A second store of the same content; of the log, old files are shared, for nobody writes them.

    The newest ones are copied, and so is all the rest.
    """
    (copy / "commitlog").mkdir(parents=True)
    segments = sorted((root / "commitlog").iterdir())
    for segment in segments[:-_COPIED_SEGMENTS]:
        os.link(segment, copy / "commitlog" / segment.name)
    for segment in segments[-_COPIED_SEGMENTS:]:
        shutil.copy2(segment, copy / "commitlog")
    for path in root.iterdir():
        if path.is_dir() and path.name != "commitlog":
            shutil.copytree(path, copy / path.name)
        elif path.is_file():
            shutil.copy2(path, copy)


def measure_rebuild(report: Report, sizes: Sizes) -> None:
    """Queues and index from the log alone: they are removed, and the store is opened."""
    report.begin("rebuild", "queues and index made anew from the log")
    for kind in (SMALL_BATCHES, LARGE_BATCHES):
        with scratch() as folder:
            rate, mb_per_s = _rebuild(sizes, kind, folder)
        size = kind.name.split(" in ")[0].removeprefix("append ")
        report.add(f"rebuild, {size}", mb_per_s, "MB/s", note=f"{rate:,.0f} messages a second")


def _rebuild(sizes: Sizes, kind: Kind, root: Path) -> tuple[float, float]:
    with StoreProcess(root, sizes.settings, sizes.second_s) as process:
        process.call(open_store)
        process.call(prepare, kind, QUEUES_PER_TOPIC, sizes.messages)
        process.call(append_bytes, kind, sizes.rebuild_bytes)
        messages = process.call(stored)
        process.call(close_store)
    taken = []
    log_bytes = 0
    for _ in range(sizes.rebuild_rounds):
        shutil.rmtree(root / "consumequeue")
        shutil.rmtree(root / "index")
        with StoreProcess(root, sizes.settings) as process:
            opened = process.call(open_store)
            assert opened.records == messages == process.call(stored), "not all was rebuilt"
            taken.append(opened.seconds)
            log_bytes = opened.read_bytes
            process.call(close_store)
    median_s = sorted(taken)[len(taken) // 2]
    return messages / median_s, log_bytes / 1e6 / median_s


# --- asked for by the benchmark -------------------------------------------------------------------


def read_old(host: Host, seconds: float) -> Old:
    """Pull from the beginning of all queues for so long, and touch every page that comes."""
    consumers = Consumers(QUEUES_PER_TOPIC)
    count = 0
    started_s = now_s = time.perf_counter()
    while now_s < started_s + seconds:
        count += consumers.pull(host, touch=True)
        now_s = time.perf_counter()
    rate = count / (now_s - started_s)
    first = host.store.get("TopicTest0", 0, 0, 1)
    return Old(rate, rate * first.size / 1e6)


def start_at_end(host: Host) -> None:
    """The consumers have read everything that there is: they begin with what comes now."""
    consumers = host.kept["consumers"] = Consumers(QUEUES_PER_TOPIC)
    consumers.skip(host)
