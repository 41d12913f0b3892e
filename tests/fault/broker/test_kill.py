"""kill -9 of a broker under eight producers (F1, F2): what it has acknowledged is where it said.

The broker is a process of its own, and so is its end: the signal is seen. After each start all that
came since the last one is read over the wire and compared with what the producers were told, and
everything at the end. Now and then the kill comes while the broker starts.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from checker import QueueRead, Report, check
from fault.appender import PRODUCERS
from fault.broker.planted import (
    BUFFERED_MAX,
    HELD,
    LANES,
    QUICK,
    acknowledge_early,
    note_lanes,
    planted,
)
from fault.broker.producers import Producers
from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue, connected, found_in, read_queue, send
from fault.test_kill import files_crossed
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.topics import CreateTopicRequest

QUEUES: Final = tuple(Queue(topic, number) for topic in ("T", "Other") for number in range(4))
START_S: Final = 10.0
"""A broker that cannot have its store has ended long before."""
ANSWERS_S: Final = 60.0
"""Some hundred answers come long before, also on a machine that does much else."""


class Lives:
    """One broker through many lives, each ended by a kill."""

    def __init__(self, site: Site, seed: int, batch_chance: float, least: int) -> None:
        """``least`` is how many requests are acknowledged in each life but every fourth."""
        self.site = site
        self.least = least
        self.random = Random(seed)
        self.producers = Producers(QUEUES, seed, batch_chance=batch_chance)
        self.note = f"{site.config['flushDiskType']}, seed {seed}"
        self._checked_sends = 0
        self._next_offsets: dict[Queue, int] = {}

    async def run(self, count: int) -> Report:
        for _ in range(count):
            await self.live()
        server = self.site.start()
        report = await self.check(server.address, is_all=True)
        self.site.stop()
        assert self.site.kills == count
        return report

    async def live(self) -> None:
        """Start the broker, check what was before, let producers send, kill it."""
        if self.site.kills and self.random.random() < 0.15:
            self.site.spawn()
            await asyncio.sleep(self.random.random() * 0.5)  # while it starts, or recovers
            self.site.kill()
            return
        server = self.site.start()
        await self.check(server.address)
        # A topic of its own for each life: it may be made, and used, just before the kill.
        self.producers.queues = [*QUEUES, Queue(f"Life{self.site.kills}", 0)]
        async with self.producers.sending_to(server.address):
            is_short = self.site.kills % 4 == 3
            await self.producers.until_more(0 if is_short else self.least, ANSWERS_S)
            await asyncio.sleep(self.random.random() * 0.2)
            self.site.kill()

    async def check(self, address: str, *, is_all: bool = False) -> Report:
        """Compare what came since the last time, or all, with the evidence."""
        if is_all:
            self._checked_sends = 0
            self._next_offsets.clear()
        evidence = self.producers.evidence.part(self._checked_sends)
        queues = sorted({*QUEUES, *(Queue(f"Life{n}", 0) for n in range(self.site.kills))})
        reads: list[QueueRead] = []
        async with connected(address) as connection:
            reads += [
                await found_in(connection, queue, self._next_offsets.get(queue, 0))
                for queue in queues
            ]
        report = check(evidence, reads, faults={"kill -9": self.site.kills})
        report.raise_if_bad(f"{self.note}, after kill {self.site.kills}")
        self._checked_sends = len(self.producers.evidence)
        for queue, read in zip(queues, reads, strict=True):
            self._next_offsets[queue] = read.first_offset + len(read.found)
        return report


async def run_lives(
    folder: Path,
    flush: str,
    kills: int,
    seed: int,
    *,
    batch_chance: float = 0.2,
    least: int = 60,
    program: Sequence[str] = ("roketto",),
) -> Report:
    with Site(folder, {**SMALL, "flushDiskType": flush}, program=program) as site:
        lives = Lives(site, seed, batch_chance, least)
        report = await lives.run(kills)
        crossed = files_crossed(site.root)
        starts_s = sorted(site.starts_s)
    assert crossed["commitlog"] > 2, crossed
    assert crossed["consumequeue"] > 2 * len(QUEUES), crossed
    middle_s = starts_s[len(starts_s) // 2]
    print(f"{lives.note}: {report}\nstarts: {middle_s:.2f} s, at worst {starts_s[-1]:.2f} s;")
    print(
        f"files: {crossed}; refused: { {c: len(t) for c, t in lives.producers.refusals.items()} }"
    )
    return report


BOTH: Final = pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])


@BOTH
@pytest.mark.timeout(300)
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, flush: str) -> None:
    """20 kills each."""
    report = await run_lives(tmp_path, flush, 20, seed=1)
    assert report.ok > 20 * 20, str(report)
    assert report.unknown > 0, "nobody was sending when the broker was killed"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@BOTH
async def test_what_was_acknowledged_survives_many_more_kills(tmp_path: Path, flush: str) -> None:
    """The long tier: 500 kills each."""
    await run_lives(tmp_path, flush, 500, seed=2)


async def test_a_topic_that_was_made_just_before_the_kill_has_all_its_queues(
    tmp_path: Path,
) -> None:
    """Its first message is there, and producers that know its queues are not refused."""
    unsaved = 0
    with Site(tmp_path, SMALL) as site:
        for number in range(5):
            first, last = Queue(f"New{number}", 0), Queue(f"New{number}", 7)
            async with connected(site.start().address) as connection:
                await send(connection, first, b"first", {})
                site.kill()
            async with connected(site.start().address) as connection:
                await send(connection, last, b"last", {})
                bodies = [
                    bytes(record.body)
                    for queue in (first, last)
                    for record in await read_queue(connection, queue)
                ]
            assert bodies == [b"first", b"last"]
            unsaved += f"topic {first.topic} has messages and was not in the table" in site.log
            site.stop()
    assert unsaved, "every kill came after the table was saved"
    print(f"{unsaved} of {site.kills} kills came before the table was saved")


async def test_what_an_operator_has_made_survives_a_kill_right_after_the_answer(
    tmp_path: Path,
) -> None:
    """Topics and groups, each killed as soon as the broker has said that it is there."""
    with Site(tmp_path, {**SMALL, "autoCreateSubscriptionGroup": "false"}) as site:
        for number in range(5):
            name = f"Made{number}"
            topic = CreateTopicRequest(
                topic=name, default_topic="TBW102", read_queue_nums=3, write_queue_nums=3, perm=6,
                topic_filter_type="SINGLE_TAG",
            )  # fmt: skip
            made = [
                Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=encode_header(topic)),
                Command(
                    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                    body=encode_body(SubscriptionGroupConfig(group_name=name)),
                ),
            ]
            shown = [
                Command(RequestCode.GET_TOPIC_CONFIG, ext={"topic": name}),
                Command(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, ext={"group": name}),
            ]
            for request, question in zip(made, shown, strict=True):
                async with connected(site.start().address) as connection:
                    assert (await connection.request(request, 10_000)).code == 0
                    site.kill()
                async with connected(site.start().address) as connection:
                    answer = await connection.request(question, 10_000)
                    assert answer.code == 0, f"{name} was acknowledged: {answer.remark}"
                site.stop()
        assert site.kills == 10


@BOTH
async def test_what_the_lane_has_acknowledged_is_what_survives(tmp_path: Path, flush: str) -> None:
    """These producers are answered by the send lane: of those that it can take, by far the most."""
    config = {**SMALL, "flushDiskType": flush}
    with Site(tmp_path, config, program=planted(note_lanes)) as site:
        report = await Lives(site, 4, batch_chance=0, least=400).run(2)
    noted = (tmp_path / LANES).read_bytes()
    quick, held = noted.count(QUICK), noted.count(HELD)
    print(f"{flush}: {report}\n{quick} answers were those of the lane, {held} waited")
    assert quick > report.ok * 3 // 4, "the lane is hardly taken"
    assert held >= quick if flush == "SYNC_FLUSH" else held == 0


@BOTH
async def test_acknowledging_before_the_write_is_noticed(tmp_path: Path, flush: str) -> None:
    """Planted: answers leave while messages are in a buffer of the broker's own.

    As many are lost as it holds, but for those whose answers had not come.
    """
    bug = planted(acknowledge_early)
    with pytest.raises(AssertionError, match=r"\blost \d") as noticed:
        await run_lives(tmp_path, flush, 1, seed=3, batch_chance=0, least=300, program=bug)
    found = re.search(r"\blost (\d+)", str(noticed.value))
    assert found, "the report has changed"
    assert BUFFERED_MAX - PRODUCERS <= int(found[1]) <= BUFFERED_MAX, str(noticed.value)


async def test_a_broker_that_ends_by_itself_was_not_killed(tmp_path: Path) -> None:
    """The other planted bug: a fault that did not happen must not count as survived."""
    with Site(tmp_path, {**SMALL, "storePathRootDir": "/dev/null/store"}) as site:
        ended = site.spawn().popen.wait(START_S)
        with pytest.raises(AssertionError, match="it was not the kill that ended it: 1"):
            site.kill()
    assert ended == 1
