"""Fixtures of the interop tests: each version of the Java peer starts once for all of them.

Under pytest-xdist run with `--dist loadgroup`: all tests of one version then go to one worker.
"""

from collections.abc import Iterator

import pytest

from interop.peer import VERSIONS, Broker, NameServer, Peer, PeerUnavailableError
from interop.peer.outcome import skip_or_fail


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(version, marks=[pytest.mark.peer, pytest.mark.xdist_group(f"peer-{version}")])
        for version in VERSIONS
    ],
)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    """One version of the real RocketMQ; all that a test starts with it ends with it."""
    try:
        started = Peer(request.param)
    except PeerUnavailableError as unavailable:
        skip_or_fail(unavailable)
    with started:
        yield started


@pytest.fixture(scope="session")
def java_name_server(peer: Peer) -> NameServer:
    """The peer's name server, shared: give topics and groups names of their own."""
    return peer.name_server()


@pytest.fixture(scope="session")
def java_broker(peer: Peer, java_name_server: NameServer) -> Broker:
    """The peer's broker, registered with `java_name_server` and shared like it."""
    return peer.broker([java_name_server.address])
