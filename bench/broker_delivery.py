"""From producer to consumer against Java's broker: latency of long polls, rate of its client."""

import statistics
from typing import Final

from broker_frames import long_poll_frames, send_frames
from broker_load import Figures, deliver
from broker_requests import ASYNC
from broker_rig import QUEUES, Rig, fill
from broker_servers import JAVA, ROKETTO, Server
from broker_versus import RATE_RATIO_LEAST, add_versus, begin_table, take_turns
from report import Report

LATENCY_TOPIC: Final = "BenchLatency"
PUSH_TOPIC: Final = "BenchPush"

_BODY_BYTES: Final = 128
_PUSH_TIMEOUT_S: Final = 900.0


def measure_latency(report: Report, rig: Rig) -> None:
    pair, sizes = rig.pair(ASYNC), rig.sizes
    title = f"from send to long poll, {sizes.latency_rate:,} messages/s, {QUEUES} queues, 128 B"
    begin_table(report, "latency", title)
    for server in pair:
        server.create_topic(LATENCY_TOPIC, QUEUES)
        _latency(server, rig, 1.0)  # the first polls are slow
    found = take_turns(
        pair, sizes.rounds, lambda server: _latency(server, rig, sizes.refused_share_max)
    )
    add_versus(report, "end to end", found, rate_promised=False)


def _latency(server: Server, rig: Rig, refused_share_max: float) -> Figures:
    server.subscribe([LATENCY_TOPIC])
    ends = server.queue_ends(LATENCY_TOPIC, QUEUES)
    frames = send_frames([LATENCY_TOPIC], QUEUES, _BODY_BYTES)
    frames += long_poll_frames(LATENCY_TOPIC, ends)
    sizes = rig.sizes
    return deliver(
        server,
        frames,
        QUEUES,
        sizes.latency_rate,
        sizes.latency_s,
        refused_share_max=refused_share_max,
    )


def measure_push(report: Report, rig: Rig) -> None:
    """One JVM consumes the same backlog from both by turns, so that its client is equally warm."""
    pair, sizes = rig.pair(ASYNC), rig.sizes
    title = f"a backlog of {sizes.push_messages:,} messages through Java's push consumer"
    report.begin("push", f"{title} (its JVM on the same cores)")
    counts = []
    for server in pair:
        server.create_topic(PUSH_TOPIC, QUEUES)
        counts.append(sum(fill(server, PUSH_TOPIC, sizes.push_messages)))
    cpu_before_s = [server.cpu_s() for server in pair]
    name_servers = [server.name_server for server in pair]
    words = [PUSH_TOPIC, str(min(counts)), str(sizes.push_rounds), *name_servers]
    output = rig.java.run("PushRate", *words, timeout_s=_PUSH_TIMEOUT_S)
    rates: dict[str, list[float]] = {name_server: [] for name_server in name_servers}
    for line in output.splitlines():
        name_server, rate = line.split("\t")
        rates[name_server].append(float(rate))
    consumed = min(counts) * (sizes.push_rounds + 1)
    for name, server, before_s in zip((JAVA, ROKETTO), pair, cpu_before_s, strict=True):
        found = rates[server.name_server]
        report.add(f"{name}: consumed", statistics.median(found), "messages/s")
        used_us = (server.cpu_s() - before_s) * 1e6
        report.add(f"{name}: CPU of the broker", used_us / consumed, "µs a message")
    java, ours = (rates[name_server] for name_server in name_servers)
    ratios = [mine / theirs for mine, theirs in zip(ours, java, strict=True)]
    note = "the client's JVM shares the cores with the broker"
    report.add("ratio", statistics.median(ratios), "", least=RATE_RATIO_LEAST, note=note)
