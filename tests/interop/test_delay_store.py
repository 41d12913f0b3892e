"""Delayed messages that Java's broker leaves behind come from ours: once, and not early."""

import time
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from interop.broker.clients import Message, eventually
from interop.peer import NameServer, Peer
from interop.stores import ours
from interop.stores.handover import Handover
from interop.stores.killed import copy_as_killed
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.errors import CorruptStoreError

TOPIC = "Delayed"
COUNT = 12
DELAYS_MS = {1: 1_000, 2: 15_000, 3: 16_000}
"""By level. What Java's broker delivers itself, and what it leaves."""
CONFIG = {
    "messageDelayLevel": " ".join(f"{delay // 1_000}s" for delay in DELAYS_MS.values()),
    "flushDelayOffsetInterval": "500",
    "timerWheelEnable": "false",
}
TAKERS = ("killed", "stopped")
"""Brokers of ours, by how Java's has ended."""

pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True, slots=True)
class Handed:
    """Before when no message may come, and what is in the store of each broker of ours."""

    due_ms: dict[str, int]
    taken_ms: dict[str, int]
    """When the brokers were started."""
    came: dict[str, list[Message]]


@pytest.fixture(scope="module")
def handed(
    peer: Peer, java_name_server: NameServer, tmp_path_factory: pytest.TempPathFactory
) -> Handed:
    """Java's broker delivers the first level and ends, as by a kill and in order."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("delays")
        site = Handover(peer, java_name_server, folder, stack, CONFIG)
        java = site.start_java("writer", site.root("writer"))
        site.clients.make_topic(TOPIC, 1, [java.address])
        due_ms = send(site)
        eventually(lambda: progress(site) == {1: COUNT}, "the first level, and its offset")
        copy_as_killed(java, site.root("writer"), site.root("killed"))
        waiting = site.root("killed") / "consumequeue" / SCHEDULE_TOPIC
        assert {queue.name for queue in waiting.iterdir()} >= {"0", "1", "2"}
        java.process.terminate()
        taken_ms = {"killed": now_ms()}
        site.start_ours("killed", site.root("killed"))
        java.process.wait(60)
        taken_ms["stopped"] = now_ms()
        site.start_ours("stopped", site.root("writer"))
        came: dict[str, list[Message]] = {name: [] for name in TAKERS}
        for message in site.clients.drain(TOPIC, len(TAKERS) * len(due_ms)):
            came[message.broker].append(message)
    return Handed(due_ms, taken_ms, came)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send(site: Handover) -> dict[str, int]:
    """The same number of messages of each level; by their bodies, before when they may not come."""
    due_ms: dict[str, int] = {}
    for level, delay_ms in DELAYS_MS.items():
        bodies = [f"level {level}, number {number}" for number in range(COUNT)]
        messages = [{"body": body, "delayLevel": level} for body in bodies]
        due_ms |= dict.fromkeys(bodies, now_ms() + delay_ms)
        site.clients.send(TOPIC, messages)
    return due_ms


def progress(site: Handover) -> dict[int, int]:
    """How many of each level the file of Java's broker says to be delivered."""
    try:
        table = ours.load_table(DelayOffsetTable, site.root("writer"))
    except CorruptStoreError:  # it is just being written
        return {}
    return {level: offset for level, offset in table.offsets.items() if offset}


@pytest.mark.parametrize("name", TAKERS)
def test_delayed_messages_wait_on_under_our_broker(handed: Handed, name: str) -> None:
    """Each is there once, those of the first level too, and was not stored before its time."""
    assert sorted(one.body for one in handed.came[name]) == sorted(handed.due_ms)
    for one in handed.came[name]:
        assert one.stored_ms >= handed.due_ms[one.body], one.body
        is_of_java = one.stored_ms < handed.taken_ms[name]
        assert is_of_java == one.body.startswith("level 1,"), one.body
