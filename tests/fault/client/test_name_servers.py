"""Name servers that are killed, one and then all (F24 with the client): traffic goes on.

Clients ask for routes several times a second here, and keep those that they have while nobody
answers. A group shares its queues anew without a name server. One that comes back is used again.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from checker import check
from evidence import Outcome
from fault.client.cluster import Cluster, fresh, queues_of, until
from fault.client.group import Group, until_owned
from fault.client.group_log import CONCURRENT, LITE
from fault.client.planted import forget_routes
from fault.client.senders import EIGHT, Senders
from roketto.client.errors import ClientError, NoNameServerError
from roketto.client.message import Message
from roketto.client.producer import Producer

LEAST: Final = 100
"""Messages that are acknowledged, and seen by each group, after each kill."""
RECOVERY_S: Final = 30.0
PAUSE_S: Final = 0.03
ROUTES_S: Final = 0.3
"""How long a client keeps a route before it asks again."""

pytestmark = pytest.mark.xdist_group("client-names")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, names=2, route_interval_s=ROUTES_S) as made:
        yield made


async def run_kills(cluster: Cluster, rounds: int) -> None:
    await cluster.ready()
    before = cluster.names.kills
    topic = await cluster.topic()
    senders = Senders(cluster.settings(), topic, pause_s=PAUSE_S)
    async with (
        Group(cluster, CONCURRENT, topic) as pushed,
        Group(cluster, LITE, topic) as polled,
        Producer(fresh("newcomer"), settings=cluster.settings(), topics=[topic]) as newcomer,
    ):
        groups = (pushed, polled)
        await asyncio.gather(*(group.join() for group in groups for _ in range(2)))
        async with senders.sending():
            for _ in range(rounds):
                for number in (0, 1):
                    cluster.names.kill(number)
                    await asyncio.sleep(2 * ROUTES_S)
                    await senders.until_more(LEAST)
                    await asyncio.gather(*(group.until_more(LEAST) for group in groups))
                with pytest.raises(NoNameServerError):
                    await newcomer.client.routes.refresh(topic)
                for group in groups:
                    await group.leave()
                    await until_owned(group.members, queues_of(topic))
                await asyncio.to_thread(cluster.names.start, 1)
                await until("a new topic is sent to", lambda: can_send(newcomer), RECOVERY_S)
                await asyncio.to_thread(cluster.names.start, 0)
                await asyncio.gather(*(group.join() for group in groups))
        reads = await cluster.read(topic)
        histories = [await group.end(reads) for group in groups]
    killed = cluster.names.kills - before
    faults = {"name server killed": killed}
    report = check(senders.evidence, reads, groups=histories, faults=faults)
    report.raise_if_bad()
    assert killed == 2 * rounds
    assert (report.fail, report.unknown) == (0, 0), f"a producer has noticed: {report}"
    for way in EIGHT:
        assert senders.by_way[way.name, Outcome.OK], f"{way.name} has sent nothing"
    print(report)
    for group in groups:
        print(group.log.check_bounds())


async def can_send(producer: Producer) -> bool:
    """To a topic that only a name server can tell where to make it."""
    try:
        await producer.send(Message(fresh("New"), b"new"))
    except ClientError:
        return False
    return True


async def test_traffic_goes_on_without_name_servers(cluster: Cluster) -> None:
    """Both are killed, and come back."""
    await run_kills(cluster, 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_traffic_goes_on_through_many_more_kills_of_name_servers(cluster: Cluster) -> None:
    """The long tier: 40 kills."""
    await run_kills(cluster, 20)


async def test_routes_that_are_forgotten_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: who cannot ask for a route has none."""
    forget_routes(monkeypatch)
    monkeypatch.setattr("fault.client.cluster.PATIENCE_S", 2.0)
    with pytest.raises(AssertionError, match=r"not within|a producer has noticed"):
        await run_kills(cluster, 1)
