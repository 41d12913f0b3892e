"""An operator sees and does the same with Java's brokers as with ours, and as mqadmin does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pytest

from integration.admin.admin_rig import Member, make_topic, online, refused, send, until_equal
from interop.peer import Broker, NameServer, Peer
from interop.peer.readiness import wait_until_registered
from roketto.admin.api import Admin
from roketto.admin.errors import (
    GroupNotFoundError,
    GroupOfflineError,
    MessageNotFoundError,
    PartlyFailedError,
)
from roketto.admin.offsets import END
from roketto.admin.topics import READ
from roketto.admin.tracks import TrackType
from roketto.client.errors import ClientError
from roketto.client.message import MessageQueue
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.running import CMResult
from servers import broker, name_server

T = TypeVar("T")


@dataclass(frozen=True)
class Pair:
    """Java's cluster and ours, each with one broker of the same name."""

    peer: Peer
    java: Admin
    ours: Admin
    java_names: str
    our_names: str

    @property
    def is_old(self) -> bool:
        return self.peer.version.startswith("4.")

    def name(self, text: str) -> str:
        """A name of a topic or group that no other version uses."""
        return f"{text}_{self.peer.version.replace('.', '_')}"

    async def same(self, observe: Callable[[Admin], Awaitable[T]]) -> T:
        """What both show, which is the same."""
        java, ours = await observe(self.java), await observe(self.ours)
        assert java == ours
        return java

    def mqadmin(self, *arguments: str) -> list[list[str]]:
        """The words of each line that mqadmin prints of Java's cluster."""
        text = self.peer.mqadmin(*arguments, name_server=self.java_names)
        return [line.split() for line in text.splitlines()]


@pytest.fixture(scope="module")
def our_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("ours")
    with name_server(folder) as names, broker(folder, [names.address]) as ours:
        wait_until_registered(ours.address, [names.address])
        yield names.address


@pytest.fixture
async def pair(
    peer: Peer, java_name_server: NameServer, java_broker: Broker, our_names: str
) -> AsyncIterator[Pair]:
    assert java_broker.name == "broker-a"
    async with Admin(java_name_server.address) as java, Admin(our_names) as ours:
        yield Pair(peer, java, ours, java_name_server.address, our_names)


def queue(topic: str, number: int = 0) -> MessageQueue:
    return MessageQueue("broker-a", number, topic)


async def test_topics_are_made_and_shown_alike(pair: Pair) -> None:
    topic = pair.name("Made")

    async def observe(admin: Admin) -> list[Any]:
        await make_topic(admin, topic, queues=2, brokers=1)
        await admin.topics.update(topic, perm=READ, read_queues=3)
        (config,) = (await admin.topics.config(topic)).values()
        status = await admin.topics.status(topic)
        clusters = await admin.topics.clusters(topic)
        # Java 4.9 shows the queues that can be written only.
        return [config, status.queues[:2], clusters, topic in await admin.topics.names()]

    config, queues, clusters, is_listed = await pair.same(observe)
    assert (config.perm, config.read_queue_nums, config.write_queue_nums) == (READ, 3, 2)
    assert [one.queue for one in queues] == [queue(topic, number) for number in range(2)]
    assert (clusters, is_listed) == (["DefaultCluster"], True)
    assert [topic] in pair.mqadmin("topicList")


async def test_attributes_are_set_or_it_is_told_that_they_are_not(pair: Pair) -> None:
    topic = pair.name("Attributed")
    asked = pair.java.topics.create(topic, attributes={"message.type": "FIFO"})
    if pair.is_old:
        error = await refused(asked)
        assert "V4_9_7 and knows no attributes" in str(error)
    else:
        await asked
        (config,) = (await pair.java.topics.config(topic, broker="broker-a")).values()
        assert config.attributes == {"message.type": "FIFO"}
        await pair.java.topics.update(
            topic, broker="broker-a", perm=READ, attributes={"message.type": None}
        )
        (config,) = (await pair.java.topics.config(topic, broker="broker-a")).values()
        assert (config.attributes, config.perm) == ({}, READ)


