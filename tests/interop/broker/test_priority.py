"""Priorities with Java's clients: ours chooses the queue that Java's broker chooses.

Brokers before 5.4 know nothing of priorities.
"""

import pytest

from interop.broker.attributes import set_attributes
from interop.broker.clients import Clients
from interop.broker.cluster import Cluster, OurCluster
from interop.peer import Peer

QUEUES = 4
NAME = "_SYS_MSG_PRIORITY_"
BACKLOG = 480
"""Fifteen pulls of each queue: whenever the client stands still for a moment, as it may on a busy
machine, one of each lower queue goes first."""


@pytest.fixture
def knows(peer: Peer, cluster: Cluster) -> bool:
    """Whether the broker knows of priorities; for the others they are properties like any."""
    return isinstance(cluster, OurCluster) or peer.version != "4.9.7"


def make_topic(cluster: Cluster, clients: Clients, topic: str) -> None:
    clients.make_topic(topic, QUEUES, [cluster.main.address])
    answer = set_attributes(cluster, topic, QUEUES, "+message.type=PRIORITY")
    assert answer.code == 0, answer.remark


@pytest.mark.parametrize("is_typed", [True, False])
def test_a_priority_chooses_the_queue(
    cluster: Cluster, clients: Clients, knows: bool, is_typed: bool
) -> None:
    """Whatever queue was asked for, and whatever the type of the topic; no priority, no choice."""
    topic = f"Priority{is_typed}"
    clients.make_topic(topic, QUEUES, [cluster.main.address])
    if is_typed:
        make_topic(cluster, clients, topic)
    cases = {
        "0": 0, "1": 1, "3": 3, "4": 3, "99": 3, "2147483647": 3, "+2": 2,
        "-1": 1, "high": 1, "2147483648": 1, "1.0": 1,
    }  # fmt: skip
    if not knows:
        cases = dict.fromkeys(cases, 1)
    asked = [
        {"body": text, "broker": "broker-a", "queue": 1, "properties": {NAME: text}}
        for text in cases
    ]
    sent = clients.send(topic, asked, "queue")
    assert {one["body"]: told.queue for one, told in zip(asked, sent, strict=True)} == cases
    stored = clients.drain(topic, len(cases))
    assert {one.body: one.queue for one in stored} == cases
    assert {one.body: one.properties.get(NAME) for one in stored} == {text: text for text in cases}


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("ordered", {"properties": {NAME: "3", "__SHARDINGKEY": "a"}}),
        ("delayed", {"properties": {NAME: "3"}, "delayLevel": 1}),
    ],
)
def test_messages_of_other_kinds_have_no_priority(
    cluster: Cluster, clients: Clients, knows: bool, body: str, more: dict[str, object]
) -> None:
    """It is taken away, and the queue is the one that was asked for."""
    topic = f"Kind{body}"
    make_topic(cluster, clients, topic)
    (sent,) = clients.send(
        topic, [{"body": body, "broker": "broker-a", "queue": 1, **more}], "queue"
    )
    (stored,) = clients.drain(topic, 1)
    assert (sent.queue, stored.queue) == (1, 1)
    assert stored.properties.get(NAME) == (None if knows else "3")


def test_messages_of_a_batch_stay_where_they_are_sent(cluster: Cluster, clients: Clients) -> None:
    """They have one queue."""
    make_topic(cluster, clients, "PriorityBatch")
    clients.send("PriorityBatch", ["first"])
    asked = [{"body": f"b{n}", "properties": {NAME: str(n)}} for n in range(4)]
    (sent,) = clients.send("PriorityBatch", asked, "batch")
    stored = [one for one in clients.drain("PriorityBatch", 5) if one.body != "first"]
    assert {one.queue for one in stored} == {sent.queue}
    assert [one.properties[NAME] for one in stored] == ["0", "1", "2", "3"]


def test_a_push_consumer_gets_a_backlog_from_the_highest_queue_on(
    cluster: Cluster, clients: Clients
) -> None:
    """All of it; from ours, on the average, the two highest before the rest, one by one."""
    make_topic(cluster, clients, "PriorityPush")
    asked = [
        {"body": f"{n % QUEUES} {n}", "properties": {NAME: str(n % QUEUES)}}
        for n in range(BACKLOG * QUEUES)
    ]
    clients.send("PriorityPush", asked, "async")
    with clients.push("priorityPush", "PriorityPush") as consumer:
        received = consumer.received(len(asked))
    assert len({one.body for one in received}) == len(asked)
    places = [
        sum(place for place, one in enumerate(received) if one.queue == queue) / BACKLOG
        for queue in range(QUEUES)
    ]
    print(f"average places of queues 0 to {QUEUES - 1}: {places}")
    if isinstance(cluster, OurCluster):
        # When the two lowest are left, the client asks for both at once.
        assert places[-1] < places[-2] < min(places[:-2])
