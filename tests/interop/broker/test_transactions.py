"""Java's transactions: what is committed is consumed once, what is rolled back never, and whoever
does not know yet is asked.
"""

from interop.broker.clients import Clients, Message, Transacting, eventually, eventually_equal
from interop.broker.cluster import Cluster, OurCluster
from interop.peer import Peer

KEPT = {
    "KEYS": "k1", "TAGS": "TagA", "checked": "COMMIT_MESSAGE", "PGROUP": "plain", "user": "中文",
    "TRAN_MSG": "true",
}  # fmt: skip


def bodies(cluster: Cluster, messages: list[Message]) -> list[str]:
    """In order. Java's broker may commit a message more than once."""
    found = [message.body for message in messages]
    return sorted(found if isinstance(cluster, OurCluster) else set(found))


def test_committed_messages_come_and_rolled_back_ones_do_not(
    cluster: Cluster, clients: Clients
) -> None:
    """In the order of the commits, each as it was sent."""
    producer = Transacting(clients, "plain")
    ids = []
    for n in range(4):
        ends = "ROLLBACK_MESSAGE" if n == 2 else "COMMIT_MESSAGE"
        ids.append(
            producer.send(
                "Plainly", f"body {n}", ends, keys="k1", tags="TagA", flag=7,
                properties={"user": "中文"},
            )
        )  # fmt: skip
    found = clients.drain("Plainly", 3)
    assert bodies(cluster, found) == ["body 0", "body 1", "body 3"]
    assert {message.id for message in found} == {ids[0], ids[1], ids[3]}
    for message in found:
        assert message.sys_flag & 0xC == 0x8
        assert message.flag == 7
        assert message.user_properties.items() >= KEPT.items()
        if isinstance(cluster, OurCluster):  # as Java's 5.5.0; 4.9 has more of the half message
            assert message.user_properties == KEPT | {"__transactionId__": message.id}
    producer.end()


def test_who_does_not_know_is_asked_until_he_does(cluster: Cluster, clients: Clients) -> None:
    """One says then that it is committed, one that it is not, one nothing for a while."""
    producer = Transacting(clients, "unsure")
    producer.send("Unsure", "goes", "UNKNOW", "COMMIT_MESSAGE")
    producer.send("Unsure", "stays", "UNKNOW", "ROLLBACK_MESSAGE")
    producer.send("Unsure", "who knows", "UNKNOW", "UNKNOW")
    producer.send("Unsure", "at once", "COMMIT_MESSAGE")

    def is_asked_again() -> bool:
        return producer.checks().count("who knows") >= 2

    eventually(is_asked_again, "a second question about what nobody knows", 60.0)
    expected = ["at once", "goes"]
    eventually_equal(lambda: bodies(cluster, clients.drain("Unsure", 2)), expected, "commits")
    assert {"goes", "stays"} <= set(producer.checks())
    producer.end()


def test_a_sibling_is_asked_when_the_producer_was_killed(
    cluster: Cluster, clients: Clients, peer: Peer
) -> None:
    """kill -9 of its JVM. Any producer of the group may answer, as it would have answered."""
    doomed = Clients(peer.clients([cluster.name_server]))
    first = Transacting(doomed, "gone", "family")
    first.send("Inherited", "left behind", "UNKNOW", "COMMIT_MESSAGE")
    first.send("Inherited", "not wanted", "UNKNOW", "ROLLBACK_MESSAGE")
    doomed.shell.kill()
    sibling = Transacting(clients, "sibling", "family")
    # In a topic of its own: on a busy machine Java asks about it before it has noted the rollback.
    sibling.send("Known", "only to be known to the broker", "ROLLBACK_MESSAGE")

    def is_asked_about_both() -> bool:
        return {"left behind", "not wanted"} <= set(sibling.checks())

    eventually(is_asked_about_both, "questions about both that were left", 60.0)
    assert bodies(cluster, clients.drain("Inherited", 1)) == ["left behind"]
    sibling.end()
