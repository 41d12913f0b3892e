"""Offsets of consumer groups: tables that slaves copy, and resets that brokers push to clients."""

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.topics import DataVersion

__all__ = [
    "ConsumerOffsetSerializeWrapper",
    "DelayOffsetSerializeWrapper",
    "GetConsumerStatusBody",
    "MessageQueueForC",
    "OffsetMovedEvent",
    "QueryCorrectionOffsetBody",
    "ResetOffsetBody",
    "ResetOffsetBodyForC",
    "RollbackStats",
]


class ConsumerOffsetSerializeWrapper(Body):
    """The consume offsets of a broker: ``topic@group`` -> queue id -> offset.

    Brokers also send which topics a group has offsets of, and how far it has pulled; slaves read
    neither.
    """

    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None
    offset_table: dict[str, dict[Int, Long]] = field(default_factory=dict)
    pull_offset_table: dict[str, dict[Int, Long]] | None = None


class DelayOffsetSerializeWrapper(Body):
    """How far each delay level has been delivered."""

    data_version: DataVersion | None = None
    offset_table: dict[Int, Long] = field(default_factory=dict)


class QueryCorrectionOffsetBody(Body):
    """Queue id -> the smallest offset that any of the compared groups has consumed."""

    correction_offsets: dict[Int, Long] = field(default_factory=dict)


class ResetOffsetBody(Body):
    """Where a client has to continue."""

    offset_table: dict[MessageQueue, Long] = field(default_factory=dict)


class MessageQueueForC(Body):
    """A queue and an offset in one object, for peers that cannot read object keys."""

    broker_name: str = ""
    offset: Long = 0
    queue_id: Int = 0
    topic: str = ""


class ResetOffsetBodyForC(Body):
    """A ResetOffsetBody for clients in C++."""

    offset_table: list[MessageQueueForC] = field(default_factory=list)


class GetConsumerStatusBody(Body):
    """Offsets that clients know: of one client, and by client id when a broker has asked them."""

    consumer_table: dict[str, dict[MessageQueue, Long]] = field(default_factory=dict)
    message_queue_table: dict[MessageQueue, Long] = field(default_factory=dict)


class RollbackStats(Body):
    """What resetting one queue by time did."""

    broker_name: str = ""
    broker_offset: Long = 0
    consumer_offset: Long = 0
    queue_id: Long = 0
    rollback_offset: Long = 0
    timestamp_offset: Long = 0


class OffsetMovedEvent(Body):
    """A consumer asked for an offset that does not exist and was sent elsewhere."""

    consumer_group: str = ""
    message_queue: MessageQueue | None = None
    offset_new: Long = 0
    offset_request: Long = 0
