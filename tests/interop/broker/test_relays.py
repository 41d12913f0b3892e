"""Operators reach Java's consumers through the broker: how they are, and one message now."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from interop.broker.clients import Clients, Finder, PushConsumer
from interop.broker.cluster import Cluster
from interop.peer import ClientError

TOPIC, GROUP = "Asked", "askedGroup"
SYSTEM_ERROR = 1


@dataclass(frozen=True)
class Asked:
    """A consumer that has consumed a message, one that it fails and one that it does not."""

    consumer: PushConsumer
    client_id: str
    ids: list[str]


@pytest.fixture(scope="session")
def asked(cluster: Cluster, clients: Clients) -> Iterator[Asked]:
    clients.make_topic(TOPIC, 2, [cluster.main.address])
    sent = clients.send(TOPIC, ["good", "failing"])
    with clients.push("asked", TOPIC, group=GROUP, fails=1, delayLevel=1) as consumer:
        consumer.received(3)
        yield Asked(consumer, Finder(clients).client_id(GROUP), [one.id for one in sent])


def test_a_consumer_tells_how_it_is(clients: Clients, asked: Asked) -> None:
    """Its subscriptions, its queues and, on demand, its threads."""
    info = Finder(clients).do("running", group=GROUP, id=asked.client_id, jstack=True)
    assert {TOPIC, f"%RETRY%{GROUP}"} == set(info["topics"])
    assert {"broker-a:0", "broker-a:1"} <= set(info["queues"])
    assert info["type"] == "CONSUME_PASSIVELY"
    assert info["threads"] > 1_000


def test_a_consumer_tells_where_it_stands(clients: Clients, asked: Asked) -> None:
    """As it knows it itself, which the broker may not yet."""
    stands = Finder(clients).do("stands", group=GROUP, topic=TOPIC)
    assert list(stands) == [asked.client_id]
    assert sum(stands[asked.client_id].values()) == 2


@pytest.mark.parametrize(("which", "result"), [(0, "CR_SUCCESS"), (1, "CR_LATER")])
def test_a_consumer_is_given_one_message_now(
    clients: Clients, asked: Asked, which: int, result: str
) -> None:
    """Again, and says how that went; a message that it fails is not tried again for that."""
    before = asked.consumer.received(0, 0.0)
    answer = Finder(clients).do(
        "directly", group=GROUP, id=asked.client_id, topic=TOPIC, message=asked.ids[which]
    )
    assert answer == {"result": result, "orderly": False}
    after = asked.consumer.received(len(before) + 1)
    assert [message.properties["UNIQ_KEY"] for message in after[len(before) :]] == [
        asked.ids[which]
    ]


def test_a_consumer_that_is_not_there_cannot_be_asked(clients: Clients, asked: Asked) -> None:
    """Whatever is asked, the answer names it."""
    finder = Finder(clients)
    nobody = {"group": GROUP, "id": "nobody"}
    for command, more in (
        ("running", {}),
        ("directly", {"topic": TOPIC, "message": asked.ids[0]}),
    ):
        with pytest.raises(ClientError) as refused:
            finder.do(command, **nobody, **more)
        assert refused.value.code == SYSTEM_ERROR
        assert f"The Consumer <{GROUP}> <nobody> not online" in refused.value.text
