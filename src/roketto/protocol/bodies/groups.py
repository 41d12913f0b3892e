"""Consumer groups as brokers configure them: limits, retry policies, who may read what."""

from enum import Enum

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.topics import DataVersion

__all__ = [
    "CustomizedRetryPolicy",
    "ExponentialRetryPolicy",
    "GroupForbidden",
    "GroupList",
    "GroupRetryPolicy",
    "GroupRetryPolicyType",
    "SimpleSubscriptionData",
    "SubscriptionGroupConfig",
    "SubscriptionGroupList",
    "SubscriptionGroupWrapper",
]


class GroupRetryPolicyType(Enum):
    """Which of the two policies decides when a failed message comes again."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class ExponentialRetryPolicy(Body):
    """Each wait is ``multiplier`` times the one before; milliseconds. The defaults are Java's."""

    initial: Long = 5_000
    max: Long = 7_200_000
    multiplier: Long = 2


class CustomizedRetryPolicy(Body):
    """The waits one by one, in milliseconds."""

    next: list[Long] = field(default_factory=list)


class GroupRetryPolicy(Body):
    """A policy without its details means Java's default of that type."""

    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type: GroupRetryPolicyType = GroupRetryPolicyType.CUSTOMIZED


class SimpleSubscriptionData(Body):
    """A subscription that the broker keeps for a group."""

    expression: str | None = None
    expression_type: str | None = None
    topic: str = ""
    version: Long = 0


class SubscriptionGroupConfig(Body):
    """One consumer group on one broker. The defaults are Java's."""

    attributes: dict[str, str] = field(default_factory=dict)
    broker_id: Long = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int = 15
    group_name: str = ""
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    group_sys_flag: Int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int = 16
    retry_queue_nums: Int = 1
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    which_broker_when_consume_slowly: Long = 1


class SubscriptionGroupWrapper(Body):
    """All consumer groups of a broker; ``forbiddenTable`` has bit sets by group and topic."""

    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int]] = field(default_factory=dict)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


class SubscriptionGroupList(Body):
    """Groups to create or update in one request."""

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


class GroupForbidden(Body):
    """Whether a group may read a topic."""

    group: str = ""
    readable: bool | None = None
    topic: str = ""


class GroupList(Body):
    """Names of groups."""

    group_list: list[str] = field(default_factory=list)
