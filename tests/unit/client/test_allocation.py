"""Queues are shared exactly as Java's own strategies share them, for whatever both were given."""

from collections import Counter
from pathlib import Path

import pytest

from roketto.client.allocation import (
    Averagely,
    AveragelyByCircle,
    ConsistentHash,
    Fixed,
    MachineRoom,
    MachineRoomNearby,
    Strategy,
    sorted_ids,
    sorted_queues,
)
from roketto.protocol.bodies.route import MessageQueue

VECTORS = Path(__file__).parents[2] / "golden" / "client" / "allocation" / "5.5.0.tsv"
SIMPLE: dict[str, Strategy] = {"AVG": Averagely(), "AVG_BY_CIRCLE": AveragelyByCircle()}


def room_of(name: str) -> str:
    return name.split("-")[0]


def make(name: str, made_with: str, queues: list[MessageQueue]) -> Strategy:
    """The strategy that Java calls ``name``."""
    if name == "CONFIG":
        return Fixed(queues[int(number)] for number in made_with.split())
    if name == "MACHINE_ROOM":
        return MachineRoom(made_with.split())
    if name == "CONSISTENT_HASH":
        return ConsistentHash(int(made_with))
    if name.startswith("MACHINE_ROOM_NEARBY"):
        return MachineRoomNearby(
            SIMPLE[made_with], lambda queue: room_of(queue.broker_name), room_of
        )
    return SIMPLE[name]


def test_every_share_is_the_one_that_java_gives() -> None:
    """A thousand random groups for each of six strategies, all members of each, in order."""
    compared: Counter[str] = Counter()
    for line in VECTORS.read_text().splitlines():
        name, made_with, topic, brokers, ids, shares = line.split("\t")
        queues = sorted_queues(
            MessageQueue(broker, number, topic)
            for broker, count in (text.rsplit(":", 1) for text in brokers.split(" "))
            for number in range(int(count))
        )
        members = sorted_ids(ids.split(" "))
        strategy = make(name, made_with, queues)
        assert strategy.name == name
        for member, share in zip(members, shares.split(";"), strict=True):
            expected = [queues[int(number)] for number in share.split()]
            assert strategy.allocate("G", member, queues, members) == expected, line
        compared[name.split("-")[0]] += 1
    assert len(compared) == 6
    assert set(compared.values()) == {1_000}


@pytest.mark.parametrize(
    ("queues", "members", "shares"),
    [
        (5, 2, [3, 2]),
        (6, 3, [2, 2, 2]),
        (10, 20, [1] * 10 + [0] * 10),
        (20, 6, [4, 4, 3, 3, 3, 3]),
    ],
)
def test_an_average_share_has_the_size_that_users_know(
    queues: int, members: int, shares: list[int]
) -> None:
    """The table of the user guide; the shares are neighbours, and together all queues."""
    all_queues = [MessageQueue("b", number, "T") for number in range(queues)]
    ids = sorted_ids(f"client-{number}" for number in range(members))
    found = [Averagely().allocate("G", member, all_queues, ids) for member in ids]
    assert [len(share) for share in found] == shares
    assert [queue for share in found for queue in share] == all_queues


def test_whoever_is_no_member_gets_no_queue() -> None:
    """A client whose heartbeat has not arrived; the fixed share alone asks nobody."""
    queues = [MessageQueue("r-b", 0, "T")]
    for name, made_with in (
        ("AVG", ""), ("AVG_BY_CIRCLE", ""), ("MACHINE_ROOM", "r"), ("CONSISTENT_HASH", "10"),
        ("MACHINE_ROOM_NEARBY", "AVG"),
    ):  # fmt: skip
        strategy = make(name, made_with, queues)
        assert strategy.allocate("G", "r-me", queues, ["r-other"]) == []
        assert strategy.allocate("G", "r-me", queues, []) == []
    assert Fixed(queues).allocate("G", "r-me", [], []) == queues


def test_what_makes_no_sense_is_refused_in_words() -> None:
    """A room that nobody can name, fewer than no nodes."""
    strategy = MachineRoomNearby(Averagely(), lambda _: "", lambda _: "r")
    with pytest.raises(ValueError, match="no room is known of MessageQueue"):
        strategy.allocate("G", "me", [MessageQueue("b", 0, "T")], ["me"])
    with pytest.raises(ValueError, match="virtual_nodes is -1; it takes 0 or more"):
        ConsistentHash(-1)


def test_names_are_sorted_by_the_units_that_java_compares() -> None:
    """U+1F680 comes before U+FF5E in UTF-16, and behind it as a character."""
    assert sorted_ids(["\uff5e", "\U0001f680", "a"]) == ["a", "\U0001f680", "\uff5e"]
    queues = [MessageQueue("b", 10, "T"), MessageQueue("b", 9, "T"), MessageQueue("a", 11, "T"),
              MessageQueue("z", 0, "S")]  # fmt: skip
    assert [(queue.topic, queue.queue_id) for queue in sorted_queues(queues)] == [
        ("S", 0), ("T", 11), ("T", 9), ("T", 10),
    ]  # fmt: skip
