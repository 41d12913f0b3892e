"""kill -9 of a broker under eight coroutines that send with our producer (F1 with the client).

What was acknowledged is there, where the producer said; what failed for certain is not there. They
send in three ways: once, with retries, and in batches that make themselves.
"""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import pytest

from checker import Report, check
from evidence import Outcome
from fault.client.cluster import Cluster
from fault.client.planted import acknowledge_early
from fault.client.senders import EIGHT, PLAIN, Senders, Way

BROKER: Final = "broker-a"
LEAST: Final = 300
"""Messages that are acknowledged before each kill, and after the last one."""

pytestmark = pytest.mark.xdist_group("client-send-kill")  # one worker, which starts servers once


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


async def run_kills(cluster: Cluster, kills: int, seed: int, ways: Sequence[Way] = EIGHT) -> Report:
    random = Random(seed)
    await cluster.ready()
    before = cluster.kills
    senders = Senders(cluster.settings(), await cluster.topic(), ways)
    async with senders.sending():
        for _ in range(kills):
            await senders.until_more(LEAST)
            await asyncio.sleep(random.random() * 0.1)
            cluster.kill(BROKER)
            await asyncio.sleep(random.random() * 0.2)
            await cluster.start(BROKER)
        await senders.until_more(LEAST)
    reads = await cluster.read(senders.topic)
    killed = cluster.kills - before
    report = check(senders.evidence, reads, faults={"kill -9": killed})
    report.raise_if_bad(f"seed {seed}")
    assert killed == kills
    assert not senders.untrue, senders.untrue[:10]
    assert report.unknown, "nobody was sending when the broker was killed"
    for way in ways:
        assert senders.by_way[way.name, Outcome.FAIL], f"{way.name} has not noticed it"
    print(f"seed {seed}: {report}")
    return report


async def test_what_was_acknowledged_is_there_after_kills(cluster: Cluster) -> None:
    """Three of them."""
    report = await run_kills(cluster, 3, seed=1)
    assert report.ok >= 4 * LEAST, str(report)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_what_was_acknowledged_is_there_after_many_more_kills(cluster: Cluster) -> None:
    """The long tier: 100 kills."""
    await run_kills(cluster, 100, seed=2)


async def test_acknowledging_before_the_answer_is_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what the broker had not read when it was killed is lost."""
    acknowledge_early(monkeypatch)
    with pytest.raises(AssertionError, match=r"\blost [1-9]"):
        await run_kills(cluster, 1, seed=3, ways=(PLAIN,))
