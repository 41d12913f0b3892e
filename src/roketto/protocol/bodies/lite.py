"""Lite topics (5.5): many small topics under one parent, subscribed to one by one."""

from enum import Enum

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.stats import OffsetWrapper, TopicOffset

__all__ = [
    "ClientGroup",
    "GetBrokerLiteInfoResponseBody",
    "GetLiteClientInfoResponseBody",
    "GetLiteGroupInfoResponseBody",
    "GetLiteTopicInfoResponseBody",
    "GetParentTopicInfoResponseBody",
    "LiteLagInfo",
    "LiteSubscriptionAction",
    "LiteSubscriptionCtlRequestBody",
    "LiteSubscriptionDTO",
    "OffsetOption",
    "OffsetOptionType",
]


class LiteSubscriptionAction(Enum):
    """Whether lite topics are added or removed, some of them or all."""

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetOptionType(Enum):
    """What the value of an OffsetOption means."""

    POLICY = "POLICY"
    OFFSET = "OFFSET"
    TAIL_N = "TAIL_N"
    TIMESTAMP = "TIMESTAMP"


class OffsetOption(Body):
    """Where to begin with a lite topic."""

    type: OffsetOptionType | None = None
    value: Long = 0


class LiteSubscriptionDTO(Body):
    """One change of what a client wants of a parent topic."""

    action: LiteSubscriptionAction | None = None
    client_id: str = ""
    group: str = ""
    lite_topic_set: list[str] = field(default_factory=list)
    offset_option: OffsetOption | None = None
    topic: str = ""
    version: Long = 0


class LiteSubscriptionCtlRequestBody(Body):
    """The body of LITE_SUBSCRIPTION_CTL."""

    subscription_set: list[LiteSubscriptionDTO] = field(default_factory=list)


class GetBrokerLiteInfoResponseBody(Body):
    """All lite topics of a broker in figures."""

    cq_table_size: Int = 0
    current_lmq_num: Int = 0
    event_map_size: Int = 0
    group_meta: dict[str, list[str]] = field(default_factory=dict)
    lite_subscription_count: Int = 0
    max_lmq_num: Int = 0
    offset_table_size: Int = 0
    order_info_count: Int = 0
    store_type: str | None = None
    topic_meta: dict[str, Int] = field(default_factory=dict)


class GetParentTopicInfoResponseBody(Body):
    """One parent topic; ``ttl`` in minutes."""

    groups: list[str] = field(default_factory=list)
    lite_topic_count: Int = 0
    lmq_num: Int = 0
    topic: str = ""
    ttl: Int = 0


class ClientGroup(Body):
    """A client in a group."""

    client_id: str = ""
    group: str = ""


class GetLiteTopicInfoResponseBody(Body):
    """One lite topic and who subscribes to it."""

    lite_topic: str = ""
    parent_topic: str = ""
    sharding_to_broker: bool = False
    subscriber: list[ClientGroup] = field(default_factory=list)
    topic_offset: TopicOffset | None = None


class GetLiteClientInfoResponseBody(Body):
    """One client and the lite topics that it subscribes to."""

    client_id: str = ""
    group: str = ""
    last_access_time: Long = 0
    last_consume_time: Long = 0
    lite_topic_count: Int = 0
    lite_topic_set: list[str] = field(default_factory=list)
    parent_topic: str = ""


class LiteLagInfo(Body):
    """How far a group is behind in one lite topic."""

    earliest_unconsumed_timestamp: Long = 0
    lag_count: Long = 0
    lite_topic: str = ""


class GetLiteGroupInfoResponseBody(Body):
    """How far a group is behind, and where most."""

    earliest_unconsumed_timestamp: Long = 0
    group: str = ""
    lag_count_top_k: list[LiteLagInfo] = field(default_factory=list)
    lag_timestamp_top_k: list[LiteLagInfo] = field(default_factory=list)
    lite_topic: str | None = None
    lite_topic_offset_wrapper: OffsetWrapper | None = None
    parent_topic: str = ""
    total_lag_count: Long = 0
