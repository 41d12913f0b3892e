"""Blocking: ``roketto.admin.groups`` for threads; ``./dev blocking`` writes it."""

from typing import Any

from roketto.admin.fleet import Broker
from roketto.admin.groups import Configs
from roketto.admin.groups import Groups as AsyncGroups
from roketto.admin.progress import Progress
from roketto.admin.topics import Attributes
from roketto.client.facade import Facade
from roketto.protocol.bodies.groups import SubscriptionGroupConfig

__all__ = ["Groups"]


class Groups(Facade[AsyncGroups]):
    """Made by ``Admin``, as ``admin.groups``.

    admin.groups.create(SubscriptionGroupConfig(group_name="billing", retry_max_times=3))
    progress = admin.groups.progress("billing")
    print(progress.lag, [queue.lag for queue in progress.queues])
    """

    def names(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """The names of all groups that the masters which are meant have."""
        return self._run(self._inner.names(cluster=cluster, broker=broker))

    def configs(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, Configs]:
        """The configurations of all groups on each master that is meant."""
        return self._run(self._inner.configs(cluster=cluster, broker=broker))

    def config(
        self, group: str, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, SubscriptionGroupConfig]:
        """How a group is configured on those of them that have it; GroupNotFoundError if none
        has.
        """
        return self._run(self._inner.config(group, cluster=cluster, broker=broker))

    def create(
        self,
        config: SubscriptionGroupConfig,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        attributes: Attributes | None = None,
    ) -> list[Broker]:
        """Make a group on every master that is meant, or replace how it is configured there."""
        return self._run(
            self._inner.create(config, cluster=cluster, broker=broker, attributes=attributes)
        )

    def update(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        attributes: Attributes | None = None,
        **changes: Any,
    ) -> list[Broker]:
        """Change what is given and leave the rest, on each master as it is there."""
        return self._run(
            self._inner.update(
                group, cluster=cluster, broker=broker, attributes=attributes, **changes
            )
        )

    def delete(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        with_offsets: bool = False,
    ) -> list[Broker]:
        """Delete a group, and its offsets too if so asked."""
        return self._run(
            self._inner.delete(group, cluster=cluster, broker=broker, with_offsets=with_offsets)
        )

    def topics(self, group: str) -> list[str]:
        """The topics in which it has offsets; for brokers from 5.0 on."""
        return self._run(self._inner.topics(group))

    def progress(
        self, group: str, topic: str | None = None, *, with_clients: bool = False
    ) -> Progress:
        """How far it has come, in all topics or in one, and who has which queue if so asked."""
        return self._run(self._inner.progress(group, topic, with_clients=with_clients))
