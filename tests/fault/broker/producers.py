"""Eight producers with a connection each, and the evidence of what a broker has told them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from evidence import Evidence, Place
from fault.appender import PRODUCERS, body_of
from fault.broker.wire import TIMEOUT_MS, Queue, batch_request, connected, send_request, stored_at
from roketto.protocol.batch import BatchItem
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.properties import encode_properties
from roketto.remoting.connection import Connection
from roketto.remoting.errors import ConnectError, ConnectionLostError

_UNCERTAIN: Final = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
"""Answers that say of a message that it is stored, and not that it is safe."""


SILENT: Final = "5"
"""How the values end whose messages say nothing of a WAIT."""


def properties_of(value: str) -> dict[str, str]:
    """As Java's producers have them. Some leave WAIT out, which asks for the same: under SYNC_FLUSH
    these take the ordinary way, and all others that of the send lane.
    """
    properties = {"KEYS": f"K{value}", "UNIQ_KEY": f"U{value}", "WAIT": "true", "TAGS": "t"}
    if value.endswith(SILENT):
        del properties["WAIT"]
    return properties


class Producers:
    """They send to queues of their choice, one request after the other each, until they are stopped
    or their broker is gone. All their messages are in ``evidence``.

    async with producers.sending_to(address):
        await asyncio.sleep(0.1)       # or whatever happens to the broker meanwhile
    """

    def __init__(
        self,
        queues: Sequence[Queue],
        seed: int,
        *,
        batch_chance: float = 0.2,
        pause_s: float = 0.0,
    ) -> None:
        self.queues = list(queues)
        self.evidence = Evidence()
        self.refusals: dict[int, list[str]] = {}
        """By code, what was said of sends that were refused."""
        self.acknowledged = 0
        """Requests, each with one message or a batch of them."""
        self.lost = 0
        """Connections that have ended before they were closed."""
        self._random = Random(seed)
        self._batch_chance = batch_chance
        self._pause_s = pause_s
        self._count = 0
        self._is_stopped = False

    @property
    def refused(self) -> int:
        return sum(map(len, self.refusals.values()))

    async def until_more(self, count: int, patience_s: float) -> None:
        """Wait until so many more messages have been acknowledged."""
        goal = self.acknowledged + count
        await _until(lambda: self.acknowledged >= goal, patience_s)

    async def until_refused(self, count: int, patience_s: float) -> None:
        """Wait until so many more have been refused."""
        goal = self.refused + count
        await _until(lambda: self.refused >= goal, patience_s)

    @asynccontextmanager
    async def sending_to(self, address: str) -> AsyncIterator[None]:
        """Send while the block runs; behind it every send has its outcome, or is unknown."""
        self._is_stopped = False
        tasks = [
            asyncio.create_task(self._produce(address, f"p{number}")) for number in range(PRODUCERS)
        ]
        try:
            yield
        finally:
            self._is_stopped = True
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        assert not failures, failures

    async def _produce(self, address: str, producer: str) -> None:
        try:
            async with connected(address) as connection:
                while not self._is_stopped:
                    await self._send_one(connection, producer)
                    if self._pause_s:
                        await asyncio.sleep(self._pause_s)
        except (ConnectError, ConnectionLostError):  # what it had sent is unknown
            self.lost += 1

    async def _send_one(self, connection: Connection, producer: str) -> None:
        queue = self._random.choice(self.queues)
        is_batch = self._random.random() < self._batch_chance
        values = self._next_values(self._random.randrange(2, 7) if is_batch else 1)
        if is_batch:
            items = [
                BatchItem(body_of(value), encode_properties(properties_of(value)))
                for value in values
            ]
            request = batch_request(queue, items)
        else:
            request = send_request(queue, body_of(values[0]), properties_of(values[0]))
        for value in values:
            self.evidence.send(value, producer, str(queue))
        self._note(values, queue, await connection.request(request, TIMEOUT_MS))

    def _next_values(self, count: int) -> list[str]:
        self._count += count
        return [f"v{self._count - count + n}" for n in range(count)]

    def _note(self, values: Sequence[str], queue: Queue, answer: Command) -> None:
        if answer.code == ResponseCode.SUCCESS:
            where = stored_at(answer)
            self.acknowledged += 1
            for n, (value, message_id) in enumerate(
                zip(values, where.msg_id.split(","), strict=True)
            ):
                self.evidence.ok(value, Place(str(queue), where.queue_offset + n, message_id))
            return
        self.refusals.setdefault(answer.code, []).append(answer.remark or "")
        if answer.code in _UNCERTAIN:
            return
        for value in values:
            self.evidence.fail(value)


async def _until(is_so: Callable[[], bool], patience_s: float) -> None:
    async with asyncio.timeout(patience_s):
        while not is_so():  # noqa: ASYNC110 (the answers of another process are counted)
            await asyncio.sleep(0.01)
