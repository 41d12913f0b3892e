"""kill -9 of a broker under our consumers (F30): nothing is skipped, order is kept, little twice.

Three groups consume one topic: concurrently, in order, and by polls with commits; each has two
members, and a third one after the last kill, with which these have to share. What comes twice is
bounded by what members may have in hand, which their thresholds say, and by commits that the broker
has lost.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Final

import pytest

from checker import check
from fault.client.cluster import Cluster, queues_of, until
from fault.client.group import Group, until_owned
from fault.client.group_log import CONCURRENT, KINDS, LITE, ORDERLY
from fault.client.planted import (
    commit_fetched,
    commit_newest,
    hear_late,
    lock_without_asking,
    stay_unknown,
    tell_nobody,
)
from fault.client.senders import PLAIN, Senders

BROKER: Final = "broker-a"
LEAST: Final = 100
"""Messages that each group sees before each kill, and after the last one."""
SENDERS: Final = (PLAIN._replace(coroutines=2),)
PAUSE_S: Final = 0.004

pytestmark = pytest.mark.xdist_group("client-consume-kill")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


async def run_kills(
    cluster: Cluster, kills: int, seed: int, kinds: Sequence[str] = KINDS, wait_s: float = 60.0
) -> None:
    random = Random(seed)
    await cluster.ready()
    before = cluster.kills
    topic = await cluster.topic()
    senders = Senders(cluster.settings(), topic, SENDERS, pause_s=PAUSE_S)
    async with AsyncExitStack() as stack:
        groups = [await stack.enter_async_context(Group(cluster, kind, topic)) for kind in kinds]
        await asyncio.gather(*(group.join() for group in groups for _ in range(2)))
        async with senders.sending():
            for _ in range(kills):
                await asyncio.gather(*(group.until_more(LEAST) for group in groups))
                await asyncio.sleep(random.random() * 0.1)
                await until("all are busy", lambda: all(group.log.busy for group in groups))
                cluster.kill(BROKER)
                await asyncio.sleep(random.random() * 0.2)
                await cluster.start(BROKER)
            newcomers = await asyncio.gather(*(group.join() for group in groups))
            await until("each has a share", lambda: all(new.queues for new in newcomers))
            for group in groups:
                await until_owned(group.members, queues_of(topic))
            await asyncio.gather(*(group.until_more(LEAST) for group in groups))
        reads = await cluster.read(topic)
        histories = [await group.end(reads, wait_s) for group in groups]
    killed = cluster.kills - before
    report = check(senders.evidence, reads, groups=histories, faults={"kill -9": killed})
    report.raise_if_bad(f"seed {seed}")
    assert killed == kills
    print(f"seed {seed}: {report}")
    for group in groups:
        print(group.log.check_bounds())


async def test_groups_skip_nothing_through_kills(cluster: Cluster) -> None:
    """Two kills, each while every group is at work."""
    await run_kills(cluster, 2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_groups_skip_nothing_through_many_more_kills(cluster: Cluster) -> None:
    """The long tier: 50 kills."""
    await run_kills(cluster, 50, seed=2)


async def test_a_concurrent_group_that_commits_the_newest_is_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the consume offset passes messages that nobody has seen."""
    commit_newest(monkeypatch)
    with pytest.raises(AssertionError, match=r"skipped [1-9]|not within"):
        await run_kills(cluster, 1, 3, [CONCURRENT], wait_s=2.0)


async def test_a_polling_group_that_commits_what_it_fetched_is_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the same for what was not handed out yet."""
    commit_fetched(monkeypatch)
    with pytest.raises(AssertionError, match=r"skipped [1-9]|not within"):
        await run_kills(cluster, 1, 4, [LITE], wait_s=2.0)


async def test_ordered_members_that_ask_for_no_lock_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a new member begins with a queue that another one still has, for it hears late."""
    lock_without_asking(monkeypatch)
    hear_late(monkeypatch)
    with pytest.raises(AssertionError, match=r"after another member had begun|was seen instead of"):
        await run_kills(cluster, 1, 5, [ORDERLY])


async def test_members_that_a_new_broker_does_not_know_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: who comes after the kill takes all queues, and those before it keep theirs."""
    stay_unknown(monkeypatch)
    monkeypatch.setattr("fault.client.group.OWNED_S", 3.0)
    with pytest.raises(AssertionError, match="each queue has one owner"):
        await run_kills(cluster, 1, 7, [LITE])


async def test_commits_that_no_broker_is_told_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: at the end brokers do not know what was consumed."""
    tell_nobody(monkeypatch)
    with pytest.raises(AssertionError, match="brokers know how far"):
        await run_kills(cluster, 0, 6, [LITE], wait_s=1.0)
