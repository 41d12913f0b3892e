"""Heartbeats go to whom Java sends them, say who is here, and fail without a noise."""

import asyncio
import logging

import pytest

from roketto.client import heartbeats as module
from roketto.client.calls import Calls
from roketto.client.heartbeats import Heartbeats
from roketto.client.name_servers import NameServers
from roketto.client.settings import ClientSettings
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.heartbeat import HeartbeatData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from unit.client.core_rig import MASTER, SLAVE, ScriptedPool, unreachable
from unit.client.roles_rig import NotingConsumer

BROKERS = {"broker-a": {0: MASTER, 1: SLAVE}, "broker-b": {2: "10.0.0.3:10911"}}


class BeatRig:
    """``down`` do not answer, ``refusing`` say no."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.refusing: set[str] = set()
        self.pool = ScriptedPool(self._answer)
        names = NameServers(self.pool, "names", environment={})
        self.beats = Heartbeats(Calls(self.pool, names, ClientSettings()), "10.0.0.9@i")

    def _answer(self, address: str, command: Command) -> Command:
        if address in self.down:
            raise unreachable(address)
        code = ResponseCode.NO_PERMISSION if address in self.refusing else ResponseCode.SUCCESS
        return command.answer(code, remark="not you")

    @property
    def told(self) -> list[str]:
        return [address for address, _ in self.pool.sent]


async def test_all_brokers_hear_of_consumers_and_only_masters_of_producers() -> None:
    rig = BeatRig()
    await rig.beats.send([], [], BROKERS)
    assert rig.told == []
    await rig.beats.send(["p"], [], BROKERS)
    assert rig.told == [MASTER]
    rig.pool.sent.clear()
    await rig.beats.send(["p"], [NotingConsumer("c", ["T"])], BROKERS)
    assert set(rig.told) == {MASTER, SLAVE, "10.0.0.3:10911"}
    command = rig.pool.sent[0][1]
    data = decode_body(HeartbeatData, command.body)
    assert (command.code, data.client_id) == (RequestCode.HEART_BEAT, "10.0.0.9@i")
    assert [producer.group_name for producer in data.producer_data_set] == ["p"]
    (consumer,) = data.consumer_data_set
    assert (consumer.group_name, consumer.subscription_data_set[0].topic) == ("c", "T")


async def test_the_version_of_a_broker_is_known_while_it_is_in_a_route() -> None:
    rig = BeatRig()
    assert rig.beats.version_of(MASTER) == 0
    await rig.beats.send(["p"], [], BROKERS)
    assert rig.beats.version_of(MASTER) > 400
    await rig.beats.send(["p"], [], {"broker-b": {0: SLAVE}})
    assert rig.beats.version_of(MASTER) == 0
    assert rig.beats.version_of(SLAVE) > 400


async def test_a_failure_is_said_once_and_keeps_nobody_else_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, module.__name__)
    rig = BeatRig()
    rig.down, rig.refusing = {MASTER}, {SLAVE}
    consumers = [NotingConsumer("c")]
    for _ in range(3):
        await rig.beats.send([], consumers, BROKERS)
    assert rig.beats.version_of("10.0.0.3:10911") > 0
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"heartbeat: {MASTER}: connection refused",
        f"heartbeat: {SLAVE} refuses with code 16 (NO_PERMISSION): not you",
    ]
    rig.down.clear()
    caplog.clear()
    await rig.beats.send([], consumers, BROKERS)
    assert [record.getMessage() for record in caplog.records] == [
        f"heartbeat: {MASTER} answers again"
    ]


async def test_one_broker_is_told_if_it_is_to_be_told_at_all() -> None:
    rig = BeatRig()
    assert not await rig.beats.send_to("names", ["p"], [], BROKERS)
    assert not await rig.beats.send_to(SLAVE, ["p"], [], BROKERS)
    assert not await rig.beats.send_to(MASTER, [], [], BROKERS)
    assert rig.told == []
    assert await rig.beats.send_to(MASTER, ["p"], [], BROKERS)
    assert await rig.beats.send_to(SLAVE, [], [NotingConsumer("c")], BROKERS)
    rig.down = {MASTER}
    assert not await rig.beats.send_to(MASTER, ["p"], [], BROKERS)
    assert rig.told == [MASTER, SLAVE, MASTER]


async def test_it_is_known_who_is_being_told_right_now() -> None:
    """Whoever connects for a heartbeat need not send another one for the connection."""
    rig = BeatRig()
    seen: list[bool] = []
    inner = rig.pool.request

    async def look(address: str, command: Command, timeout_ms: int) -> Command:
        await asyncio.sleep(0)
        seen.append(rig.beats.is_under_way(address))
        return await inner(address, command, timeout_ms)

    rig.pool.request = look  # type: ignore[method-assign] # looks over its shoulder
    await asyncio.gather(
        rig.beats.send(["p"], [], BROKERS), rig.beats.send_to(MASTER, ["p"], [], BROKERS)
    )
    assert seen == [True, True]
    assert not rig.beats.is_under_way(MASTER)


async def test_leave_is_taken_of_all_and_failures_do_not_matter() -> None:
    rig = BeatRig()
    rig.down = {MASTER}
    await rig.beats.unregister([MASTER, SLAVE], consumer_group="c")
    assert rig.told == [MASTER, SLAVE]
    assert rig.pool.sent[1][1].ext == {"clientID": "10.0.0.9@i", "consumerGroup": "c"}
