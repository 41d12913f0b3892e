"""Headers of offsets: a group's position, a queue's ends, the way from a time to an offset."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, BoundaryType, Header, RpcHeader, TopicHeader


class QueryConsumerOffsetRequest(TopicHeader, kw_only=True):
    """14: where a group stands in a queue."""

    consumer_group: str
    topic: str
    queue_id: I32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponse(Header, kw_only=True):
    """14."""

    consume_offset: I64 = field(name="offset")


class UpdateConsumerOffsetRequest(TopicHeader, kw_only=True):
    """15, usually one-way."""

    consumer_group: str
    topic: str
    queue_id: I32
    consume_offset: I64 = field(name="commitOffset")


class SearchOffsetRequest(TopicHeader, kw_only=True):
    """29: the message of a queue at a time."""

    topic: str
    queue_id: I32
    timestamp: I64
    boundary_type: BoundaryType | None = None
    lite_topic: str | None = None


class SearchOffsetResponse(Header, kw_only=True):
    """29."""

    queue_offset: I64 = field(name="offset")


class GetMaxOffsetRequest(TopicHeader, kw_only=True):
    """30."""

    topic: str
    queue_id: I32
    committed: bool = True


class GetMaxOffsetResponse(Header, kw_only=True):
    """30: the offset the next message will get."""

    queue_offset: I64 = field(name="offset")


class GetMinOffsetRequest(TopicHeader, kw_only=True):
    """31."""

    topic: str
    queue_id: I32


class GetMinOffsetResponse(Header, kw_only=True):
    """31."""

    queue_offset: I64 = field(name="offset")


class GetEarliestMsgStoretimeRequest(TopicHeader, kw_only=True):
    """32."""

    topic: str
    queue_id: I32


class GetEarliestMsgStoretimeResponse(Header, kw_only=True):
    """32."""

    timestamp: I64


class QueryCorrectionOffsetRequest(TopicHeader, kw_only=True):
    """308: the smallest offsets among groups that stand in for another."""

    filter_groups: str | None = None
    """Names joined by commas."""
    compare_group: str
    topic: str


class CloneGroupOffsetRequest(RpcHeader, kw_only=True):
    """314: give one group the position of another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class ResetOffsetRequest(TopicHeader, kw_only=True):
    """222 from a tool to the broker, and 220 from the broker to clients."""

    group: str
    topic: str
    queue_id: I32 = -1
    """-1 is all queues."""
    queue_offset: I64 | None = field(name="offset", default=None)
    timestamp: I64 = 0
    """Below zero: behind the last message."""
    is_force: bool = False
