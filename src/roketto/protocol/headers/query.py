"""Headers of looking for messages by key, by id and by queue entry."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header, TopicHeader


class QueryMessageRequest(TopicHeader, kw_only=True):
    """12: the messages of a topic with a key."""

    topic: str
    key: str
    max_num: I32
    begin_timestamp: I64
    end_timestamp: I64
    index_type: str | None = None
    last_key: str | None = None
    is_unique_key: bool | None = field(name="_UNIQUE_KEY_QUERY", default=None)


class QueryMessageResponse(Header, kw_only=True):
    """12: how far the index is."""

    index_last_update_timestamp: I64
    index_last_update_log_offset: I64 = field(name="indexLastUpdatePhyoffset")


class ViewMessageRequest(Header, kw_only=True):
    """33: one message by its place in the log."""

    topic: str | None = None
    log_offset: I64 = field(name="offset")


class QueryConsumeQueueRequest(TopicHeader, kw_only=True):
    """321: entries of a queue, and whether a group's filter takes them."""

    topic: str | None = None
    queue_id: I32 = 0
    index: I64 = 0
    count: I32 = 0
    consumer_group: str | None = None
