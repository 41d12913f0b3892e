"""Where our clients are tested: a cluster of ours or of Java's, with Java's clients beside them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import pytest

from integration.admin.admin_rig import make_topic
from interop.broker.clients import Clients
from interop.broker.cluster import Cluster, JavaCluster, OurCluster
from interop.peer import ClientError, Peer
from roketto.admin.api import Admin
from roketto.client.message import MessageQueue

P = ParamSpec("P")
T = TypeVar("T")

OURS: Final = "ours"
OURS_WITH_OLD: Final = "ours-and-4.9.7"
OLD: Final = "java-4.9.7"
KINDS: Final = {OURS: "5.5.0", OURS_WITH_OLD: "4.9.7", "java-5.5.0": "5.5.0", OLD: "4.9.7"}
"""Whose brokers they are, and the version of Java's clients beside ours."""
_OURS: Final = (OURS, OURS_WITH_OLD)

_WARM_UPS: Final = 3


def _params(*kinds: str) -> list[object]:
    """Java's own brokers are for the long tier: two more clusters of JVMs beside those of
    tests/interop/broker are more than two cores take."""
    return [
        pytest.param(
            kind,
            marks=[pytest.mark.peer, pytest.mark.xdist_group(f"client-{kind}")]
            + [pytest.mark.slow] * (kind not in _OURS),
        )
        for kind in kinds
    ]


EVERYWHERE: Final = _params(*(kind for kind in KINDS if kind != OURS_WITH_OLD))

not_on_4_9 = pytest.mark.parametrize(
    "site", _params(OURS, "java-5.5.0"), indirect=True, scope="session"
)
"""For what brokers of 4.9 do not have: timers, and messages that are taken back."""

with_old_clients = pytest.mark.parametrize("site", _params(*KINDS), indirect=True, scope="session")
"""For what Java's clients of both versions are to do beside ours, on our broker as well."""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster that is shared: give topics and groups names of their own."""

    kind: str
    peer: Peer
    cluster: Cluster
    java: Clients
    """Unmodified clients. What they do takes a while, and blocks: use `aside`."""

    @property
    def names(self) -> str:
        return self.cluster.name_server

    @property
    def is_ours(self) -> bool:
        return self.kind in _OURS

    @property
    def is_old(self) -> bool:
        return self.kind == OLD

    async def topic(self, name: str, queues: int = 1) -> str:
        """Make a topic, and wait for its route."""
        async with Admin(self.names) as admin:
            await make_topic(admin, name, queues, brokers=1)
        return name

    def mqadmin(self, *arguments: str) -> str:
        """What Java's tool prints."""
        return self.peer.mqadmin_output(*arguments, name_server=self.names).stdout


@contextmanager
def running(kind: str, folder: Path) -> Iterator[Site]:
    """Start a cluster and what Java's clients need."""
    with (
        Peer(KINDS[kind]) as peer,
        OurCluster(folder) if kind in _OURS else JavaCluster(peer, folder) as cluster,
        closing(peer.clients([cluster.name_server])) as shell,
    ):
        site = Site(kind, peer, cluster, Clients(shell))
        _warm_up(site.java)
        yield site


def _warm_up(java: Clients) -> None:
    """On a busy machine the first questions of a new JVM to another one come to nothing."""
    for attempt in range(_WARM_UPS):
        try:
            java.send("WarmUp", ["the first"])
            return
        except ClientError:
            if attempt == _WARM_UPS - 1:
                raise


async def aside(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Let a Java client do something while ours go on. One thing at a time: it has one shell."""
    return await asyncio.to_thread(work, *args, **kwargs)


def queue_of(topic: str, queue_id: int = 0) -> MessageQueue:
    return MessageQueue("broker-a", queue_id, topic)
