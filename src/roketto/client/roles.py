"""What producers and consumers are to the client they share: whom brokers' requests are for."""

from collections.abc import Collection, Mapping
from typing import Protocol

from roketto.protocol.bodies.heartbeat import ConsumerData
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.record import Record

__all__ = ["ConsumerRole", "ProducerRole"]


class ProducerRole(Protocol):
    """A producer, as brokers know it by its group."""

    @property
    def group(self) -> str: ...

    def check_transaction(
        self, address: str, request: CheckTransactionStateRequest, half: Record
    ) -> None:
        """The broker at ``address`` asks what became of a transaction; to be answered later."""


class ConsumerRole(Protocol):
    """A consumer, as brokers know it by its group."""

    @property
    def group(self) -> str: ...

    @property
    def topics(self) -> Collection[str]:
        """Those it is subscribed to."""

    def describe(self) -> ConsumerData:
        """What a heartbeat says of it."""

    def rebalance_soon(self) -> None:
        """Members of the group, or routes, have changed."""

    def disconnected(self, broker_name: str) -> None:
        """A connection to the broker has ended, and maybe the broker with it."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator has moved the group."""

    def offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        """How far it is in the queues that it has of a topic."""

    def running_info(self) -> ConsumerRunningInfo:
        """What an operator is shown of it."""

    async def consume_directly(
        self, record: Record, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        """An operator wants it to consume one message now."""
