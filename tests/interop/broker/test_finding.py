"""What Java looks for: messages by ids of both kinds, by key, by time, by their traces."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from interop.broker.clients import Clients, Finder, Message, Sent, eventually, eventually_equal
from interop.broker.cluster import Cluster
from interop.peer import ClientError, Peer

TOPIC = "Found"
TRACED = "Traced"
APART_S = 1.1


@dataclass(frozen=True)
class Findable:
    """Messages of two times, more than a second apart, and one that was traced between them."""

    early: list[Sent]
    traced_id: str
    late: list[Sent]


@pytest.fixture(scope="session")
def findable(cluster: Cluster, clients: Clients) -> Iterator[Findable]:
    for topic in (TOPIC, TRACED):
        clients.make_topic(topic, 1, [cluster.main.address])
    early = clients.send(
        TOPIC, [{"body": f"early {n}", "keys": f"all k{n}", "tags": "red"} for n in range(3)]
    )
    begun_s = time.monotonic()
    traced_id = clients.shell.do(
        "traced", group="tracedGroup", message={"topic": TRACED, "body": "seen"}
    )
    time.sleep(max(0.0, APART_S - (time.monotonic() - begun_s)))
    late = clients.send(TOPIC, [{"body": f"late {n}", "keys": f"all k{n}"} for n in range(2)])
    yield Findable(early, traced_id, late)
    clients.shell.do("endTraced")


@pytest.fixture(scope="session")
def finder(clients: Clients) -> Finder:
    return Finder(clients)


def bodies(messages: list[Message]) -> list[str]:
    return sorted(message.body for message in messages)


def test_messages_are_seen_by_ids_of_both_kinds(finder: Finder, findable: Findable) -> None:
    """The broker's has the place in it; the producer's is looked for in the index."""
    sent = findable.early[1]
    assert sent.id != sent.offset_id
    for message_id in (sent.offset_id, sent.id):
        found = finder.view(TOPIC, message_id)
        assert (found.body, found.queue, found.offset) == ("early 1", sent.queue, sent.offset)
        assert found.properties["KEYS"] == "all k1"
        assert found.properties["UNIQ_KEY"] == sent.id


def test_ids_of_nothing_are_told_by_an_error(cluster: Cluster, finder: Finder) -> None:
    """Neither a place where no message begins nor a key that nobody has."""
    for message_id in (cluster.main.offset_id(1 << 40), "7F000001" + 24 * "0"):
        with pytest.raises(ClientError):
            finder.view(TOPIC, message_id)


def test_messages_are_found_by_each_of_their_keys(finder: Finder, findable: Findable) -> None:
    """All of them, of both times; the newest if not all are wanted."""
    everything = ["early 0", "early 1", "early 2", "late 0", "late 1"]
    eventually_equal(lambda: bodies(finder.by_key(TOPIC, "all")), everything, "what is found")
    assert bodies(finder.by_key(TOPIC, "k1")) == ["early 1", "late 1"]
    assert bodies(finder.by_key(TOPIC, "k2")) == ["early 2"]
    assert bodies(finder.by_key(TOPIC, "all", count=2)) == ["late 0", "late 1"]
    assert finder.by_key(TOPIC, "k9") == []


def test_messages_are_found_by_key_and_time(finder: Finder, findable: Findable) -> None:
    """The time in which they were stored, which Java's index knows by the second."""
    found = {message.body: message.stored_ms for message in finder.by_key(TOPIC, "all")}
    early_ms, late_ms = found["early 2"], found["late 0"]
    assert late_ms - early_ms > 1_000
    assert bodies(finder.by_key(TOPIC, "all", begin_ms=late_ms - 1_000)) == ["late 0", "late 1"]
    assert bodies(finder.by_key(TOPIC, "all", end_ms=early_ms)) == [
        "early 0", "early 1", "early 2",
    ]  # fmt: skip
    assert finder.by_key(TOPIC, "all", begin_ms=late_ms + 5_000) == []


def test_messages_are_found_by_their_unique_key(
    cluster: Cluster, peer: Peer, findable: Findable
) -> None:
    """As mqadmin asks for it, which says so to the broker."""
    sent = findable.late[1]
    output = peer.mqadmin_output(
        "queryMsgByUniqueKey", "-t", TOPIC, "-i", sent.id, name_server=cluster.name_server
    )
    shown = dict(re.findall(r"^([\w ]+?): +(.*?) *$", output.stdout, re.MULTILINE))
    assert (shown["Topic"], shown["Queue Offset"]) == (TOPIC, str(sent.offset))
    assert shown["Keys"] == "[all k1]"


def test_traced_messages_are_found_with_what_became_of_them(
    cluster: Cluster, clients: Clients, peer: Peer, findable: Findable
) -> None:
    """Sent by one, consumed by another."""

    def rows() -> dict[str, str]:
        clients.shell.do("flushTraces")
        output = peer.mqadmin_output(
            "queryMsgTraceById", "-i", findable.traced_id, name_server=cluster.name_server
        )
        found = re.findall(r"^(Pub|Sub) +(\S+) .* (\S+) *$", output.stdout, re.MULTILINE)
        return {kind: f"{group} {status}" for kind, group, status in found}

    expected = {"Pub": "tracedGroup success", "Sub": "tracedGroup success"}
    eventually_equal(rows, expected, "the trace of a message")


def test_entries_of_a_queue_are_shown(
    cluster: Cluster, clients: Clients, finder: Finder, findable: Findable
) -> None:
    """Where each message lies and how long it is."""
    stored = clients.drain(TOPIC, 5)
    shown = finder.do(
        "entries", address=cluster.main.address, topic=TOPIC, queue=0, offset=1, count=3
    )
    assert (shown["min"], shown["max"]) == (0, 5)
    assert [entry[:2] for entry in shown["entries"]] == [
        [message.log_offset, message.size] for message in stored[1:4]
    ]
    red = shown["entries"][0][2]
    assert [entry[2] for entry in shown["entries"]] == [red, red, 0]
    assert red != 0


def test_a_group_is_told_of_with_the_entries(
    cluster: Cluster, clients: Clients, finder: Finder, findable: Findable
) -> None:
    """How it subscribes, if it is online."""
    asked = {"address": cluster.main.address, "topic": TOPIC, "queue": 0, "offset": 0, "count": 1}
    shown = finder.do("entries", group="absentGroup", **asked)
    assert (shown["filter"], shown["expression"]) == (f"absentGroup@{TOPIC} is not online!", None)
    with clients.push("present", TOPIC, group="presentGroup", tags="red || blue") as consumer:
        consumer.received(3)

        def is_shown() -> bool:
            shown = finder.do("entries", group="presentGroup", **asked)
            return (shown["filter"], shown["expression"]) == ("null", "red || blue")

        eventually(is_shown, "the subscription of a group")
