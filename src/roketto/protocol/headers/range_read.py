"""Headers of reading a range of a queue in bulk; no other broker has this request."""

from roketto.protocol.headers.base import I32, I64, Header, TopicHeader


class ReadRangeRequest(TopicHeader, kw_only=True):
    """20480: as many messages of a queue from an offset on as fit the bytes that are asked for."""

    consumer_group: str | None = None
    """Whom statistics count the messages for; needs no subscription."""
    topic: str
    queue_id: I32
    queue_offset: I64
    end_offset: I64 | None = None
    """The first offset that is not wanted any more; without it, the end of the queue."""
    max_bytes: I32 | None = None
    tag_codes: str | None = None
    """Hashes of tags joined by commas; without them, messages with any tag and with none."""


class ReadRangeResponse(Header, kw_only=True):
    """20480: where to go on, and what the body has."""

    next_begin_offset: I64
    min_offset: I64
    max_offset: I64
    message_count: I32
