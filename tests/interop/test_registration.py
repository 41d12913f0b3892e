"""The Java name servers take what our broker tells them: everything, changes, and its farewell."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interop.peer import NameServer
from roketto.broker.config import BrokerConfig
from roketto.broker.registrar import Standing
from roketto.broker.registration import Registration
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import TopicRouteData
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.command import Command
from roketto.remoting.pool import Pool
from unit.broker.topic_source import MemoryTopics

BROKER = "127.0.0.1:47911"
WAIT_S = 30.0


@asynccontextmanager
async def registered(
    folder: Path, topics: MemoryTopics, names: NameServer, *, compressed: bool
) -> AsyncIterator[Registration]:
    config = BrokerConfig(
        broker_name="roketto-r",
        broker_cluster_name="RegistrationCluster",
        broker_ip1="127.0.0.1",
        broker_ip2="127.0.0.1",
        namesrv_addr=names.address,
        store_path_root_dir=folder,
    )
    config.compressed_register = compressed
    registration = Registration(config, topics, BROKER)
    topics.on_change = registration.announce
    await registration.start()
    try:
        yield registration
    finally:
        await registration.stop()


async def queues_of(pool: Pool, names: NameServer, topic: str) -> int | None:
    """How many queues the name server has for the topic; None if it does not know it."""
    answer = await pool.request(names.address, Command(105, {"topic": topic}), 3_000)
    if answer.code != 0:
        return None
    route = decode_body(TopicRouteData, answer.body)
    assert route.broker_datas[0].broker_addrs == {0: BROKER}
    return route.queue_datas[0].write_queue_nums


async def until_queues(pool: Pool, names: NameServer, topic: str, queues: int | None) -> None:
    async with asyncio.timeout(WAIT_S):
        while await queues_of(pool, names, topic) != queues:  # noqa: ASYNC110 (its own time)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("count", [1, 3, 300])
async def test_java_knows_our_broker_and_what_changes_in_it(
    tmp_path: Path, java_name_server: NameServer, count: int, compressed: bool
) -> None:
    """A single topic, the whole table each time, and above 200 topics only what changed."""
    prefix = f"Registered{'Z' if compressed else 'P'}{count}x"
    topics = MemoryTopics(*[f"{prefix}{number}" for number in range(count)])
    names, pool = java_name_server, Pool()
    try:
        async with registered(tmp_path, topics, names, compressed=compressed) as broker:
            assert broker.standings == {names.address: Standing.REGISTERED}
            for topic in topics.topics:
                assert await queues_of(pool, names, topic) == 16
            topics.put(TopicConfig(topic_name=f"{prefix}New", write_queue_nums=5))
            topics.put(TopicConfig(topic_name=f"{prefix}0", write_queue_nums=3))
            await until_queues(pool, names, f"{prefix}New", 5)
            await until_queues(pool, names, f"{prefix}0", 3)
        await until_queues(pool, names, f"{prefix}0", None)
    finally:
        await pool.close()
