"""A topic that takes each message once, with Java's clients: what they send again is there once.

Java's broker has no such topics, and stores everything again: it shows that it was sent again.
"""

import asyncio

import pytest

from fault.broker.wire import Queue, ask, connected, send_request, stored_at
from interop.broker.attributes import set_attributes
from interop.broker.clients import Clients, Sent, Transacting
from interop.broker.cluster import Cluster, OurCluster
from interop.peer import Peer
from roketto.protocol.command import Command

QUEUES = 4


@pytest.fixture
def is_ours(cluster: Cluster) -> bool:
    return isinstance(cluster, OurCluster)


@pytest.fixture
def once(cluster: Cluster, clients: Clients, is_ours: bool, request: pytest.FixtureRequest) -> str:
    """A topic for a test, which takes each message once if the broker is ours."""
    topic = f"Once-{request.node.originalname[5:25]}"
    clients.make_topic(topic, QUEUES, [cluster.main.address])
    if is_ours:
        answer = set_attributes(cluster, topic, QUEUES, "+dedup.window.seconds=600")
        assert answer.code == 0, answer.remark
    return topic


def place(sent: Sent) -> tuple[object, ...]:
    return sent.status, sent.id, sent.offset_id, sent.queue, sent.offset


def bodies(clients: Clients, topic: str, count: int) -> list[str]:
    """Of all messages of a topic, which must be so many, in order."""
    found = sorted(one.body for one in clients.drain(topic, count))
    assert len(found) == count, found
    return found


def test_java_refuses_what_it_does_not_know(peer: Peer, cluster: Cluster, is_ours: bool) -> None:
    """Ours takes it: an operator sees at once which broker has it. 4.9 has no attributes at all."""
    answer = set_attributes(cluster, "Attributed", QUEUES, "+dedup.window.seconds=60")
    if is_ours:
        assert answer.code == 0
        wrong = set_attributes(cluster, "Attributed", QUEUES, "+dedup.window.seconds=86401")
        assert "write an integer of 0..86400" in (wrong.remark or "")
    elif peer.version == "4.9.7":
        assert answer.code == 0
    else:
        assert answer.code != 0
        assert "unsupported key: dedup.window.seconds" in (answer.remark or "")


def test_what_a_producer_sends_again_is_answered_as_before(
    clients: Clients, once: str, is_ours: bool
) -> None:
    """Sync, async and one-way, each with an id that came before; the answers name the first."""
    asked = [{"body": f"m{n}", "properties": {"UNIQ_KEY": f"{n:032X}"}} for n in range(8)]
    first = clients.send(once, asked)
    assert {one.status for one in first} == {"SEND_OK"}
    for how in ("sync", "async"):
        again = clients.send(once, asked, how)
        assert ([place(one) for one in again] == [place(one) for one in first]) == is_ours
    clients.send(once, asked, "oneway")
    clients.send(once, ["last"])
    found = bodies(clients, once, 9 if is_ours else 33)
    assert set(found) == {*(f"m{n}" for n in range(8)), "last"}


def test_batches_that_come_again_are_answered_as_before(
    clients: Clients, once: str, is_ours: bool
) -> None:
    """With the ids of all of their messages; of another batch only the new ones are stored."""
    asked = [{"body": f"b{n}", "properties": {"UNIQ_KEY": f"B{n:031X}"}} for n in range(6)]
    (first,) = clients.send(once, asked[:4], "batch")
    (again,) = clients.send(once, asked[:4], "batch")
    assert (again.id == first.id, place(again) == place(first)) == (True, is_ours)
    clients.send(once, asked[2:], "batch")
    assert set(bodies(clients, once, 6 if is_ours else 12)) == {f"b{n}" for n in range(6)}


def test_a_delayed_message_that_comes_again_is_delivered_once(
    clients: Clients, once: str, is_ours: bool
) -> None:
    """It waits when the second one comes; what is sent behind both is delivered after them."""
    asked = [{"body": "later", "delayLevel": 1, "properties": {"UNIQ_KEY": "D" * 32}}]
    first, again = (clients.send(once, asked)[0] for _ in range(2))
    assert (place(first) == place(again)) == is_ours
    clients.send(once, [{"body": "behind", "delayLevel": 1}])
    assert set(bodies(clients, once, 2 if is_ours else 3)) == {"later", "behind"}


def test_half_messages_that_come_again_are_consumed_once(
    clients: Clients, once: str, is_ours: bool
) -> None:
    """As a producer's retry, whose second half message would be committed as well."""
    transacting = Transacting(clients, "TransactOnce")
    properties = {"UNIQ_KEY": "F" * 32}
    for _ in range(2):
        transacting.send(once, "half", "COMMIT_MESSAGE", properties=properties)
    transacting.send(once, "other", "COMMIT_MESSAGE")
    assert set(bodies(clients, once, 2 if is_ours else 3)) == {"half", "other"}
    transacting.end()


def test_retries_that_somebody_forges_find_the_first(
    cluster: Cluster, clients: Clients, once: str, is_ours: bool
) -> None:
    """Over the wire as a client's second attempt: the same message, another queue."""
    (first,) = clients.send(once, ["original"])

    async def send_again() -> Command:
        async with connected(cluster.main.address) as connection:
            queue = Queue(once, (first.queue + 1) % QUEUES)
            return await ask(connection, send_request(queue, b"original", {"UNIQ_KEY": first.id}))

    again = stored_at(asyncio.run(send_again()))
    told = (again.msg_id, again.queue_id, again.queue_offset)
    assert (told == (first.offset_id, first.queue, first.offset)) == is_ours
    assert set(bodies(clients, once, 1 if is_ours else 2)) == {"original"}
