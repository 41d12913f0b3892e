"""Clients without sockets, and the clock they live by, for the tests of the broker."""

from collections.abc import Callable
from dataclasses import dataclass, field

from roketto.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.command import Command
from roketto.remoting.connection import Connection


class Peer(Connection):
    """A connection that keeps what it is told instead of sending it."""

    def __init__(self, peer: str = "10.0.0.1:1000") -> None:
        self.peer = peer
        self.closed = False
        self.close_reason = None
        self.sent: list[Command] = []
        self.callbacks: list[Callable[[Connection], None]] = []

    def send_one_way(self, command: Command) -> bool:
        self.sent.append(command)
        return not self.closed

    def add_close_callback(self, callback: Callable[[Connection], None]) -> None:
        self.callbacks.append(callback)

    def close(self, reason: str) -> None:
        self.closed = True
        self.close_reason = reason

    def lose(self) -> None:
        """End as a broken connection does."""
        self.closed = True
        for callback in self.callbacks:
            callback(self)

    def take_notices(self) -> list[str]:
        """The groups that it was told have changed, since it was last asked."""
        groups = [command.ext["consumerGroup"] for command in self.sent if command.ext]
        self.sent.clear()
        return groups


@dataclass
class Now:
    """A monotonic clock that a test moves."""

    now_s: float = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class ClientOptions:
    """What is configured about clients and groups, with Java's defaults."""

    channel_expired_timeout: int = 120_000
    notify_consumer_ids_changed_enable: bool = True
    auto_create_subscription_group: bool = True
    enable_create_sys_group: bool = True


def subscription(topic: str, expression: str = "*", version: int = 1) -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version)


@dataclass
class Consumer:
    """How one group of a client consumes; ``data`` is what its heartbeat says."""

    group: str = "G"
    subscriptions: list[SubscriptionData] = field(default_factory=lambda: [subscription("T")])
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET

    def data(self) -> ConsumerData:
        return ConsumerData(
            consume_from_where=self.from_where,
            consume_type=self.consume_type,
            group_name=self.group,
            message_model=self.message_model,
            subscription_data_set=self.subscriptions,
        )
