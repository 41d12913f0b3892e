"""Consumers that end in the middle of a message, stopped or killed with -9: it comes again.

So does whatever else was in hand, and nothing is skipped; a stop does not wait for ever.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from checker import Saw, check
from evidence import Evidence
from fault.appender import value_of
from fault.client.cluster import OFFSETS_S, Cluster, fresh, until
from fault.client.group import Group
from fault.client.group_log import CONCURRENT, KINDS, LITE_AUTO, ORDERLY, TUNING
from fault.client.planted import commit_begun, commit_handed, commit_newest
from fault.client.senders import send_all
from roketto.client.message import MessageQueue
from roketto.client.received import ReceivedMessage

COUNT: Final = 80
STALLS_AT: Final = 25
"""The number of the message that its consumer never ends."""
STOP_S: Final = 0.2
MISSED: Final = r"(unseen|skipped) [1-9]|all are seen by"

Interrupt = Callable[[Group], Awaitable[str]]
"""Lets a first consumer end in the middle of a message, whose value it returns."""

pytestmark = pytest.mark.xdist_group("client-interrupted")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


async def run_interrupted(
    cluster: Cluster, kind: str, interrupt: Interrupt, wait_s: float = 30.0
) -> None:
    await cluster.ready()
    topic = await cluster.topic()
    evidence: Evidence = await send_all(cluster.settings(), topic, COUNT)
    async with Group(cluster, kind, topic) as group:
        stalled = await interrupt(group)
        begun, before = group.log.total, len(group.log.events)
        assert begun >= STALLS_AT, "it was not in the middle of anything"
        # Who comes back as the same has the locks of the one that was killed.
        await group.join("first")
        reads = await cluster.read(topic)
        history = await group.end(reads, wait_s)
    report = check(evidence, reads, groups=[history], faults={"interrupted": 1})
    report.raise_if_bad()
    again = [event.value for event in group.log.events[before:] if isinstance(event, Saw)]
    assert stalled in again, f"{stalled} did not come again"
    if kind == ORDERLY:
        assert not group.log.disorder, group.log.disorder
    print(f"{kind}: {report}\n{begun} were begun, {len(again)} came afterwards,"
          f" {group.log.duplicates} of them again")  # fmt: skip


# --- stopped --------------------------------------------------------------------------------------


async def stop(group: Group) -> str:
    """Stop a consumer whose listener does not end."""
    stalled: list[str] = []

    async def work(message: ReceivedMessage) -> None:
        if group.log.total == STALLS_AT:
            stalled.append(value_of(message.body))
            await asyncio.Event().wait()

    tuning = replace(TUNING, stop_timeout_s=STOP_S)
    member = await group.join("first", work, tuning)
    await until("a listener stalls", lambda: bool(stalled))
    await asyncio.sleep(3 * OFFSETS_S)  # whatever it would commit too early, it has
    async with asyncio.timeout(STOP_S + 5):
        group.members.remove(member)
        await member.stop()
    return stalled[0]


@pytest.mark.parametrize("kind", [*KINDS, LITE_AUTO])
async def test_the_message_of_a_stopped_consumer_comes_again(cluster: Cluster, kind: str) -> None:
    await run_interrupted(cluster, kind, stop)


@pytest.mark.parametrize(
    ("kind", "bug"),
    [(CONCURRENT, commit_newest), (ORDERLY, commit_begun), (LITE_AUTO, commit_handed)],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_commits_of_what_is_not_consumed_are_noticed(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    bug: Callable[[pytest.MonkeyPatch], None],
) -> None:
    """Planted: what is in hand at the stop is committed, each in another way."""
    bug(monkeypatch)
    with pytest.raises(AssertionError, match=f"{MISSED}|did not come again"):
        await run_interrupted(cluster, kind, stop, wait_s=2.0)


# --- killed ---------------------------------------------------------------------------------------


class Killed:
    """Kills a process that consumes, when it is in the middle of a message."""

    def __init__(self, cluster: Cluster, folder: Path, bug: str = "") -> None:
        self._names = ";".join(cluster.names.addresses)
        self._notes = folder / fresh("notes")
        self._bug = [bug] if bug else []

    async def __call__(self, group: Group) -> str:
        with self._start(group) as process:
            assert process.stdout is not None
            try:
                stalled = (await asyncio.to_thread(process.stdout.readline)).strip()
                await asyncio.sleep(3 * OFFSETS_S)
            finally:
                process.kill()
            ended = process.wait(10)
        assert ended == -signal.SIGKILL, f"it was not the kill that ended it: {ended}"
        for line in self._notes.read_text().splitlines():
            queue_id, offset, value = line.split()
            queue = MessageQueue("broker-a", int(queue_id), group.topic)
            group.log.see_value(queue, int(offset), value)
        return stalled

    def _start(self, group: Group) -> subprocess.Popen[str]:
        program = [
            sys.executable, "-m", "fault.client.consumer_process", group.log.kind, self._names,
            group.name, group.topic, "first", str(STALLS_AT), str(self._notes), *self._bug,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_message_of_a_killed_consumer_comes_again(
    cluster: Cluster, tmp_path: Path, kind: str
) -> None:
    await run_interrupted(cluster, kind, Killed(cluster, tmp_path))


async def test_commits_of_what_a_killed_consumer_had_fetched_are_noticed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Planted: in the process that is killed."""
    interrupt = Killed(cluster, tmp_path, commit_newest.__name__)
    with pytest.raises(AssertionError, match=f"{MISSED}|did not come again"):
        await run_interrupted(cluster, CONCURRENT, interrupt, wait_s=2.0)
