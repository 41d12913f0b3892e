"""Messages that end, with Java's consumers: ours passes them by where the topic says so.

For Java's broker, and for topics of ours without the attribute, a TTL means nothing.
"""

import time
from collections.abc import Sequence

import pytest

from interop.broker.attributes import set_attributes
from interop.broker.clients import Clients, PushConsumer, eventually, eventually_equal
from interop.broker.cluster import Cluster, OurCluster

QUEUES = 2
TRIES_MAX = 10
ENDED = [f"ended {n}" for n in range(6)]
ALIVE = [f"alive {n}" for n in range(6)]


def make_topic(cluster: Cluster, clients: Clients, topic: str) -> bool:
    """A topic whose messages end if they say so; whether the broker knows of that."""
    clients.make_topic(topic, QUEUES, [cluster.main.address])
    is_ours = isinstance(cluster, OurCluster)
    if is_ours:
        assert set_attributes(cluster, topic, QUEUES, "+message.ttl.ms=0").code == 0
    return is_ours


def send(clients: Clients, topic: str, bodies: Sequence[str], ttl_ms: int) -> None:
    """Half of them to each queue."""
    asked = [
        {
            "body": body, "broker": "broker-a", "queue": n % QUEUES,
            "properties": {"TTL": str(ttl_ms)},
        }
        for n, body in enumerate(bodies)
    ]  # fmt: skip
    clients.send(topic, asked, "queue")


@pytest.mark.parametrize("is_orderly", [False, True])
def test_what_has_ended_is_not_consumed(
    cluster: Cluster, clients: Clients, is_orderly: bool
) -> None:
    """Push consumers get the rest, and their offsets go to the ends of the queues."""
    topic = f"Ending{is_orderly}"
    is_ours = make_topic(cluster, clients, topic)
    send(clients, topic, ENDED, 1)
    send(clients, topic, ALIVE, 600_000)
    send(clients, topic, ENDED, 1)
    time.sleep(0.05)
    expected = sorted(ALIVE if is_ours else [*ENDED, *ALIVE, *ENDED])
    ends = {f"broker-a:{queue}": 9 for queue in range(QUEUES)}
    with clients.push(topic, topic, orderly=is_orderly) as consumer:
        consumer.received(len(expected))
        send(clients, topic, ["last", "last"], 600_000)  # long polls go on as ever
        consumer.received(len(expected) + 2)
        ends = {queue: end + 1 for queue, end in ends.items()}
        eventually_equal(consumer.offsets, ends, "the offsets")
        received = sorted(one.body for one in consumer.stop())
    assert received == sorted([*expected, "last", "last"])


def test_a_lite_consumer_passes_by_what_has_ended(cluster: Cluster, clients: Clients) -> None:
    """And finds it where it looks for its own sake: nothing was removed."""
    is_ours = make_topic(cluster, clients, "LiteEnding")
    send(clients, "LiteEnding", ENDED, 1)
    send(clients, "LiteEnding", ALIVE, 600_000)
    time.sleep(0.05)
    expected = sorted(ALIVE if is_ours else [*ENDED, *ALIVE])
    with clients.lite("liteEnding", "LiteEnding") as consumer:
        assert sorted(one.body for one in consumer.poll(len(expected))) == expected
    assert clients.bounds("LiteEnding") == {
        f"broker-a:{queue}": [0, 6, 0] for queue in range(QUEUES)
    }


def test_what_has_ended_is_not_tried_again(cluster: Cluster, clients: Clients) -> None:
    """A message that fails and has a second is over when its retry comes, which is one later."""
    is_ours = make_topic(cluster, clients, "FailsEnding")
    with clients.push("failsEnding", "FailsEnding", fails=1) as consumer:
        tried = 0
        for number in range(TRIES_MAX):  # a busy machine may not deliver it within its second
            send(clients, "FailsEnding", [f"fail ended {number}"], 1_000)
            tried += 1
            if consumer.received(1, 3.0):
                break
        send(clients, "FailsEnding", ["fail alive"], 600_000)
        eventually(lambda: bodies(consumer).count("fail alive") == 2, "the retry")
        last = f"fail ended {tried - 1}"
        if not is_ours:
            eventually(lambda: bodies(consumer).count(last) == 2, "the other retry")
        received = consumer.received(0)
    assert [one.body for one in received].count(last) == (1 if is_ours else 2)
    (again,) = (one for one in received if one.times == 1 and one.body == "fail alive")
    assert again.properties["TTL"] == "600000"
    assert ("__EXPIRES_MS" in again.properties) == is_ours


def bodies(consumer: PushConsumer) -> list[str]:
    """What it has got so far."""
    return [one.body for one in consumer.received(0)]


def test_a_topic_without_the_attribute_keeps_what_says_that_it_ends(clients: Clients) -> None:
    """Java's requests have a TTL, and mean another thing by it."""
    clients.send("Endless", [{"body": "kept", "properties": {"TTL": "1"}}])
    time.sleep(0.05)
    assert [one.body for one in clients.drain("Endless", 1)] == ["kept"]