async def test_groups_are_made_and_changed_alike(pair: Pair) -> None:
    group = pair.name("made")

    async def observe(admin: Admin) -> SubscriptionGroupConfig:
        await admin.groups.create(SubscriptionGroupConfig(group_name=group, retry_max_times=3))
        await admin.groups.update(group, consume_broadcast_enable=False)
        (config,) = (await admin.groups.config(group)).values()
        await admin.groups.delete(group, broker="broker-a", with_offsets=True)
        assert isinstance(await refused(admin.groups.config(group)), GroupNotFoundError)
        return config

    config = await pair.same(observe)
    assert (config.retry_max_times, config.consume_broadcast_enable) == (3, False)
    assert config.consume_from_min_enable


async def test_progress_is_what_mqadmin_shows(pair: Pair) -> None:
    topic, group = pair.name("Progress"), pair.name("progress")

    async def observe(admin: Admin) -> list[Any]:
        await make_topic(admin, topic, queues=2, brokers=1)
        await admin.groups.create(SubscriptionGroupConfig(group_name=group))
        await send(admin, queue(topic, 0), ["1", "2", "3", "4"])
        await send(admin, queue(topic, 1), ["5"])
        await until_equal(lambda: admin.offsets.max(queue(topic, 0)), 4)
        await until_equal(lambda: admin.offsets.max(queue(topic, 1)), 1)
        await admin.offsets.set(group, queue(topic, 0), 3)
        await admin.offsets.set(group, queue(topic, 1), 0)
        progress = await admin.groups.progress(group, topic)
        assert [one.last_consume_ms > 0 for one in progress.queues] == [True, False]
        return [replace(one, last_consume_ms=0, pull_offset=0) for one in progress.queues] + [
            progress.lag,
            progress.in_flight,
            await admin.topics.groups(topic),
        ]

    *queues, lag, in_flight, groups = await pair.same(observe)
    assert (lag, in_flight, groups) == (2, 0, [group])
    member = Member(group, topic)
    async with online(pair.java_names, member):  # whose first heartbeat makes the group known
        await until_equal(lambda: _has_members(pair.java, group), True)
        lines = pair.mqadmin("consumerProgress", "-g", group)
    shown = [line[:6] for line in lines if line[:1] == [topic]]
    assert shown == [
        [topic, "broker-a", str(number), str(one.broker_offset), str(one.consume_offset),
         str(one.lag)]
        for number, one in enumerate(queues)
    ]  # fmt: skip


async def _has_members(admin: Admin, group: str) -> bool:
    try:
        return bool((await admin.clients.consumers(group)).connection_set)
    except ClientError:
        return False


async def test_messages_are_found_alike_by_all_that_they_have(pair: Pair) -> None:
    topic = pair.name("Found")

    async def observe(admin: Admin) -> list[Any]:
        await make_topic(admin, topic, queues=2, brokers=1)
        first, second = await send(admin, queue(topic), ["first", "second"], KEYS="all both")
        (third,) = await send(admin, queue(topic, 1), ["third"], KEYS="all", TAGS="red")
        await until_equal(lambda: _bodies(admin, topic, "all"), [b"first", b"second", b"third"])
        ids = third.offset_id, third.message_id
        seen = [await admin.messages.view(topic, one) for one in ids]
        at = await admin.messages.by_queue_offset(queue(topic), 1)
        assert (at.message_id, seen[0].message_id) == (second.message_id, third.message_id)
        again = await admin.messages.resend(seen[0])
        errors = [
            await refused(admin.messages.by_queue_offset(queue(topic), 9)),
            await refused(admin.messages.view(topic, first.offset_id[:16] + "0000010000000000")),
            await refused(admin.messages.view(topic, "0" * 31 + "G")),
        ]
        time_ms = at.store_time_ms
        return [
            [(one.body, one.queue, one.queue_offset, one.keys, one.tags) for one in (*seen, at)],
            await _bodies(admin, topic, "both"),
            await _bodies(admin, topic, "none"),
            await _bodies(admin, topic, "all", begin_ms=time_ms + 60_000),
            (again.queue, again.queue_offset, again.message_id == third.message_id),
            [type(error) for error in errors],
        ]

    seen, both, none, late, again, errors = await pair.same(observe)
    red = (b"third", queue(topic, 1), 0, ["all"], "red")
    assert seen == [red, red, (b"second", queue(topic), 1, ["all", "both"], None)]
    assert (both, none, late) == ([b"first", b"second"], [], [])
    assert again == (queue(topic, 1), 1, True)
    assert errors == [MessageNotFoundError] * 3
    found = (await pair.java.messages.query(topic, "both")).messages
    shown = pair.mqadmin("queryMsgByKey", "-t", topic, "-k", "both")
    assert sorted(line[:3] for line in shown[1:]) == sorted(
        [one.message_id, str(one.queue_id), str(one.queue_offset)] for one in found
    )


