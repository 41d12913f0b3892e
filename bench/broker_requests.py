"""Requests to a broker against Java's: sending, batches, pulls, synchronous flush, many queues."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from broker_frames import BATCH, PULL, batch_frames, pull_frames, send_frames
from broker_load import Figures, Load, put_load
from broker_rig import PULL_TOPIC, QUEUES, TOPIC, Rig
from broker_servers import JAVA, ROKETTO, Server
from broker_versus import Pair, Versus, add_versus, begin_table, take_turns
from report import Report

ASYNC: Final[Mapping[str, str]] = {"flushDiskType": "ASYNC_FLUSH"}
SYNC: Final[Mapping[str, str]] = {"flushDiskType": "SYNC_FLUSH"}
SMALL: Final = 128


def measure_pull(report: Report, rig: Rig) -> None:
    pair = rig.pair(ASYNC)
    begin_table(report, "pull", f"pull of {PULL} messages of {SMALL} B, as a push consumer pulls")
    frames = {id(server): _pulls(server) for server in pair}

    def measure(load: Load, server: Server) -> Figures:
        server.subscribe([PULL_TOPIC])  # counts for two minutes
        return rig.put_load(server, frames[id(server)], load, messages=PULL, pulls=True).figures

    for load in rig.sizes.pull_loads:
        found = take_turns(pair, rig.sizes.rounds, partial(measure, load))
        add_versus(report, f"pull of {PULL}, {load}", found)


def _pulls(server: Server) -> list[bytes]:
    return pull_frames(PULL_TOPIC, server.queue_ends(PULL_TOPIC, QUEUES))


def measure_send(report: Report, rig: Rig) -> None:
    pair = rig.pair(ASYNC)
    for body_bytes in rig.sizes.send_bodies:
        name = _size_name(body_bytes)
        begin_table(report, "send", f"send of {name}, SEND_MESSAGE_V2, {QUEUES} queues")
        frames = send_frames([TOPIC], QUEUES, body_bytes)
        for load in rig.sizes.send_loads:
            found = _sends(rig, pair, frames, load)
            add_versus(report, f"send {name}, {load}", found)


def measure_batch(report: Report, rig: Rig) -> None:
    pair = rig.pair(ASYNC)
    begin_table(report, "batch", f"batches of {BATCH} messages of {SMALL} B, SEND_BATCH_MESSAGE")
    frames = batch_frames(TOPIC, QUEUES, SMALL)
    for load in rig.sizes.batch_loads:
        found = _sends(rig, pair, frames, load, messages=BATCH)
        add_versus(report, f"batch of {BATCH}, {load}", found)


def measure_flush(report: Report, rig: Rig) -> None:
    pair = rig.pair(SYNC)
    begin_table(report, "flush", f"send of {SMALL} B with SYNC_FLUSH")
    frames = send_frames([TOPIC], QUEUES, SMALL)
    for load in rig.sizes.flush_loads:
        add_versus(report, f"SYNC_FLUSH, {load}", _sends(rig, pair, frames, load))


def measure_queues(report: Report, rig: Rig) -> None:
    """The same sends to few and to many queues, in turns, so that both stores are as large."""
    pair, sizes = rig.pair(ASYNC), rig.sizes
    many = sizes.many_topics * sizes.many_queues
    begin_table(report, "queues", f"send of {SMALL} B to {many:,} queues and to {QUEUES}")
    topics = [f"BenchMany{number}" for number in range(sizes.many_topics)]
    frames = send_frames(topics, sizes.many_queues, SMALL)
    few_frames = send_frames([TOPIC], QUEUES, SMALL)
    load = sizes.send_loads[-1]
    for server in pair:
        for topic in topics:
            server.create_topic(topic, sizes.many_queues)
        put_load(server, frames, load, sizes.round_s, refused_share_max=1.0)  # makes the files
    few = _sends(rig, pair, few_frames, load)
    found = take_turns(
        pair, sizes.rounds, lambda server: rig.put_load(server, frames, load).figures
    )
    few_figures = add_versus(report, f"{QUEUES} queues, {load}", few)
    many_figures = add_versus(report, f"{many:,} queues, {load}", found)
    for kind, of_few, of_many in zip((ROKETTO, JAVA), few_figures, many_figures, strict=True):
        name = f"{kind}: {many:,} queues, share of the rate of {QUEUES}"
        report.add(name, of_many.messages_per_s / of_few.messages_per_s, "")


def _sends(rig: Rig, pair: Pair, frames: Sequence[bytes], load: Load, messages: int = 1) -> Versus:
    """Turns of sends to TOPIC, after each of which all that was acknowledged must be there."""

    def measure(server: Server) -> Figures:
        before = sum(server.queue_ends(TOPIC, QUEUES))
        outcome = rig.put_load(server, frames, load, messages=messages)
        server.await_messages(TOPIC, QUEUES, before + outcome.answered_in_all * messages)
        return outcome.figures

    return take_turns(pair, rig.sizes.rounds, measure)


def _size_name(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"
