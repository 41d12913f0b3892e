"""Members of a group that come, leave and crash faster than it settles (F30 with the client).

Every message is consumed and none is skipped, ordered queues stay in order, what comes twice was in
hand or not told yet, and at the end each queue has one owner. An ordered member that has crashed
leaves its locks behind for a minute, so that only the long tier has those.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from checker import check
from fault.client.cluster import Cluster, queues_of
from fault.client.group import Group, until_owned
from fault.client.group_log import CONCURRENT, LITE, ORDERLY
from fault.client.planted import commit_newest, lock_without_asking, miss_members
from fault.client.senders import PLAIN, Senders
from roketto.client.queue_locks import BROKER_LOCK_S

MEMBERS_MAX: Final = 4
SENDERS: Final = (PLAIN._replace(coroutines=2),)
PAUSE_S: Final = 0.01
LEAST: Final = 20
LOCKED_S: Final = BROKER_LOCK_S + 15
"""When the locks of a member that has crashed are nobody's any more."""

pytestmark = pytest.mark.xdist_group("client-storm")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


class Storm:
    """Changes of one group, each a member more or less."""

    def __init__(self, group: Group, seed: int, *, has_crashes: bool) -> None:
        self.random = Random(seed)
        self.changes: Counter[str] = Counter()
        self._group = group
        self.ends = ["leave", "crash"] if has_crashes else ["leave"]

    async def change(self) -> None:
        members = self._group.members
        kinds = ["join"] * (len(members) < MEMBERS_MAX) + self.ends * (len(members) > 1)
        kind = self.random.choice(kinds)
        if kind == "join":
            await self._group.join()
        elif kind == "leave":
            await self._group.leave(self.random.randrange(len(members)))
        else:
            await members.pop(self.random.randrange(len(members))).crash()
        self.changes[kind] += 1

    async def blow(self, changes: int) -> None:
        await self._group.join()
        for _ in range(changes):
            await self.change()
            await asyncio.sleep(self.random.random() * 0.25)


async def run_storm(
    cluster: Cluster,
    kind: str,
    changes: int,
    seed: int,
    *,
    has_crashes: bool = True,
    wait_s: float = 60.0,
) -> None:
    await cluster.ready()
    topic = await cluster.topic()
    senders = Senders(cluster.settings(), topic, SENDERS, pause_s=PAUSE_S)
    async with Group(cluster, kind, topic) as group:
        storm = Storm(group, seed, has_crashes=has_crashes)
        owned_s = LOCKED_S if has_crashes and kind == ORDERLY else None
        async with senders.sending():
            await senders.until_more(LEAST)
            await storm.blow(changes)
            await until_owned(group.members, queues_of(topic), owned_s)
            await group.until_more(LEAST)
        reads = await cluster.read(topic)
        history = await group.end(reads, wait_s)
    report = check(senders.evidence, reads, groups=[history], faults=storm.changes)
    report.raise_if_bad(f"seed {seed}")
    assert storm.changes.total() == changes
    assert all(storm.changes[change] for change in ("join", *storm.ends)), storm.changes
    print(f"seed {seed}: {report}\n{group.log.check_bounds()}")


@pytest.mark.parametrize("kind", [CONCURRENT, ORDERLY])
async def test_members_that_come_and_go_quickly_skip_nothing(cluster: Cluster, kind: str) -> None:
    """20 changes."""
    await run_storm(cluster, kind, 20, seed=1, has_crashes=kind != ORDERLY)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [CONCURRENT, ORDERLY, LITE])
async def test_a_long_storm_skips_nothing(cluster: Cluster, kind: str) -> None:
    """The long tier: 300 changes."""
    await run_storm(cluster, kind, 300, seed=2)


async def test_offsets_that_pass_what_was_not_seen_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: who takes over from a member misses what that one had fetched."""
    commit_newest(monkeypatch)
    with pytest.raises(AssertionError, match=r"skipped [1-9]|all are seen by"):
        await run_storm(cluster, CONCURRENT, 8, seed=3, wait_s=3.0)


async def test_queues_that_nobody_takes_over_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: members do not hear that others are gone."""
    miss_members(monkeypatch)
    monkeypatch.setattr("fault.client.group.OWNED_S", 3.0)
    with pytest.raises(AssertionError, match="each queue has one owner"):
        await run_storm(cluster, CONCURRENT, 8, seed=4)


async def test_members_that_lock_nobody_out_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: in order, but two members have one queue."""
    lock_without_asking(monkeypatch)
    with pytest.raises(AssertionError, match=r"after another member had begun|was seen instead of"):
        await run_storm(cluster, ORDERLY, 8, seed=5, has_crashes=False)
