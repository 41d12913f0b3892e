"""Routes are asked for once, renewed, kept while nobody answers, and looked after when doubted."""

import asyncio
import logging

import pytest

from roketto.client import route_table as module
from roketto.client.errors import (
    BrokerNotFoundError,
    NoNameServerError,
    RefusedError,
    TopicNotFoundError,
    UnreadableError,
)
from roketto.client.message import MessageQueue
from roketto.client.route_table import RouteTable
from roketto.client.routes import Route
from roketto.protocol.bodies.topics import TopicQueueMappingInfo
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from unit.client.core_rig import MASTER, SLAVE, TOPIC, Rig, route_data, unreachable

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
MOVED = "10.0.0.9:10911"


def make() -> tuple[Rig, RouteTable]:
    rig = Rig(lambda address, command: command.answer())
    return rig, rig.client.routes


def asked(rig: Rig) -> list[str]:
    return [fields["topic"] for _, fields in rig.sent(ROUTE)]


def answer_with(rig: Rig, answer: Command | None) -> None:
    """Let the name server answer this, or nothing."""

    def reply(address: str, command: Command) -> Command:
        if answer is None:
            raise unreachable(address)
        return command.answer(answer.code, answer.ext, answer.body, answer.remark)

    rig.pool._answer = reply


async def test_a_route_is_asked_for_once_however_many_want_it() -> None:
    rig, routes = make()
    found = await asyncio.gather(*(routes.get(TOPIC) for _ in range(10)))
    assert len(set(map(id, found))) == 1
    assert (await routes.get(TOPIC), routes.known(TOPIC)) == (found[0], found[0])
    assert (asked(rig), list(routes.topics)) == ([TOPIC], [TOPIC])
    assert found[0].advertiser == "names"


async def test_who_gives_up_does_not_take_the_answer_from_others() -> None:
    _, routes = make()
    first, second = (asyncio.ensure_future(routes.refresh(TOPIC)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).topic == TOPIC


async def test_a_topic_that_nobody_knows_is_said_by_whom_and_what_to_do() -> None:
    _, routes = make()
    with pytest.raises(TopicNotFoundError) as raised:
        await routes.get("Nowhere")
    assert str(raised.value) == (
        "topic Nowhere: names knows no route to it; create it, or check the name"
    )
    with pytest.raises(TopicNotFoundError) as raised:
        await routes.for_sending("Nowhere")
    assert str(raised.value) == (
        "topic Nowhere: names knows no route to it, and brokers make none by themselves"
        " (autoCreateTopicEnable): create it, for example with mqadmin updateTopic"
    )


async def test_a_topic_that_brokers_will_make_is_kept_until_it_is_there() -> None:
    rig, routes = make()
    rig.routes["TBW102"] = route_data({"broker-a": {0: MASTER}}, queues=8)
    made = await routes.for_sending("New", queues=2)
    assert len(made.publish_queues) == 2
    await routes.refresh_all()
    assert routes.known("New") is made
    rig.routes["New"] = route_data({"broker-a": {0: MASTER}}, queues=3)
    await routes.refresh_all()
    assert len((await routes.for_sending("New")).publish_queues) == 3


async def test_changes_are_told_and_repetitions_are_not() -> None:
    rig, routes = make()
    changes: list[Route] = []
    routes.on_change = changes.append
    await routes.refresh(TOPIC)
    await routes.refresh(TOPIC)
    assert len(changes) == 1
    rig.routes[TOPIC] = route_data({"broker-a": {0: MOVED}})
    await routes.refresh(TOPIC)
    assert [change.brokers["broker-a"][0] for change in changes] == [MASTER, MOVED]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, NoNameServerError),
        (Command(ResponseCode.SYSTEM_ERROR, remark="not ready"), RefusedError),
        (Command(0, body=b"\x00garbage"), UnreadableError),
        (Command(0), UnreadableError),
        (Command(ResponseCode.TOPIC_NOT_EXIST), TopicNotFoundError),
    ],
)
async def test_a_route_stays_as_it_was_while_there_is_no_better_word(
    answer: Command | None, error: type[Exception]
) -> None:
    """A route that has lost all its brokers, too: name servers forget quicker than brokers die."""
    rig, routes = make()
    known = await routes.get(TOPIC)
    answer_with(rig, answer)
    with pytest.raises(error):
        await routes.refresh(TOPIC)
    await routes.refresh_all()
    assert routes.known(TOPIC) is known
    assert await routes.master_of("broker-a") == MASTER


