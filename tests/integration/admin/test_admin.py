"""An operator sees and changes a cluster of two of our brokers: what is done is done on both."""

import signal
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from integration.admin.admin_rig import (
    Member,
    make_topic,
    online,
    refused,
    send,
    until_equal,
    until_routed,
)
from interop.peer.readiness import wait_until_registered
from roketto.admin.api import Admin
from roketto.admin.errors import (
    GroupNotFoundError,
    GroupOfflineError,
    MessageNotFoundError,
    PartlyFailedError,
)
from roketto.admin.messages import Found
from roketto.admin.offsets import END
from roketto.admin.topics import READ
from roketto.admin.tracks import TrackType
from roketto.client.errors import ClientError, RefusedError
from roketto.client.message import MessageQueue
from roketto.client.producer import Producer
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.running import CMResult
from servers import ServerProcess, broker, name_server

pytestmark = pytest.mark.xdist_group("admin")  # one worker, which starts the servers once

CLUSTER = "DefaultCluster"


@dataclass(frozen=True)
class Servers:
    names: ServerProcess
    a: ServerProcess
    b: ServerProcess


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("admin")
    for name in "a", "b":
        (folder / name).mkdir()

    def config(name: str) -> tuple[Path, list[str], dict[str, str]]:
        settings = {"brokerName": f"broker-{name}", "autoCreateTopicEnable": "false"}
        return folder / name, [names.address], settings

    with (
        name_server(folder, {"orderMessageEnable": "true"}) as names,
        broker(*config("a")) as a,
        broker(*config("b")) as b,
    ):
        for one in a, b:
            wait_until_registered(one.address, [names.address])
        yield Servers(names, a, b)


@pytest.fixture
async def admin(servers: Servers) -> AsyncIterator[Admin]:
    async with Admin(servers.names.address) as admin:
        yield admin


def queue(topic: str, name: str = "a", number: int = 0) -> MessageQueue:
    return MessageQueue(f"broker-{name}", number, topic)


# --- topics ---------------------------------------------------------------------------------------


async def test_a_topic_is_made_changed_and_deleted_on_both_brokers(admin: Admin) -> None:
    topic = "Made"
    where = await admin.topics.create(
        topic, cluster=CLUSTER, read_queues=3, write_queues=2, is_ordered=True,
        attributes={"message.type": "FIFO"},
    )  # fmt: skip
    assert [one.name for one in where] == ["broker-a", "broker-b"]
    await until_routed(admin, topic, 2)
    assert topic in await admin.topics.names()
    assert topic in await admin.topics.names(CLUSTER)
    assert await admin.topics.clusters(topic) == [CLUSTER]
    assert (await admin.topics.route(topic)).order_topic_conf == "broker-a:2;broker-b:2"
    await admin.topics.update(topic, perm=READ)
    for config in (await admin.topics.config(topic)).values():
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (3, 2, READ)
        assert (config.order, config.attributes) == (True, {"message.type": "FIFO"})
    assert (await admin.topics.configs("broker-a"))[topic].perm == READ
    status = await admin.topics.status(topic)
    assert [one.queue for one in status.queues] == [
        queue(topic, name, number) for name in "ab" for number in range(3)
    ]
    assert [broker.name for broker in await admin.topics.delete(topic)] == ["broker-a", "broker-b"]
    await until_routed(admin, topic, 0)
    assert await admin.kv.get("ORDER_TOPIC_CONFIG", topic) is None


async def test_a_topic_that_no_broker_takes_is_refused_by_each(admin: Admin) -> None:
    error = await refused(admin.topics.create("TBW102"))
    assert isinstance(error, PartlyFailedError)
    assert [one.name for one in error.failures if not isinstance(one, str)] == [
        "broker-a",
        "broker-b",
    ]
    assert all(isinstance(one, RefusedError) for one in error.failures.values())


# --- groups ---------------------------------------------------------------------------------------


