"""A broker that stands still for some seconds (F18 with the client): SIGSTOP, and SIGCONT.

Sends to it are not answered in time, which says nothing of their messages: the broker stores them
when it goes on. Producers with a time for each attempt turn to the other broker, and lose nothing.
Consumers go on with the other broker's queues. Members that come meanwhile, to whom queues of the
silent one move, skip nothing, and get no more twice than others had in hand.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final

import pytest

from checker import Report, check
from evidence import Outcome
from fault.client.cluster import Cluster, queues_of, until
from fault.client.group import Group, until_owned
from fault.client.group_log import CONCURRENT, KINDS
from fault.client.planted import commit_newest, deny_what_was_sent, take_silence_for_consent
from fault.client.senders import Senders, Way
from roketto.client.send_settings import SendSettings

SLOW: Final = "broker-a"
OTHER: Final = "broker-b"
PAUSE_S: Final = 0.005
STOPPED_S: Final = 2.0
LEAST: Final = 100
MEANWHILE: Final = 20
"""What the other broker acknowledges while the one is stopped: most senders wait meanwhile."""

PATIENT: Final = Way("patient", SendSettings(retries=0, timeout_ms=700), 3)
"""Waits for the broker that it has chosen."""
TURNING: Final = Way("turning", SendSettings(attempt_timeout_ms=300, timeout_ms=20_000), 3)
"""Turns to the other one, each time anew."""
AVOIDING: Final = Way(
    "avoiding",
    SendSettings(attempt_timeout_ms=300, timeout_ms=20_000, avoids_slow_brokers=True),
    2,
)
"""Remembers which one was slow."""

pytestmark = pytest.mark.xdist_group("client-slow-broker")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=2) as made:
        yield made


async def run_stops(
    cluster: Cluster, stops: int, ways: Sequence[Way] = (PATIENT, TURNING, AVOIDING)
) -> tuple[Senders, Report]:
    await cluster.ready()
    senders = Senders(cluster.settings(), await cluster.topic(), ways, pause_s=PAUSE_S)
    told, meanwhile = senders.acknowledged, Counter[str]()
    async with senders.sending():
        for _ in range(stops):
            await until_more(senders, SLOW)
            with cluster.stopped(SLOW):
                await asyncio.sleep(0.1)  # answers that were on their way come
                before = told.copy()
                await asyncio.sleep(STOPPED_S)
                meanwhile += told - before
            await until_more(senders, SLOW)
    reads = await cluster.read(senders.topic)
    report = check(senders.evidence, reads, faults={"SIGSTOP": stops})
    report.raise_if_bad()
    assert not meanwhile[SLOW], "it has answered while it was stopped"
    assert meanwhile[OTHER] >= MEANWHILE * stops, "all have waited for the one that was stopped"
    return senders, report


async def until_more(senders: Senders, broker_name: str) -> None:
    goal = senders.acknowledged[broker_name] + LEAST
    await until(
        f"{broker_name} acknowledges more", lambda: senders.acknowledged[broker_name] >= goal
    )


async def check_stops(cluster: Cluster, stops: int) -> None:
    senders, report = await run_stops(cluster, stops)
    assert not senders.untrue, senders.untrue[:10]
    said = senders.by_way
    assert said[PATIENT.name, Outcome.UNKNOWN] >= PATIENT.coroutines * stops, said
    assert not said[PATIENT.name, Outcome.FAIL], said
    for way in (TURNING, AVOIDING):
        assert said[way.name, Outcome.OK], said
        assert not said[way.name, Outcome.UNKNOWN] + said[way.name, Outcome.FAIL], said
    counts = {f"{name} {outcome.value}": count for (name, outcome), count in said.items()}
    print(f"{report}\n{counts}")


async def test_a_broker_that_stands_still_loses_nothing(cluster: Cluster) -> None:
    """One stop."""
    await check_stops(cluster, 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_broker_that_stands_still_often_loses_nothing(cluster: Cluster) -> None:
    """The long tier: 30 stops."""
    await check_stops(cluster, 30)


async def test_silence_that_is_taken_for_consent_is_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what was not answered counts as stored."""
    take_silence_for_consent(monkeypatch)
    with pytest.raises(AssertionError, match=r"moved [1-9]"):
        await run_stops(cluster, 1, (PATIENT, TURNING))


async def test_messages_that_are_denied_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what was not answered is said not to be stored, and is, later."""
    deny_what_was_sent(monkeypatch)
    with pytest.raises(AssertionError, match=r"phantom [1-9]"):
        await run_stops(cluster, 1, (PATIENT, TURNING))


# --- consumers ------------------------------------------------------------------------------------


async def run_consumed_stops(
    cluster: Cluster, stops: int, kinds: Sequence[str] = KINDS, wait_s: float = 60.0
) -> None:
    """Groups of two members; a third one joins each of them during the last stop."""
    await cluster.ready()
    topic = await cluster.topic()
    senders = Senders(cluster.settings(), topic, (TURNING, AVOIDING), pause_s=PAUSE_S)
    async with AsyncExitStack() as stack:
        groups = [await stack.enter_async_context(Group(cluster, kind, topic)) for kind in kinds]
        await asyncio.gather(*(group.join() for group in groups for _ in range(2)))
        async with senders.sending():
            for number in range(stops):
                await asyncio.gather(*(until_more_seen(group, SLOW) for group in groups))
                await until("all are busy", lambda: all(group.log.busy for group in groups))
                with cluster.stopped(SLOW):
                    joins = groups if number == stops - 1 else []
                    joining = asyncio.gather(*(group.join() for group in joins))
                    await asyncio.sleep(STOPPED_S)
                    await asyncio.gather(*(until_more_seen(group, OTHER) for group in groups))
                await joining
                await asyncio.gather(*(until_more_seen(group, SLOW) for group in groups))
            for group in groups:
                await until_owned(group.members, queues_of(topic, list(cluster.sites)))
        reads = await cluster.read(topic)
        histories = [await group.end(reads, wait_s) for group in groups]
    report = check(senders.evidence, reads, groups=histories, faults={"SIGSTOP": stops})
    report.raise_if_bad()
    print(report)
    for group in groups:
        print(group.log.check_bounds())


async def until_more_seen(group: Group, broker_name: str) -> None:
    """Wait until a group has seen more messages of a broker."""

    def count() -> int:
        seen = group.log.seen.items()
        return sum(len(offsets) for queue, offsets in seen if queue.broker_name == broker_name)

    goal = count() + MEANWHILE
    await until(f"{group.name} sees more of {broker_name}", lambda: count() >= goal)


async def test_consumers_skip_nothing_of_a_broker_that_stands_still(cluster: Cluster) -> None:
    """Concurrently, in order, and by polls: one stop."""
    await run_consumed_stops(cluster, 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_consumers_skip_nothing_of_a_broker_that_stands_still_often(
    cluster: Cluster,
) -> None:
    """The long tier: 20 stops."""
    await run_consumed_stops(cluster, 20)


async def test_offsets_that_pass_what_was_in_hand_are_noticed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: who comes during the stop misses what others had fetched."""
    commit_newest(monkeypatch)
    with pytest.raises(AssertionError, match=r"skipped [1-9]|not within"):
        await run_consumed_stops(cluster, 1, [CONCURRENT], wait_s=3.0)