async def test_name_servers_that_are_gone_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not for each topic and each half minute; and the round ends there."""
    rig, routes = make()
    for number in range(40):
        rig.routes[f"T{number}"] = rig.routes[TOPIC]
        await routes.get(f"T{number}")
    answer = rig.pool._answer
    answer_with(rig, None)
    rig.pool.sent.clear()
    caplog.set_level(logging.INFO, module.__name__)
    for _ in range(2):
        await routes.refresh_all()
    assert len(rig.pool.sent) == 2 * 16
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    rig.pool._answer = answer
    await routes.refresh_all()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_one_useless_answer_does_not_keep_others_from_being_renewed() -> None:
    rig, routes = make()
    for topic in ("A", "B"):
        rig.routes[topic] = rig.routes[TOPIC]
        await routes.get(topic)
    rig.routes["A"] = route_data({"broker-a": {0: MASTER}}, queues=2**30)
    rig.routes["B"] = route_data({"broker-a": {0: MOVED}})
    await routes.refresh_all()
    found = routes.known("B")
    assert found is not None
    assert found.brokers["broker-a"] == {0: MOVED}


async def test_brokers_that_no_route_names_any_more_are_forgotten() -> None:
    rig, routes = make()
    rig.routes["Other"] = route_data({"broker-a": {0: MASTER}, "broker-b": {0: MOVED}})
    await routes.get(TOPIC)
    await routes.get("Other")
    assert routes.brokers().keys() == {"broker-a", "broker-b"}
    rig.routes["Other"] = route_data({"broker-a": {0: MASTER}})
    await routes.refresh("Other")
    assert routes.brokers() == {"broker-a": {0: MASTER}}
    with pytest.raises(BrokerNotFoundError) as raised:
        await routes.master_of("broker-b", "Other")
    assert str(raised.value) == (
        "broker broker-b is in no route that names has told: it is down, or has not registered"
    )


async def test_addresses_follow_the_purpose_they_are_for() -> None:
    rig, routes = make()
    rig.routes[TOPIC] = route_data({"broker-a": {0: MASTER, 2: SLAVE}, "broker-b": {3: SLAVE}})
    assert await routes.master_of("broker-a", TOPIC) == MASTER
    assert await routes.any_of("broker-b") == SLAVE
    with pytest.raises(BrokerNotFoundError):
        await routes.master_of("broker-b", TOPIC)
    for wanted, found in ((0, 0), (2, 2), (1, 2), (7, 0)):  # itself, the next one, or any
        address = {0: MASTER, 2: SLAVE}[found]
        assert await routes.for_pulling("broker-a", wanted, TOPIC) == (address, found)
    assert await routes.for_pulling("broker-b", 0, TOPIC) == (SLAVE, 3)
    with pytest.raises(BrokerNotFoundError):
        await routes.for_pulling("broker-x", 0, TOPIC)


async def test_a_queue_of_a_static_topic_is_on_the_broker_that_has_it_now() -> None:
    rig, routes = make()
    data = route_data({"broker-a": {0: MASTER}, "broker-b": {0: MOVED}})
    info = TopicQueueMappingInfo(
        bname="broker-b", curr_id_map={0: 4}, scope="__global__", total_queues=1
    )
    data.topic_queue_mapping_by_broker = {"broker-b": info}
    rig.routes["Static"] = data
    (queue,) = (await routes.get("Static")).publish_queues
    assert routes.broker_of(queue) == "broker-b"
    assert routes.broker_of(MessageQueue("broker-a", 0, TOPIC)) == "broker-a"


async def test_the_number_of_routes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROUTES_MAX", 2)
    rig, routes = make()
    for topic in ("A", "B", "C", "C"):
        rig.routes[topic] = rig.routes[TOPIC]
        await routes.refresh(topic)
    assert list(routes.topics) == ["B", "C"]
    assert (await routes.get("A")).topic == "A"


async def test_a_zone_is_asked_for_where_there_is_one() -> None:
    rig, _ = make()
    routes = RouteTable(rig.client.calls, rig.client.names, "room-1")
    await routes.get(TOPIC)
    await rig.client.routes.get(TOPIC)
    first, second = (fields for _, fields in rig.sent(ROUTE))
    assert (first["__ZONE_NAME"], first["__ZONE_MODE"]) == ("room-1", "true")
    assert not any(name.startswith("__ZONE") for name in second)


# --- brokers that do not answer -------------------------------------------------------------------


async def doubting(monkeypatch: pytest.MonkeyPatch, topics: int) -> tuple[Rig, RouteTable]:
    monkeypatch.setattr(module, "_DOUBT_S", 0.02)
    rig, routes = make()
    for number in range(topics):
        rig.routes[f"T{number}"] = route_data({"broker-a": {0: MASTER}})
        await routes.get(f"T{number}")
    rig.pool.sent.clear()
    return rig, routes


async def test_a_doubt_finds_where_a_broker_has_moved_for_all_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, routes = await doubting(monkeypatch, 40)
    for topic in rig.routes:
        rig.routes[topic] = route_data({"broker-a": {0: MOVED}})
    routes.doubt(MASTER)
    await routes.settle(MASTER, 5)
    assert await routes.master_of("broker-a") == MOVED
    found = [routes.known(topic) for topic in routes.topics]
    assert {route.brokers["broker-a"][0] for route in found if route is not None} == {MOVED}
    assert len(asked(rig)) == 40
    await routes.close()


async def test_a_doubt_asks_little_while_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few routes, and no more for a while, however many requests fail."""
    rig, routes = await doubting(monkeypatch, 40)
    for _ in range(100):
        routes.doubt(MASTER)
    await routes.settle(MASTER, 5)
    routes.doubt(MASTER)
    assert len(asked(rig)) == 16
    await asyncio.sleep(0.05)
    routes.doubt(MASTER)
    await routes.settle(MASTER, 5)
    assert len(asked(rig)) == 32
    await routes.close()


async def test_nobody_doubts_an_address_that_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, routes = await doubting(monkeypatch, 1)
    routes.doubt("10.9.9.9:1")
    await routes.settle("10.9.9.9:1", 5)
    await routes.settle(MASTER, 5)
    assert asked(rig) == []


async def test_who_waits_for_news_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """And closing ends all that is being asked."""
    rig, routes = await doubting(monkeypatch, 1)
    hangs = asyncio.Event()

    async def hang(address: str, command: Command, timeout_ms: int) -> Command:
        await hangs.wait()
        raise AssertionError("nobody lets it go on")

    rig.pool.request = hang  # type: ignore[method-assign] # a name server that hangs
    routes.doubt(MASTER)
    await routes.settle(MASTER, 0.01)
    assert len(asyncio.all_tasks()) > 1
    await routes.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
