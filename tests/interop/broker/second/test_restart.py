"""A master is restarted under Java's consumers, and comes back without its oldest messages."""

import time
from dataclasses import dataclass

import pytest

from interop.broker.clients import (
    Clients,
    Message,
    PushConsumer,
    Sent,
    eventually,
    eventually_equal,
)
from interop.broker.cluster import BrokerAddress, Cluster
from interop.broker.second.conftest import SEGMENT_BYTES
from interop.broker.start_times import GAP_S, check_gap, start_text
from interop.peer import ClientError, Peer

RECOVERY_S = 60.0
"""A consumer of 4.9 does not see that its connection is gone: its pulls time out after 30 s."""


@dataclass(frozen=True, slots=True)
class Restart:
    """What was sent, and what consumers got that lived through the restart."""

    sent: list[Sent]
    received: list[Message]
    ordered: list[Message]
    aged: list[Message]
    """All that the topic Aged held before; its oldest messages did not survive."""
    kept: list[Message]
    """Those of them that did."""
    late: list[Message]
    """What was sent to it afterwards."""


@pytest.fixture(scope="module")
def restart(cluster: Cluster, clients: Clients, second: BrokerAddress) -> Restart:
    """One restart for all tests: of Java's broker it takes long."""
    aged = age(clients, second)
    for topic in ("Restarted", "RestartedOrderly"):
        clients.make_topic(topic, 2, [second.address])
    with (
        clients.push("restarted", "Restarted") as consumer,
        clients.push("restartedOrderly", "RestartedOrderly", orderly=True) as orderly,
    ):
        sent = clients.send("Restarted", [f"before {n}" for n in range(8)])
        send_in_order(clients, range(8))
        consume_before(consumer, orderly, sent)
        cluster.stop("broker-b")
        with pytest.raises(ClientError):
            clients.send("Restarted", ["meanwhile"])
        kept = remove_oldest(cluster, aged)
        cluster.start("broker-b")
        sent += send_when_it_is_back(clients, "after 0")
        sent += clients.send("Restarted", [f"after {n}" for n in range(1, 8)])
        send_in_order(clients, range(8, 16))
        orderly.release()
        received = consumer.received(16, RECOVERY_S)
        ordered = consume_rest(orderly)
        eventually_equal(consumer.offsets, ends_of(sent), "offsets of the group")
    late = send_late(clients, aged)
    return Restart(sent, received, ordered, aged, kept, late)


def consume_before(consumer: PushConsumer, orderly: PushConsumer, sent: list[Sent]) -> None:
    """Wait until all is consumed, but for what is in order behind the message that is held."""
    assert len(consumer.received(8)) == 8
    eventually_equal(consumer.offsets, ends_of(sent), "offsets of the group")
    assert len(orderly.received(8 + 4)) == 8 + 4
    eventually_equal(orderly.offsets, {"broker-b:0": 3, "broker-b:1": 8}, "offsets in order")


def consume_rest(orderly: PushConsumer) -> list[Message]:
    """Wait until both queues are consumed; a message that was held may come twice."""
    ends = {"broker-b:0": 16, "broker-b:1": 16}
    eventually(lambda: orderly.offsets() == ends, "offsets in order", RECOVERY_S)
    return orderly.stop()


def send_in_order(clients: Clients, numbers: range) -> None:
    """One to each queue in turn; the consumer holds number 3 of the first."""
    asked = [
        {"body": f"{'hold' if (queue, n) == (0, 3) else 'pass'} {n}", "broker": "broker-b",
         "queue": queue}
        for n in numbers
        for queue in range(2)
    ]  # fmt: skip
    clients.send("RestartedOrderly", asked, "queue")


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


# --- a topic whose oldest messages are gone -------------------------------------------------------


