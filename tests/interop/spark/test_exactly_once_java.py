"""Half messages on Java's 5.5.0 broker count each message once, whoever is killed with -9 when."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault.spark.killed_drivers import CLUSTER, ROWS_A_BATCH, make_lives
from interop.broker.cluster import JavaCluster
from interop.peer import Peer, PeerUnavailableError
from interop.peer.outcome import skip_or_fail

pytestmark = [
    pytest.mark.peer, pytest.mark.slow, pytest.mark.xdist_group("spark-java"),
    pytest.mark.timeout(2 * 3600),
]  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        peer = Peer("5.5.0")
    except PeerUnavailableError as unavailable:
        skip_or_fail(unavailable)
    with peer, JavaCluster(peer, tmp_path_factory.mktemp("java")) as cluster:
        yield cluster.name_server


@pytest.mark.parametrize("deaths", [2, 20])
def test_each_message_is_counted_once_on_a_java_broker(
    names: str, tmp_path: Path, deaths: int
) -> None:
    """As on ours (tests/fault/spark): executors and drivers die, and commits of the checkpoint go.

    Of drivers, each behind that of an executor; a life takes a minute.
    """
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    killed = make_lives(names, None, tmp_path, "transactional", seed, CLUSTER)
    killed.die_often(deaths)
    outcome = killed.finish(removes_commit=True)
    print(outcome)
    assert outcome.driver_kills == deaths
    assert outcome.executor_kills >= deaths
    assert outcome.commits_removed > 1
    assert outcome.inputs > deaths * ROWS_A_BATCH
    assert (outcome.lost, outcome.wrong, outcome.duplicates) == (0, 0, 0), outcome
