"""Two groups that are moved back while they consume, each in one of the two ways."""

import time
from collections import Counter
from typing import Final

from interop.broker.clients import Clients, Finder, PushConsumer, eventually_equal
from interop.broker.cluster import Cluster

TOPIC: Final = "Moved"
BY_BROKER: Final = "movedByBroker"
BY_CLIENTS: Final = "movedByClients"
EARLY: Final = [f"early {number}" for number in range(4)]
LATE: Final = [f"late {number}" for number in range(4)]
AFTER: Final = [f"after {number}" for number in range(2)]

_OPTION: Final = "useServerSideResetOffset"
"""Java's 4.9 does not know it, and always tells the clients."""


class MovedGroups:
    """Both have consumed all, and are sent back to the first late message.

    A message comes to each queue afterwards: pulls that wait with Java's broker hear of a reset
    when something arrives.
    """

    def __init__(self, cluster: Cluster, clients: Clients) -> None:
        finder, address = Finder(clients), cluster.main.address
        clients.make_topic(TOPIC, 2, [address])
        self._send(clients, EARLY)
        time.sleep(0.02)  # for another millisecond to begin, and some more
        self._send(clients, LATE)
        stored = {message.body: message.stored_ms for message in clients.drain(TOPIC, 8)}
        late_ms = min(stored[body] for body in LATE)
        assert late_ms > max(stored[body] for body in EARLY)
        self.consumers: dict[str, PushConsumer] = {}
        self.answers: dict[str, dict[str, int]] = {}
        for group in (BY_BROKER, BY_CLIENTS):
            self.consumers[group] = clients.push(group, TOPIC)
        for consumer in self.consumers.values():
            consumer.received(8)
            eventually_equal(consumer.offsets, {"broker-a:0": 4, "broker-a:1": 4}, "commits")
        for group, is_by_broker in ((BY_CLIENTS, "false"), (BY_BROKER, "true")):
            finder.do("configure", address=address, key=_OPTION, value=is_by_broker)
            self.answers[group] = finder.reset(group, TOPIC, late_ms)
        self._send(clients, AFTER)

    def counts(self, group: str) -> Counter[str]:
        """How often a group got each message so far."""
        return Counter(message.body for message in self.consumers[group].received(0, 0.0))

    def close(self) -> None:
        for consumer in self.consumers.values():
            consumer.stop()

    @staticmethod
    def _send(clients: Clients, bodies: list[str]) -> None:
        messages = [
            {"body": body, "broker": "broker-a", "queue": number % 2}
            for number, body in enumerate(bodies)
        ]
        clients.send(TOPIC, messages, how="queue")
