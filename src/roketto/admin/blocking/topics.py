"""Blocking: ``roketto.admin.topics`` for threads; ``./dev blocking`` writes it."""

from roketto.admin.fleet import Broker
from roketto.admin.topics import READ, WRITE, Attributes, TopicStatus
from roketto.admin.topics import Topics as AsyncTopics
from roketto.client.facade import Facade
from roketto.protocol.bodies.route import TopicRouteData
from roketto.protocol.bodies.topics import TopicConfig

__all__ = ["Topics"]


class Topics(Facade[AsyncTopics]):
    """Made by ``Admin``, as ``admin.topics``.

    admin.topics.create("Orders", cluster="DefaultCluster", write_queues=4, read_queues=4)
    admin.topics.update("Orders", perm=READ)
    """

    def names(self, cluster: str | None = None) -> list[str]:
        """The names of all topics that a name server knows, of all clusters or of one."""
        return self._run(self._inner.names(cluster))

    def route(self, topic: str) -> TopicRouteData:
        """Where it is; TopicNotFoundError if nobody has it."""
        return self._run(self._inner.route(topic))

    def clusters(self, topic: str) -> list[str]:
        """The clusters whose brokers have it. Java looks at the first of its brokers only."""
        return self._run(self._inner.clusters(topic))

    def groups(self, topic: str) -> list[str]:
        """The groups that consume it, online or not. Java asks the first of its brokers only."""
        return self._run(self._inner.groups(topic))

    def status(self, topic: str) -> TopicStatus:
        """How far each of its queues goes."""
        return self._run(self._inner.status(topic))

    def config(
        self, topic: str, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[Broker, TopicConfig]:
        """Its configuration on each broker that is meant, or on those that have it."""
        return self._run(self._inner.config(topic, cluster=cluster, broker=broker))

    def configs(self, broker: str) -> dict[str, TopicConfig]:
        """The configurations of all topics on one broker, by its name or address."""
        return self._run(self._inner.configs(broker))

    def create(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        read_queues: int = 8,
        write_queues: int = 8,
        perm: int = READ | WRITE,
        is_ordered: bool = False,
        attributes: Attributes | None = None,
        is_unit: bool = False,
        has_unit_subscription: bool = False,
    ) -> list[Broker]:
        """Make it on every master that is meant, or replace how it is configured there."""
        return self._run(
            self._inner.create(
                topic,
                cluster=cluster,
                broker=broker,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=perm,
                is_ordered=is_ordered,
                attributes=attributes,
                is_unit=is_unit,
                has_unit_subscription=has_unit_subscription,
            )
        )

    def update(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        is_ordered: bool | None = None,
        attributes: Attributes | None = None,
    ) -> list[Broker]:
        """Change what is given and leave the rest, on each broker as it is there."""
        return self._run(
            self._inner.update(
                topic,
                cluster=cluster,
                broker=broker,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=perm,
                is_ordered=is_ordered,
                attributes=attributes,
            )
        )

    def delete(self, topic: str, cluster: str | None = None) -> list[Broker]:
        """Delete it on all masters of a cluster, then at all name servers, with its order."""
        return self._run(self._inner.delete(topic, cluster))
