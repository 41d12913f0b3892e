"""Many queues: what 10,000 and 50,000 of them cost against eight.

Two stores take turns, one with eight queues and one with many, each in its own process. All queues
exist and have messages; appends go to all of them in turn. Units are written to their files and
synced by the ticks, some queues at each of them: appends are measured for longer than it takes from
one such sync to the next.
"""

import statistics
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from report import Report, medians
from roketto.protocol.record import Record
from store_load import (
    LARGE,
    PULL,
    QUEUES_PER_TOPIC,
    SMALL,
    SMALL_BATCHES,
    Kind,
    Load,
    append_messages,
    append_rate,
    prepare,
    properties,
    queue_name,
    read_rate,
    turn_longest_ms,
)
from store_process import Host, StoreProcess, disk_bytes, memory, open_files, open_store
from store_sizes import Sizes, missing_room, modified_ns, scratch

_RATIO_LEAST = 0.9
_FILL_BATCHES = 10_000
_SETTLE_TIMEOUT_S = 300.0
_BYTES_PER_QUEUE = 64 * 1024
"""What a queue takes on the disk, generously: a few blocks, and 32 messages in the log."""
_SEGMENTS = 40
"""Files of the log that both stores fill meanwhile."""

_APPENDS = {SMALL: 2, SMALL_BATCHES: 2, LARGE: 1}
"""How many rounds each has; a round of 1 KiB takes the most of the disk."""
_READ = f"read 128 B in pulls of {PULL}"
_FOLLOW = f"append 128 B in batches of {PULL} and read each at once"


class Growth(NamedTuple):
    """What it took to make queues, per queue."""

    append_us: float
    ticks_us: float


def measure_queues(report: Report, sizes: Sizes) -> None:
    report.begin("queues", "many queues, all of them written to in turn, against 8")
    for queues in sizes.queues:
        with scratch() as folder:
            room_bytes = queues * _BYTES_PER_QUEUE + _SEGMENTS * sizes.settings.segment_bytes
            if lacking := missing_room(folder, room_bytes):
                report.lack(f"{queues:,} queues", lacking)
                continue
            with (
                _start(folder / "few", sizes) as few,
                _start(folder / "many", sizes) as many,
            ):
                few.call(grow, QUEUES_PER_TOPIC)
                _fill(few, QUEUES_PER_TOPIC, sizes)
                _measure_growth(report, queues, many)
                _fill(many, queues, sizes)
                _compare(report, sizes, queues, few, many)


def _measure_growth(report: Report, queues: int, many: StoreProcess) -> None:
    """What a queue takes to make, and in memory once it is there."""
    empty = many.call(memory)
    growth = many.call(grow, queues)
    used = many.call(memory)
    note = "the append; its directory and file are made later, by ticks"
    report.add(f"{queues:,} queues: a new one", growth.append_us, "µs", note=note)
    report.add(f"{queues:,} queues: a new one, in the ticks", growth.ticks_us, "µs")
    name = f"{queues:,} queues: resident memory"
    if empty is None or used is None:
        report.lack(name, "the system does not say how much that is")
        return
    report.add(f"{name} of its own", used.own_mb, "MB", note=f"empty store {empty.own_mb:.1f} MB")
    report.add(f"{name}, pages of mapped files", used.files_mb, "MB")
    per_queue = (used.own_mb - empty.own_mb) * 2**20 / queues
    report.add(f"{name} of its own, per queue", per_queue, "bytes")


def _start(root: Path, sizes: Sizes) -> StoreProcess:
    process = StoreProcess(root, sizes.settings, sizes.second_s)
    process.call(open_store)
    return process


def _fill(process: StoreProcess, queues: int, sizes: Sizes) -> None:
    """At least one whole pull for every queue."""
    for kind in _APPENDS:
        process.call(prepare, kind, queues, sizes.messages)
    batches = max(queues, min(_FILL_BATCHES, sizes.messages))
    process.call(append_messages, SMALL_BATCHES, batches * SMALL_BATCHES.batch)
    process.call(make_followed, queues, sizes.messages)


def _compare(
    report: Report, sizes: Sizes, queues: int, few: StoreProcess, many: StoreProcess
) -> None:
    for kind in (SMALL, SMALL_BATCHES):
        _compare_appends(report, kind, sizes, queues, few, many)
    _compare_reads(report, sizes, queues, few, many)
    # Last: gigabytes of it take the queues' own files out of the system's cache.
    _compare_appends(report, LARGE, sizes, queues, few, many)
    _report_open_files(report, queues, few, many)


