"""Everyone who is meant is asked, and whoever fails is named beside what the others answered."""

import pytest

from roketto.admin.errors import ClusterNotFoundError, PartlyFailedError
from roketto.admin.fleet import Broker
from roketto.client.errors import (
    BrokerNotFoundError,
    RefusedError,
    TopicNotFoundError,
    UnreachableError,
)
from roketto.protocol.bodies.groups import GroupList
from roketto.protocol.bodies.route import ClusterInfo
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.admin.fake_servers import NAMES, A, B, FakeServers, refusal, success

CODE = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
MASTER_A, MASTER_B = Broker("c", "a", 0, A), Broker("c", "b", 0, B)


async def ask(servers: FakeServers) -> int:
    """The number of groups that all masters together have."""
    fleet = servers.fleet
    answers = await fleet.ask_each(
        "count", await fleet.masters("c"), lambda one: fleet.ask_body(GroupList, one.address, CODE)
    )
    return answers.checked(sum(len(found.group_list) for found in answers.results.values()))


async def test_a_failure_is_named_and_the_others_are_asked() -> None:
    servers = FakeServers(T=[("a", A), ("b", B)])
    servers.on(B, CODE, success(GroupList(["g", "h"])))
    with pytest.raises(PartlyFailedError, match=r"count: 1 of 2 failed: a \(master\) at 10") as e:
        await ask(servers)
    assert e.value.partial == 2
    assert list(e.value.failures) == [MASTER_A]
    assert isinstance(e.value.failures[MASTER_A], UnreachableError)


async def test_refusals_and_answers_that_nobody_can_read_are_failures() -> None:
    servers = FakeServers(T=[("a", A), ("b", B)])
    servers.on(A, CODE, refusal(16, "not you"))
    servers.on(B, CODE, Command(0, body=b"{"))
    with pytest.raises(PartlyFailedError) as e:
        await ask(servers)
    assert e.value.partial == 0
    refused = e.value.failures[MASTER_A]
    assert isinstance(refused, RefusedError)
    assert refused.code == 16
    assert "cannot be read" in str(e.value.failures[MASTER_B])


async def test_a_master_that_is_missing_is_a_failure() -> None:
    """mqadmin leaves a broker out of which only a slave is there."""
    servers = FakeServers(T=[("a", A), ("b", f"-{B}")])
    servers.on(A, CODE, success(GroupList(["g"])))
    with pytest.raises(PartlyFailedError, match="b has no master now") as e:
        await ask(servers)
    assert isinstance(e.value.failures[Broker("c", "b", 0, "")], BrokerNotFoundError)
    assert servers.codes(B) == []


async def test_what_every_member_knows_a_slave_is_asked_for() -> None:
    servers = FakeServers(T=[("a", A), ("b", f"-{B}")])
    assert await servers.fleet.of_topic("T") == [MASTER_A, Broker("c", "b", 1, B)]


async def test_brokers_are_meant_by_cluster_name_or_address() -> None:
    fleet = FakeServers(T=[("a", A), ("b", B)]).fleet
    assert await fleet.masters() == [MASTER_A, MASTER_B]
    assert await fleet.masters("c") == [MASTER_A, MASTER_B]
    assert await fleet.masters(broker="b") == [MASTER_B]
    assert await fleet.masters(broker=A) == [MASTER_A]
    assert str((await fleet.masters(broker="1.2.3.4:5"))[0]) == "1.2.3.4:5"
    with pytest.raises(ValueError, match="give one of them"):
        await fleet.masters("c", "a")


async def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    servers = FakeServers(T=[("a", A), ("b", B)])
    with pytest.raises(ClusterNotFoundError, match="cluster d is not there, but c"):
        await servers.fleet.masters("d")
    with pytest.raises(ClusterNotFoundError, match="broker d is not there, but a, b"):
        await servers.fleet.masters(broker="d")
    servers.on(NAMES, RequestCode.GET_BROKER_CLUSTER_INFO, success(ClusterInfo()))
    with pytest.raises(ClusterNotFoundError, match="none is registered"):
        await servers.fleet.masters()


async def test_a_group_is_looked_for_where_its_retries_are() -> None:
    fleet = FakeServers(T=[("a", A), ("b", B)], _RETRY_g=[("b", B)]).fleet
    assert await fleet.of_group("g", "T") == [MASTER_B]
    assert await fleet.of_group("h", "T") == [MASTER_A, MASTER_B]
    with pytest.raises(TopicNotFoundError, match="nobody of group h has ever been online"):
        await fleet.of_group("h")


async def test_every_name_server_is_told() -> None:
    servers = FakeServers(f"{NAMES};{A}")
    servers.on(NAMES, CODE, success())
    answers = await servers.fleet.ask_all_names("tell", CODE)
    assert list(answers.results) == [NAMES]
    assert list(answers.failures) == [A]
