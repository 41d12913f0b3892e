"""Fixtures of the broker's interop tests: every test runs against Java's broker and against ours.

What holds of Java's broker is what its clients rely on: a test that fails there is wrong.
One scenario against our broker alone, with clients of one version:

    ./dev test tests/interop/broker -k "ours and 5.5.0 and sync_sends"
"""

from collections.abc import Iterator

import pytest

from interop.broker.clients import Clients
from interop.broker.cluster import KINDS, Cluster, JavaCluster, OurCluster
from interop.broker.moved_groups import MovedGroups
from interop.peer import Peer


@pytest.fixture(scope="session", params=KINDS)
def cluster(
    request: pytest.FixtureRequest, peer: Peer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One broker that is shared: give topics and groups names of their own."""
    folder = tmp_path_factory.mktemp(f"cluster-{request.param}")
    made = JavaCluster(peer, folder) if request.param == "java" else OurCluster(folder)
    with made:
        yield made


@pytest.fixture(scope="session")
def clients(peer: Peer, cluster: Cluster) -> Iterator[Clients]:
    """Unmodified Java clients of the cluster."""
    shell = peer.clients([cluster.name_server])
    yield Clients(shell)
    shell.close()


@pytest.fixture(scope="session")
def moved(cluster: Cluster, clients: Clients) -> Iterator[MovedGroups]:
    """Groups that were reset while they consume. Clients take ten seconds for that: whoever only
    wants to see that it begins asks first.
    """
    groups = MovedGroups(cluster, clients)
    yield groups
    groups.close()
