"""A client is shared, begins once, ends with its last user, and leaves nothing behind."""

import asyncio
import logging
from dataclasses import replace

import pytest

from roketto.client import client as module
from roketto.client.client import Client
from roketto.client.errors import ClientClosedError, ClientError, NotStartedError
from roketto.client.settings import ClientSettings
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.heartbeat import HeartbeatData
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.client.core_rig import MASTER, SLAVE, TOPIC, Rig, route_data
from unit.client.push_parts import until
from unit.client.roles_rig import NotingConsumer, NotingProducer
from unit.client.sending_rig import settle

BEAT, LEAVE = RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT


async def make() -> Rig:
    """A client that is started and knows a route."""
    rig = Rig(lambda address, command: command.answer())
    await rig.client.start()
    await rig.client.routes.get(TOPIC)
    return rig


def told(rig: Rig) -> list[tuple[str, list[str], list[str]]]:
    """Who was told of which producer and consumer groups."""
    found = []
    for address, command in rig.pool.sent:
        if command.code == BEAT:
            data = decode_body(HeartbeatData, command.body)
            producers = [producer.group_name for producer in data.producer_data_set]
            consumers = [consumer.group_name for consumer in data.consumer_data_set]
            found.append((address, producers, consumers))
    return found


# --- life -----------------------------------------------------------------------------------------


async def test_it_ends_when_the_last_of_its_users_stops_it() -> None:
    rig = Rig(lambda address, command: command.answer())
    client = rig.client
    with pytest.raises(NotStartedError, match="not started: use it with `async with`"):
        client.check_started()
    async with client:
        await client.start()
        client.check_started()
        begun = len(asyncio.all_tasks())
        await client.start()
        assert len(asyncio.all_tasks()) == begun
        await client.stop()
        await client.stop()
        client.check_started()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await client.stop()  # once more is nothing


async def test_after_its_end_everything_is_refused_with_its_name() -> None:
    rig = await make()
    client = rig.client
    await client.stop()
    text = f"client {client.id} was stopped; make a new one"
    for call in (
        client.start(),
        client.calls.ask(MASTER, 1),
        client.calls.tell(MASTER, 1),
        client.routes.refresh(TOPIC),
        client.routes.get("Other"),
    ):
        with pytest.raises(ClientClosedError) as raised:
            await call
        assert str(raised.value) == text
    with pytest.raises(ClientClosedError):
        client.check_started()


async def test_one_that_was_never_started_can_be_stopped() -> None:
    client = Client(ClientSettings(name_servers="names:1"))
    await client.stop()
    with pytest.raises(ClientClosedError):
        await client.start()


async def test_an_impatient_stop_still_closes_its_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = await make()
    closed: list[bool] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    async def note() -> None:
        closed.append(True)

    monkeypatch.setattr(rig.client.inbound, "close", hang)
    monkeypatch.setattr(rig.client.pool, "close", note)
    stopping = asyncio.create_task(rig.client.stop())
    await settle()
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    assert closed == [True]


async def test_what_it_does_again_and_again_survives_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, module.__name__)
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise ClientError("a wish")
        if rounds == 2:
            raise ZeroDivisionError

    task = asyncio.create_task(module._every(0.0, 0.001, work))
    await until(lambda: rounds >= 3)
    task.cancel()
    assert [record.message.split(" failed")[0] for record in caplog.records] == [
        "a wish", f"{work.__qualname__}",
    ]  # fmt: skip


async def test_routes_and_heartbeats_are_renewed_from_time_to_time() -> None:
    rig = Rig(lambda address, command: command.answer())
    rig.client.settings = replace(
        rig.client.settings, route_interval_s=0.005, heartbeat_interval_s=0.005
    )
    async with rig.client as client:
        await client.routes.get(TOPIC)
        await client.add_producer(NotingProducer("p"))
        rig.pool.sent.clear()
        codes = {BEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC}
        await until(lambda: codes <= {command.code for _, command in rig.pool.sent})
    assert told(rig)[0] == (MASTER, ["p"], [])


