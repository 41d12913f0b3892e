"""Java producers send in every way they have; what they are told is what is stored."""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from interop.broker.clients import Clients, Message, Sent, shown_body
from interop.broker.cluster import Cluster
from roketto.protocol.tags import tag_code

QUEUES = 4
"""Of a topic that a producer creates by sending to it."""


def check_stored(cluster: Cluster, sent: Sequence[Sent], stored: Sequence[Message]) -> None:
    """Each message is where its producer was told, under the ids that it was told."""
    assert [(one.status, one.broker) for one in sent] == [("SEND_OK", "broker-a")] * len(sent)
    told = {(one.id, one.queue, one.offset, one.offset_id) for one in sent}
    assert len(told) == len(sent)
    assert told == {
        (one.properties["UNIQ_KEY"], one.queue, one.offset, cluster.main.offset_id(one.log_offset))
        for one in stored
    }


def test_sync_sends_are_answered_with_ids_queue_and_offset(
    cluster: Cluster, clients: Clients
) -> None:
    """A topic that is not there comes to be; each of its queues counts from 0."""
    sent = clients.send(
        "Sync", [{"body": f"sync {n}", "tags": "Tag", "keys": f"key{n}"} for n in range(12)]
    )
    assert {one.queue for one in sent} == set(range(QUEUES))
    for queue in range(QUEUES):
        offsets = [one.offset for one in sent if one.queue == queue]
        assert offsets == list(range(len(offsets)))
    assert {(one.topic, one.region, one.traced) for one in sent} == {
        ("Sync", "DefaultRegion", True)
    }
    stored = clients.drain("Sync", 12)
    check_stored(cluster, sent, stored)
    by_id = {one.id: one for one in stored}
    for n, one in enumerate(sent):
        message = by_id[one.id]
        assert message.body == f"sync {n}"
        assert message.user_properties == {"TAGS": "Tag", "KEYS": f"key{n}"}
        assert message.properties["CLUSTER"] == "Interop"
        assert (message.flag, message.sys_flag & ~0x30, message.times) == (0, 0, 0)
        assert 0 < message.born_ms <= message.stored_ms


def test_async_sends_call_back_with_their_own_results(cluster: Cluster, clients: Clients) -> None:
    """Forty at once: every callback comes, and tells of its own message."""
    bodies = [f"async {n}" for n in range(40)]
    sent = clients.send("Async", bodies, "async")
    stored = clients.drain("Async", 40)
    check_stored(cluster, sent, stored)
    by_id = {one.id: one.body for one in stored}
    assert [by_id[one.id] for one in sent] == bodies


def test_one_way_messages_are_stored(clients: Clients) -> None:
    """Nobody answers, but each message arrives once."""
    bodies = [f"one-way {n}" for n in range(20)]
    clients.send("OneWay", bodies[:1])  # one-way alone would race the route of a new topic
    assert clients.send("OneWay", bodies[1:], "oneway") == []
    assert sorted(one.body for one in clients.drain("OneWay", len(bodies))) == sorted(bodies)


def test_batch_is_stored_as_single_messages_in_order(cluster: Cluster, clients: Clients) -> None:
    """One answer for all; the messages lie side by side in one queue, each with its own id."""
    asked = [{"body": f"batch {n}", "keys": f"key{n}", "tags": f"T{n % 3}"} for n in range(10)]
    clients.send("Batch", ["before"])
    sent = clients.send("Batch", asked, "batch")
    assert len(sent) == 1
    assert sent[0].status == "SEND_OK"
    stored = [one for one in clients.drain("Batch", 11) if one.body != "before"]
    assert [one.queue for one in stored] == [sent[0].queue] * 10
    assert [one.offset for one in stored] == list(range(sent[0].offset, sent[0].offset + 10))
    assert [one.body for one in stored] == [one["body"] for one in asked]
    assert [one.user_properties for one in stored] == [
        {"KEYS": one["keys"], "TAGS": one["tags"]} for one in asked
    ]
    assert [one.properties["UNIQ_KEY"] for one in stored] == sent[0].id.split(",")
    assert [cluster.main.offset_id(one.log_offset) for one in stored] == sent[0].offset_id.split(
        ","
    )


