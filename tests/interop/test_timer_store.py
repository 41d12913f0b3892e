"""Timer messages wait on when the other broker takes over their store, after a stop or a kill."""

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.broker.clients import Clients, Message, eventually
from interop.peer import Broker, NameServer, Peer
from interop.stores.killed import copy_as_killed, copy_of_process
from servers import ServerProcess, broker

TOPIC = "Handed"
COUNT = 12
AHEAD_MS = 12_000
"""Longer than it takes until our wheel is on the disk and copied."""
NO_DELIVERY = {"timerStopDequeue": "true"}
"""Java's broker would deliver what is due before its store is copied, and again after that."""
TAKEN_FROM = {"javaKilled": "byJava", "javaStopped": "byJava", "oursKilled": "byOurs"}
"""The broker that goes on -> the one that the messages were sent to."""

pytestmark = pytest.mark.timeout(240)


class Site:
    """A name server of Java's with all brokers that take part."""

    def __init__(self, peer: Peer, name_server: NameServer, folder: Path, stack: ExitStack) -> None:
        self._peer = peer
        self._name_server = name_server.address
        self._folder = folder
        self._stack = stack
        self.clients = Clients(peer.clients([self._name_server]))

    def root(self, name: str) -> Path:
        return self._folder / name

    def _settings(self, name: str, root: Path) -> dict[str, str]:
        return {
            "brokerName": name,
            "storePathRootDir": str(root),
            "storePathCommitLog": str(root / "commitlog"),
            "mappedFileSizeCommitLog": "1048576",
            "mappedFileSizeConsumeQueue": "60000",
            "maxHashSlotNum": "10000",
            "maxIndexNum": "40000",
            "mappedFileSizeTimerLog": "1048576",
            "autoCreateTopicEnable": "false",
            "timerWheelEnable": "true",
            "recallMessageEnable": "true",
        }

    def start_java(self, name: str, root: Path, config: dict[str, str] | None = None) -> Broker:
        settings = self._settings(name, root) | (config or {})
        started = self._peer.broker([self._name_server], settings, wait_registered=False)
        self._stack.callback(started.kill)
        return started

    def start_ours(self, name: str, root: Path) -> tuple[ServerProcess, ExitStack]:
        """And what stops it."""
        folder = self._folder / f"{name}-log"
        folder.mkdir()
        stack = self._stack.enter_context(ExitStack())
        running = broker(folder, [self._name_server], self._settings(name, root))
        return stack.enter_context(running), stack

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
        yield Site(peer, name_server, tmp_path_factory.mktemp("timers"), stack)


@pytest.fixture(scope="module")
def handed(site: Site) -> Handed:
    """Java and ours fill a store each; that of Java changes hands twice, ours as after a kill."""
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
    check(handed.due_ms, TAKEN_FROM[name], handed.came[name])


@pytest.mark.slow
def test_timer_messages_of_ours_wait_on_after_a_stop(site: Site, handed: Handed) -> None:
    """Under Java's broker; another of these takes its time to start."""
    site.start_java("oursStopped", site.root("byOurs"))
    came = site.clients.drain(TOPIC, (len(TAKEN_FROM) + 1) * COUNT)
    check(handed.due_ms, "byOurs", [it for it in came if it.broker == "oursStopped"])


def check(due_ms: dict[str, int], sent_to: str, came: list[Message]) -> None:
    """All that was sent to a broker has come, once and in time."""
    expected = sorted(body for body in due_ms if body.startswith(sent_to))
    assert sorted(message.body for message in came) == expected
    for message in came:
        assert message.stored_ms >= due_ms[message.body], message.body