# --- who it is ------------------------------------------------------------------------------------


def test_clients_have_ids_of_their_own_unless_they_are_to_keep_one() -> None:
    settings = ClientSettings(client_ip="10.0.0.9", name_servers="n", unit_name="u")
    first, second = Client(settings), Client(settings)
    assert first.id != second.id
    assert first.id.startswith("10.0.0.9@")
    assert first.id.endswith("@u")
    assert Client(settings, keeps_instance=True).id == "10.0.0.9@DEFAULT@u"
    assert Client(replace(settings, instance_name="mine")).id == "10.0.0.9@mine@u"


def test_a_namespace_goes_before_names_and_off_again() -> None:
    client = Client(ClientSettings(name_servers="n", namespace="ns"))
    for name, wrapped in {
        "T": "ns%T", "%RETRY%g": "%RETRY%ns%g", "%DLQ%g": "%DLQ%ns%g", "TBW102": "TBW102",
        "CID_RMQ_SYS_x": "CID_RMQ_SYS_x", "rmq_sys_wheel": "rmq_sys_wheel",
    }.items():  # fmt: skip
        assert client.wrap(name) == wrapped
        assert client.wrap(wrapped) == wrapped
        assert client.unwrap(wrapped) == name
    assert client.unwrap("other%T") == "other%T"


def test_an_instance_in_the_address_is_the_namespace_unless_one_is_given() -> None:
    address = "http://MQ_INST_1_2.mq.example:80"
    assert Client(ClientSettings(name_servers=address)).wrap("T") == "MQ_INST_1_2%T"
    given = ClientSettings(name_servers=address, namespace="mine")
    assert Client(given).settings is given
    assert Client(given).wrap("T") == "mine%T"


