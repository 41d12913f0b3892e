"""Appends and pulls of one store with eight queues: messages per second on one core."""

import time
from functools import partial

from report import Report, medians
from store_load import (
    KINDS,
    LARGE,
    LARGE_BATCHES,
    PULL,
    QUEUES_PER_TOPIC,
    SMALL,
    SMALL_BATCHES,
    Kind,
    append_rate,
    prepare,
    read_rate,
)
from store_process import StoreProcess, open_store
from store_sizes import Sizes, scratch

PROMISED = {SMALL: 150_000, SMALL_BATCHES: 600_000}
READ_NAMES = {
    SMALL: f"read 128 B in pulls of {PULL}",
    SMALL_BATCHES: f"read 128 B in pulls of {PULL}, appended in batches",
    LARGE: f"read 1 KiB in pulls of {PULL}",
    LARGE_BATCHES: f"read 1 KiB in pulls of {PULL}, appended in batches",
}


def measure_append(report: Report, sizes: Sizes) -> None:
    """Every kind in a new store each round; what was appended is then read."""
    title = "appends and reads through the API, one core, 8 queues, index on, queues ticking"
    report.begin("append", title)
    note = "what rates of different runs are to be compared by"
    report.add("this machine: one turn of a plain loop", loop_turn_ns(), "ns", note=note)
    reads: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
    measured = [(kind, partial(_one_round, kind, sizes, reads[kind])) for kind in KINDS]
    rates = medians(sizes.rounds, measured)
    for kind, rate in rates.items():
        note = "the whole Java broker takes 300,000 on two cores" if kind is SMALL_BATCHES else ""
        report.add(kind.name, rate, "messages/s", least=PROMISED.get(kind), note=note)
    for kind, found in reads.items():
        report.add(READ_NAMES[kind], sorted(found)[len(found) // 2], "messages/s")


def loop_turn_ns(turns: int = 1_000_000) -> float:
    """How fast the interpreter is here and now: a shared machine is not always the same one."""
    total = 0
    started_s = time.perf_counter()
    for number in range(turns):
        total += number
    return (time.perf_counter() - started_s) / turns * 1e9


def _one_round(kind: Kind, sizes: Sizes, reads: list[float]) -> float:
    with scratch() as folder, StoreProcess(folder, sizes.settings, sizes.second_s) as process:
        process.call(open_store)
        process.call(prepare, kind, QUEUES_PER_TOPIC, sizes.messages)
        rate = process.call(append_rate, kind, sizes.round_s)
        reads.append(process.call(read_rate, sizes.read_s))
        return rate
