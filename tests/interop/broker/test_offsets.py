"""Offsets of groups as operators use them: given to another group, told in times, moved back."""

import time
from typing import Any

from interop.broker.clients import Clients, Finder, eventually_equal
from interop.broker.cluster import Cluster, OurCluster
from interop.broker.moved_groups import BY_BROKER, BY_CLIENTS, MovedGroups
from interop.peer import Peer
from interop.peer.remote import Remote
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    QueryCorrectionOffsetBody,
)
from roketto.protocol.command import Command
from roketto.remoting.client import connect


def test_a_reset_is_answered_with_where_it_leads(moved: MovedGroups) -> None:
    """Each queue and its offset; that both groups go there is in test_resets.py, for it takes
    their clients ten seconds.
    """
    expected = {"broker-a:0": 2, "broker-a:1": 2}
    assert moved.answers == {BY_BROKER: expected, BY_CLIENTS: expected}


def test_a_group_goes_on_where_another_one_stands(cluster: Cluster, clients: Clients) -> None:
    """It gets what the other one has not consumed, and nothing of before."""
    clients.make_topic("Cloned", 2, [cluster.main.address])
    clients.send("Cloned", [f"before {n}" for n in range(6)])
    with clients.push("cloneSource", "Cloned") as source:
        source.received(6)
        eventually_equal(lambda: sum(source.offsets().values()), 6, "all commits")
    clients.send("Cloned", [f"behind {n}" for n in range(2)])
    Finder(clients).do("clone", group="cloneSource", to="cloneTarget", topic="Cloned")
    with clients.push("cloneTarget", "Cloned") as target:
        found = [message.body for message in target.received(2)]
        assert sorted(found) == ["behind 0", "behind 1"]


def test_times_of_a_queue_and_of_a_group_are_told(cluster: Cluster, clients: Clients) -> None:
    """First, last and consumed; how old the next message is."""
    clients.make_topic("Spanned", 1, [cluster.main.address])
    clients.send("Spanned", ["one", "two"])
    stored = [message.stored_ms for message in clients.drain("Spanned", 2)]
    with clients.push("timer", "Spanned") as consumer:
        consumer.received(2)
        eventually_equal(consumer.offsets, {"broker-a:0": 2}, "a commit")
    (span,) = Finder(clients).do("spans", topic="Spanned", group="timer").values()
    assert span == [stored[0], stored[1], stored[1], 0]


async def test_the_ends_of_a_queue_and_the_messages_of_a_time_are_told(
    cluster: Cluster, clients: Clients, peer: Peer
) -> None:
    """Both sides of a time, which 4.9 does not tell apart; both ends, whatever is committed."""
    clients.make_topic("Ends", 2, [cluster.main.address])
    for body in ("first", "second"):
        clients.send("Ends", [{"body": body, "broker": "broker-a", "queue": 0}], how="queue")
        time.sleep(0.02)  # noqa: ASYNC251 (for another millisecond to begin, and some more)
    first_ms, second_ms = [message.stored_ms for message in clients.drain("Ends", 2)]
    connection = await connect(cluster.main.address)

    async def tell(code: int, queue: int = 0, **more: object) -> int:
        fields = {"topic": "Ends", "queueId": queue, **more}
        request = Command(code, {name: str(value) for name, value in fields.items()})
        answer = await connection.request(request, 10_000)
        assert answer.code == 0, answer.remark
        (value,) = (answer.ext or {}).values()
        return int(value)

    assert [await tell(30), await tell(30, committed="false"), await tell(31)] == [2, 2, 0]
    assert [await tell(code, 1) for code in (30, 31, 32)] == [0, 0, -1]
    assert await tell(32) == first_ms
    if peer.version.startswith("5.") or isinstance(cluster, OurCluster):
        times_ms = (0, first_ms, second_ms - 1, second_ms, second_ms + 60_000)
        for boundary, expected in (("lower", [0, 0, 1, 1, 2]), ("upper", [0, 0, 0, 1, 1])):
            found = [await tell(29, timestamp=ms, boundaryType=boundary) for ms in times_ms]
            assert found == expected, boundary
    connection.close("the test is done")


def test_groups_are_compared_and_tables_are_told(cluster: Cluster, clients: Clients) -> None:
    """The smallest offset of the groups of a topic, and what slaves fetch."""
    clients.make_topic("Compared", 1, [cluster.main.address])
    clients.send("Compared", ["one", "two", "three"])
    clients.drain("Compared", 3)
    for group, offset in (("comparedA", 1), ("comparedB", 2)):
        place: dict[str, Any] = {
            "group": group, "topic": "Compared", "broker": "broker-a", "queue": 0, "offset": offset,
        }  # fmt: skip
        clients.shell.do("pull", **place, count=1, tags="*")  # which makes the group
        assert clients.shell.do("update", **place) == offset
    with Remote(cluster.main.address) as remote:
        answer = remote.ask(308, {"topic": "Compared", "compareGroup": "comparedB"})
        assert decode_body(QueryCorrectionOffsetBody, answer.body).correction_offsets == {0: 1}
        table = decode_body(ConsumerOffsetSerializeWrapper, remote.ask(43).body)
        assert table.offset_table["Compared@comparedB"] == {0: 2}
        delays = decode_body(DelayOffsetSerializeWrapper, remote.ask(45).body)
        assert all(level > 0 for level in delays.offset_table)
