"""SIGTERM under load (F33): a broker stops in time, cleanly, and has lost nothing.

The abort mark is gone, the next start reads none of the log, and what producers were told holds,
also what was refused because the broker was about to go.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from checker import Report, check
from fault.appender import PRODUCERS
from fault.broker.planted import planted, stop_abruptly
from fault.broker.producers import Producers
from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue, connected, found_in
from roketto.protocol.codes import ResponseCode

QUEUES: Final = tuple(Queue("T", number) for number in range(4))
OPENED: Final = re.compile(r"the store \S+ is open: Recovered\(.*?records=(\d+), cut_bytes=(\d+)")


async def run_stops(
    folder: Path, stops: int, seed: int, program: Sequence[str] = ("roketto",)
) -> Report:
    """Stop a broker so many times while eight producers send; by turns under both ways to flush."""
    random = Random(seed)
    producers = Producers(QUEUES, seed)
    with Site(folder, SMALL, program=program) as site:
        for number in range(stops):
            site.config["flushDiskType"] = ("ASYNC_FLUSH", "SYNC_FLUSH")[number % 2]
            server = site.start()
            async with producers.sending_to(server.address):
                await asyncio.sleep(0.05 + random.random() * 0.2)
                await site.stop_meanwhile()
            assert not (site.root / "abort").exists(), "the mark of a crash is there"
        server = site.start()
        async with connected(server.address) as connection:
            reads = [await found_in(connection, queue) for queue in QUEUES]
        site.stop()
        opened = OPENED.findall(site.log)
    assert producers.lost == stops * PRODUCERS, "some were not sending when it stopped"
    assert opened == [("0", "0")] * (stops + 1), "a start had to recover something"
    assert producers.refusals.keys() <= {ResponseCode.GO_AWAY}, producers.refusals
    report = check(producers.evidence, reads, faults={"SIGTERM": site.stops - 1})
    report.raise_if_bad(f"seed {seed}")
    away = len(producers.refusals.get(ResponseCode.GO_AWAY, ()))
    print(f"seed {seed}: {report}\n{away} sends were told to go away")
    return report


async def test_ten_stops_under_load_lose_nothing_and_need_no_recovery(tmp_path: Path) -> None:
    report = await run_stops(tmp_path, 10, seed=1)
    assert report.ok > 200, str(report)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_hundred_stops_under_load_lose_nothing(tmp_path: Path) -> None:
    """The long tier."""
    await run_stops(tmp_path, 100, seed=2)


async def test_a_broker_that_just_ends_is_noticed(tmp_path: Path) -> None:
    """Planted: its status is 0, and nothing else is as it should be."""
    with pytest.raises(AssertionError, match="the mark of a crash is there"):
        await run_stops(tmp_path, 2, seed=3, program=planted(stop_abruptly))
