"""A master is killed under Java's producers, with transactions that nobody has decided."""

from interop.broker.clients import Clients, Transacting, eventually
from interop.broker.cluster import BrokerAddress, Cluster
from interop.peer import ClientError


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
