"""What a client tells its brokers about itself: groups, subscriptions, how it consumes."""

from enum import Enum

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long

__all__ = [
    "CheckClientRequestBody",
    "ConsumeFromWhere",
    "ConsumeType",
    "ConsumerData",
    "HeartbeatData",
    "MessageModel",
    "ProducerData",
    "QuerySubscriptionResponseBody",
    "SubscriptionData",
]


class ConsumeType(Enum):
    """How a consumer gets its messages: pull, push or POP."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(Enum):
    """Who of a group gets a message: everybody, one, or (5.5) who asked for its lite topic."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    LITE_SELECTIVE = "LITE_SELECTIVE"


class ConsumeFromWhere(Enum):
    """Where a group without offsets begins; the second to fourth are relics."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body):
    """A topic and a filter. Tags travel with their hashes; SQL92 has neither."""

    class_filter_mode: bool = False
    code_set: list[Int] = field(default_factory=list)
    expression_type: str = "TAG"
    sub_string: str | None = None
    sub_version: Long = 0
    tags_set: list[str] = field(default_factory=list)
    topic: str = ""


class ConsumerData(Body):
    """One consumer group of a client."""

    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    group_name: str = ""
    message_model: MessageModel | None = None
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


class ProducerData(Body):
    """One producer group of a client."""

    group_name: str = ""


class HeartbeatData(Body):
    """The body of HEART_BEAT. Clients before 5.1 send neither fingerprint nor ``withoutSub``."""

    client_id: str = field(default="", name="clientID")
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: Int = 0
    producer_data_set: list[ProducerData] = field(default_factory=list)
    without_sub: bool = False


class CheckClientRequestBody(Body):
    """The body of CHECK_CLIENT_CONFIG: may this group subscribe like that?"""

    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData | None = None


class QuerySubscriptionResponseBody(Body):
    """How a group subscribes to one topic."""

    group: str = ""
    subscription_data: SubscriptionData | None = None
    topic: str = ""
