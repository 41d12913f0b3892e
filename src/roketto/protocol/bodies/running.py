"""What a consumer answers when asked how it is, or told to consume one message now."""

from enum import Enum

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.bodies.route import MessageQueue

__all__ = [
    "CMResult",
    "ConsumeMessageDirectlyResult",
    "ConsumeStatus",
    "ConsumerRunningInfo",
    "PopProcessQueueInfo",
    "ProcessQueueInfo",
]


class ProcessQueueInfo(Body):
    """One queue that a push consumer works on; ``droped`` is the wire's spelling."""

    cached_msg_count: Int = 0
    cached_msg_max_offset: Long = 0
    cached_msg_min_offset: Long = 0
    cached_msg_size_mib: Int = field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: Long = 0
    dropped: bool = field(default=False, name="droped")
    last_consume_timestamp: Long = 0
    last_lock_timestamp: Long = 0
    last_pull_timestamp: Long = 0
    locked: bool = False
    transaction_msg_count: Int = 0
    transaction_msg_max_offset: Long = 0
    transaction_msg_min_offset: Long = 0
    try_unlock_times: Long = 0


class PopProcessQueueInfo(Body):
    """One queue that a consumer POPs from."""

    dropped: bool = field(default=False, name="droped")
    last_pop_timestamp: Long = 0
    wait_ack_count: Int = 0


class ConsumeStatus(Body):
    """Rates of one topic; round-trip times in milliseconds."""

    consume_failed_msgs: Long = 0
    consume_failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = field(default=0.0, name="consumeOKTPS")
    consume_rt: float = field(default=0.0, name="consumeRT")
    pull_rt: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")


class ConsumerRunningInfo(Body):
    """The answer to GET_CONSUMER_RUNNING_INFO."""

    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    user_consumer_info: dict[str, str] = field(default_factory=dict)


class CMResult(Enum):
    """How consuming one message ended."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body):
    """The answer to CONSUME_MESSAGE_DIRECTLY."""

    auto_commit: bool = True
    consume_result: CMResult | None = None
    order: bool = False
    remark: str | None = None
    spent_time_ms: Long = field(default=0, name="spentTimeMills")