async def test_a_group_is_made_changed_and_deleted_on_both_brokers(admin: Admin) -> None:
    await admin.groups.create(SubscriptionGroupConfig(group_name="made", retry_max_times=3))
    assert "made" in await admin.groups.names(cluster=CLUSTER)
    await admin.groups.update("made", broker="broker-a", retry_queue_nums=2)
    configs = await admin.groups.config("made")
    assert [
        (broker.name, config.retry_max_times, config.retry_queue_nums)
        for broker, config in configs.items()
    ] == [("broker-a", 3, 2), ("broker-b", 3, 1)]
    await admin.groups.delete("made", with_offsets=True)
    assert isinstance(await refused(admin.groups.config("made")), GroupNotFoundError)


async def test_progress_counts_what_is_left_in_the_queues_of_both(
    admin: Admin, servers: Servers
) -> None:
    topic, group = "Consumed", "consuming"
    await make_topic(admin, topic)
    await admin.groups.create(SubscriptionGroupConfig(group_name=group))
    await send(admin, queue(topic, "a"), ["1", "2", "3"])
    await send(admin, queue(topic, "b"), ["4", "5"])
    await admin.offsets.set(group, queue(topic, "a"), 2)
    assert await admin.offsets.get(group, queue(topic, "a")) == 2
    assert await admin.offsets.get(group, queue(topic, "b")) is None
    progress = await admin.groups.progress(group, topic, with_clients=True)
    assert [(one.queue, one.lag) for one in progress.queues] == [
        (queue(topic, "a"), 1),
        (queue(topic, "b"), 2),
    ]
    assert progress.lag == 3
    assert progress.queues[0].last_consume_ms > 0
    member = Member(group, topic)
    member.queues = [queue(topic, "b")]
    async with online(servers.names.address, member) as client_id:
        progress = await admin.groups.progress(group, topic, with_clients=True)
        assert [one.client_id for one in progress.queues] == [None, client_id]
        await admin.offsets.set(group, queue(topic, "b"), 1)
        assert (await admin.groups.progress(group)).lag == 2
    assert await admin.groups.topics(group) == [topic]


async def test_members_are_seen_asked_and_told_to_consume(admin: Admin, servers: Servers) -> None:
    topic, group, names = "Watched", "watched", servers.names.address
    await make_topic(admin, topic)
    (sent,) = await send(admin, queue(topic, "b"), ["look"], TAGS="red")
    first, second = Member(group, topic, "red"), Member(group, topic, "blue")
    async with online(names, first) as one, online(names, second) as other:
        members = await admin.clients.consumers(group)
        assert {member.client_id for member in members.connection_set} == {one, other}
        (conflict,) = await admin.clients.conflicts(group)
        assert (conflict.topic, conflict.expressions) == (topic, {one: "red", other: "blue"})
        message = await admin.messages.view(topic, sent.offset_id)
        result = await admin.clients.consume(group, one, message)
        assert result.consume_result is CMResult.CR_SUCCESS
        assert (first.consumed, second.consumed) == ([b"look"], [])
        (track,) = await admin.tracks.of(message)
        assert (track.group, track.type) == (group, TrackType.NOT_CONSUME_YET)
    error = await refused(admin.clients.consumers(group))
    assert isinstance(error, GroupOfflineError)
    async with Producer("watching", names) as producer:
        await producer.client.routes.get(topic)
        await producer.client.send_heartbeats()
        (found,) = await admin.clients.producers("watching", topic)
        assert found.client_id == producer.client.id


# --- offsets --------------------------------------------------------------------------------------


@pytest.fixture(params=["true", "false"])
async def by_broker(request: pytest.FixtureRequest, admin: Admin) -> AsyncIterator[str]:
    """Whether brokers reset offsets by themselves, or only tell consumers to."""
    await admin.cluster.update_config({"useServerSideResetOffset": request.param})
    yield request.param
    await admin.cluster.update_config({"useServerSideResetOffset": "true"})


