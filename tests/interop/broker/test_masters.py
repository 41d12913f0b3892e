"""Java clients and a second master: queues of both are used, and its restart loses nothing."""

from collections.abc import Iterator

import pytest

from interop.broker.clients import Clients, eventually_equal
from interop.broker.cluster import BrokerAddress, Cluster
from interop.peer import ClientError

RECOVERY_S = 60.0
"""A consumer of 4.9 does not see that its connection is gone: its pulls time out after 30 s."""


@pytest.fixture(scope="module")
def second(cluster: Cluster) -> Iterator[BrokerAddress]:
    """Another master of the cluster."""
    yield cluster.start("broker-b")
    cluster.stop("broker-b")


def test_queues_of_both_masters_are_used(
    cluster: Cluster, clients: Clients, second: BrokerAddress
) -> None:
    """A topic with two queues on each: messages take turns, one consumer gets all of them."""
    clients.make_topic("Both", 2, [cluster.main.address, second.address])
    bodies = [f"both {n}" for n in range(16)]
    sent = clients.send("Both", bodies)
    places = [(one.broker, one.queue) for one in sent]
    every = [(broker, queue) for broker in ("broker-a", "broker-b") for queue in range(2)]
    assert sorted(places) == sorted(every * 4)
    assert sorted({one.offset for one in sent}) == [0, 1, 2, 3]
    with clients.push("both", "Both") as consumer:
        received = consumer.received(16)
        assert sorted((one.broker, one.queue, one.body) for one in received) == sorted(
            (*place, body) for place, body in zip(places, bodies, strict=True)
        )
        expected = {f"{broker}:{queue}": 4 for broker, queue in every}
        eventually_equal(consumer.offsets, expected, "offsets on both brokers")


def test_consumer_survives_a_restart_of_its_broker(
    cluster: Cluster, clients: Clients, second: BrokerAddress
) -> None:
    """Same store, same port: what was stored stays, the group goes on, nobody starts anew."""
    clients.make_topic("Restarted", 2, [second.address])
    with clients.push("restarted", "Restarted") as consumer:
        before = clients.send("Restarted", to_each_queue("before"), "queue")
        assert len(consumer.received(8)) == 8
        expected = {f"broker-b:{n}": 4 for n in range(2)}
        eventually_equal(consumer.offsets, expected, "offsets of the group")
        cluster.stop("broker-b")
        with pytest.raises(ClientError):
            clients.send("Restarted", to_each_queue("meanwhile"), "queue")
        cluster.start("broker-b")
        after = clients.send("Restarted", to_each_queue("after"), "queue")
        assert sorted(one.offset for one in after) == sorted([4, 5, 6, 7] * 2)
        received = consumer.received(16, RECOVERY_S)
        assert sorted(one.id for one in received) == sorted(one.id for one in before + after)
        expected = {f"broker-b:{n}": 8 for n in range(2)}
        eventually_equal(consumer.offsets, expected, "offsets of the group")
    stored = [one.body for one in clients.drain("Restarted", 16)]
    assert sorted(stored) == sorted(f"{when} {n}" for when in ("before", "after") for n in range(8))


def to_each_queue(when: str) -> list[dict[str, object]]:
    """Four messages to each of the two queues of the second master."""
    return [{"body": f"{when} {n}", "broker": "broker-b", "queue": n % 2} for n in range(8)]