def age(clients: Clients, second: BrokerAddress) -> list[Message]:
    """Fill more than one file of the log with a topic of one queue; what it holds then."""
    clients.make_topic("Aged", 1, [second.address])
    for _ in range(2):  # not compressed, as each is small
        clients.send("Aged", [{"body": "old ", "times": 1_000} for _ in range(40)], "batch")
    clients.send("Aged", [f"early {n}" for n in range(4)])
    stored = clients.drain("Aged", 84)
    assert stored[0].log_offset // SEGMENT_BYTES < stored[80].log_offset // SEGMENT_BYTES
    return stored


def remove_oldest(cluster: Cluster, aged: list[Message]) -> list[Message]:
    """Remove what retention removes: whole files of the log. Gives the messages that are left."""
    first_kept = aged[80].log_offset // SEGMENT_BYTES * SEGMENT_BYTES
    for file in cluster.log_files("broker-b"):
        if int(file.name) < first_kept:
            file.unlink()
    return [one for one in aged if one.log_offset >= first_kept]


def send_late(clients: Clients, aged: list[Message]) -> list[Message]:
    """Four messages more, so much later that a time in whole seconds lies between."""
    time.sleep(max(0.0, aged[-1].stored_ms / 1000 + GAP_S - time.time()))
    clients.send("Aged", [f"late {n}" for n in range(4)])
    late = [one for one in clients.drain("Aged", 4) if one.body.startswith("late")]
    check_gap(aged[-1], late[0])
    return late


# --- the tests ------------------------------------------------------------------------------------


def test_consumer_survives_a_restart_of_its_broker(clients: Clients, restart: Restart) -> None:
    """Same store, same port: what was stored stays, the group goes on, nobody starts anew."""
    assert sorted(one.id for one in restart.received) == sorted(one.id for one in restart.sent)
    stored = clients.drain("Restarted", 16)
    bodies = [f"{when} {n}" for when in ("before", "after") for n in range(8)]
    assert sorted(one.body for one in stored) == sorted(bodies)
    assert {one.broker for one in stored} == {"broker-b"}
    # Every queue counted on from where it was: no offset twice, none left out.
    assert sorted((one.queue, one.offset) for one in stored) == sorted(
        (one.queue, one.offset) for one in restart.sent
    )


def test_order_survives_a_restart_of_the_broker(restart: Restart) -> None:
    """One queue is in the middle of a message, the other waits: each goes on with its next."""
    for queue in range(2):
        places = [(one.offset, int(one.body.split()[1])) for one in restart.ordered
                  if one.queue == queue]  # fmt: skip
        if places.count((3, 3)) == 2:  # the one in hand when the broker went
            places.remove((3, 3))
        assert places == [(n, n) for n in range(16)], queue


def test_new_group_starts_where_it_asks_when_the_first_messages_are_gone(
    clients: Clients, peer: Peer, restart: Restart
) -> None:
    """The broker knows no offset for it then, and the client decides.

    LAST is nothing that is there, TIMESTAMP the later half, FIRST all that is left of the topic.
    """
    first_kept = restart.kept[0].offset
    assert 0 < first_kept < 80
    assert clients.bounds("Aged")["broker-b:0"][:2] == [first_kept, 88]
    options = {"timestamp": start_text(restart.late[0])}
    with (
        clients.push("agedLast", "Aged", **{"from": "LAST_OFFSET"}, **options) as last,
        clients.push("agedTime", "Aged", **{"from": "TIMESTAMP"}, **options) as timed,
    ):
        eventually(lambda: bool(last.queues()), "the group that starts at the end")
        (new,) = clients.send("Aged", ["new"])
        assert sorted(one.offset for one in timed.received(5)) == [84, 85, 86, 87, 88]
        assert [one.offset for one in last.received(1)] == [new.offset]
        assert len(last.stop()) == 1
    if peer.version.startswith("5."):  # 4.9 waits ten seconds before it goes to the first
        with clients.push("agedFirst", "Aged", **options) as first:
            every = list(range(first_kept, 89))
            assert sorted(one.offset for one in first.received(len(every))) == every
