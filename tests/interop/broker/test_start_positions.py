"""Where a group starts that has consumed nothing yet, and that it goes on where it was."""

import time

import pytest

from interop.broker.clients import Clients, eventually


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