def test_selector_keeps_messages_of_one_order_in_one_queue(
    cluster: Cluster, clients: Clients
) -> None:
    """Each order's messages lie in the queue that its hash names, in the order of sending."""
    orders = ["order-17", "order-4", "Bestellung ä", "订单"]
    asked = [{"body": f"{order} {n}", "hash": order} for n in range(5) for order in orders]
    sent = clients.send("Selected", asked, "selector")
    stored = clients.drain("Selected", 20)
    check_stored(cluster, sent, stored)
    in_order = defaultdict(list)
    for one in stored:
        in_order[one.body.rpartition(" ")[0]].append((one.queue, one.body))
    for order in orders:
        hashed = tag_code(order)
        queue = abs(hashed) % QUEUES
        assert in_order[order] == [(queue, f"{order} {n}") for n in range(5)]


def test_queue_can_be_chosen(cluster: Cluster, clients: Clients) -> None:
    """A message goes to the queue that its sender names."""
    clients.make_topic("Chosen", 3, [cluster.main.address])
    asked = [
        {"body": f"chosen {n}", "broker": "broker-a", "queue": n}
        for n in (2, 0, 2, 1, 2)
    ]  # fmt: skip
    sent = clients.send("Chosen", asked, "queue")
    assert [(one.queue, one.offset) for one in sent] == [(2, 0), (0, 0), (2, 1), (1, 0), (2, 2)]
    check_stored(cluster, sent, clients.drain("Chosen", 5))


@pytest.mark.parametrize(("codec", "type_bits"), [("ZLIB", 0x300), ("LZ4", 0x100), ("ZSTD", 0x200)])
def test_compressed_bodies_come_back_as_they_were(
    cluster: Cluster, clients: Clients, codec: str, type_bits: int
) -> None:
    """Bodies over 4 KiB are compressed by the producer and stored so, whichever codec it has."""
    topic = f"Packed{codec}"
    letters = random.Random(7).choices("0123456789abcdef", k=3_000_000)
    asked: list[dict[str, Any]] = [
        {"body": "a body that repeats itself; ", "times": 10_000},
        {"body": "".join(letters)},
        {"body": "消息", "times": 2_000},
    ]
    sent = clients.send(topic, asked, compress=codec)
    stored = clients.drain(topic, 3)
    check_stored(cluster, sent, stored)
    by_id = {one.id: one for one in stored}
    messages = [by_id[one.id] for one in sent]
    bodies = [one["body"] * one.get("times", 1) for one in asked]
    assert [one.body for one in messages] == [shown_body(body) for body in bodies]
    for message, body in zip(messages, bodies, strict=True):
        assert message.size < len(body.encode()) or body.isalnum(), "it was not stored compressed"
        assert message.sys_flag & 0x700 == type_bits  # that it is compressed, clients forget


def test_properties_of_every_kind_come_back(clients: Clients) -> None:
    """Tags, keys and properties in Chinese, with blanks and emoji, empty and long ones."""
    properties = {
        "城市": "北京市",
        "mixed 键": "Grüße, 你好 🚀",
        "blank": " ",
        "long": "x" * 8_000,
        "number": "-42",
    }
    asked: list[dict[str, Any]] = [
        {
            "body": "消息 body", "tags": "标签", "keys": "键一 key2 键三", "flag": 7,
            "properties": properties,
        },
        {"body": "no properties"},
        {"body": "empty tags and keys", "tags": "", "keys": ""},
        {"body": "an empty property", "properties": {"empty": "", "full": "value"}},
    ]  # fmt: skip
    sent = clients.send("Properties", asked)
    by_id = {one.id: one for one in clients.drain("Properties", 4)}
    messages = [by_id[one.id] for one in sent]
    assert [one.body for one in messages] == [one["body"] for one in asked]
    assert messages[0].flag == 7
    assert messages[0].user_properties == {"TAGS": "标签", "KEYS": "键一 key2 键三", **properties}
    assert messages[1].user_properties == {}
    assert messages[2].user_properties == {}  # no Java client shows what is empty
    assert messages[3].user_properties == {"full": "value"}


def test_signed_requests_are_accepted_where_nobody_checks(
    cluster: Cluster, clients: Clients
) -> None:
    """Clients with AclClientRPCHook work with a broker that has no access control."""
    bodies = [f"signed {n}" for n in range(4)]
    check_stored(
        cluster, clients.send("Signed", bodies, signed=True), clients.drain("Signed", 4)
    )  # fmt: skip
    with clients.push("signed", "Signed", signed=True) as consumer:
        assert sorted(one.body for one in consumer.received(4)) == bodies
