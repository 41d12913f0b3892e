"""Blocking: ``roketto.admin.cluster`` for threads; ``./dev blocking`` writes it."""

from collections.abc import Mapping

from roketto.admin.cluster import Cluster as AsyncCluster
from roketto.admin.fleet import Broker
from roketto.client.facade import Facade
from roketto.protocol.bodies.route import ClusterInfo
from roketto.protocol.bodies.stats import BrokerStatsData, ConsumeStatsList

__all__ = ["Cluster"]


class Cluster(Facade[AsyncCluster]):
    """Made by ``Admin``, as ``admin.cluster``.

    for broker, figures in admin.cluster.runtime().items():
        print(broker.name, figures["brokerVersionDesc"], figures["putTps"])
    admin.cluster.update_config({"brokerPermission": "4"}, broker="broker-a")
    """

    def info(self) -> ClusterInfo:
        """All clusters and brokers, as a name server tells it."""
        return self._run(self._inner.info())

    def names(self) -> list[str]:
        """The names of the clusters."""
        return self._run(self._inner.names())

    def broker_names(self, cluster: str | None = None) -> list[str]:
        """The names of the brokers of a cluster, or of all; each stands for a master and slaves."""
        return self._run(self._inner.broker_names(cluster))

    def brokers(self, cluster: str | None = None) -> list[Broker]:
        """The masters and slaves that are registered."""
        return self._run(self._inner.brokers(cluster))

    def config(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, dict[str, str]]:
        """The configurations of masters and slaves; of all clusters if nothing is said."""
        return self._run(self._inner.config(cluster=cluster, broker=broker))

    def update_config(
        self,
        changes: Mapping[str, str],
        *,
        cluster: str | None = None,
        broker: str | None = None,
        with_slaves: bool = False,
    ) -> list[Broker]:
        """Change what a broker may change while it runs, by Java's names; on masters, or on all."""
        return self._run(
            self._inner.update_config(
                changes, cluster=cluster, broker=broker, with_slaves=with_slaves
            )
        )

    def runtime(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, dict[str, str]]:
        """What masters and slaves say of themselves, by Java's names: rates, disk, version."""
        return self._run(self._inner.runtime(cluster=cluster, broker=broker))

    def stats(
        self, name: str, key: str, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, BrokerStatsData]:
        """One statistic of each master, such as TOPIC_PUT_NUMS of a topic."""
        return self._run(self._inner.stats(name, key, cluster=cluster, broker=broker))

    def progress(
        self, *, cluster: str | None = None, broker: str | None = None, only_ordered: bool = False
    ) -> dict[Broker, ConsumeStatsList]:
        """How far all groups have come on each master."""
        return self._run(
            self._inner.progress(cluster=cluster, broker=broker, only_ordered=only_ordered)
        )

    def wipe_write_perm(self, broker: str) -> dict[str, int]:
        """Let nobody begin to write to a broker, by its name; how many topics that is, by
        server.
        """
        return self._run(self._inner.wipe_write_perm(broker))

    def add_write_perm(self, broker: str) -> dict[str, int]:
        """Undo that; how many topics that is, by name server."""
        return self._run(self._inner.add_write_perm(broker))

    def name_server_config(self) -> dict[str, dict[str, str]]:
        """The configurations of all name servers, by address."""
        return self._run(self._inner.name_server_config())

    def update_name_server_config(self, changes: Mapping[str, str]) -> list[str]:
        """Change what a name server may change while it runs; on all of them."""
        return self._run(self._inner.update_name_server_config(changes))
