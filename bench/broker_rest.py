"""A broker at rest against Java's: how long it takes to start, and what memory it holds."""

import statistics
import time
from typing import Final

from broker_frames import send_frames
from broker_load import put_load
from broker_requests import ASYNC, SMALL
from broker_rig import QUEUES, TOPIC, Rig
from broker_servers import JAVA, ROKETTO, Memory, start_broker
from report import Report

START_S_MOST: Final = 1.0
REST_MB_MOST: Final = 100.0

_SETTLE_S: Final = 2.0


def measure_start(report: Report, rig: Rig) -> None:
    """Both alone on the machine, in turns, each with an empty store."""
    rig.stop_pair()
    report.begin("start", 'from the command to "boot success", empty store; memory at rest')
    starts: dict[str, list[float]] = {JAVA: [], ROKETTO: []}
    rest: dict[str, Memory] = {}
    for _ in range(rig.sizes.starts):
        for name, kind in ((JAVA, JAVA), (ROKETTO, rig.ours)):
            with start_broker(kind, rig.java, ASYNC) as server:
                starts[name].append(server.start_s)
                time.sleep(_SETTLE_S)
                rest[name] = server.memory()
    for name, found in starts.items():
        most = START_S_MOST if name == ROKETTO else None
        report.add(f"{name}: start", statistics.median(found), "s", most=most)
    for name, memory in rest.items():
        most = REST_MB_MOST if name == ROKETTO else None
        report.add(f"{name}: resident at rest, its own", memory.own_mb, "MB", most=most)
        report.add(f"{name}: resident at rest, mapped files", memory.file_mb, "MB")


def measure_memory(report: Report, rig: Rig) -> None:
    """Right after a load of many connections; what the sections before it did counts, too."""
    pair = rig.pair(ASYNC)
    report.begin("memory", "memory under load, of the process and of the files it has mapped")
    frames = send_frames([TOPIC], QUEUES, SMALL)
    load = rig.sizes.send_loads[-1]
    for name, server in ((JAVA, pair.java), (ROKETTO, pair.ours)):
        put_load(server, frames, load, rig.sizes.round_s, refused_share_max=1.0)
        memory = server.memory()
        report.add(f"{name}: resident under load, its own", memory.own_mb, "MB")
        report.add(f"{name}: resident under load, mapped files", memory.file_mb, "MB")