async def _bodies(admin: Admin, topic: str, key: str, begin_ms: int = 0) -> list[bytes]:
    found = await admin.messages.query(topic, key, begin_ms=begin_ms)
    return sorted(one.body for one in found.messages)


async def test_offsets_are_reset_and_cloned_alike(pair: Pair) -> None:
    """4.9 only tells consumers; none is online, so its offsets are written.

    Of messages of one millisecond 4.9 finds any by their time, so the first one is alone in its.
    """
    topic, group, copy = pair.name("Reset"), pair.name("reset"), pair.name("copy")

    async def observe(admin: Admin) -> list[Any]:
        await make_topic(admin, topic, brokers=1)
        for name in group, copy:
            await admin.groups.create(SubscriptionGroupConfig(group_name=name))
        await send(admin, queue(topic), ["1"])
        await asyncio.sleep(0.01)
        await send(admin, queue(topic), ["2", "3"])
        await until_equal(lambda: admin.offsets.max(queue(topic)), 3)
        time_ms = await admin.offsets.earliest_time_ms(queue(topic))
        seen = [
            await admin.offsets.min(queue(topic)),
            await admin.offsets.search(queue(topic), time_ms),
            await admin.offsets.reset(group, topic, END),
            (await admin.groups.progress(group, topic)).lag,
            await admin.offsets.reset(group, topic, time_ms),
            (await admin.groups.progress(group, topic)).lag,
        ]
        await admin.offsets.set(group, queue(topic), 2)
        return [
            *seen,
            await admin.offsets.clone(group, copy, topic),
            await admin.offsets.get(copy, queue(topic)),
            [
                (one.broker_offset, one.consumer_offset, one.timestamp_offset, one.rollback_offset)
                for one in await admin.offsets.reset_offline(copy, topic, END, is_forced=False)
            ],
        ]

    at = queue(topic)
    assert await pair.same(observe) == [
        0, 0, {at: 3}, 0, {at: 0}, 3, {at: 2}, 2, [(3, 2, 3, 2)]
    ]  # fmt: skip


async def test_members_are_seen_asked_and_told_to_consume_alike(pair: Pair) -> None:
    topic, group = pair.name("Watched"), pair.name("watched")

    async def observe(admin: Admin) -> list[Any]:
        names = pair.java_names if admin is pair.java else pair.our_names
        await make_topic(admin, topic, brokers=1)
        (sent,) = await send(admin, queue(topic), ["look"], TAGS="red")
        await until_equal(lambda: admin.offsets.max(queue(topic)), 1)
        members = Member(group, topic, "red"), Member(group, topic, "blue")
        async with online(names, members[0]) as one, online(names, members[1]) as other:
            await until_equal(lambda: _ids(admin, group), {one, other})
            connected = await admin.clients.consumers(group)
            (conflict,) = await admin.clients.conflicts(group)
            assert conflict.expressions == {one: "red", other: "blue"}
            message = await admin.messages.view(topic, sent.offset_id)
            result = await admin.clients.consume(group, one, message)
            assert members[0].consumed == [b"look"]
            tracks = await admin.tracks.of(message)
        await until_equal(lambda: _has_members(admin, group), False)
        error = await refused(admin.clients.consumers(group))
        return [
            connected.consume_type,
            connected.message_model,
            result.consume_result,
            [(track.group, track.type) for track in tracks],
            type(error),
        ]

    *_, result, tracks, error = await pair.same(observe)
    assert (result, error) == (CMResult.CR_SUCCESS, GroupOfflineError)
    assert tracks == [(group, TrackType.NOT_CONSUME_YET)]


