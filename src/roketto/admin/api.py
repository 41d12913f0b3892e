"""The administration of clusters: all that mqadmin does, as calls of one object."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from roketto.admin.clients import Clients
from roketto.admin.cluster import Cluster
from roketto.admin.fleet import TIMEOUT_MS, Fleet
from roketto.admin.groups import Groups
from roketto.admin.kv import Kv
from roketto.admin.messages import Messages
from roketto.admin.offsets import Offsets
from roketto.admin.topics import Topics
from roketto.admin.tracks import Tracks
from roketto.admin.traffic import Traffic
from roketto.client.client import Client
from roketto.client.settings import ClientSettings

__all__ = ["Admin"]


class Admin:
    """What an operator does, in families; with a client of its own unless it is given one.

    async with Admin("10.0.0.5:9876") as admin:
        await admin.topics.create("Orders", cluster="DefaultCluster")
        print((await admin.groups.progress("billing")).lag)

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
        if client is not None and (name_servers or settings):
            raise ValueError("a client has its name servers and settings; give one or the other")
        if name_servers and settings is not None:
            settings = replace(settings, name_servers=name_servers)
        self.client = client or Client(settings or ClientSettings(name_servers=name_servers))
        fleet = Fleet(self.client.calls, self.client.names, timeout_ms)
        self.cluster = Cluster(fleet)
        self.kv = Kv(fleet)
        self.topics = Topics(fleet, self.kv)
        self.clients = Clients(fleet)
        self.groups = Groups(fleet, self.topics, self.clients)
        self.offsets = Offsets(fleet)
        self.messages = Messages(fleet)
        self.tracks = Tracks(self.topics, self.groups, self.clients)
        self.traffic = Traffic(fleet, self.topics, self.groups)

    async def start(self) -> None:
        """Begin; ``async with`` does."""
        await self.client.start()

    async def stop(self) -> None:
        """End, with its client unless others use it."""
        await self.client.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
