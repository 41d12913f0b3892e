"""Either broker opens the other's store: every message, queue entry and key is there."""

import re
import shutil
import time
from pathlib import Path

from interop.peer import Broker, NameServer, Peer
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.protocol.tags import tag_code
from roketto.store.store import Store, StoreSettings

SEGMENT_BYTES = 262_144
SETTINGS = StoreSettings(
    segment_bytes=SEGMENT_BYTES, queue_file_bytes=60_000, index_slots=10_000, index_entries=40_000
)
"""As the peer's broker below is configured; its other sizes are those of the fixture."""

COUNT = 300
BODY_BYTES = 2_000
MESSAGES = COUNT // 10 * 12
"""Nine alone and three in a batch, for every ten."""


def start_broker(
    peer: Peer, name_server: NameServer, name: str, store: Path | None = None
) -> Broker:
    config = {"brokerName": name, "brokerClusterName": name}
    config["mappedFileSizeCommitLog"] = str(SEGMENT_BYTES)
    if store is not None:
        config["storePathRootDir"] = str(store)
        config["storePathCommitLog"] = str(store / "commitlog")
    return peer.broker([name_server.address], config)


def fill(peer: Peer, name_server: NameServer, topic: str) -> list[list[str]]:
    printed = peer.run("FillStore", name_server.address, topic, str(COUNT), str(BODY_BYTES))
    return [line.split() for line in printed.splitlines()]


def read_all(store: Store, topic: str) -> list[Record]:
    """Every message of a topic, queue by queue, as a consumer reads them."""
    found: list[Record] = []
    for queue_id in dict(store.topics())[topic]:
        offset = 0
        while (result := store.get(topic, queue_id, offset, 32)).count:
            found += [record for view in result.views for record in decode_records(view)]
            offset = result.next_offset
    return found


def test_a_store_that_java_wrote_opens_here_whole(peer: Peer, tmp_path: Path) -> None:
    """After a clean stop and after kill -9: messages, offsets, ids, keys, tags and times."""
    name_server = peer.name_server()
    for number, way in enumerate(("stop", "kill")):
        broker = start_broker(peer, name_server, f"writer{number}")
        topic = f"Filled{number}"
        sent = fill(peer, name_server, topic)
        home = broker.process.log.parent / "store"
        getattr(broker, way)()
        copied = tmp_path / f"store{number}"
        shutil.copytree(home, copied)
        assert (copied / "abort").exists() == (way == "kill")
        assert len(list((copied / "commitlog").iterdir())) > 2
        check_filled(copied, topic, sent)


def check_filled(root: Path, topic: str, sent: list[list[str]]) -> None:
    store = Store(root, SETTINGS)
    recovered = store.open(1)
    try:
        assert recovered.end > 2 * SEGMENT_BYTES
        records = read_all(store, topic)
        assert len(records) == MESSAGES
        by_place = {(record.queue_id, record.queue_offset): record for record in records}
        for queue_id, queue_offset, message_id, key, tag in sent:
            record = by_place[int(queue_id), int(queue_offset)]
            assert record.offset_id == message_id
            assert (record.get_property("KEYS"), record.get_property("TAGS")) == (key, tag)
            assert store.record_by_id(message_id).body == record.body
            assert store.query(topic, key, 32, 0, 1 << 60) == [record.log_offset]
            found = store.offset_by_time(topic, int(queue_id), record.store_time_ms)
            assert found <= int(queue_offset)
        tagged = store.get(topic, 0, 0, 32, codes=frozenset({tag_code("Tag1")}))
        texts = [record for view in tagged.views for record in decode_records(view)]
        assert texts
        assert {record.get_property("TAGS") for record in texts} == {"Tag1"}
        here = store.append(message(topic, 0, 9_999))
        assert bytes(store.record_by_id(here.message_id).body).endswith(b"written here 9999")
    finally:
        store.close()


def message(topic: str, queue_id: int, number: int) -> Record:
    host = encode_host("127.0.0.1", 10911)
    properties = {"KEYS": f"k{number}", "TAGS": f"Tag{number % 3}", "UNIQ_KEY": f"{number:032X}"}
    return Record(
        topic, b"x" * 2_000 + b"written here %d" % number, encode_properties(properties),
        queue_id, born_time_ms=time.time_ns() // 1_000_000, born_host=host, store_host=host,
    )  # fmt: skip


def test_a_store_written_here_opens_in_java_and_back_again(peer: Peer, tmp_path: Path) -> None:
    """Java's consumer reads all of it and its tools find it; then it adds to it, and we go on."""
    root, topic = tmp_path / "store", "Ours"
    count = 400
    store = Store(root, SETTINGS)
    store.open(1)
    for number in range(count):
        store.append(message(topic, number % 2, number))
    batch = message(topic, 0, count)
    items = [
        BatchItem(b"batched %d" % n, encode_properties({"TAGS": "Tag0", "KEYS": f"b{n}"}))
        for n in range(3)
    ]
    batch.body = encode_batch(items)
    store.append_batch(batch)
    store.close()

    name_server = peer.name_server()
    broker = start_broker(peer, name_server, "reader", root)
    address = name_server.address
    peer.mqadmin(
        "updateTopic", "-t", topic, "-c", "reader", "-r", "2", "-w", "2", name_server=address
    )
    wait_for_route(peer, address, topic)
    printed = peer.run("Receive", address, topic, "*", str(count + 3)).splitlines()
    bodies = {line[18:] for line in printed}
    assert len(printed) == count + 3
    assert {"x" * 2_000 + f"written here {n}" for n in range(count)} <= bodies
    assert {f"batched {n}" for n in range(3)} <= bodies
    find_with_mqadmin(peer, address, topic)
    broker.stop()

    store = Store(root, SETTINGS)
    store.open(1)
    assert len(read_all(store, topic)) == count + 3
    assert store.append(message(topic, 1, count + 1)).queue_offset == count // 2
    store.close()


def wait_for_route(peer: Peer, address: str, topic: str) -> None:
    deadline_s = time.monotonic() + 20
    while (
        "readQueueNums"
        not in peer.mqadmin_output("topicRoute", "-t", topic, name_server=address).stdout
    ):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def find_with_mqadmin(peer: Peer, address: str, topic: str) -> None:
    by_key = peer.mqadmin("queryMsgByKey", "-t", topic, "-k", "k7", name_server=address)
    assert re.search(rf"{7:032X}\s+1\s+3\b", by_key), by_key
    by_offset = peer.mqadmin(
        "queryMsgByOffset", "-t", topic, "-b", "reader", "-i", "1", "-o", "3", name_server=address
    )
    assert f"{7:032X}" in by_offset
