"""Fixtures of the client's interop tests: our Python client, with our brokers and with Java's.

Every scenario runs against our broker, Java's 5.5.0 and Java's 4.9.7; unmodified Java clients of
the same version send to ours, receive from ours, and share groups with them. On our broker they are
of 5.5.0, and where they share groups of 4.9.7 as well. One of them:

    ./dev test tests/interop/client -k "4.9.7 and orderly"
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from interop.client.sites import EVERYWHERE, Site, running
from interop.peer import PeerUnavailableError
from interop.peer.outcome import skip_or_fail


@pytest.fixture(scope="session", params=EVERYWHERE)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """One cluster that is shared: give topics and groups names of their own."""
    folder = tmp_path_factory.mktemp(f"client-{request.param}")
    with ExitStack() as stack:
        try:
            started = stack.enter_context(running(request.param, folder))
        except PeerUnavailableError as unavailable:
            skip_or_fail(unavailable)
        yield started
