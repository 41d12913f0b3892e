"""Headers of topics on a broker: create, delete, configurations, who consumes them."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header, RpcHeader, TopicHeader


class CreateTopicRequest(TopicHeader, kw_only=True):
    """17 and 513."""

    topic: str
    default_topic: str
    read_queue_nums: I32
    write_queue_nums: I32
    perm: I32
    """Bits: 8 priority, 4 read, 2 write, 1 inherit."""
    topic_filter_type: str
    topic_sys_flag: I32 | None = None
    order: bool = False
    attributes: str | None = None
    """Changes to attributes: ``+key=value,-key``."""
    force: bool = False


class CreateTopicListRequest(RpcHeader, kw_only=True):
    """18: the topics are in the body."""


class DeleteTopicRequest(TopicHeader, kw_only=True):
    """215."""

    topic: str


class GetAllTopicConfigRequest(Header, kw_only=True):
    """21: one page of the topics; a slave of before 5.4 sends no field and wants them all."""

    topic_seq: I32 | None = None
    """How many topics the caller has already."""
    data_version: str | None = None
    max_topic_num: I32 | None = None


class GetAllTopicConfigResponse(Header, kw_only=True):
    """21: absent when the body holds them all."""

    total_topic_num: I32 | None = None


class GetTopicConfigRequest(TopicHeader, kw_only=True):
    """351."""

    topic: str


class GetTopicStatsInfoRequest(TopicHeader, kw_only=True):
    """202."""

    topic: str


class QueryTopicConsumeByWhoRequest(TopicHeader, kw_only=True):
    """300."""

    topic: str


class QueryConsumeTimeSpanRequest(TopicHeader, kw_only=True):
    """303."""

    topic: str
    group: str


class QueryTopicsByConsumerRequest(RpcHeader, kw_only=True):
    """343."""

    group: str


class QuerySubscriptionByConsumerRequest(TopicHeader, kw_only=True):
    """345."""

    group: str
    topic: str | None = None


class CheckRocksdbCqWriteProgressRequest(Header, kw_only=True):
    """354."""

    topic: str
    check_store_timestamp: I64 = field(name="checkStoreTime", default=0)
