"""The topics that a producer sends to: queues, masters and whose turn it is."""

from typing import Final

from roketto.client.client import Client
from roketto.client.errors import TopicNotFoundError
from roketto.client.message import MessageQueue
from roketto.client.routes import MASTER_ID, Route
from roketto.client.selectors import RoundRobin
from roketto.client.sendable import check_sendable
from roketto.protocol.names import REPLY_TOPIC_SUFFIX

__all__ = ["Target", "Targets"]

_TARGETS_MAX: Final = 4_096
"""Topics that are remembered; what was first asked for goes first, and is found again."""


class Target:
    """One topic; it follows its route, and keeps its turn while routes change."""

    __slots__ = ("hosts", "masters", "name", "queues", "route", "topic", "turn")

    def __init__(self, topic: str, name: str) -> None:
        self.topic = topic
        """As the user calls it."""
        self.name = name
        """As brokers do: with the namespace."""
        self.turn = RoundRobin()
        self.route: Route | None = None
        self.queues: tuple[MessageQueue, ...] = ()
        """Those that can be written, under the user's name of the topic."""
        self.masters: dict[str, str] = {}
        """Broker name -> address."""
        self.hosts: dict[MessageQueue, str] = {}
        """Which broker has a queue, where it is named by another: of static topics."""

    def follow(self, route: Route) -> None:
        """Take a route that is new, or may be."""
        self.route = route
        if self.name == self.topic:
            self.queues = route.publish_queues
        else:
            self.queues = tuple(
                MessageQueue(queue.broker_name, queue.queue_id, self.topic)
                for queue in route.publish_queues
            )
        self.hosts = {
            MessageQueue(queue.broker_name, queue.queue_id, self.topic): name
            for queue, name in route.hosts.items()
        }
        self.masters = {
            name: by_id[MASTER_ID] for name, by_id in route.brokers.items() if MASTER_ID in by_id
        }


class Targets:
    """Those of one producer.

    target = targets.known("Orders") or await targets.find("Orders")
    """

    def __init__(self, client: Client, template: str, queues: int) -> None:
        self._client = client
        self._routes = client.routes
        self._template = template
        self._queues = queues
        self._targets: dict[str, Target] = {}

    def known(self, topic: str) -> Target | None:
        """A topic that was found before and still has queues."""
        target = self._targets.get(topic)
        if target is None:
            return None
        route = self._routes.known(target.name)
        if route is not target.route:
            if route is None or not route.publish_queues:
                return None
            target.follow(route)
        return target

    async def find(self, topic: str) -> Target:
        """Find a topic; IllegalMessageError for a bad name, TopicNotFoundError without a route."""
        check_sendable(topic)
        target = self._targets.get(topic) or Target(topic, self.name_of(topic))
        route = await self._routes.for_sending(target.name, self._template, self._queues)
        if not route.publish_queues:
            raise TopicNotFoundError(
                topic,
                f"{route.advertiser} knows no queue of it that can be written: it has no write"
                " permission, or none of its brokers has a master",
            )
        target.follow(route)
        if topic not in self._targets and len(self._targets) >= _TARGETS_MAX:
            del self._targets[next(iter(self._targets))]
        self._targets[topic] = target
        return target

    def name_of(self, topic: str) -> str:
        """A topic as brokers know it. That of replies belongs to the cluster, to no namespace."""
        return topic if topic.endswith(REPLY_TOPIC_SUFFIX) else self._client.wrap(topic)
