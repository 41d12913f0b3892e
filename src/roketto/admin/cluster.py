"""Clusters and brokers as operators see them: who is there, how configured, how busy, writable."""

from collections.abc import Mapping
from typing import TypeVar

from roketto.admin.fleet import Broker, Fleet
from roketto.protocol.bodies.route import ClusterInfo, KVTable
from roketto.protocol.bodies.stats import BrokerStatsData, ConsumeStatsList
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.base import Header, decode_header
from roketto.protocol.headers.namesrv import (
    AddWritePermRequest,
    AddWritePermResponse,
    WipeWritePermRequest,
    WipeWritePermResponse,
)
from roketto.protocol.headers.stats import (
    GetConsumeStatsInBrokerRequest,
    ViewBrokerStatsDataRequest,
)
from roketto.protocol.properties_text import format_properties, parse_properties

__all__ = ["Cluster"]

B = TypeVar("B")


class Cluster:
    """Made by ``Admin``, as ``admin.cluster``.

    for broker, figures in (await admin.cluster.runtime()).items():
        print(broker.name, figures["brokerVersionDesc"], figures["putTps"])
    await admin.cluster.update_config({"brokerPermission": "4"}, broker="broker-a")
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    # --- who is there -----------------------------------------------------------------------------

    async def info(self) -> ClusterInfo:
        """All clusters and brokers, as a name server tells it."""
        return await self._fleet.info()

    async def names(self) -> list[str]:
        """The names of the clusters."""
        return sorted((await self._fleet.info()).cluster_addr_table)

    async def broker_names(self, cluster: str | None = None) -> list[str]:
        """The names of the brokers of a cluster, or of all; each stands for a master and slaves."""
        return sorted({member.name for member in await self._fleet.members(cluster)})

    async def brokers(self, cluster: str | None = None) -> list[Broker]:
        """The masters and slaves that are registered."""
        return [member for member in await self._fleet.members(cluster) if member.address]

    # --- brokers ----------------------------------------------------------------------------------

    async def config(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, dict[str, str]]:
        """The configurations of masters and slaves; of all clusters if nothing is said."""

        async def ask(one: Broker) -> dict[str, str]:
            answer = await self._fleet.ask(one.address, RequestCode.GET_BROKER_CONFIG)
            return _properties(answer.body)

        members = await self._fleet.members(cluster, broker)
        answers = await self._fleet.ask_each("read the configuration", members, ask)
        return answers.checked(answers.results)

    async def update_config(
        self,
        changes: Mapping[str, str],
        *,
        cluster: str | None = None,
        broker: str | None = None,
        with_slaves: bool = False,
    ) -> list[Broker]:
        """Change what a broker may change while it runs, by Java's names; on masters, or on all."""
        body = format_properties(changes).encode()
        targets = await self._fleet.masters(cluster, broker)
        if with_slaves:
            names = {master.name for master in targets}
            targets = [one for one in await self._fleet.members() if one.name in names]
        answers = await self._fleet.ask_each(
            f"set {', '.join(changes)}",
            targets,
            lambda one: self._fleet.ask(one.address, RequestCode.UPDATE_BROKER_CONFIG, body=body),
        )
        return answers.checked(list(answers.results))

    async def runtime(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, dict[str, str]]:
        """What masters and slaves say of themselves, by Java's names: rates, disk, version."""

        async def ask(one: Broker) -> dict[str, str]:
            code = RequestCode.GET_BROKER_RUNTIME_INFO
            return (await self._fleet.ask_body(KVTable, one.address, code)).table

        members = await self._fleet.members(cluster, broker)
        answers = await self._fleet.ask_each("ask how they run", members, ask)
        return answers.checked(answers.results)

    async def stats(
        self, name: str, key: str, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, BrokerStatsData]:
        """One statistic of each master, such as TOPIC_PUT_NUMS of a topic.

        A broker that has counted nothing for the key refuses.
        """
        request = ViewBrokerStatsDataRequest(stats_name=name, stats_key=key)
        return await self._ask_masters(
            f"read {name} of {key}",
            BrokerStatsData,
            RequestCode.VIEW_BROKER_STATS_DATA,
            request,
            cluster,
            broker,
        )

    async def progress(
        self,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        only_ordered: bool = False,
    ) -> dict[Broker, ConsumeStatsList]:
        """How far all groups have come on each master."""
        request = GetConsumeStatsInBrokerRequest(is_order=only_ordered)
        return await self._ask_masters(
            "look at the progress of all groups",
            ConsumeStatsList,
            RequestCode.GET_BROKER_CONSUME_STATS,
            request,
            cluster,
            broker,
        )

    async def _ask_masters(
        self,
        what: str,
        body_type: type[B],
        code: int,
        request: Header,
        cluster: str | None,
        broker: str | None,
    ) -> dict[Broker, B]:
        answers = await self._fleet.ask_each(
            what,
            await self._fleet.masters(cluster, broker),
            lambda one: self._fleet.ask_body(body_type, one.address, code, request),
        )
        return answers.checked(answers.results)

    # --- name servers -----------------------------------------------------------------------------

    async def wipe_write_perm(self, broker: str) -> dict[str, int]:
        """Let nobody begin to write to a broker, by its name; how many topics that is, by server.

        Only the routes change, and only until the broker tells of a topic that has changed, or is
        started anew. Clients see it within half a minute.
        """
        request = WipeWritePermRequest(broker_name=broker)
        answers = await self._fleet.ask_all_names(
            f"wipe the write permission of {broker}", RequestCode.WIPE_WRITE_PERM_OF_BROKER, request
        )
        return answers.checked(
            {
                address: decode_header(WipeWritePermResponse, answer.ext).wipe_topic_count
                for address, answer in answers.results.items()
            }
        )

    async def add_write_perm(self, broker: str) -> dict[str, int]:
        """Undo that; how many topics that is, by name server."""
        request = AddWritePermRequest(broker_name=broker)
        answers = await self._fleet.ask_all_names(
            f"add the write permission of {broker}", RequestCode.ADD_WRITE_PERM_OF_BROKER, request
        )
        return answers.checked(
            {
                address: decode_header(AddWritePermResponse, answer.ext).add_topic_count
                for address, answer in answers.results.items()
            }
        )

    async def name_server_config(self) -> dict[str, dict[str, str]]:
        """The configurations of all name servers, by address."""
        answers = await self._fleet.ask_all_names(
            "read the configuration", RequestCode.GET_NAMESRV_CONFIG
        )
        return answers.checked(
            {address: _properties(answer.body) for address, answer in answers.results.items()}
        )

    async def update_name_server_config(self, changes: Mapping[str, str]) -> list[str]:
        """Change what a name server may change while it runs; on all of them."""
        answers = await self._fleet.ask_all_names(
            f"set {', '.join(changes)}",
            RequestCode.UPDATE_NAMESRV_CONFIG,
            body=format_properties(changes).encode(),
        )
        return answers.checked(list(answers.results))


def _properties(body: bytes | memoryview) -> dict[str, str]:
    return parse_properties(bytes(body).decode())
