"""What an operator deletes is gone from Java's brokers and name servers as from ours."""

from collections.abc import AsyncIterator

import pytest

from integration.admin.admin_rig import Member, make_topic, online, until_equal, until_routed
from interop.broker.cluster import CLUSTER_NAME, Cluster
from roketto.admin.api import Admin
from roketto.protocol.names import retry_topic


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.name_server) as admin:
        yield admin


async def test_a_deleted_topic_is_nowhere_any_more(admin: Admin, cluster: Cluster) -> None:
    topic = "DeletedByAdmin"
    brokers = len(await admin.cluster.broker_names(CLUSTER_NAME))
    await make_topic(admin, topic, brokers=brokers)
    assert topic in await admin.topics.configs(cluster.main.name)
    assert len(await admin.topics.delete(topic, CLUSTER_NAME)) == brokers
    await until_routed(admin, topic, 0)
    assert topic not in await admin.topics.configs(cluster.main.name)
    assert topic not in await admin.topics.names()


async def test_a_deleted_group_takes_its_retries_with_it(admin: Admin, cluster: Cluster) -> None:
    topic, group = "LeftByAdmin", "deletedByAdmin"
    await make_topic(admin, topic, brokers=len(await admin.cluster.broker_names(CLUSTER_NAME)))
    async with online(cluster.name_server, Member(group, topic)):
        await until_equal(lambda: _has_route(admin, retry_topic(group)), True)
    assert group in await admin.groups.names(cluster=CLUSTER_NAME)
    await admin.groups.delete(group, cluster=CLUSTER_NAME, with_offsets=True)
    await until_equal(lambda: _has_route(admin, retry_topic(group)), False)
    assert group not in await admin.groups.names(cluster=CLUSTER_NAME)


async def _has_route(admin: Admin, topic: str) -> bool:
    return topic in await admin.topics.names()
