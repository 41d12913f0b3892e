"""Delayed messages and kill -9 (F27): each is delivered, none early, and none a second time.

Java's broker, which saves its progress every ten seconds, delivers again what came since.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from checker import Found, QueueRead, Report, check
from evidence import Evidence, Place
from fault.appender import PRODUCERS, body_of, value_of
from fault.broker.planted import deliver_again, deliver_early, deliver_some, planted
from fault.broker.producers import properties_of
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, ask, connected, read_queue, send_request
from roketto.clock import wall_ms
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.offsets import GetMaxOffsetRequest, GetMaxOffsetResponse
from roketto.protocol.property_names import DELAY
from roketto.remoting.connection import Connection

QUEUES: Final = tuple(Queue("T", number) for number in range(4))
DELAYS_S: Final = (1, 2, 3)
CONFIG: Final = {**LARGE, "messageDelayLevel": " ".join(f"{delay}s" for delay in DELAYS_S)}
UNDER_WAY: Final = 32
"""Messages that one producer sends without waiting for an answer."""
PATIENCE_S: Final = 60.0


class Delayed:
    """Messages that were sent with a delay, and when."""

    def __init__(self, site: Site, count: int, patience_s: float) -> None:
        self.site = site
        self._patience_s = patience_s
        self.count = count
        self.evidence = Evidence()
        self._sent_ms: dict[str, int] = {}
        self.seen_at_kills: list[int] = []

    async def send(self) -> None:
        values = iter([f"d{number}" for number in range(self.count)])

        async def produce(producer: int) -> None:
            async with connected(self.site.address) as connection:
                while batch := list(islice(values, UNDER_WAY)):
                    await asyncio.gather(
                        *(self._send(connection, producer, value) for value in batch)
                    )

        await asyncio.gather(*(produce(number) for number in range(PRODUCERS)))

    async def _send(self, connection: Connection, producer: int, value: str) -> None:
        number = int(value[1:])
        level = number % len(DELAYS_S) + 1
        queue = QUEUES[number // 7 % len(QUEUES)]
        # Each level delivers in the order of sending; together they do not.
        self.evidence.send(value, f"p{producer}-{level}", str(queue))
        self._sent_ms[value] = wall_ms()
        properties = {**properties_of(value), DELAY: str(level)}
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
                    due_ms = self._sent_ms[value] + 1_000 * DELAYS_S[int(value[1:]) % 3]
                    early_ms = due_ms - record.store_time_ms
                    assert early_ms <= 0, f"{value} was delivered {early_ms} ms early"
                    found.append(Found(None, value))
                reads.append(QueueRead("broker", str(queue), found))
        return reads


async def count_of(connection: Connection) -> int:
    total = 0
    for queue in QUEUES:
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        request = Command(RequestCode.GET_MAX_OFFSET, encode_header(header))
        answer = await ask(connection, request)
        if answer.code == 0:
            total += decode_header(GetMaxOffsetResponse, answer.ext).queue_offset
    return total


async def run_delays(
    folder: Path,
    messages: int,
    kills: int,
    program: Sequence[str] = ("roketto",),
    patience_s: float = PATIENCE_S,
) -> Report:
    """Send all, and kill the broker so many times while it delivers them."""
    with Site(folder, CONFIG, program=program) as site:
        delayed = Delayed(site, messages, patience_s)
        site.start()
        await delayed.send()
        seen = 0
        for kill in range(kills):
            share = (messages - seen) // (kills - kill + 1)
            seen = await delayed.until_delivered(min(seen + max(share, 1), messages))
            site.kill()
            delayed.seen_at_kills.append(seen)
            site.start()
        await delayed.until_delivered(messages)
        site.stop()
        site.start()
        await asyncio.sleep(max(DELAYS_S[:1]) + 0.2)  # whatever might come once more
        reads = await delayed.read()
        site.stop()
    in_the_middle = sum(0 < seen < messages for seen in delayed.seen_at_kills)
    assert in_the_middle, delayed.seen_at_kills
    report = check(delayed.evidence, reads, faults={"kill -9 in the middle": in_the_middle})
    report.raise_if_bad()
    assert "Traceback" not in site.log, site.log
    print(f"delivered at the kills: {delayed.seen_at_kills}\n{report}")
    return report


async def test_every_delayed_message_is_delivered_once_through_three_kills(tmp_path: Path) -> None:
    """3,000 of three levels."""
    report = await run_delays(tmp_path, 3_000, 3)
    assert (report.read, report.ok) == (3_000, 3_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_hundred_thousand_delayed_messages_through_twenty_kills(tmp_path: Path) -> None:
    """The long tier."""
    await run_delays(tmp_path, 100_000, 20)


@pytest.mark.parametrize(
    ("bug", "noticed"),
    [
        (deliver_again, r"duplicate [1-9]"),
        (deliver_early, r"was delivered \d+ ms early"),
    ],
)
async def test_delivering_twice_or_early_is_noticed(
    tmp_path: Path, bug: Callable[[], None], noticed: str
) -> None:
    """Planted: progress that is not kept, and no patience."""
    with pytest.raises(AssertionError, match=noticed):
        await run_delays(tmp_path, 300, 1, planted(bug))


async def test_delivering_not_all_is_noticed(tmp_path: Path) -> None:
    """Planted: some are taken for delivered."""
    with pytest.raises(TimeoutError):
        await run_delays(tmp_path, 300, 1, planted(deliver_some), patience_s=6.0)
