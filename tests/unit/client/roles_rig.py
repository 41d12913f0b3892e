"""Producers and consumers that only note what their client tells them."""

from collections.abc import Collection, Mapping
from typing import Any

from roketto.client.message import MessageQueue
from roketto.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from roketto.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.record import Record


class NotingProducer:
    """``noted`` are the transactions that brokers ask about."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.noted: list[tuple[str, CheckTransactionStateRequest, Record]] = []

    def check_transaction(
        self, address: str, request: CheckTransactionStateRequest, half: Record
    ) -> None:
        self.noted.append((address, request, half))


class NotingConsumer:
    """``noted`` is what it was asked, in order."""

    def __init__(self, group: str, topics: Collection[str] = ()) -> None:
        self.group = group
        self.topics = topics
        self.noted: list[Any] = []

    def describe(self) -> ConsumerData:
        wanted = [SubscriptionData(topic=topic, sub_string="*") for topic in self.topics]
        return ConsumerData(group_name=self.group, subscription_data_set=wanted)

    def rebalance_soon(self) -> None:
        self.noted.append("rebalance")

    def disconnected(self, broker_name: str) -> None:
        self.noted.append(f"without {broker_name}")

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.noted.append(dict(offsets))

    def offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {MessageQueue("broker-a", 0, topic): 17}

    def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(properties={"group": self.group})

    async def consume_directly(
        self, record: Record, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        self.noted.append((bytes(record.body), broker_name))
        return ConsumeMessageDirectlyResult(consume_result=CMResult.CR_SUCCESS)