async def test_a_group_is_reset_by_time_and_cloned(admin: Admin, by_broker: str) -> None:
    """Offsets are written where brokers would need consumers."""
    topic, group, copy = f"Reset_{by_broker}", f"reset_{by_broker}", f"copy_{by_broker}"
    await make_topic(admin, topic)
    for name in group, copy:
        await admin.groups.create(SubscriptionGroupConfig(group_name=name))
    at_a, at_b = queue(topic, "a"), queue(topic, "b")
    await send(admin, at_a, ["1", "2", "3"])
    await send(admin, at_b, ["4"])
    assert (await admin.offsets.min(at_a), await admin.offsets.max(at_a)) == (0, 3)
    time_ms = (await admin.messages.by_queue_offset(at_a, 0)).store_time_ms
    assert await admin.offsets.earliest_time_ms(at_a) == time_ms
    assert await admin.offsets.search(at_a, time_ms) == 0
    assert await admin.offsets.reset(group, topic, END) == {at_a: 3, at_b: 1}
    assert (await admin.groups.progress(group, topic)).lag == 0
    assert await admin.offsets.reset(group, topic, time_ms) == {at_a: 0, at_b: 0}
    assert (await admin.groups.progress(group, topic)).lag == 4
    await admin.offsets.set(group, at_a, 2)
    assert await admin.offsets.clone(group, copy, topic) == {at_a: 2, at_b: 0}
    assert await admin.offsets.get(copy, at_a) == 2
    back = await admin.offsets.reset_offline(copy, topic, time_ms, is_forced=False)
    assert sorted((one.broker_name, one.consumer_offset, one.rollback_offset) for one in back) == [
        ("broker-a", 2, 0),
        ("broker-b", 0, 0),
    ]
    assert await admin.offsets.get(copy, at_a) == 0
    ahead = await admin.offsets.reset_offline(copy, topic, END, is_forced=False)
    assert {one.rollback_offset for one in ahead} == {0}


# --- messages -------------------------------------------------------------------------------------


async def test_a_message_is_found_by_all_that_it_has(admin: Admin) -> None:
    topic = "Found"
    await make_topic(admin, topic)
    (first,) = await send(admin, queue(topic, "a"), ["first"], KEYS="all one")
    (second,) = await send(admin, queue(topic, "b"), ["second"], KEYS="all two")
    for message_id in second.message_id, second.offset_id:
        message = await admin.messages.view(topic, message_id)
        assert (message.body, message.queue) == (b"second", second.queue)
    found = await admin.messages.by_queue_offset(first.queue, 0)
    assert found.message_id == first.message_id

    async def bodies(key: str, **times: int) -> list[bytes]:
        return [one.body for one in (await admin.messages.query(topic, key, **times)).messages]

    await until_equal(lambda: bodies("all"), [b"first", b"second"])
    assert await bodies("two") == [b"second"]
    assert await bodies("three") == []
    assert await bodies("all", end_ms=found.store_time_ms - 60_000) == []
    assert await bodies("all", begin_ms=found.store_time_ms - 60_000) == [b"first", b"second"]
    again = await admin.messages.resend(message)
    assert (again.message_id, again.queue, again.queue_offset) == (
        second.message_id,
        second.queue,
        1,
    )
    both = partial(admin.messages.by_unique_key, topic, second.message_id)
    await until_equal(lambda: _count(both()), 2)
    error = await refused(admin.messages.by_queue_offset(first.queue, 9))
    assert isinstance(error, MessageNotFoundError)
    error = await refused(admin.messages.view(topic, "0" * 32))
    assert isinstance(error, ClientError)


