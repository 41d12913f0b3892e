"""Headers of consumption progress and counters."""

from roketto.protocol.headers.base import Header, TopicHeader


class GetConsumeStatsRequest(TopicHeader, kw_only=True):
    """208."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None
    """Names joined by semicolons."""


class GetConsumeStatsInBrokerRequest(Header, kw_only=True):
    """317."""

    is_order: bool = False


class ViewBrokerStatsDataRequest(Header, kw_only=True):
    """315."""

    stats_name: str
    stats_key: str


class GetAllProducerInfoRequest(Header, kw_only=True):
    """328: a header class without fields."""
