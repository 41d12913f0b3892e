"""The broker against Java's, in one run, on the same cores, with the same generator of load."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from broker_admin import measure_admin
from broker_delivery import measure_latency, measure_push
from broker_once import measure_once
from broker_operator import measure_operator
from broker_requests import (
    measure_batch,
    measure_flush,
    measure_pull,
    measure_queues,
    measure_send,
)
from broker_rest import measure_memory, measure_start
from broker_rig import Rig
from broker_servers import JAVA_HEAP_MB, ROKETTO
from broker_sizes import QUICK, Sizes
from broker_stats import measure_stats
from broker_timers import measure_pending, measure_timers
from broker_transactions import measure_transactions
from report import Report
from roketto.compiled import is_compiled

SECTIONS: Final[dict[str, Callable[[Report, Rig], None]]] = {
    "start": measure_start,
    "pull": measure_pull,
    "latency": measure_latency,
    "push": measure_push,
    "send": measure_send,
    "once": measure_once,
    "batch": measure_batch,
    "queues": measure_queues,
    "memory": measure_memory,
    "admin": measure_admin,
    "operator": measure_operator,
    "flush": measure_flush,
    "stats": measure_stats,
    "timers": measure_timers,
    "pending": measure_pending,
    "transactions": measure_transactions,
}
"""Pulls first: a store with much after them would count them as being on the disk. Transactions
last: a thread of Java's broker never rests again once it had some."""


def measure_broker(
    java_version: str,
    *,
    quick: bool,
    sections: Sequence[str] = (),
    seconds: float | None = None,
    ours: str = ROKETTO,
) -> dict[str, object]:
    """Print what each section finds, and return all of it."""
    report = Report()
    sizes = QUICK if quick else Sizes()
    if seconds is not None:
        sizes = replace(sizes, round_s=seconds)
    compiled = is_compiled()
    against = "" if ours == ROKETTO else f"; {ours} stands for ours, to see how even the rounds are"
    print(f"\nbroker against Java {java_version}, compiled: {compiled}{against}", flush=True)
    with Rig(sizes, java_version, ours) as rig:
        for name in sections or SECTIONS:
            SECTIONS[name](report, rig)
    return {
        "java_version": java_version,
        "java_heap_mb": JAVA_HEAP_MB,
        "ours": ours,
        "compiled": compiled,
        "rounds": sizes.rounds,
        "round_s": sizes.round_s,
        "figures": report.result,
    }