async def test_a_broker_that_hangs_is_an_error_beside_what_the_other_has(
    admin: Admin, servers: Servers
) -> None:
    topic = "HalfSeen"
    await make_topic(admin, topic)
    for name in "a", "b":
        await send(admin, queue(topic, name), ["x"], KEYS="k")
    await until_equal(lambda: _count(admin.messages.query(topic, "k")), 2)
    servers.b.popen.send_signal(signal.SIGSTOP)
    try:
        async with Admin(servers.names.address, timeout_ms=200) as hasty:
            error = await refused(hasty.messages.query(topic, "k"))
    finally:
        servers.b.popen.send_signal(signal.SIGCONT)
    assert isinstance(error, PartlyFailedError)
    assert [str(one) for one in error.failures] == [f"broker-b (master) at {servers.b.address}"]
    assert isinstance(error.partial, Found)
    assert [one.broker_name for one in error.partial.messages] == ["broker-a"]


# --- clusters -------------------------------------------------------------------------------------


async def test_brokers_tell_their_figures_and_take_changes(admin: Admin, servers: Servers) -> None:
    assert await admin.cluster.names() == [CLUSTER]
    assert await admin.cluster.broker_names(CLUSTER) == ["broker-a", "broker-b"]
    addresses = [one.address for one in await admin.cluster.brokers()]
    assert addresses == [servers.a.address, servers.b.address]
    await admin.cluster.update_config({"fileReservedTime": "49"}, broker="broker-b")
    configs = await admin.cluster.config(cluster=CLUSTER)
    assert [config["fileReservedTime"] for config in configs.values()] == ["72", "49"]
    for figures in (await admin.cluster.runtime()).values():
        assert int(figures["bootTimestamp"]) > 0
    stats = await admin.cluster.progress(broker="broker-a")
    assert [one.broker_addr for one in stats.values()] == [servers.a.address]
    names = await admin.cluster.update_name_server_config({"enableTopicList": "true"})
    assert names == [servers.names.address]
    config = await admin.cluster.name_server_config()
    assert config[servers.names.address]["enableTopicList"] == "true"


async def test_a_broker_is_taken_out_of_routes_and_put_back(admin: Admin) -> None:
    topic = "Wiped"
    await make_topic(admin, topic)

    async def permissions() -> dict[str, int]:
        return {one.broker_name: one.perm for one in (await admin.topics.route(topic)).queue_datas}

    (count,) = (await admin.cluster.wipe_write_perm("broker-a")).values()
    assert count > 0
    assert await permissions() == {"broker-a": 4, "broker-b": 6}
    assert list((await admin.cluster.add_write_perm("broker-a")).values()) == [count]
    assert await permissions() == {"broker-a": 6, "broker-b": 6}


async def test_values_are_kept_by_name_servers_until_they_are_deleted(admin: Admin) -> None:
    assert await admin.kv.table("TOOLS") == {}
    await admin.kv.put("TOOLS", "owner", "ops")
    assert await admin.kv.get("TOOLS", "owner") == "ops"
    assert await admin.kv.table("TOOLS") == {"owner": "ops"}
    await admin.kv.delete("TOOLS", "owner")
    assert await admin.kv.get("TOOLS", "owner") is None


async def test_traffic_is_what_went_in_and_what_waits(admin: Admin) -> None:
    topic, group = "Busy", "busy"
    await make_topic(admin, topic)
    await admin.groups.create(SubscriptionGroupConfig(group_name=group))
    (row,) = await admin.traffic.rows([topic])
    assert (row.group, row.lag, row.put.day) == (None, 0, 0)
    await send(admin, queue(topic, "a"), ["1", "2"])
    await send(admin, queue(topic, "b"), ["3"])
    await admin.offsets.set(group, queue(topic, "a"), 1)
    await admin.offsets.set(group, queue(topic, "b"), 0)
    (row,) = await admin.traffic.rows([topic])
    assert (row.topic, row.group, row.lag) == (topic, group, 2)


async def _count(search: Awaitable[Found]) -> int:
    return len((await search).messages)
