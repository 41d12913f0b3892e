"""kill -9 of a broker while sinks stage, decide and publish: each message comes once, and in order.

Each sink does what the driver of a query does: it stages a batch in pieces, decides, publishes.
After a kill it asks for its state first: a batch that is decided is published as it was decided,
and any other one is staged anew, so that pieces that nobody decided on are left behind. Half of the
kills come at any time, the others while something is being published.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from checker import Found, QueueRead, Report, check
from evidence import Evidence, Place
from fault.appender import body_of, value_of
from fault.broker.later import count_of
from fault.broker.planted import planted, publish_again, publish_some
from fault.broker.producers import properties_of
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, ask, connected, read_queue
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.staged import StagedDecision, StagedPieces
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import Header, decode_header, encode_header
from roketto.protocol.headers.staged import (
    DecideStagedRequest,
    DecideStagedResponse,
    PublishStagedRequest,
    SinkStateRequest,
    SinkStateResponse,
    StageBatchRequest,
    StageBatchResponse,
)
from roketto.protocol.properties import encode_properties
from roketto.remoting.connection import Connection
from roketto.remoting.errors import RemotingError

QUEUES: Final = tuple(Queue("T", number) for number in range(4))
CONFIG: Final = {**LARGE, "mappedFileSizeCommitLog": "1048576"}
BROKER: Final = "broker-a"
SINKS: Final = 4
MESSAGES: Final = 60
"""Of a piece."""
PATIENCE_S: Final = 60.0
_UNCERTAIN: Final = (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SYSTEM_BUSY)
_RESUMED: Final = re.compile(r"goes on behind piece (\d+) of (\d+) and (\d+) messages")


class Sink:
    """One query: batch after batch, each until it is published, through all lives of its broker."""

    def __init__(self, site: Site, number: int, seed: int, pieces: int, evidence: Evidence) -> None:
        self.site = site
        self.name = f"s{number}"
        self.random = Random(seed * 100 + number)
        self.pieces = pieces
        self.evidence = evidence
        self.batch = 0
        self.is_stopped = False
        self.orphans = 0
        """Pieces that nobody has decided on."""
        self.publishing = asyncio.Event()
        self._values: list[tuple[Queue, list[str]]] = []

    async def run(self) -> None:
        """Go on until it is stopped and nothing is under way."""
        while not self.is_stopped or self._values:
            try:
                async with connected(self.site.address) as connection:
                    while not self.is_stopped or self._values:
                        await self._write_batch(connection)
            except (RemotingError, OSError):
                await asyncio.sleep(0.01)

    async def _write_batch(self, connection: Connection) -> None:
        if not self._values:
            self._make_values()
        answer = await self._ask(
            connection, RequestCode.SINK_STATE, SinkStateRequest(sink_id=self.name)
        )
        state = decode_header(SinkStateResponse, answer.ext)
        assert self.batch - 1 <= state.batch_id <= self.batch, f"{self.name}: {state}"
        assert state.published_batch_id >= self.batch - 1, f"{self.name}: {state}"
        if state.batch_id == self.batch:
            decision = decode_body(StagedDecision, answer.body)
        else:
            decision = await self._decide(connection)
        await self._publish(connection, decision.pieces[BROKER])
        for queue, values in self._values:
            for value in values:
                self.evidence.ok(value, Place(str(queue), None))
        self.batch += 1
        self._values = []

    def _make_values(self) -> None:
        """What the batch consists of, however often it is staged."""
        for piece in range(self.pieces):
            queue = self.random.choice(QUEUES)
            values = [f"{self.name}b{self.batch}p{piece}m{n}" for n in range(MESSAGES)]
            self._values.append((queue, values))
            for value in values:
                self.evidence.send(value, self.name, str(queue))

    async def _decide(self, connection: Connection) -> StagedDecision:
        pieces = await self._stage(connection)
        if self.random.random() < 0.1:  # its driver has died here, say
            self.orphans += len(pieces)
            pieces = await self._stage(connection)
        decision = StagedDecision({BROKER: pieces})
        header = DecideStagedRequest(batch_id=self.batch, query_id="q", sink_id=self.name)
        answer = await self._ask(
            connection, RequestCode.DECIDE_STAGED, header, encode_body(decision)
        )
        if decode_header(DecideStagedResponse, answer.ext).is_new:
            return decision
        return decode_body(StagedDecision, answer.body)

    async def _stage(self, connection: Connection) -> list[list[int]]:
        return await asyncio.gather(
            *(self._stage_one(connection, queue, values) for queue, values in self._values)
        )

    async def _stage_one(
        self, connection: Connection, queue: Queue, values: Sequence[str]
    ) -> list[int]:
        header = StageBatchRequest(
            batch_id=self.batch, topic=queue.topic, queue_id=queue.queue_id, sink_id=self.name
        )
        items = [
            BatchItem(body_of(value), encode_properties(properties_of(value))) for value in values
        ]
        answer = await self._ask(connection, RequestCode.STAGE_BATCH, header, encode_batch(items))
        where = decode_header(StageBatchResponse, answer.ext)
        return [where.log_offset, where.size]

    async def _publish(self, connection: Connection, pieces: list[list[int]]) -> None:
        header = PublishStagedRequest(batch_id=self.batch, query_id="q", sink_id=self.name)
        self.publishing.set()
        try:
            await self._ask(
                connection, RequestCode.PUBLISH_STAGED, header, encode_body(StagedPieces(pieces))
            )
        finally:
            self.publishing.clear()

    async def _ask(
        self, connection: Connection, code: RequestCode, header: Header, body: bytes = b""
    ) -> Command:
        while True:
            answer = await ask(connection, Command(code, encode_header(header), body))
            if answer.code not in _UNCERTAIN:
                assert answer.code == 0, f"{code.name}: {answer.code} {answer.remark}"
                return answer


class Kills:
    """Sinks, their broker, and when it is killed."""

    def __init__(self, site: Site, seed: int, sinks: int, pieces: int) -> None:
        self.site = site
        self.random = Random(seed)
        self.evidence = Evidence()
        self.sinks = [Sink(site, n, seed, pieces, self.evidence) for n in range(sinks)]

    async def live(self, *, is_midway: bool) -> None:
        """Let the broker live for a while, and end it."""
        self.site.start()
        async with asyncio.timeout(PATIENCE_S):
            if is_midway:
                await self._until_midway()
            elif self.random.random() < 0.7:
                done = self.batches
                while self.batches == done:  # noqa: ASYNC110 (its broker's work)
                    await asyncio.sleep(0.01)
        if not is_midway:
            await asyncio.sleep(self.random.random() * 0.1)
        self.site.kill()

    async def _until_midway(self) -> None:
        """Wait until something of a batch has come to the queues: there is more to come."""
        sink = self.random.choice(self.sinks)
        async with connected(self.site.address) as connection:
            await sink.publishing.wait()
            before = await count_of(connection, QUEUES)
            while await count_of(connection, QUEUES) == before:
                pass

    @property
    def batches(self) -> int:
        return sum(sink.batch for sink in self.sinks)

    async def read(self) -> list[QueueRead]:
        reads = []
        async with connected(self.site.address) as connection:
            for queue in QUEUES:
                records = await read_queue(connection, queue)
                found = [Found(None, value_of(bytes(record.body))) for record in records]
                reads.append(QueueRead("broker", str(queue), found))
        return reads


async def run_kills(
    folder: Path,
    kills: int,
    seed: int,
    *,
    flush: str = "ASYNC_FLUSH",
    sinks: int = SINKS,
    pieces: int = 40,
    midway_chance: float = 0.5,
    program: Sequence[str] = ("roketto",),
) -> Report:
    with Site(folder, {**CONFIG, "flushDiskType": flush}, program=program) as site:
        lives = Kills(site, seed, sinks, pieces)
        tasks = [asyncio.create_task(sink.run()) for sink in lives.sinks]
        try:
            for _ in range(kills):
                await lives.live(is_midway=lives.random.random() < midway_chance)
            site.start()
            for sink in lives.sinks:
                sink.is_stopped = True
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        site.stop()
        site.start()
        reads = await lives.read()
        site.stop()
        log = site.log
    report = check(lives.evidence, reads, faults={"kill -9": site.kills})
    report.raise_if_bad(f"seed {seed}")
    resumed = [tuple(map(int, found)) for found in _RESUMED.findall(log)]
    midway = sum((piece, there) > (0, 0) and piece < of for piece, of, there in resumed)
    assert midway, f"no kill came while something was published: {resumed}"
    assert report.unknown == 0, "all was published in the end"
    assert "Traceback" not in log, log
    print(
        f"{flush}, seed {seed}: {report}\n{lives.batches} batches,"
        f" {len(resumed)} of them went on after a kill, {midway} in their middle;"
        f" {sum(sink.orphans for sink in lives.sinks)} pieces were left behind"
    )
    return report


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_batches_are_published_once_through_ten_kills(tmp_path: Path, flush: str) -> None:
    report = await run_kills(tmp_path, 10, 1, flush=flush)
    assert report.ok == report.read, str(report)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_batches_are_published_once_through_a_hundred_kills(
    tmp_path: Path, flush: str
) -> None:
    """The long tier."""
    await run_kills(tmp_path, 100, 2, flush=flush)


@pytest.mark.parametrize(
    ("bug", "noticed"), [(publish_again, r"duplicate [1-9]"), (publish_some, r"lost [1-9]")]
)
async def test_publishing_anew_or_not_on_is_noticed(
    tmp_path: Path, bug: Callable[[], None], noticed: str
) -> None:
    """Planted: after a start nothing, or everything, is taken for published."""
    with pytest.raises(AssertionError, match=noticed):
        await run_kills(
            tmp_path, 2, 3, sinks=1, pieces=200, midway_chance=1.0, program=planted(bug)
        )
