"""Retries and kill -9: a topic that takes each message once has each once, whatever comes again.

Producers send everything again that they have no answer for, to any queue, and now and then what
they have one for. Java's broker stores all of it again.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from checker import Report, check
from evidence import Evidence, Place
from fault.appender import PRODUCERS, body_of
from fault.broker.planted import forget_ids, planted
from fault.broker.producers import properties_of
from fault.broker.site import SMALL, Site
from fault.broker.wire import (
    Queue,
    ask,
    batch_request,
    connected,
    found_in,
    send_request,
    stored_at,
)
from roketto.protocol.batch import BatchItem
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.topics import CreateTopicRequest
from roketto.protocol.properties import encode_properties
from roketto.remoting.connection import Connection
from roketto.remoting.errors import ConnectError, ConnectionLostError

QUEUES: Final = tuple(Queue("Once", number) for number in range(4))
BATCH_CHANCE: Final = 0.15
AGAIN_CHANCE: Final = 0.2
ANSWERS_S: Final = 60.0

Values = tuple[str, ...]
"""Of one request: a message, or the messages of a batch."""


class Retrying:
    """Producers that leave nothing unanswered, and what they were told."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.random = Random(seed)
        self.evidence = Evidence()
        self.told: dict[Values, list[Place]] = {}
        self.unanswered: dict[str, Values] = {}
        """What each producer sent last, if nobody has told it where that is."""
        self.again = 0
        """Requests that were answered twice, and the same."""
        self.unknown = 0
        """Requests that were sent again because a kill came before their answers."""
        self._count = 0

    async def live(self, least: int) -> None:
        """Start the broker, let so many requests be answered, and kill it."""
        address = self.site.start().address
        if not self.site.kills:
            await make_topic(address)
        goal = len(self.told) + least
        tasks = [asyncio.create_task(self._produce(address, f"p{n}")) for n in range(PRODUCERS)]
        async with asyncio.timeout(ANSWERS_S):
            while len(self.told) < goal and not any(task.done() for task in tasks):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        self.site.kill()
        failures = [it for it in await asyncio.gather(*tasks, return_exceptions=True) if it]
        if failures:
            raise failures[0]

    async def _produce(self, address: str, producer: str) -> None:
        try:
            async with connected(address) as connection:
                if self.told:  # what was answered before the kill is known after it
                    await self._send(connection, self.random.choice(list(self.told)))
                if producer in self.unanswered:
                    self.unknown += 1
                    await self._send(connection, self.unanswered[producer])
                    del self.unanswered[producer]
                while True:
                    await self._send_next(connection, producer)
        except (ConnectError, ConnectionLostError):
            return

    async def _send_next(self, connection: Connection, producer: str) -> None:
        if self.told and self.random.random() < AGAIN_CHANCE:
            await self._send(connection, self.random.choice(list(self.told)))
            return
        is_batch = self.random.random() < BATCH_CHANCE
        self._count += 1
        values = tuple(f"o{self._count}.{n}" for n in range(self.random.randrange(2, 5)))
        values = values if is_batch else values[:1]
        for value in values:
            self.evidence.send(value, producer, "any")
        self.unanswered[producer] = values
        await self._send(connection, values)
        del self.unanswered[producer]

    async def _send(self, connection: Connection, values: Values) -> None:
        queue = self.random.choice(QUEUES)
        if len(values) == 1:
            request = send_request(queue, body_of(values[0]), properties_of(values[0]))
        else:
            items = [
                BatchItem(body_of(one), encode_properties(properties_of(one))) for one in values
            ]
            request = batch_request(queue, items)
        answer = await ask(connection, request)
        assert answer.code == 0, answer.remark
        where = stored_at(answer)
        name = str(Queue(queue.topic, where.queue_id))
        places = [
            Place(name, where.queue_offset + n, message_id)
            for n, message_id in enumerate(where.msg_id.split(","))
        ]
        before = self.told.setdefault(values, places)
        if before is places:
            for value, place in zip(values, places, strict=True):
                self.evidence.ok(value, place)
            return
        assert places == before, f"{values} was at {before[0]}, and is said to be at {places[0]}"
        self.again += 1

    async def check(self) -> Report:
        """Start it once more, answer all, and read everything."""
        address = self.site.start().address
        async with connected(address) as connection:
            for values in self.unanswered.values():
                await self._send(connection, values)
            self.unanswered.clear()
            reads = [await found_in(connection, queue) for queue in QUEUES]
        self.site.stop()
        report = check(self.evidence, reads, faults={"kill -9": self.site.kills})
        report.raise_if_bad()
        assert report.read == report.ok == report.sent, str(report)
        return report


async def make_topic(address: str) -> None:
    topic = CreateTopicRequest(
        topic=QUEUES[0].topic, default_topic="TBW102", read_queue_nums=len(QUEUES),
        write_queue_nums=len(QUEUES), perm=6, topic_filter_type="SINGLE_TAG",
        attributes="+dedup.window.seconds=3600",
    )  # fmt: skip
    async with connected(address) as connection:
        request = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, encode_header(topic))
        answer = await ask(connection, request)
        assert answer.code == 0, answer.remark


async def run(
    folder: Path, flush: str, kills: int, seed: int, program: Sequence[str] = ("roketto",)
) -> None:
    with Site(folder, {**SMALL, "flushDiskType": flush}, program=program) as site:
        retrying = Retrying(site, seed)
        for _ in range(kills):
            await retrying.live(least=60)
        report = await retrying.check()
    print(
        f"{flush}, seed {seed}: {report}\n{retrying.again} requests were sent again and answered as"
        f" before, {retrying.unknown} had no answer when the broker was killed"
    )
    assert retrying.again >= (kills - 1) * PRODUCERS, "nothing was sent again after a kill"
    assert retrying.unknown, "nobody was sending when the broker was killed"


BOTH: Final = pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])


@BOTH
async def test_what_is_sent_again_over_a_kill_is_there_once(tmp_path: Path, flush: str) -> None:
    """4 kills each; nothing that was acknowledged is lost, and nothing is there twice."""
    await run(tmp_path, flush, 4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@BOTH
async def test_what_is_sent_again_over_many_kills_is_there_once(tmp_path: Path, flush: str) -> None:
    """The long tier: 100 kills each."""
    await run(tmp_path, flush, 100, seed=2)


async def test_windows_that_know_nothing_after_a_start_are_noticed(tmp_path: Path) -> None:
    """Planted: what was stored before is not read again."""
    with pytest.raises(AssertionError, match=r"was at Once/\d@\d+ .*, and is said to be at Once"):
        await run(tmp_path, "ASYNC_FLUSH", 2, seed=3, program=planted(forget_ids))
