"""Messages that are delivered later, by a delay or at a time, while their broker is killed."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from checker import Found, QueueRead, Report, check
from evidence import Evidence, Place
from fault.appender import PRODUCERS, body_of, value_of
from fault.broker.producers import properties_of
from fault.broker.site import Site
from fault.broker.wire import Queue, ask, check_keys, connected, read_queue, send_request
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.offsets import GetMaxOffsetRequest, GetMaxOffsetResponse
from roketto.remoting.connection import Connection

QUEUES: Final = tuple(Queue("T", number) for number in range(4))
UNDER_WAY: Final = 32
"""Messages that one producer sends without waiting for an answer."""
PATIENCE_S: Final = 60.0


class Plan(NamedTuple):
    """What a message asks for: not before when, by which properties, and in order with whom."""

    due_ms: int
    properties: dict[str, str]
    order: str


class Later(ABC):
    """Messages that were sent to come later; what is asked for each is said by who inherits."""

    def __init__(self, site: Site, count: int, patience_s: float) -> None:
        self.site = site
        self.count = count
        self.evidence = Evidence()
        self.seen_at_kills: list[int] = []
        self._patience_s = patience_s
        self._due_ms: dict[str, int] = {}

    @abstractmethod
    def plan(self, producer: int, number: int) -> Plan:
        """What a producer asks for, now, for the message with this number."""

    async def send(self) -> None:
        numbers = iter(range(self.count))

        async def produce(producer: int) -> None:
            async with connected(self.site.address) as connection:
                while batch := list(islice(numbers, UNDER_WAY)):
                    await asyncio.gather(
                        *(self._send(connection, producer, number) for number in batch)
                    )

        await asyncio.gather(*(produce(number) for number in range(PRODUCERS)))

    async def _send(self, connection: Connection, producer: int, number: int) -> None:
        value, queue = f"v{number}", QUEUES[number // 7 % len(QUEUES)]
        plan = self.plan(producer, number)
        self.evidence.send(value, plan.order, str(queue))
        self._due_ms[value] = plan.due_ms
        properties = {**properties_of(value), **plan.properties}
        answer = await ask(connection, send_request(queue, body_of(value), properties))
        assert answer.code == 0, answer.remark
        self.evidence.ok(value, Place(str(queue), None))

    async def until_delivered(self, count: int) -> int:
        """Wait until so many are in their queues; how many are."""
        async with connected(self.site.address) as connection, asyncio.timeout(self._patience_s):
            while (delivered := await count_of(connection)) < count:  # noqa: ASYNC110 (its broker)
                await asyncio.sleep(0.002)
        return delivered

    async def read(self) -> list[QueueRead]:
        """What was delivered; AssertionError if any of it came early."""
        reads = []
        async with connected(self.site.address) as connection:
            for queue in QUEUES:
                found = []
                for record in await read_queue(connection, queue):
                    value = value_of(bytes(record.body))
                    early_ms = self._due_ms[value] - record.store_time_ms
                    assert early_ms <= 0, f"{value} was delivered {early_ms} ms early"
                    found.append(Found(None, value))
                reads.append(QueueRead("broker", str(queue), found))
        return reads

    async def deliver(self, kills: int, rest_s: float) -> list[QueueRead]:
        """Send all, and kill the broker so many times while it delivers them; what came.

        In the end all of it is found by its keys.
        ``rest_s`` is how long after the last start something might come once more.
        """
        site, seen = self.site, 0
        site.start()
        await self.send()
        for kill in range(kills):
            share = (self.count - seen) // (kills - kill + 1)
            seen = await self.until_delivered(min(seen + max(share, 1), self.count))
            site.kill()
            self.seen_at_kills.append(seen)
            site.start()
        await self.until_delivered(self.count)
        site.stop()
        site.start()
        await asyncio.sleep(rest_s)
        reads = await self.read()
        async with connected(site.address) as connection:
            await check_keys(connection, QUEUES[0].topic, (sent.value for sent in self.evidence))
        return reads

    def judge(self, reads: list[QueueRead]) -> Report:
        """Compare what came with what was sent; the broker has been stopped."""
        in_the_middle = sum(0 < seen < self.count for seen in self.seen_at_kills)
        assert in_the_middle, self.seen_at_kills
        report = check(self.evidence, reads, faults={"kill -9 in the middle": in_the_middle})
        report.raise_if_bad()
        assert "Traceback" not in self.site.log, self.site.log
        print(f"delivered at the kills: {self.seen_at_kills}\n{report}")
        return report


async def count_of(connection: Connection, queues: Sequence[Queue] = QUEUES) -> int:
    """How many messages are in these queues together."""
    total = 0
    for queue in queues:
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        request = Command(RequestCode.GET_MAX_OFFSET, encode_header(header))
        answer = await ask(connection, request)
        if answer.code == 0:
            total += decode_header(GetMaxOffsetResponse, answer.ext).queue_offset
    return total
