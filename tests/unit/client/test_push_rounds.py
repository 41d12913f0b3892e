"""Rounds share queues when something changes, and brokers that forgot the consumer are told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from roketto.client import push_rounds
from roketto.client.allocation import Averagely
from roketto.client.message import MessageQueue
from roketto.client.owned_queue import OwnedQueue
from roketto.client.owned_queues import OwnedQueues
from roketto.client.push_rounds import PushRounds
from roketto.client.push_subscriptions import PushSubscriptions
from roketto.client.queue_locks import QueueLocks
from roketto.client.rebalance import Rebalance
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.connections import GetConsumerListByGroupResponseBody
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.client.core_rig import GROUP, MASTER, TOPIC, route_data, unreachable
from unit.client.push_parts import PushRig, until


class Group:
    """A group of which the broker knows ``members``, and the shares that its consumer has had."""

    def __init__(self) -> None:
        self.rig = PushRig()
        self.rig.rig.routes.clear()
        self.rig.rig._brokers = self.answer
        client = self.rig.parts.client
        self.me = client.id
        self.members = [self.me]
        self.is_down = False
        self.heartbeats = 0
        self.shares: list[tuple[str, int]] = []
        self.queues = OwnedQueues(self.rig.parts, QueueLocks(client, GROUP), self.loop)
        self.subscriptions = PushSubscriptions(
            client, GROUP, MessageModel.BROADCASTING, {TOPIC: "*"}
        )
        rebalance = Rebalance(client, GROUP, Averagely(), MessageModel.CLUSTERING)
        self.rounds = PushRounds(client, rebalance, self.queues, self.subscriptions, self.note)

        async def beat() -> None:
            self.heartbeats += 1

        client.send_heartbeats = beat  # type: ignore[method-assign]

    def note(self, topic: str, names: list[MessageQueue]) -> None:
        self.shares.append((topic, len(names)))

    async def loop(self, queue: OwnedQueue, is_shared: bool) -> None:
        while not queue.is_dropped:
            await queue.wait_for_room(1)

    def answer(self, address: str, command: Command) -> Command:
        if self.is_down:
            raise unreachable(address)
        if command.code != RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return command.answer()
        body = GetConsumerListByGroupResponseBody(consumer_id_list=self.members)
        return command.answer(body=encode_body(body))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.rounds.start()
        yield
        await self.rounds.stop()
        await self.queues.stop_pulling()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr(push_rounds, "_AGAIN_S", 0.005)
    monkeypatch.setattr(push_rounds, "_HEARTBEAT_GAP_S", 0.001)
    return Group()


async def test_a_topic_is_waited_for_and_its_brokers_are_told_first(group: Group) -> None:
    """Before they are asked who is in the group; and again that its queues have moved."""
    async with group.running():
        await asyncio.sleep(0.02)
        assert (group.shares, group.heartbeats) == ([], 0)
        group.rig.rig.routes[TOPIC] = route_data({"broker-a": {0: MASTER}})
        await until(lambda: group.shares == [(TOPIC, 4)])
        assert group.heartbeats == 2
        told = group.subscriptions.told(TOPIC)
        assert told is not None
        assert told == group.subscriptions.get(TOPIC)


async def test_members_that_come_and_go_change_the_share(group: Group) -> None:
    group.rig.rig.routes[TOPIC] = route_data({"broker-a": {0: MASTER}})
    async with group.running():
        await until(lambda: group.shares == [(TOPIC, 4)])
        group.members = ["0", group.me]
        group.rounds.soon()
        await until(lambda: group.shares[-1] == (TOPIC, 2))
        group.members = [group.me]
        group.rounds.soon()
        await until(lambda: group.shares[-1] == (TOPIC, 4))
        group.subscriptions.remove(TOPIC)
        group.rounds.soon()
        await until(lambda: len(group.queues) == 0)


async def test_a_broker_that_forgot_the_consumer_does_not_cost_its_queues(group: Group) -> None:
    """Neither does one that does not answer."""
    group.rig.rig.routes[TOPIC] = route_data({"broker-a": {0: MASTER}})
    async with group.running():
        await until(lambda: group.shares == [(TOPIC, 4)])
        beats = group.heartbeats
        group.members = ["somebody else"]
        group.rounds.soon()
        await until(lambda: group.heartbeats > beats)
        group.is_down = True
        group.rounds.soon()
        await asyncio.sleep(0.02)
        assert len(group.queues.names()) == 4


async def test_offsets_are_kept_and_heartbeats_sent_when_they_are_wanted(group: Group) -> None:
    group.rig.rig.routes[TOPIC] = route_data({"broker-a": {0: MASTER}}, queues=1)
    client = group.rig.parts.client
    client.settings = replace(client.settings, offsets_interval_s=0.005)
    async with group.running():
        await until(lambda: group.shares == [(TOPIC, 1)])
        beats = group.heartbeats
        group.rounds.heartbeat_soon()
        await until(lambda: group.heartbeats == beats + 1)
        (name,) = group.queues.names()
        group.rig.store.update(name, 3, increase_only=True)
        await until(lambda: bool(group.rig.rig.sent(RequestCode.UPDATE_CONSUMER_OFFSET)))
