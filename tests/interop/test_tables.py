"""Java's brokers read the tables that were written here, and we read what they make of them."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from interop.peer import Broker, NameServer, Peer
from roketto.clock import wall_ms
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.record import Record
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.files import Files
from roketto.store.filter_table import BloomFilterData, ConsumerFilter, FilterTable
from roketto.store.group_table import GroupTable
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.store import Store, StoreSettings
from roketto.store.topic_table import TopicTable

SETTINGS = StoreSettings(
    segment_bytes=262_144, queue_file_bytes=60_000, index_slots=10_000, index_entries=40_000
)
MESSAGES = 20
NAME = "tables"
TOPIC, GROUP = "OurTopic", "OurGroup"
OUR_TOPIC = TopicConfig(
    topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2, perm=4,
    attributes={"dedup.window.seconds": "60", "message.ttl.ms": "0"},
)  # fmt: skip
"""With attributes that Java's brokers do not know."""
OUR_GROUP = SubscriptionGroupConfig(group_name=GROUP, retry_max_times=7, retry_queue_nums=3)
CONSUMED = (11, 13)
FILTER = ConsumerFilter(
    BloomFilterData(112, [7, 34, 98]), wall_ms() - 1000, 5, GROUP,
    dead_time=wall_ms(), expression="a > 1", expression_type="SQL92", topic=TOPIC,
)  # fmt: skip


def write_store(root: Path) -> None:
    """Messages for the offsets to point at: two queues, and two of the delay topic."""
    store = Store(root, SETTINGS)
    store.open(1)
    for topic in (TOPIC, SCHEDULE_TOPIC):
        for number in range(2 * MESSAGES):
            store.append(Record(topic, b"x", queue_id=number % 2))
    store.close()


class Tables(NamedTuple):
    """All tables of one broker."""

    topics: TopicTable
    groups: GroupTable
    consumed: ConsumeOffsetTable
    delays: DelayOffsetTable
    filters: FilterTable


def open_tables(config: Path) -> Tables:
    files = Files()
    return Tables(
        TopicTable(files, config), GroupTable(files, config), ConsumeOffsetTable(files, config),
        DelayOffsetTable(files, config), FilterTable(files, config),
    )  # fmt: skip


def write_tables(config: Path) -> None:
    topics, groups, consumed, delays, filters = tables = open_tables(config)
    topics.put(OUR_TOPIC)
    topics.put(TopicConfig(topic_name=f"%RETRY%{GROUP}", read_queue_nums=1, write_queue_nums=1))
    groups.put(OUR_GROUP)
    for queue_id, offset in enumerate(CONSUMED):
        consumed.put(TOPIC, GROUP, queue_id, offset)
    for level in (1, 2):
        delays.put(level, MESSAGES)  # all of them, or Java would deliver the rest
    filters.put(FILTER)
    for table in tables:
        assert table.save_if_changed()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    write_store(root)
    Files().make_directory(root / "config")
    write_tables(root / "config")
    return root


def test_java_sees_our_topics_groups_and_offsets_and_we_see_its(
    peer: Peer, java_name_server: NameServer, store: Path
) -> None:
    """Asked with its own tools; then it stops, and its files are loaded here."""
    address = java_name_server.address
    config = {
        "brokerName": NAME, "brokerClusterName": NAME, "mappedFileSizeCommitLog": "262144",
        "enablePropertyFilter": "true", "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
    }  # fmt: skip
    broker = peer.broker([address], config)
    try:
        check_with_mqadmin(peer, address, broker)
    finally:
        broker.stop()
    check_rewritten(peer, store / "config")


def check_with_mqadmin(peer: Peer, address: str, broker: Broker) -> None:
    route = "".join(peer.mqadmin("topicRoute", "-t", TOPIC, name_server=address).split())
    assert '"brokerName":"tables","perm":4,"readQueueNums":2' in route
    group = peer.mqadmin("getConsumerConfig", "-g", GROUP, name_server=address)
    assert re.search(r"retryQueueNums\s+=\s+3\b", group), group
    assert re.search(r"retryMaxTimes\s+=\s+7\b", group), group
    progress = peer.mqadmin("consumerProgress", "-g", GROUP, name_server=address)
    for queue_id, offset in enumerate(CONSUMED):
        seen = rf"{TOPIC}\s+{NAME}\s+{queue_id}\s+{MESSAGES}\s+{offset}\b"
        assert re.search(seen, progress), progress
    status = peer.mqadmin("brokerStatus", "-b", broker.address, name_server=address)
    for level in (1, 2):
        assert re.search(rf"scheduleMessageOffset_{level}\s+: {MESSAGES},{MESSAGES}", status), (
            status
        )


def check_rewritten(peer: Peer, config: Path) -> None:
    """Every table was written again by the broker, with its own entries added, and is the same."""
    topics, groups, consumed, delays, filters = tables = open_tables(config)
    for table in tables:
        if table is not groups or not peer.version.startswith("4."):  # 4.9 adds no groups
            assert table.path.with_name(f"{table.path.name}.bak").exists(), "Java wrote nothing"
        assert table.load() is None
    kept = {} if peer.version.startswith("4.") else OUR_TOPIC.attributes  # 4.9 has none at all
    assert topics.get(TOPIC) == replace(OUR_TOPIC, attributes=kept)
    assert topics.get(SCHEDULE_TOPIC) is not None
    assert topics.body.data_version.counter >= 2
    assert groups.get(GROUP) == OUR_GROUP
    assert consumed.offsets(TOPIC, GROUP) == dict(enumerate(CONSUMED))
    assert delays.offsets == {1: MESSAGES, 2: MESSAGES}
    assert filters.get(TOPIC, GROUP) == FILTER