def _compare_reads(
    report: Report, sizes: Sizes, queues: int, few: StoreProcess, many: StoreProcess
) -> None:
    before = many.call(disk_bytes)
    measured = [
        ((name, process), partial(process.call, work, seconds))
        for name, work, seconds in (
            (_READ, read_rate, sizes.read_s),
            (_FOLLOW, follow_rate, sizes.round_s),
        )
        for process in (few, many)
    ]
    found = medians(sizes.rounds, measured)
    for name in (_READ, _FOLLOW):
        _report_ratio(report, queues, name, found[name, few], found[name, many])
    if before >= 0:
        from_disk_mb = (many.call(disk_bytes) - before) / 1e6
        report.add(f"{queues:,} queues: read from the disk meanwhile", from_disk_mb, "MB")


def _compare_appends(
    report: Report,
    kind: Kind,
    sizes: Sizes,
    queues: int,
    few: StoreProcess,
    many: StoreProcess,
) -> None:
    name = kind.name
    rates: dict[StoreProcess, list[float]] = {few: [], many: []}
    turns_ms = {few: 0.0, many: 0.0}
    seconds = sizes.queues_s + queues * sizes.queue_s
    for pair in ((few, many), (many, few))[: _APPENDS[kind]]:
        for process in pair:
            rates[process].append(process.call(append_rate, kind, seconds))
            turns_ms[process] = max(turns_ms[process], process.call(turn_longest_ms))
    base, rate = statistics.mean(rates[few]), statistics.mean(rates[many])
    _report_ratio(report, queues, name, base, rate)
    note = f"8 queues: {turns_ms[few]:,.1f} ms"
    report.add(f"{queues:,} queues: {name}, the longest tick", turns_ms[many], "ms", note=note)


def _report_open_files(report: Report, queues: int, few: StoreProcess, many: StoreProcess) -> None:
    """What is open once all of that has been done; it must not depend on the queues."""
    base, found = few.call(open_files), many.call(open_files)
    for name in ("descriptors", "maps"):
        if base is None or found is None:
            report.lack(f"{queues:,} queues: {name}", "the system does not say how many there are")
            continue
        note = f"8 queues: {getattr(base, name)}"
        report.add(f"{queues:,} queues: {name}", getattr(found, name), "open", note=note)


def _report_ratio(report: Report, queues: int, name: str, base: float, rate: float) -> None:
    report.add(f"8 queues: {name}, beside {queues:,}", base, "messages/s")
    report.add(f"{queues:,} queues: {name}", rate, "messages/s")
    report.add(f"{queues:,} queues: {name}, ratio", rate / base, "x", least=_RATIO_LEAST)


# --- asked for by the benchmark -------------------------------------------------------------------


def grow(host: Host, queues: int) -> Growth:
    """Make so many queues, one message each; then another one, for now they are there."""
    host.store.append(_first_message(0))  # lets the store make the files that are not a queue's
    host.turn(is_first=True)
    append_s = _append_to_all(host, queues)
    ticks_s = settle(host)
    _append_to_all(host, queues)
    return Growth(append_s / queues * 1e6, ticks_s / queues * 1e6)


def settle(host: Host) -> float:
    """Tick until all that was appended is in the files; the seconds that the ticks took.

    The checkpoint is replaced when a round of that has ended. The second from now has begun later.
    """
    path = host.root / "checkpoint"
    began_s = host.turns_s
    deadline_s = time.perf_counter() + _SETTLE_TIMEOUT_S
    seen = {modified_ns(path)}
    while len(seen) < 3:
        assert time.perf_counter() < deadline_s, "the queues do not come to the disk"
        host.turn()
        seen.add(modified_ns(path))
        time.sleep(host.second_s / 1000)
    return host.turns_s - began_s


def _append_to_all(host: Host, queues: int) -> float:
    """One message for each queue; messages are made a few at a time, for memory is measured."""
    append = host.store.append
    append_s = 0.0
    for begin in range(0, queues, 1000):
        records = [_first_message(number) for number in range(begin, min(begin + 1000, queues))]
        started_s = time.perf_counter()
        for record in records:
            append(record)
        append_s += time.perf_counter() - started_s
    return append_s


def _first_message(number: int) -> Record:
    topic, queue_id = queue_name(number)
    return Record(topic, bytes(SMALL.body_bytes), properties(number), queue_id)


def make_followed(host: Host, queues: int, messages: int) -> None:
    """The batches that are read as soon as they are appended."""
    host.kept["followed"] = Load(SMALL_BATCHES, queues, messages)


def follow_rate(host: Host, seconds: float) -> float:
    """Messages per second that are appended and read, as where consumers keep up."""
    load: Load = host.kept["followed"]
    store = host.store
    count = 0
    taken_s = 0.0
    while taken_s < seconds:
        batches, _ = load.receive()
        started_s = time.perf_counter()
        for batch in batches:
            where = store.append_batch(batch)
            count += store.get(batch.topic, batch.queue_id, where.queue_offset, PULL).count
        host.turn()
        taken_s += time.perf_counter() - started_s
    return count / taken_s
