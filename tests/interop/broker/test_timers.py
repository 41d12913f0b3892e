"""Java's clients give messages a time: they come then, not before, and can be taken back.

Brokers of 4.9 have no timers and deliver at once. Clients of 4.9 have no methods for them, but
what the methods of 5.5 set are properties, which they can set, too.
"""

import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass

import pytest

from interop.broker.clients import Clients, Message, Sent
from interop.broker.cluster import Cluster, JavaCluster
from interop.peer import ClientError, Peer

TOPIC = "Timed"
DELAY_MS = 2_500
MESSAGE_ILLEGAL = 13
ILLEGAL_OPERATION = 604
WAITED = {"TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "REAL_TOPIC", "REAL_QID"}


@dataclass(frozen=True, slots=True)
class Timed:
    """What was sent at one moment, and what came of it."""

    asked: dict[str, int]
    """By the body of a message, when it shall come, in ms since 1970."""
    sent: dict[str, Sent]
    came: dict[str, list[Message]]


@pytest.fixture(scope="module")
def timed(peer: Peer, cluster: Cluster, clients: Clients) -> Timed:
    """One wait for all tests."""
    if isinstance(cluster, JavaCluster) and not peer.version.startswith("5."):
        pytest.skip("the broker of 4.9 has no timers")
    clients.make_topic(TOPIC, 1, [cluster.main.address])
    now_ms = time.time_ns() // 1_000_000
    due_ms = now_ms + DELAY_MS
    ways = {
        "at its time": {"TIMER_DELIVER_MS": str(due_ms)},
        "by seconds": {"TIMER_DELAY_SEC": "2"},
        "by milliseconds": {"TIMER_DELAY_MS": str(DELAY_MS)},
        "seconds count first": {
            "TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "3600000", "TIMER_DELIVER_MS": "1",
        },
        "was due": {"TIMER_DELIVER_MS": str(now_ms - 1)},
        "has a level": {"TIMER_DELAY_SEC": "3600", "DELAY": "1"},
    }  # fmt: skip
    if peer.version.startswith("5."):
        ways["recalled"] = {"TIMER_DELIVER_MS": str(due_ms)}
    ways["last"] = {"TIMER_DELIVER_MS": str(due_ms + 1_000)}
    messages = [{"body": body, "properties": properties} for body, properties in ways.items()]
    sent = dict(zip(ways, clients.send(TOPIC, messages), strict=True))
    asked = {
        "at its time": due_ms, "by seconds": now_ms + 2_000, "by milliseconds": due_ms,
        "seconds count first": now_ms + 2_000, "was due": 0, "has a level": now_ms + 1_000,
        "last": due_ms + 1_000,
    }  # fmt: skip
    if "recalled" in ways:
        assert clients.recall(TOPIC, sent["recalled"].recall_handle) == sent["recalled"].id
    came: dict[str, list[Message]] = {}
    for message in clients.drain(TOPIC, len(asked)):
        came.setdefault(message.body, []).append(message)
    return Timed(asked, sent, came)


def test_messages_come_at_their_times_and_not_before(timed: Timed) -> None:
    """By each property, the first of them where there are several, and a level before all."""
    assert {body: len(came) for body, came in timed.came.items()} == dict.fromkeys(timed.asked, 1)
    for body, due_ms in timed.asked.items():
        (message,) = timed.came[body]
        assert message.stored_ms >= due_ms, body
        assert message.id == timed.sent[body].id


def test_messages_say_how_they_have_waited(timed: Timed) -> None:
    """What was due at once has nothing to tell."""
    for body in ("at its time", "by seconds", "by milliseconds", "seconds count first", "last"):
        (message,) = timed.came[body]
        added = {name for name in message.user_properties if not name.startswith("TIMER_DEL")}
        assert added == WAITED, body
        properties = message.properties
        assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == (TOPIC, "0")
        assert int(properties["TIMER_OUT_MS"]) % 1000 == 0
        late_ms = int(properties["TIMER_DEQUEUE_MS"]) - int(properties["TIMER_OUT_MS"])
        assert late_ms >= 1_000
    (message,) = timed.came["was due"]
    assert message.user_properties.keys() == {"TIMER_DELIVER_MS"}


def test_a_message_that_was_recalled_does_not_come(timed: Timed, peer: Peer) -> None:
    """The one that was due after it has come."""
    if not peer.version.startswith("5."):
        pytest.skip("clients of 4.9 cannot recall")
    assert "recalled" not in timed.came
    assert all(timed.sent[body].recall_handle for body in ("by seconds", "recalled", "last"))
    assert not timed.sent["was due"].recall_handle
    assert not timed.sent["has a level"].recall_handle


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "soon"},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELIVER_MS": "99999999999999"},
        {"TIMER_DELIVER_MS": "1", "TIMER_DEL_UNIQKEY": "key"},
    ],
)
def test_times_that_cannot_be_had_are_refused(
    timed: Timed, clients: Clients, properties: dict[str, str]
) -> None:
    """Code 13."""
    with pytest.raises(ClientError) as caught:
        clients.send(TOPIC, [{"body": "never", "properties": properties}])
    assert caught.value.code == MESSAGE_ILLEGAL


def test_handles_of_something_else_are_refused(
    timed: Timed, peer: Peer, cluster: Cluster, clients: Clients
) -> None:
    """Of another topic, or of what was delivered; code 604."""
    if not peer.version.startswith("5."):
        pytest.skip("clients of 4.9 cannot recall")
    later_ms = time.time_ns() // 1_000_000 + 60_000
    for topic, due_ms in (("Other", later_ms), (TOPIC, 1_001)):
        text = f"v1 {topic} {cluster.main.name} {due_ms} KEY"
        with pytest.raises(ClientError) as caught:
            clients.recall(TOPIC, urlsafe_b64encode(text.encode()).decode())
        assert caught.value.code == ILLEGAL_OPERATION, topic
