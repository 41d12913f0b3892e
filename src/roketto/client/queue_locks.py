"""Locks of queues on brokers, so that only one member of a group consumes each of them in order."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from roketto.client.calls import expect_success, read_body
from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.message import MessageQueue
from roketto.client.owned_queue import OwnedQueue, by_broker
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.locks import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.clients import LockBatchMqRequest, UnlockBatchMqRequest

__all__ = ["BROKER_LOCK_S", "QueueLocks"]

log = logging.getLogger(__name__)

BROKER_LOCK_S: Final = 60.0
"""How long a broker keeps a lock that nobody renews."""
_TIMEOUT_MS: Final = 1_000
_FIRST_S: Final = 1.0
_INTERVAL_S: Final = 20.0
"""As Java; a lock counts here for 30 s."""


class QueueLocks:
    """The locks of one consumer. ``on_lost`` is called with queues that are another member's.

    locked = await locks.lock(queues)
    await locks.unlock(queues)
    """

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._failing: set[str] = set()
        self.on_lost: Callable[[OwnedQueue], None] | None = None

    async def lock(self, queues: Iterable[OwnedQueue]) -> list[OwnedQueue]:
        """Ask for locks, or renew them: the queues that are this consumer's now.

        Those that another one has are lost; those whose broker does not answer stay as they are.
        """
        found = await asyncio.gather(
            *(self._lock_on(name, some) for name, some in self._by_broker(queues).items())
        )
        return [queue for some in found for queue in some]

    def _by_broker(self, queues: Iterable[OwnedQueue]) -> dict[str, list[OwnedQueue]]:
        return by_broker(queues, self._client.routes.broker_of)

    async def _lock_on(self, broker_name: str, queues: list[OwnedQueue]) -> list[OwnedQueue]:
        try:
            held = await self._ask(broker_name, [queue.name for queue in queues])
        except ClientError as error:
            level = logging.DEBUG if broker_name in self._failing else logging.WARNING
            self._failing.add(broker_name)
            log.log(level, "group %s cannot lock its queues on %s: %s", self._group, broker_name,
                    error)  # fmt: skip
            return []
        self._failing.discard(broker_name)
        for queue in queues:
            if queue.name in held:
                queue.lock()
            elif queue.messages.is_locked:
                queue.messages.unlock()
                log.warning("group %s has lost %r: another member holds its lock", self._group,
                            queue)  # fmt: skip
                if self.on_lost is not None:
                    self.on_lost(queue)
        return [queue for queue in queues if queue.name in held]

    async def _ask(self, broker_name: str, names: list[MessageQueue]) -> set[MessageQueue]:
        client = self._client
        address = await client.routes.master_of(broker_name, names[0].topic)
        body = LockBatchRequestBody(client_id=client.id, consumer_group=self._group, mq_set=names)
        answer = await client.calls.ask(
            address, RequestCode.LOCK_BATCH_MQ, LockBatchMqRequest(), encode_body(body),
            _TIMEOUT_MS,
        )  # fmt: skip
        return set(read_body(LockBatchResponseBody, address, answer).lock_ok_mq_set)

    async def unlock(self, queues: Iterable[OwnedQueue]) -> None:
        """Give locks back; where a broker does not answer they end by themselves."""
        await asyncio.gather(
            *(self._unlock_on(name, some) for name, some in self._by_broker(queues).items())
        )

    async def _unlock_on(self, broker_name: str, queues: list[OwnedQueue]) -> None:
        client = self._client
        names = [queue.name for queue in queues]
        body = UnlockBatchRequestBody(client_id=client.id, consumer_group=self._group, mq_set=names)
        try:
            address = await client.routes.master_of(broker_name, names[0].topic)
            answer = await client.calls.ask(
                address, RequestCode.UNLOCK_BATCH_MQ, UnlockBatchMqRequest(), encode_body(body),
                _TIMEOUT_MS,
            )  # fmt: skip
            expect_success(address, answer)
        except ClientError as error:
            log.warning("locks of group %s on %s end by themselves in %.0f s: %s", self._group,
                        broker_name, BROKER_LOCK_S, error)  # fmt: skip
        for queue in queues:
            queue.messages.unlock()

    async def renew(self, queues: Callable[[], Iterable[OwnedQueue]]) -> None:
        """Renew the locks of whatever queues there are, until cancelled."""
        wait_s = _FIRST_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = _INTERVAL_S
            try:
                await self.lock([queue for queue in queues() if not queue.is_dropped])
            except Exception:
                log.exception("locks of group %s are not renewed, and tried again", self._group)
