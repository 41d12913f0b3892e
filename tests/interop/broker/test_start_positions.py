"""Where a group starts that has consumed nothing yet, and that it goes on where it was."""

import time

import pytest

from interop.broker.clients import Clients, Message, eventually
from interop.broker.cluster import Cluster
from interop.broker.start_times import GAP_S, check_gap, start_text


@pytest.mark.parametrize("position", ["FIRST_OFFSET", "LAST_OFFSET", "TIMESTAMP"])
def test_new_group_gets_all_of_a_young_topic(clients: Clients, position: str) -> None:
    """While a broker still has a topic's first message, new groups start there, wherever they ask.

    It answers 0 to the question how far such a group is, before the client decides anything.
    """
    topic = f"Young{position}"
    bodies = [f"young {n}" for n in range(8)]
    clients.send(topic, bodies)
    hour_ago = time.strftime("%Y%m%d%H%M%S", time.localtime(time.time() - 3600))
    options = {"from": position, "timestamp": hour_ago}
    with clients.push(topic, topic, **options) as consumer:
        assert sorted(one.body for one in consumer.received(8)) == bodies


def test_broadcasting_consumer_without_offsets_starts_where_it_asks(
    cluster: Cluster, clients: Clients
) -> None:
    """It asks no broker how far it is: LAST passes over what is old, TIMESTAMP begins between."""
    clients.make_topic("Started", 1, [cluster.main.address])
    early = send_and_drain(clients, range(4))
    time.sleep(GAP_S)
    late = send_and_drain(clients, range(4, 8))
    check_gap(early[-1], late[4])
    options = {"broadcasting": True, "timestamp": start_text(late[4])}
    with (
        clients.push("startedFirst", "Started", **options) as first,
        clients.push("startedLast", "Started", **{"from": "LAST_OFFSET"}, **options) as last,
        clients.push("startedTime", "Started", **{"from": "TIMESTAMP"}, **options) as timed,
    ):
        # A consumer has a queue as soon as it has decided where to start in it.
        eventually(lambda: bool(last.queues()), "the consumer that starts at the end")
        clients.send("Started", ["8"])
        assert sorted(one.body for one in timed.received(5)) == ["4", "5", "6", "7", "8"]
        assert sorted(one.body for one in first.received(9)) == [f"{n}" for n in range(9)]
        assert [one.body for one in last.received(1)] == ["8"]
        assert [len(one.stop()) for one in (first, last, timed)] == [9, 1, 5]


def send_and_drain(clients: Clients, numbers: range) -> list[Message]:
    """Send these to Started; all that it holds then."""
    clients.send("Started", [f"{n}" for n in numbers])
    return clients.drain("Started", numbers.stop)


def test_kept_offset_is_stronger_than_the_wish_to_start_at_the_first(clients: Clients) -> None:
    """FIRST_OFFSET is for groups that have no offset; this one has."""
    clients.send("Kept", [f"old {n}" for n in range(8)])
    with clients.push("kept-0", "Kept", group="kept") as first:
        first.received(8)
        eventually(lambda: sum(first.offsets().values()) == 8, "offsets of the group")
    clients.send("Kept", ["new"])
    with clients.push("kept-1", "Kept", **{"group": "kept", "from": "FIRST_OFFSET"}) as second:
        second.received(1)
        clients.send("Kept", ["newer"])
        assert sorted(one.body for one in second.received(2)) == ["new", "newer"]
