"""A stateful query from topic to topic counts each message once, whoever is killed with -9 when.

The driver dies within batches, with its JVM and its workers or without the workers; executors die
under it, and so does the broker; the last commit of the checkpoint is removed. Kills of the same
query with at-least-once delivery leave duplicates: so they would be seen.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault.broker.site import LARGE, Site
from fault.spark.killed_drivers import (
    BROKER_EVERY,
    CLUSTER,
    LOCAL,
    ROWS_A_BATCH,
    KilledDrivers,
    make_lives,
)
from servers import name_server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Site]]:
    folder = tmp_path_factory.mktemp("killed")
    with name_server(folder) as names, Site(folder, LARGE, name_servers=[names.address]) as site:
        site.start()
        yield names.address, site


def lives(
    cluster: tuple[str, Site], folder: Path, delivery: str, master: str = LOCAL
) -> KilledDrivers:
    seed = random.randrange(2**32)
    print(f"{master}, seed {seed}")
    return make_lives(*cluster, folder, delivery, seed, master)


@pytest.mark.parametrize(
    ("master", "deaths"),
    [
        pytest.param(CLUSTER, 4, marks=pytest.mark.timeout(1_800)),
        pytest.param(CLUSTER, 50, marks=[pytest.mark.slow, pytest.mark.timeout(2 * 3600)]),
        pytest.param(LOCAL, 100, marks=[pytest.mark.slow, pytest.mark.timeout(3 * 3600)]),
    ],
)
def test_each_message_is_counted_once_whatever_is_killed(
    cluster: tuple[str, Site], tmp_path: Path, master: str, deaths: int
) -> None:
    """Where there are executors, one of them is killed before each of the drivers."""
    has_executors = master == CLUSTER
    killed = lives(cluster, tmp_path, "transactional", master)
    killed.die_often(deaths)
    outcome = killed.finish(removes_commit=True)
    print(outcome)
    assert outcome.driver_kills == deaths
    assert outcome.executor_kills >= (deaths if has_executors else 0)
    assert outcome.broker_kills >= (deaths + 1) // BROKER_EVERY
    assert outcome.commits_removed > 1
    assert outcome.inputs > deaths * ROWS_A_BATCH
    assert (outcome.lost, outcome.wrong, outcome.duplicates) == (0, 0, 0), outcome


@pytest.mark.timeout(1_800)
def test_at_least_once_delivery_counts_twice_what_a_kill_leaves_uncommitted(
    cluster: tuple[str, Site], tmp_path: Path
) -> None:
    """What exactly-once prevents happens here, by nothing but kills: the checker sees it."""
    killed = lives(cluster, tmp_path, "at-least-once")
    for _ in range(2):
        killed.die_behind_a_write()
    outcome = killed.finish()
    print(outcome)
    assert outcome.driver_kills == 2
    assert outcome.commits_removed == 0
    assert (outcome.lost, outcome.wrong) == (0, 0), outcome
    assert outcome.duplicates >= outcome.driver_kills, outcome


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_at_least_once_delivery_counts_twice_through_the_same_kills(
    cluster: tuple[str, Site], tmp_path: Path
) -> None:
    """Executors, drivers and brokers die, and commits go, as where each message counts once."""
    deaths = 4
    killed = lives(cluster, tmp_path, "at-least-once", CLUSTER)
    killed.die_often(deaths)
    outcome = killed.finish(removes_commit=True)
    print(outcome)
    assert outcome.driver_kills == deaths
    assert outcome.executor_kills >= deaths
    assert outcome.broker_kills >= (deaths + 1) // BROKER_EVERY
    assert (outcome.lost, outcome.wrong) == (0, 0), outcome
    assert outcome.duplicates > 0, outcome


@pytest.mark.timeout(1_800)
def test_a_stream_waits_for_its_broker_and_goes_on(
    cluster: tuple[str, Site], tmp_path: Path
) -> None:
    """It says so in the log of its driver, which does not end; nothing is lost or counted twice."""
    killed = lives(cluster, tmp_path, "transactional")
    killed.live_without_broker()
    outcome = killed.finish()
    print(outcome)
    assert (outcome.broker_kills, outcome.driver_kills) == (1, 0)
    assert outcome.inputs >= 4 * ROWS_A_BATCH
    assert (outcome.lost, outcome.wrong, outcome.duplicates) == (0, 0, 0), outcome