async def _ids(admin: Admin, group: str) -> set[str]:
    try:
        return {one.client_id for one in (await admin.clients.consumers(group)).connection_set}
    except ClientError:
        return set()


async def test_one_queue_of_a_group_online_is_moved_or_it_is_told_that_it_is_not(
    pair: Pair,
) -> None:
    """4.9 would take the request that mqadmin of 5.x sends for one to begin all queues anew."""
    topic, group = pair.name("Moved"), pair.name("moved")
    await make_topic(pair.java, topic, queues=2, brokers=1)
    for number in range(2):
        await send(pair.java, queue(topic, number), ["1", "2"])
        await until_equal(partial(pair.java.offsets.max, queue(topic, number)), 2)
    await pair.java.groups.create(SubscriptionGroupConfig(group_name=group))
    await pair.java.offsets.set(group, queue(topic, 1), 2)
    async with online(pair.java_names, Member(group, topic)):
        await until_equal(lambda: _has_members(pair.java, group), True)
        asked = pair.java.offsets.set(group, queue(topic, 0), 1)
        if pair.is_old:
            assert "stop them first" in str(await refused(asked))
        else:
            await asked
        progress = await pair.java.groups.progress(group, topic)
    assert [one.consume_offset for one in progress.queues] == [0 if pair.is_old else 1, 2]


async def test_brokers_and_name_servers_are_configured_alike(pair: Pair) -> None:
    topic = pair.name("Wiped")

    async def observe(admin: Admin) -> list[Any]:
        await make_topic(admin, topic, brokers=1)
        (before,) = (await admin.cluster.config(broker="broker-a")).values()
        await admin.cluster.update_config({"fileReservedTime": "50"}, broker="broker-a")
        (config,) = (await admin.cluster.config(broker="broker-a")).values()
        kept = {"fileReservedTime": before["fileReservedTime"]}
        await admin.cluster.update_config(kept, broker="broker-a")
        (figures,) = (await admin.cluster.runtime()).values()
        assert int(figures["bootTimestamp"]) > 0
        (wiped,) = (await admin.cluster.wipe_write_perm("broker-a")).values()
        assert wiped > 0
        (perm,) = [one.perm for one in (await admin.topics.route(topic)).queue_datas]
        (added,) = (await admin.cluster.add_write_perm("broker-a")).values()
        await admin.kv.put("TOOLS", topic, "ops")
        values = [await admin.kv.get("TOOLS", topic), (await admin.kv.table("TOOLS")).get(topic)]
        await admin.kv.delete("TOOLS", topic)
        values.append(await admin.kv.get("TOOLS", topic))
        (row,) = await admin.traffic.rows([topic])
        error = await refused(admin.topics.create("TBW102"))
        return [
            [(one.cluster, one.name, one.id) for one in await admin.cluster.brokers()],
            config["fileReservedTime"], perm, wiped == added, values, row, type(error),
        ]  # fmt: skip

    brokers, reserved, perm, is_undone, values, row, error = await pair.same(observe)
    assert brokers == [("DefaultCluster", "broker-a", 0)]
    assert (reserved, perm, is_undone, values) == ("50", 4, True, ["ops", "ops", None])
    assert (row.group, row.lag, error) == (None, 0, PartlyFailedError)
