"""All brokers are asked for the members of a group, and members that disagree are found."""

import pytest

from roketto.admin.clients import Clients, SubscriptionConflict, find_conflicts
from roketto.admin.errors import GroupOfflineError, PartlyFailedError
from roketto.protocol.bodies.connections import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
)
from roketto.protocol.bodies.heartbeat import ConsumeType, SubscriptionData
from roketto.protocol.bodies.running import ConsumerRunningInfo
from roketto.protocol.codes import RequestCode
from unit.admin.fake_servers import A, B, FakeServers, refusal, success

PEOPLE = RequestCode.GET_CONSUMER_CONNECTION_LIST


def people(*client_ids: str, topic: str = "T") -> ConsumerConnection:
    return ConsumerConnection(
        connection_set=[Connection(client_id=client_id) for client_id in client_ids],
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        subscription_table={topic: SubscriptionData(topic=topic)},
    )


async def test_members_of_all_brokers_are_listed_once() -> None:
    servers = FakeServers(_RETRY_g=[("a", A), ("b", B)])
    servers.on(A, PEOPLE, success(people("y", "x")))
    servers.on(B, PEOPLE, success(people("z", "y", topic="U")))
    found = await Clients(servers.fleet).consumers("g")
    assert [one.client_id for one in found.connection_set] == ["x", "y", "z"]
    assert sorted(found.subscription_table) == ["T", "U"]
    assert found.consume_type is ConsumeType.CONSUME_PASSIVELY


async def test_offline_is_when_every_broker_says_so() -> None:
    servers = FakeServers(_RETRY_g=[("a", A), ("b", B)])
    servers.on(A, PEOPLE, refusal(206))
    with pytest.raises(PartlyFailedError):
        await Clients(servers.fleet).consumers("g")
    servers.on(B, PEOPLE, refusal(206))
    with pytest.raises(GroupOfflineError, match=r"no consumer of group g is connected to a .* b "):
        await Clients(servers.fleet).consumers("g")


async def test_producers_are_looked_for_on_all_brokers_of_a_topic() -> None:
    servers = FakeServers(T=[("a", A), ("b", B)])
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    servers.on(A, code, refusal(1, "the producer group[p] not exist"))
    servers.on(B, code, success(ProducerConnection([Connection(client_id="x")])))
    found = await Clients(servers.fleet).producers("p", "T")
    assert [one.client_id for one in found] == ["x"]
    servers.on(B, code, refusal(1, "the producer group[p] not exist"))
    with pytest.raises(GroupOfflineError):
        await Clients(servers.fleet).producers("p", "T")
    servers.on(B, code, refusal(1, "out of memory"))
    with pytest.raises(PartlyFailedError, match="out of memory"):
        await Clients(servers.fleet).producers("p", "T")


async def test_a_consumer_is_asked_by_way_of_a_broker_that_has_it() -> None:
    servers = FakeServers(_RETRY_g=[("a", A), ("b", B)])
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    servers.on(A, code, refusal(1, "The Consumer <g> <x> not online"))
    with pytest.raises(PartlyFailedError, match="2 of 2 failed"):
        await Clients(servers.fleet).running_info("g", "x")
    servers.on(B, code, success(ConsumerRunningInfo(properties={"k": "v"})))
    assert (await Clients(servers.fleet).running_info("g", "x")).properties == {"k": "v"}


def info(*subscriptions: SubscriptionData) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(subscription_set=list(subscriptions))


def test_members_that_subscribe_differently_are_in_conflict() -> None:
    """Other spellings of the same tags are none, and neither are other times of subscribing."""
    a_or_b = SubscriptionData(sub_string="a || b", tags_set=["a", "b"], topic="T", sub_version=1)
    b_or_a = SubscriptionData(sub_string="b||a", tags_set=["b", "a"], topic="T", sub_version=2)
    everything = SubscriptionData(sub_string="*", topic="U")
    sql = SubscriptionData(expression_type="SQL92", sub_string="a > 1", topic="U")
    assert find_conflicts({"x": info(a_or_b, everything), "y": info(everything, b_or_a)}) == []
    assert find_conflicts({"x": info(a_or_b, everything), "y": info(sql)}) == [
        SubscriptionConflict("T", {"x": "a || b", "y": None}),
        SubscriptionConflict("U", {"x": "*", "y": "SQL92: a > 1"}),
    ]