async def test_the_zone_of_the_environment_counts_where_it_is_switched_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROCKETMQ_ZONE", "room-1")
    for mode, given, zone in (("true", "", "room-1"), ("false", "", None), ("true", "z", "z")):
        monkeypatch.setenv("ROCKETMQ_ZONE_MODE", mode)
        rig = Rig(lambda address, command: command.answer())
        rig.client = Client(ClientSettings(name_servers="names", zone=given))
        rig.client.names._pool = rig.pool
        await rig.client.routes.get(TOPIC)
        ((_, fields),) = rig.sent(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert fields.get("__ZONE_NAME") == zone


# --- groups ---------------------------------------------------------------------------------------


async def test_a_producer_and_two_consumers_are_one_client_to_brokers() -> None:
    rig = await make()
    client = rig.client
    producer = NotingProducer("p")
    first, second = NotingConsumer("c1", [TOPIC]), NotingConsumer("c2", ["Other"])
    await client.add_producer(producer)
    await client.add_consumer(first)
    await client.add_consumer(second)
    assert told(rig) == [
        (MASTER, ["p"], []),
        (MASTER, ["p"], ["c1"]),
        (SLAVE, ["p"], ["c1"]),
        (MASTER, ["p"], ["c1", "c2"]),
        (SLAVE, ["p"], ["c1", "c2"]),
    ]
    await client.remove_consumer(first)
    await client.remove_consumer(first)
    await client.remove_producer(producer)
    leaves = [fields for _, fields in rig.sent(LEAVE)]
    assert [fields.get("consumerGroup") for fields in leaves] == ["c1", "c1", None, None]
    assert leaves[2] == {"clientID": client.id, "producerGroup": "p"}
    await client.stop()


async def test_who_is_not_let_in_takes_nobody_away() -> None:
    rig = await make()
    client = rig.client
    await client.add_producer(NotingProducer("p"))
    twin = NotingProducer("p")
    with pytest.raises(ClientError, match="is here already"):
        await client.add_producer(twin)
    await client.remove_producer(twin)
    assert (list(client.inbound.producer_groups), rig.sent(LEAVE)) == (["p"], [])
    await client.stop()


async def test_who_gives_up_while_brokers_are_told_is_not_registered() -> None:
    rig = await make()

    async def hang(address: str, command: Command, timeout_ms: int) -> Command:
        await asyncio.Event().wait()
        return command.answer()

    rig.pool.request = hang  # type: ignore[method-assign] # a broker that hangs
    client = rig.client
    for work in (
        client.add_producer(NotingProducer("p")),
        client.add_consumer(NotingConsumer("c")),
    ):
        adding = asyncio.create_task(work)
        await settle()
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
    assert (list(client.inbound.producer_groups), len(client.inbound.consumers)) == ([], 0)
    await client.stop()


async def test_brokers_that_are_slow_to_say_goodbye_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_STOP_S", 0.01)
    rig = await make()
    consumer = NotingConsumer("c")
    await rig.client.add_consumer(consumer)

    async def hang(address: str, command: Command, timeout_ms: int) -> Command:
        await asyncio.Event().wait()
        return command.answer()

    rig.pool.request = hang  # type: ignore[method-assign] # a broker that hangs
    async with asyncio.timeout(1):
        await rig.client.remove_consumer(consumer)
        await rig.client.stop()


async def test_consumers_of_a_topic_share_anew_when_its_route_changes() -> None:
    rig = await make()
    first, second = NotingConsumer("c1", [TOPIC]), NotingConsumer("c2", ["Other"])
    await rig.client.add_consumer(first)
    await rig.client.add_consumer(second)
    await rig.client.routes.refresh(TOPIC)
    assert (first.noted, second.noted) == ([], [])
    rig.routes[TOPIC] = route_data({"broker-a": {0: "10.0.0.9:10911"}})
    await rig.client.routes.refresh(TOPIC)
    assert (first.noted, second.noted) == (["rebalance"], [])
    await rig.client.stop()


# --- connections ----------------------------------------------------------------------------------


async def test_a_broker_that_is_connected_to_anew_is_told_who_is_here() -> None:
    """And consumers look whether they still have their queues, as in Java."""
    rig = await make()
    consumer = NotingConsumer("c", [TOPIC])
    await rig.client.add_consumer(consumer)
    rig.pool.sent.clear()
    greet = rig.client.pool.on_connect
    assert greet is not None
    for address in (MASTER, MASTER, "names"):  # once, and no name server
        greet(address)
    await settle()
    assert (told(rig), consumer.noted) == ([(MASTER, [], ["c"])], ["rebalance"])
    assert rig.client._greetings == {}
    await rig.client.stop()
    assert rig.client.pool.on_connect is None


async def test_consumers_hear_of_each_broker_that_a_connection_is_lost_to() -> None:
    """By its name; name servers have none."""
    rig = await make()
    consumer = NotingConsumer("c", [TOPIC])
    await rig.client.add_consumer(consumer)
    lost = rig.client.pool.on_disconnect
    assert lost is not None
    for address in (MASTER, "names"):
        lost(address)
    assert consumer.noted == ["without broker-a"]
    await rig.client.stop()
    assert rig.client.pool.on_disconnect is None


async def test_a_connection_that_a_heartbeat_makes_needs_no_other_heartbeat() -> None:
    rig = await make()
    inner = rig.pool.request

    async def connect(address: str, command: Command, timeout_ms: int) -> Command:
        if command.code == BEAT and rig.client.pool.on_connect is not None:
            rig.client.pool.on_connect(address)
        return await inner(address, command, timeout_ms)

    rig.pool.request = connect  # type: ignore[method-assign] # as the first request does
    await rig.client.add_producer(NotingProducer("p"))
    await settle()
    assert told(rig) == [(MASTER, ["p"], [])]
    await rig.client.stop()


async def test_a_broker_that_does_not_answer_is_looked_after() -> None:
    rig = await make()
    rig.routes[TOPIC] = route_data({"broker-a": {0: "10.0.0.9:10911"}})
    on_unreachable = rig.client.calls.on_unreachable
    assert on_unreachable is not None
    on_unreachable(MASTER)
    await rig.client.routes.settle(MASTER, 1)
    assert await rig.client.routes.master_of("broker-a") == "10.0.0.9:10911"
    await rig.client.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
