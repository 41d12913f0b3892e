"""Java clients and a second master: queues of both are used, and its restart loses nothing."""

from collections.abc import Iterator

import pytest

from interop.broker.clients import Clients, Sent, Transacting, eventually, eventually_equal
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
    bodies = [f"{when} {n}" for when in ("before", "after") for n in range(8)]
    with clients.push("restarted", "Restarted") as consumer:
        sent = clients.send("Restarted", bodies[:8])
        assert len(consumer.received(8)) == 8
        eventually_equal(consumer.offsets, ends_of(sent), "offsets of the group")
        cluster.stop("broker-b")
        with pytest.raises(ClientError):
            clients.send("Restarted", ["meanwhile"])
        cluster.start("broker-b")
        sent += send_when_it_is_back(clients, bodies[8])
        sent += clients.send("Restarted", bodies[9:])
        received = consumer.received(16, RECOVERY_S)
        assert sorted(one.id for one in received) == sorted(one.id for one in sent)
        eventually_equal(consumer.offsets, ends_of(sent), "offsets of the group")
    stored = clients.drain("Restarted", 16)
    assert sorted(one.body for one in stored) == sorted(bodies)
    assert {one.broker for one in stored} == {"broker-b"}
    # Every queue counted on from where it was: no offset twice, none left out.
    assert sorted((one.queue, one.offset) for one in stored) == sorted(
        (one.queue, one.offset) for one in sent
    )


def test_a_broker_killed_between_half_and_commit_asks_when_it_is_back(
    cluster: Cluster, clients: Clients, second: BrokerAddress
) -> None:
    """What was not decided is; what was committed before the kill is not lost."""
    clients.make_topic("Killed", 2, [second.address])
    producer = Transacting(clients, "patient")
    producer.send("Killed", "before", "COMMIT_MESSAGE")
    assert bodies_of(clients, 1) == {"before"}
    producer.send("Killed", "open", "UNKNOW", "COMMIT_MESSAGE")
    producer.send("Killed", "never", "UNKNOW", "ROLLBACK_MESSAGE")
    cluster.kill("broker-b")
    cluster.start("broker-b")

    def is_committed() -> bool:
        try:
            return "open" in bodies_of(clients, 2)
        except ClientError:
            return False

    eventually(is_committed, "the commit of the message that was open", 60.0)
    eventually(lambda: "never" in producer.checks(), "the question about the other one", 60.0)
    assert bodies_of(clients, 2) == {"before", "open"}
    producer.end()


def bodies_of(clients: Clients, count: int) -> set[str]:
    return {message.body for message in clients.drain("Killed", count)}


def ends_of(sent: list[Sent]) -> dict[str, int]:
    """How far a group is in each queue of broker-b that has consumed all of these."""
    return {f"broker-b:{queue}": sum(one.queue == queue for one in sent) for queue in range(2)}


def send_when_it_is_back(clients: Clients, body: str) -> list[Sent]:
    """A producer may need a moment to learn that the broker is there again."""
    sent: list[Sent] = []

    def is_sent() -> bool:
        try:
            sent.extend(clients.send("Restarted", [body]))
        except ClientError:
            return False
        return True

    eventually(is_sent, "the broker to take messages again")
    return sent
