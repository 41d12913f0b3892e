"""Blocking: ``roketto.admin.api`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Sequence

from roketto.admin.api import Admin as AsyncAdmin
from roketto.admin.blocking.clients import Clients
from roketto.admin.blocking.cluster import Cluster
from roketto.admin.blocking.groups import Groups
from roketto.admin.blocking.kv import Kv
from roketto.admin.blocking.messages import Messages
from roketto.admin.blocking.offsets import Offsets
from roketto.admin.blocking.topics import Topics
from roketto.admin.blocking.tracks import Tracks
from roketto.admin.blocking.traffic import Traffic
from roketto.admin.fleet import TIMEOUT_MS
from roketto.client.blocking.client import Client
from roketto.client.facade import LivingFacade, inner_of
from roketto.client.settings import ClientSettings

__all__ = ["Admin"]


class Admin(LivingFacade[AsyncAdmin]):
    """What an operator does, in families; with a client of its own unless it is given one.

    with Admin("10.0.0.5:9876") as admin:
        admin.topics.create("Orders", cluster="DefaultCluster")
        print(admin.groups.progress("billing").lag)

    Names of topics and groups are whole names: a namespace is part of them. What is asked of
    several brokers is asked of all of them. If one fails, the call raises a PartlyFailedError that
    names each failure, and has what the others have answered.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        client: Client | None = None,
        settings: ClientSettings | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._hold(
            AsyncAdmin(
                name_servers, client=inner_of(client), settings=settings, timeout_ms=timeout_ms
            )
        )

    @property
    def cluster(self) -> Cluster:
        return Cluster._of(self._inner.cluster, self._life)

    @property
    def kv(self) -> Kv:
        return Kv._of(self._inner.kv, self._life)

    @property
    def topics(self) -> Topics:
        return Topics._of(self._inner.topics, self._life)

    @property
    def clients(self) -> Clients:
        return Clients._of(self._inner.clients, self._life)

    @property
    def groups(self) -> Groups:
        return Groups._of(self._inner.groups, self._life)

    @property
    def offsets(self) -> Offsets:
        return Offsets._of(self._inner.offsets, self._life)

    @property
    def messages(self) -> Messages:
        return Messages._of(self._inner.messages, self._life)

    @property
    def tracks(self) -> Tracks:
        return Tracks._of(self._inner.tracks, self._life)

    @property
    def traffic(self) -> Traffic:
        return Traffic._of(self._inner.traffic, self._life)
