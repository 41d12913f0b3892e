"""Shares follow members and routes; a broker that forgot the consumer does not cost its queues."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from roketto.client import lite_rounds
from roketto.client.allocation import Averagely
from roketto.client.lite_assignment import LiteAssignment
from roketto.client.lite_limits import LiteLimits
from roketto.client.lite_rounds import LiteRounds
from roketto.client.lite_stock import Stock
from roketto.client.message import MessageQueue
from roketto.client.offset_store import BrokerOffsets
from roketto.client.pulling import Pulled
from roketto.client.rebalance import Rebalance
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.connections import GetConsumerListByGroupResponseBody
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.errors import ConnectError
from unit.client.core_rig import GROUP, MASTER, TOPIC, Rig, route_data


class Made:
    """Rounds with a broker that knows ``members``; None is a broker without the group."""

    def __init__(self) -> None:
        self.rig = Rig(self.answer)
        self.me = self.rig.client.id
        self.members: list[str] | None = [self.me]
        self.is_down = False
        client = self.rig.client
        store = BrokerOffsets(client, GROUP)
        self.assignment = LiteAssignment(
            Stock(LiteLimits()), store, self.start_offset, self.pull, is_auto_commit=True
        )
        rebalance = Rebalance(client, GROUP, Averagely(), MessageModel.CLUSTERING)
        self.rounds = LiteRounds(client, rebalance, self.assignment, store)
        self.heartbeats = 0

        async def beat() -> None:
            self.heartbeats += 1

        client.send_heartbeats = beat  # type: ignore[method-assign]

    def answer(self, address: str, command: Command) -> Command:
        if self.is_down:
            raise ConnectError(address, "down")
        if command.code != RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return command.answer()
        if self.members is None:
            return command.answer(ResponseCode.SYSTEM_ERROR, remark="no consumer for this group")
        body = GetConsumerListByGroupResponseBody(consumer_id_list=self.members)
        return command.answer(body=encode_body(body))

    async def start_offset(self, name: MessageQueue) -> int:
        return 0

    async def pull(self, name: MessageQueue, offset: int, broker_id: int) -> Pulled:
        await asyncio.Event().wait()
        raise AssertionError

    async def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(2_000):
            if is_so():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("it never was so")


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Made]:
    monkeypatch.setattr(lite_rounds, "_AGAIN_S", 0.005)
    made = Made()
    made.assignment.start()
    made.rounds.start()
    yield made
    await made.rounds.stop()
    await made.assignment.close()


async def test_a_subscription_brings_queues_at_once(made: Made) -> None:
    """Brokers are told first; whoever asked to know is told the queues."""
    told: list[int] = []
    made.rounds.shared[TOPIC] = lambda topic, queues: told.append(len(queues))
    made.rounds.announce()
    await made.until(lambda: told == [4])
    assert made.heartbeats == 1
    made.members = [made.me, "0.0.0.0@other"]
    made.rounds.soon()
    await made.until(lambda: told == [4, 2])
    assert len(made.assignment.names) == 2


async def test_queues_are_kept_by_whoever_a_broker_forgot(made: Made) -> None:
    """It was started again: it is told of the consumer, and nothing is dropped meanwhile."""
    made.rounds.shared[TOPIC] = None
    made.rounds.announce()
    await made.until(lambda: len(made.assignment.names) == 4)
    before = list(made.assignment.queues)
    for members in (None, [], ["0.0.0.0@other"]):
        beats = made.heartbeats
        made.members = members
        made.rounds.soon()
        await made.until(lambda beats=beats: made.heartbeats > beats)  # type: ignore[misc]
        assert list(made.assignment.queues) == before
    made.is_down = True
    await asyncio.sleep(0.02)
    assert list(made.assignment.queues) == before


async def test_a_share_of_nothing_is_taken_for_one(made: Made) -> None:
    """More members than queues: those that come last have none."""
    made.rounds.shared[TOPIC] = None
    made.rounds.announce()
    await made.until(lambda: len(made.assignment.names) == 4)
    made.members = [*(f"0.0.0.{number}@x" for number in range(4)), made.me]
    made.rounds.soon()
    await made.until(lambda: not made.assignment.names)


async def test_whoever_watches_a_topic_is_told_of_new_queues(made: Made) -> None:
    """A listener that fails is not the end of it."""
    seen: list[list[MessageQueue]] = []

    def listener(topic: str, queues: list[MessageQueue]) -> None:
        seen.append(queues)
        raise ValueError(topic)

    made.rounds.watched[TOPIC] = listener
    made.rounds.announce()
    await made.until(lambda: made.heartbeats == 1)
    for queues in (6, 8):
        made.rig.routes[TOPIC] = route_data({"broker-a": {0: MASTER}}, queues=queues)
        await made.rig.client.routes.refresh(TOPIC)
        made.rounds.soon()
        await made.until(lambda queues=queues: bool(seen) and len(seen[-1]) == queues)  # type: ignore[misc]
    assert len(seen) == 2
