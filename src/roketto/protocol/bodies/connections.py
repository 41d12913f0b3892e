"""Who is connected to a broker, in which groups."""

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)

__all__ = [
    "Connection",
    "ConsumerConnection",
    "GetConsumerListByGroupResponseBody",
    "ProducerConnection",
    "ProducerInfo",
    "ProducerTableInfo",
]


class Connection(Body):
    """One client; ``language`` is a name of LanguageCode."""

    client_addr: str = ""
    client_id: str = ""
    language: str | None = None
    version: Int = 0


class ProducerConnection(Body):
    """The members of a producer group."""

    connection_set: list[Connection] = field(default_factory=list)


class ConsumerConnection(Body):
    """The members of a consumer group and how they consume."""

    connection_set: list[Connection] = field(default_factory=list)
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)


class ProducerInfo(Body):
    """One member of a producer group."""

    client_id: str = ""
    language: str | None = None
    last_update_timestamp: Long = 0
    remote_ip: str = field(default="", name="remoteIP")
    version: Int = 0


class ProducerTableInfo(Body):
    """All producer groups of a broker."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class GetConsumerListByGroupResponseBody(Body):
    """The client ids of a consumer group; rebalancing starts from it."""

    consumer_id_list: list[str] = field(default_factory=list)
