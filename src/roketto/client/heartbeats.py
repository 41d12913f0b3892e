"""Heartbeats: what a client tells brokers of itself, and to whom."""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable

from roketto.client.calls import Calls, expect_success
from roketto.client.errors import ClientError
from roketto.client.roles import ConsumerRole
from roketto.client.routes import MASTER_ID
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.clients import HeartbeatRequest, UnregisterClientRequest

__all__ = ["Heartbeats"]

log = logging.getLogger(__name__)

Brokers = dict[str, dict[int, str]]
"""Broker name -> broker id -> address."""


class Heartbeats:
    """Those of one client.

    await heartbeats.send(producer_groups, consumers, routes.brokers())
    heartbeats.version_of(address)      # what a broker said of itself when it answered
    """

    def __init__(self, calls: Calls, client_id: str) -> None:
        self._calls = calls
        self._client_id = client_id
        self._versions: dict[str, int] = {}
        self._failing: set[str] = set()
        self._under_way: Counter[str] = Counter()

    def version_of(self, address: str) -> int:
        """The version of the broker at an address, 0 if it never answered."""
        return self._versions.get(address, 0)

    def is_under_way(self, address: str) -> bool:
        """Whether a broker is being told right now."""
        return address in self._under_way

    async def send(
        self,
        producer_groups: Collection[str],
        consumers: Collection[ConsumerRole],
        brokers: Brokers,
    ) -> None:
        """Tell all brokers; without consumers only masters, as Java does. Failures are logged."""
        known = {address for by_id in brokers.values() for address in by_id.values()}
        self._failing &= known
        self._versions = {one: found for one, found in self._versions.items() if one in known}
        addresses = _addressees(producer_groups, consumers, brokers)
        if addresses:
            body = self._body(producer_groups, consumers)
            await asyncio.gather(*(self._send(address, body) for address in addresses))

    async def send_to(
        self,
        address: str,
        producer_groups: Collection[str],
        consumers: Collection[ConsumerRole],
        brokers: Brokers,
    ) -> bool:
        """Tell one of these brokers; whether it was to be told, and has answered."""
        if address not in _addressees(producer_groups, consumers, brokers):
            return False
        return await self._send(address, self._body(producer_groups, consumers))

    def _body(self, producer_groups: Collection[str], consumers: Collection[ConsumerRole]) -> bytes:
        data = HeartbeatData(
            client_id=self._client_id,
            consumer_data_set=[consumer.describe() for consumer in consumers],
            producer_data_set=[ProducerData(group_name=group) for group in producer_groups],
        )
        return encode_body(data)

    async def _send(self, address: str, body: bytes) -> bool:
        self._under_way[address] += 1
        try:
            answer = await self._calls.ask(
                address, RequestCode.HEART_BEAT, HeartbeatRequest(), body
            )
            expect_success(address, answer)
        except ClientError as error:
            if address not in self._failing:  # once, not every half minute
                self._failing.add(address)
                log.warning("heartbeat: %s", error)
            return False
        finally:
            self._under_way[address] -= 1
            if not self._under_way[address]:
                del self._under_way[address]
        self._versions[address] = answer.version
        if address in self._failing:
            self._failing.discard(address)
            log.info("heartbeat: %s answers again", address)
        return True

    async def unregister(
        self,
        addresses: Iterable[str],
        producer_group: str | None = None,
        consumer_group: str | None = None,
    ) -> None:
        """Take leave of brokers, so that others need not wait until we are missed."""
        request = UnregisterClientRequest(
            client_id=self._client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        found = await asyncio.gather(
            *(self._calls.ask(address, RequestCode.UNREGISTER_CLIENT, request)
              for address in addresses),
            return_exceptions=True,
        )  # fmt: skip
        for error in found:
            if isinstance(error, ClientError):
                log.debug("taking leave: %s", error)


def _addressees(
    producer_groups: Collection[str], consumers: Collection[ConsumerRole], brokers: Brokers
) -> list[str]:
    """Who is to be told: all brokers, or without consumers the masters, or nobody."""
    if not producer_groups and not consumers:
        return []
    return [
        address
        for by_id in brokers.values()
        for broker_id, address in by_id.items()
        if consumers or broker_id == MASTER_ID
    ]
