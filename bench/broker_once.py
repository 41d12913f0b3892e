"""What a dedup window costs a send: topics with one and without one in the same broker."""

import statistics
from typing import Final

from broker_frames import send_frames
from broker_load import Figures, Load
from broker_once_inside import measure_inside
from broker_requests import ASYNC, SMALL
from broker_rig import QUEUES, TOPIC, Rig
from broker_servers import JAVA, Server
from report import Report

ONCE_TOPIC: Final = "BenchOnce"
SHARE_LEAST: Final = 0.90

_WINDOW_S: Final = 60


def measure_once(report: Report, rig: Rig) -> None:
    """Every id is a new one: whoever sends again what is known has a cheaper answer, or none."""
    report.begin("once", f"send of {SMALL} B, each message once (dedup.window.seconds={_WINDOW_S})")
    if rig.ours == JAVA:
        report.lack("share of the rate without a window", "Java's broker has no windows")
        return
    with rig.ours_by_itself(ASYNC) as server:
        server.create_topic(ONCE_TOPIC, QUEUES, f"+dedup.window.seconds={_WINDOW_S}")
        for load in rig.sizes.send_loads:
            shares, costs_us = _take_turns(rig, server, load)
            report.add(
                f"{load}: share of the rate without a window", statistics.median(shares), "",
                least=SHARE_LEAST,
            )  # fmt: skip
            report.add(f"{load}: more CPU for each send", statistics.median(costs_us), "µs")
    slices = max(20, int(rig.sizes.round_s * 200))
    off_ns, on_ns = measure_inside(ONCE_TOPIC, slices, dedup_window_seconds=str(_WINDOW_S))
    report.add("send without a socket and without a window", off_ns, "ns")
    report.add("window of a send without a socket", on_ns - off_ns, "ns")


def _take_turns(rig: Rig, server: Server, load: Load) -> tuple[list[float], list[float]]:
    """Of each pair of rounds the share of the rate, and the microseconds more.

    As many pairs begin with one topic as with the other: the second one finds the disk busy with
    what the first one has left.
    """
    shares, costs_us = [], []
    for number in range(rig.sizes.pairs):
        topics = [TOPIC, ONCE_TOPIC] if number % 2 == 0 else [ONCE_TOPIC, TOPIC]
        found = {topic: _measure(rig, server, topic, load) for topic in topics}
        off, on = found[TOPIC], found[ONCE_TOPIC]
        shares.append(on.messages_per_s / off.messages_per_s)
        costs_us.append(on.server_us_per_request - off.server_us_per_request)
    return shares, costs_us


def _measure(rig: Rig, server: Server, topic: str, load: Load) -> Figures:
    """One round, after which all that was acknowledged must be there, once."""
    before = sum(server.queue_ends(topic, QUEUES))
    frames = send_frames([topic], QUEUES, SMALL)
    outcome = rig.put_load(server, frames, load, seconds=rig.sizes.short_round_s)
    server.await_messages(topic, QUEUES, before + outcome.answered_in_all)
    return outcome.figures
