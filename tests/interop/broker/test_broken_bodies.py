"""Messages that say their body is compressed, and it is not: brokers do not look, clients do."""

import time

import pytest

from interop.broker.clients import Clients, eventually, eventually_equal
from interop.broker.cluster import Cluster
from interop.peer.remote import Remote

SEND_MESSAGE = 10
COMPRESSED = 0x1


@pytest.mark.parametrize("codec", [0x000, 0x100, 0x200], ids=["zlib of old clients", "LZ4", "ZSTD"])
def test_consumer_passes_over_a_body_that_cannot_be_unpacked(
    cluster: Cluster, clients: Clients, codec: int
) -> None:
    """And over all that is behind it in the same answer: the client drops them without a word.

    It goes on where the broker says, so nothing comes again and nothing is tried again.
    """
    topic = f"Broken{codec:x}"
    clients.make_topic(topic, 1, [cluster.main.address])
    clients.send(topic, ["0"])
    send_broken(cluster, topic, codec)
    clients.send(topic, ["2"])
    # All three in the queue: one answer has them all.
    eventually(lambda: clients.bounds(topic)["broker-a:0"][1] == 3, "the messages in their queue")
    with clients.push(topic, topic) as consumer:
        assert [one.body for one in consumer.received(1)] == ["0"]
        clients.send(topic, ["3"])
        eventually_equal(consumer.offsets, {"broker-a:0": 4}, "the offset of the group")
        received = consumer.stop()
    assert [(one.body, one.offset, one.times) for one in received] == [("0", 0, 0), ("3", 3, 0)]


def send_broken(cluster: Cluster, topic: str, codec: int) -> None:
    """Send garbage as Java's producers send what they have compressed."""
    fields = {
        "producerGroup": "breaker", "topic": topic, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1", "queueId": "0", "sysFlag": str(COMPRESSED | codec),
        "bornTimestamp": str(int(time.time() * 1000)), "flag": "0",
        "properties": "UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02",
    }  # fmt: skip
    with Remote(cluster.main.address) as remote:
        answer = remote.ask(SEND_MESSAGE, fields, b"\xff garbage " * 20)
    assert answer.code == 0, answer.remark
