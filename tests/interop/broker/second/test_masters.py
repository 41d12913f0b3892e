"""Java clients and a second master: the queues of both are used."""

from interop.broker.clients import Clients, eventually_equal
from interop.broker.cluster import BrokerAddress, Cluster


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
