"""A thousand topics and a thousand groups: announced, in heartbeats and in what operators are told.

How long it takes is measured by ./dev bench; here it is that nothing is lost, cut off or refused.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from integration.test_broker_registration import names_in, until
from roketto.broker.app import Broker
from roketto.broker.config import BrokerConfig
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.groups import (
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from roketto.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from roketto.protocol.bodies.route import TopicList, TopicRouteData
from roketto.protocol.bodies.stats import ConsumeStatsList, TopicStatsTable
from roketto.protocol.bodies.topics import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
)
from roketto.protocol.codes import RequestCode as Code
from roketto.protocol.command import Command
from roketto.protocol.limits import FRAME_BYTES_MAX
from roketto.remoting.pool import Pool
from unit.broker.peers import Consumer, subscription

COUNT = 1_000
QUEUES = 8
PAGE = 300
TOPICS = [f"Many-{number:04}" for number in range(COUNT)]
GROUPS = [f"many-{number:04}" for number in range(COUNT)]
TIMEOUT_MS = 30_000

T = TypeVar("T")


class Operator:
    """Somebody who asks a broker and its name server."""

    def __init__(self, pool: Pool, names: str, broker: str) -> None:
        self._pool = pool
        self._names = names
        self._broker = broker

    async def ask(self, code: Code, body: object = None, **ext: object) -> Command:
        fields = {name: str(value) for name, value in ext.items()}
        raw = b"" if body is None else encode_body(body)
        answer = await self._pool.request(self._broker, Command(code, fields, raw), TIMEOUT_MS)
        assert answer.code == 0, answer.remark
        assert len(answer.body) < FRAME_BYTES_MAX
        return answer

    async def read(self, cls: type[T], code: Code, **ext: object) -> T:
        return decode_body(cls, (await self.ask(code, **ext)).body)

    async def known_topics(self) -> set[str]:
        answer = await self._pool.request(self._names, Command(206), TIMEOUT_MS)
        return set(decode_body(TopicList, answer.body).topic_list)

    async def route(self, topic: str) -> TopicRouteData:
        answer = await self._pool.request(self._names, Command(105, {"topic": topic}), TIMEOUT_MS)
        assert answer.code == 0
        return decode_body(TopicRouteData, answer.body)

    async def page_through(self, code: Code, kind: str) -> list[dict[str, object]]:
        """All pages of a table, as a slave of 5.5 fetches them."""
        pages: list[dict[str, object]] = []
        fetched, total, version = 0, 1, ""
        while fetched < total:
            said = {f"{kind}Seq": fetched, f"max{kind.title()}Num": PAGE, "dataVersion": version}
            answer = await self.ask(code, **said)
            assert answer.ext is not None
            total = int(answer.ext[f"total{kind.title()}Num"])
            if kind == "topic":
                topics = decode_body(TopicConfigAndMappingSerializeWrapper, answer.body)
                version = encode_body(topics.data_version).decode()
                pages.append(dict(topics.topic_config_table))
            else:
                groups = decode_body(SubscriptionGroupWrapper, answer.body)
                version = encode_body(groups.data_version).decode()
                pages.append(dict(groups.subscription_group_table))
            fetched += len(pages[-1])
        return pages


@asynccontextmanager
async def broker_in(folder: Path, names: str) -> AsyncIterator[Broker]:
    config = BrokerConfig(
        store_path_root_dir=folder / "store", broker_name="a", broker_ip1="127.0.0.1",
        broker_ip2="127.0.0.1", bind_address="127.0.0.1", listen_port=0, namesrv_addr=names,
        mapped_file_size_commit_log=1_048_576, max_index_num=400, max_hash_slot_num=100,
        broker_fast_failure_enable=False,
    )  # fmt: skip
    broker = Broker(config)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    """Of a broker that has them all."""
    pool = Pool()
    async with names_in(tmp_path) as names, broker_in(tmp_path, f"127.0.0.1:{names.port}") as one:
        operator = Operator(pool, f"127.0.0.1:{names.port}", f"127.0.0.1:{one.port}")
        topics = [
            TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            for name in TOPICS
        ]
        await operator.ask(Code.UPDATE_AND_CREATE_TOPIC_LIST, CreateTopicListRequestBody(topics))
        groups = [SubscriptionGroupConfig(group_name=name) for name in GROUPS]
        await operator.ask(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, SubscriptionGroupList(groups)
        )
        yield operator
        await pool.close()


async def test_a_thousand_topics_and_groups_are_known_and_shown(operator: Operator) -> None:
    """By the name server, in one heartbeat, on pages of a table and in one answer."""

    async def is_known() -> bool:
        return set(TOPICS) <= await operator.known_topics()

    await until(is_known)
    (queue,) = (await operator.route(TOPICS[-1])).queue_datas
    assert (queue.read_queue_nums, queue.write_queue_nums) == (QUEUES, QUEUES)

    consumers = [
        Consumer(group, [subscription(topic), subscription(f"%RETRY%{group}")]).data()
        for group, topic in zip(GROUPS, TOPICS, strict=True)
    ]
    said = HeartbeatData(client_id="all", consumer_data_set=consumers)
    await operator.ask(Code.HEART_BEAT, said)
    retries = {f"%RETRY%{group}" for group in GROUPS}

    async def has_retries() -> bool:
        return retries <= await operator.known_topics()

    await until(has_retries)
    for group, topic in (GROUPS[0], TOPICS[0]), (GROUPS[-1], TOPICS[-1]):
        found = await operator.read(GroupList, Code.QUERY_TOPIC_CONSUME_BY_WHO, topic=topic)
        assert found.group_list == [group]
        await operator.ask(
            Code.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=7, commitOffset=0
        )

    pages = await operator.page_through(Code.GET_ALL_TOPIC_CONFIG, "topic")
    assert {len(page) for page in pages[:-1]} == {PAGE}
    assert {name for page in pages for name in page} >= {*TOPICS, *retries}
    pages = await operator.page_through(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "group")
    assert {name for page in pages for name in page} >= set(GROUPS)

    stats = await operator.read(TopicStatsTable, Code.GET_TOPIC_STATS_INFO, topic=TOPICS[500])
    assert len(stats.offset_table) == QUEUES
    progress = await operator.read(ConsumeStatsList, Code.GET_BROKER_CONSUME_STATS, isOrder="false")
    shown = {
        group: stats for entry in progress.consume_stats_list for group, stats in entry.items()
    }
    assert shown.keys() >= set(GROUPS)
    assert len(shown[GROUPS[-1]][0].offset_table) == QUEUES


async def test_a_client_with_too_many_groups_is_told_so(operator: Operator) -> None:
    """A thousand are taken; with one more, none of them is."""
    many = [ProducerData(name) for name in [*GROUPS, "one-more"]]
    with pytest.raises(AssertionError, match="1001 groups of one client, 1000 at most"):
        await operator.ask(Code.HEART_BEAT, HeartbeatData(client_id="c", producer_data_set=many))
