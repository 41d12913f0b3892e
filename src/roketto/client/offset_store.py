"""Where a group is in its queues: kept by brokers for all members, or in a file for each.

Members that share the work keep their offsets on brokers, so that others can go on; members that
all get everything keep their own, each in a file.
"""

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final, Protocol

from roketto.client.calls import expect_success, read_header
from roketto.client.client import Client
from roketto.client.errors import BrokerNotFoundError, ClientError
from roketto.client.offset_file import read_offsets, write_offsets
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.offsets import (
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    UpdateConsumerOffsetRequest,
)

__all__ = ["BrokerOffsets", "LocalOffsets", "OffsetStore", "Offsets", "local_offsets_path"]

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 5_000
_STORED_AT_ONCE: Final = 64
"""Requests of one ``persist`` that wait for an answer."""


class OffsetStore(Protocol):
    """The consume offsets of one group, in memory and where they last.

    ``update`` changes what is in memory, ``persist`` makes it last: the consumer calls both.
    """

    async def load(self) -> None:
        """Read what there is, once at the start; ClientError if it is damaged."""

    async def read(self, queue: MessageQueue, *, memory_first: bool = True) -> int | None:
        """Where the group is, None if it has not begun; ClientError if it cannot be asked."""

    def update(self, queue: MessageQueue, consume_offset: int, *, increase_only: bool) -> None:
        """The group is further, or, unless ``increase_only``, somewhere else; not if below 0."""

    def freeze(self, queue: MessageQueue, consume_offset: int) -> None:
        """It is there, and no update counts until the queue is removed: the old ones are void."""

    def memory(self, queue: MessageQueue) -> int | None:
        """What is in memory."""

    async def persist(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, ClientError]:
        """Make offsets last; what could not be kept, and why. That is logged, too."""

    def remove(self, queue: MessageQueue) -> None:
        """Forget what is in memory."""

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """What is in memory of a topic, or of all."""


class Offsets:
    """The memory that both stores have."""

    def __init__(self) -> None:
        self._table: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def update(self, queue: MessageQueue, consume_offset: int, *, increase_only: bool) -> None:
        if consume_offset < 0 or queue in self._frozen:
            return
        known = self._table.get(queue)
        if known is None or not increase_only or consume_offset > known:
            self._table[queue] = consume_offset

    def freeze(self, queue: MessageQueue, consume_offset: int) -> None:
        self._table[queue] = consume_offset
        self._frozen.add(queue)

    def memory(self, queue: MessageQueue) -> int | None:
        return self._table.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        self._table.pop(queue, None)
        self._frozen.discard(queue)

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        return {
            queue: offset
            for queue, offset in self._table.items()
            if not topic or queue.topic == topic
        }

    def _chosen(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self._table[queue] for queue in queues if queue in self._table}


class BrokerOffsets(Offsets):
    """Offsets that brokers keep, each those of its own queues. The group has its namespace.

    store = BrokerOffsets(client, "orders")
    store.update(queue, 12, increase_only=True)
    await store.persist([queue])
    """

    def __init__(self, client: Client, group: str) -> None:
        super().__init__()
        self._client = client
        self._group = group
        self._failing: set[str] = set()

    async def load(self) -> None:
        """Nothing: brokers are asked queue by queue."""

    async def read(self, queue: MessageQueue, *, memory_first: bool = True) -> int | None:
        known = self._table.get(queue) if memory_first else None
        if known is not None:
            return known
        stored = await self._query(queue)
        if stored is not None:
            self.update(queue, stored, increase_only=False)
        return stored

    async def _query(self, queue: MessageQueue) -> int | None:
        address = await self._address(queue)
        request = QueryConsumerOffsetRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
            target_broker_name=queue.broker_name,
        )  # fmt: skip
        answer = await self._client.calls.ask(
            address, RequestCode.QUERY_CONSUMER_OFFSET, request, timeout_ms=_TIMEOUT_MS
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        offset = read_header(QueryConsumerOffsetResponse, address, answer).consume_offset
        return offset if offset >= 0 else None

    async def _address(self, queue: MessageQueue) -> str:
        """A slave knows what its master knew a while ago: it is asked only if there is no other."""
        routes = self._client.routes
        try:
            return await routes.master_of(routes.broker_of(queue), queue.topic)
        except BrokerNotFoundError:
            return await routes.any_of(routes.broker_of(queue))

    async def persist(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, ClientError]:
        chosen = list(self._chosen(queues).items())
        failed: dict[MessageQueue, ClientError] = {}
        for begin in range(0, len(chosen), _STORED_AT_ONCE):
            some = chosen[begin : begin + _STORED_AT_ONCE]
            done = await asyncio.gather(*(self._store(queue, offset) for queue, offset in some))
            failed |= {queue: error for (queue, _), error in zip(some, done, strict=True) if error}
        self._report(failed, {queue.broker_name for queue, _ in chosen})
        return failed

    async def _store(self, queue: MessageQueue, consume_offset: int) -> ClientError | None:
        request = UpdateConsumerOffsetRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
            consume_offset=consume_offset, target_broker_name=queue.broker_name,
        )  # fmt: skip
        try:
            routes = self._client.routes
            address = await routes.any_of(routes.broker_of(queue), queue.topic)
            answer = await self._client.calls.ask(
                address, RequestCode.UPDATE_CONSUMER_OFFSET, request, timeout_ms=_TIMEOUT_MS
            )
            expect_success(address, answer)
        except ClientError as error:
            return error
        return None

    def _report(self, failed: dict[MessageQueue, ClientError], brokers: set[str]) -> None:
        """Once for each broker, not every few seconds."""
        first = {queue.broker_name: error for queue, error in failed.items()}
        for name, error in first.items():
            if name not in self._failing:
                log.warning("offsets of group %s are not kept by %s, and sent again: %s",
                            self._group, name, error)  # fmt: skip
        self._failing = (self._failing - brokers) | first.keys()


class LocalOffsets(Offsets):
    """Offsets in a file that Java's clients read and write as well (offset_file.py).

    store = LocalOffsets(local_offsets_path(client.id, "orders"))
    await store.load()
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        self._table |= await asyncio.to_thread(read_offsets, self._path)

    async def read(self, queue: MessageQueue, *, memory_first: bool = True) -> int | None:
        known = self._table.get(queue) if memory_first else None
        if known is not None:
            return known
        stored = (await asyncio.to_thread(read_offsets, self._path)).get(queue)
        if stored is not None:
            self.update(queue, stored, increase_only=False)
        return stored

    async def persist(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, ClientError]:
        chosen = self._chosen(queues)
        try:
            async with self._lock:  # one at a time: each reads, changes and writes the same file
                await asyncio.to_thread(_merge, self._path, chosen)
        except ClientError as error:
            log.warning("offsets are not kept: %s", error)
            return dict.fromkeys(chosen, error)
        return {}


def _merge(path: Path, chosen: dict[MessageQueue, int]) -> None:
    """Other queues of the file stay as they are: they may be this consumer's again."""
    stored = read_offsets(path)
    merged = stored | chosen
    if merged != stored:
        write_offsets(path, merged)


def local_offsets_path(client_id: str, group: str, folder: Path | None = None) -> Path:
    """Where a Java client of the same id and group keeps its offsets."""
    return (folder or Path.home() / ".rocketmq_offsets") / client_id / group / "offsets.json"
