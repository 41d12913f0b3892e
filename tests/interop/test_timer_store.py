"""Timer messages wait on when the other broker takes over their store, after a stop or a kill."""

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from interop.broker.clients import Message, eventually
from interop.peer import Peer
from interop.stores.handover import Handover
from interop.stores.killed import copy_as_killed, copy_of_process

TOPIC = "Handed"
COUNT = 12
AHEAD_MS = 12_000
"""Longer than it takes until our wheel is on the disk and copied."""
NO_DELIVERY = {"timerStopDequeue": "true"}
"""Java's broker would deliver what is due before its store is copied, and again after that."""
TAKEN_FROM = {
    "javaKilled": "byJava", "javaStopped": "byJava", "oursKilled": "byOurs",
    "oursStopped": "byOurs",
}  # fmt: skip
"""The broker that goes on -> the one that the messages were sent to."""
CONFIG = {
    "mappedFileSizeTimerLog": "1048576",
    "timerWheelEnable": "true",
    "recallMessageEnable": "true",
}

pytestmark = pytest.mark.timeout(240)


class Site(Handover):
    """Brokers with timers."""

    def send(self, name: str) -> dict[str, int]:
        """Send messages to a broker, and recall one more; by their bodies, when they shall come."""
        due_ms: dict[str, int] = {}
        messages = []
        for number in range(COUNT + 1):
            body = f"{name} {number}"
            due_ms[body] = time.time_ns() // 1_000_000 + AHEAD_MS + number * 137
            properties = {"TIMER_DELIVER_MS": str(due_ms[body])}
            messages.append({"body": body, "broker": name, "queue": 0, "properties": properties})
        first, *_ = self.clients.send(TOPIC, messages, "queue")
        self.clients.recall(TOPIC, first.recall_handle)  # it would come before all others
        del due_ms[f"{name} 0"]
        eventually(lambda: self._enqueued(name) == COUNT + 2, f"the wheel of {name}")
        return due_ms

    def _enqueued(self, name: str) -> int:
        """How many messages the checkpoint says to be in the wheel."""
        path = self.root(name) / "config" / "timercheck"
        raw = path.read_bytes() if path.exists() else b""
        return int(struct.unpack_from(">q", raw.ljust(24, b"\0"), 16)[0])


@dataclass(frozen=True, slots=True)
class Handed:
    """When each message shall come, and what came from each broker that took over."""

    due_ms: dict[str, int]
    came: dict[str, list[Message]]


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, peer: Peer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    if not peer.version.startswith("5."):
        pytest.skip("4.9 has no timers")
    name_server = request.getfixturevalue("java_name_server")
    with ExitStack() as stack:
        yield Site(peer, name_server, tmp_path_factory.mktemp("timers"), stack, CONFIG)


@pytest.fixture(scope="module")
def handed(site: Site) -> Handed:
    """Java and ours fill a store each; both change hands twice, after a kill and after a stop."""
    ours, stop_ours = site.start_ours("byOurs", site.root("byOurs"))
    java = site.start_java("byJava", site.root("byJava"), NO_DELIVERY)
    site.clients.make_topic(TOPIC, 1, [ours.address, java.address])
    due_ms = site.send("byOurs")
    copy_of_process(ours.popen.pid, site.root("byOurs"), site.root("oursKilled"))
    stop_ours.close()
    due_ms |= site.send("byJava")
    copy_as_killed(java, site.root("byJava"), site.root("javaKilled"))
    java.process.terminate()
    site.start_java("oursKilled", site.root("oursKilled"))
    site.start_java("oursStopped", site.root("byOurs"))
    site.start_ours("javaKilled", site.root("javaKilled"))
    java.process.wait(60)
    site.start_ours("javaStopped", site.root("byJava"))
    came: dict[str, list[Message]] = {name: [] for name in TAKEN_FROM}
    for message in site.clients.drain(TOPIC, len(TAKEN_FROM) * COUNT):
        came[message.broker].append(message)
    return Handed(due_ms, came)


@pytest.mark.parametrize("name", TAKEN_FROM)
def test_timer_messages_wait_on_under_the_other_broker(handed: Handed, name: str) -> None:
    """Each comes once, and not before its time; the one that was recalled does not."""
    sent = sorted(body for body in handed.due_ms if body.startswith(TAKEN_FROM[name]))
    assert sorted(message.body for message in handed.came[name]) == sent
    for message in handed.came[name]:
        assert message.stored_ms >= handed.due_ms[message.body], message.body
