"""Blocking: ``roketto.admin.clients`` for threads; ``./dev blocking`` writes it."""

from roketto.admin.clients import Clients as AsyncClients
from roketto.admin.clients import SubscriptionConflict
from roketto.client.facade import Facade
from roketto.client.received import ReceivedMessage
from roketto.protocol.bodies.connections import Connection, ConsumerConnection
from roketto.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["Clients"]


class Clients(Facade[AsyncClients]):
    """Made by ``Admin``, as ``admin.clients``.

    for connection in admin.clients.consumers("billing").connection_set:
        print(connection.client_id, connection.client_addr)
    """

    def consumers(self, group: str, *, broker: str | None = None) -> ConsumerConnection:
        """Its members and how they consume; GroupOfflineError if there are none."""
        return self._run(self._inner.consumers(group, broker=broker))

    def producers(self, group: str, topic: str) -> list[Connection]:
        """The members of a producer group, on the brokers of a topic; GroupOfflineError if none."""
        return self._run(self._inner.producers(group, topic))

    def running_info(
        self, group: str, client_id: str, *, with_stack: bool = False
    ) -> ConsumerRunningInfo:
        """What a consumer says of itself, by way of a broker that it is connected to."""
        return self._run(self._inner.running_info(group, client_id, with_stack=with_stack))

    def running_infos(
        self, group: str, *, with_stack: bool = False
    ) -> dict[str, ConsumerRunningInfo]:
        """The same of all members of a group, by client id."""
        return self._run(self._inner.running_infos(group, with_stack=with_stack))

    def conflicts(self, group: str) -> list[SubscriptionConflict]:
        """The topics that its members do not all subscribe to in the same way; none is good."""
        return self._run(self._inner.conflicts(group))

    def consume(
        self, group: str, client_id: str, message: ReceivedMessage
    ) -> ConsumeMessageDirectlyResult:
        """Let a consumer have a message now, whatever its offsets; how that went."""
        return self._run(self._inner.consume(group, client_id, message))
