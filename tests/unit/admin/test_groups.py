"""Groups keep what nobody asked to change, and a group without offsets says why it has none."""

import pytest

from roketto.admin.clients import Clients
from roketto.admin.errors import GroupNotFoundError, NoProgressError, PartlyFailedError
from roketto.admin.groups import Groups
from roketto.admin.kv import Kv
from roketto.admin.topics import Topics
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.connections import Connection, ConsumerConnection
from roketto.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.admin.fake_servers import A, B, FakeServers, refusal, success

STATS = RequestCode.GET_CONSUME_STATS
PEOPLE = RequestCode.GET_CONSUMER_CONNECTION_LIST


def make_groups(servers: FakeServers) -> Groups:
    fleet = servers.fleet
    return Groups(fleet, Topics(fleet, Kv(fleet)), Clients(fleet))


def make_servers() -> FakeServers:
    return FakeServers(_RETRY_g=[("a", A), ("b", B)])


async def test_an_update_keeps_what_it_is_not_given() -> None:
    """mqadmin sets back what it is not given."""
    servers, put = make_servers(), list[SubscriptionGroupConfig]()

    def take(request: Command) -> Command:
        put.append(decode_body(SubscriptionGroupConfig, request.body))
        return success()

    for address, retries in (A, 3), (B, 5):
        group = SubscriptionGroupConfig(
            attributes={"x": "y"}, consume_from_min_enable=True, group_name="g",
            retry_max_times=retries,
        )  # fmt: skip
        table = SubscriptionGroupWrapper(subscription_group_table={"g": group})
        servers.on(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, success(table))
        servers.on(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, take)
    await make_groups(servers).update("g", consume_enable=False, attributes={"p": "q", "x": None})
    assert sorted(group.retry_max_times for group in put) == [3, 5]
    for group in put:
        assert (group.consume_enable, group.consume_from_min_enable) == (False, True)
        assert group.attributes == {"+p": "q", "-x": ""}


async def test_groups_and_fields_that_are_not_there_are_refused() -> None:
    servers = make_servers()
    groups = make_groups(servers)
    for address in A, B:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        servers.on(address, code, success(SubscriptionGroupWrapper()))
    with pytest.raises(ValueError, match="no field retries of a group can be changed"):
        await groups.update("g", retries=3)
    with pytest.raises(PartlyFailedError, match="group g is not on a"):
        await groups.update("g", retry_max_times=3)
    with pytest.raises(GroupNotFoundError, match=r"group g is not on a .* b "):
        await groups.config("g")


async def test_progress_is_that_of_all_brokers_or_an_error_with_the_rest() -> None:
    servers = make_servers()
    queue = MessageQueue("a", 0, "T")
    servers.on(A, STATS, success(ConsumeStats(1.0, {queue: OffsetWrapper(9, 4, 1, 4)})))
    with pytest.raises(PartlyFailedError) as e:
        await make_groups(servers).progress("g")
    assert getattr(e.value.partial, "lag", None) == 5
    servers.on(B, STATS, success(ConsumeStats()))
    assert (await make_groups(servers).progress("g")).lag == 5


async def test_no_progress_says_why_there_is_none() -> None:
    servers = make_servers()
    for address in A, B:
        servers.on(address, STATS, success(ConsumeStats()))
        servers.on(address, PEOPLE, refusal(206))
    with pytest.raises(NoProgressError, match="none of its members is online"):
        await make_groups(servers).progress("g")
    people = ConsumerConnection(
        connection_set=[Connection(client_id="x")], message_model=MessageModel.BROADCASTING
    )
    servers.on(B, PEOPLE, success(people))
    with pytest.raises(NoProgressError, match="each keeps its own"):
        await make_groups(servers).progress("g")
    people.message_model = MessageModel.CLUSTERING
    servers.on(B, PEOPLE, success(people))
    assert (await make_groups(servers).progress("g")).queues == ()
