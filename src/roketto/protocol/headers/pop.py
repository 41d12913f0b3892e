"""Headers of pop consumption: pop, acknowledge, hide for longer, peek, be notified."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header, TopicHeader


class PopMessageRequest(TopicHeader, kw_only=True):
    """200050: messages of a topic, hidden from others until acknowledged or overdue."""

    consumer_group: str
    topic: str
    queue_id: I32 = 0
    """-1 is any queue."""
    max_msg_nums: I32 = 0
    invisible_time_ms: I64 = field(name="invisibleTime", default=0)
    poll_time_ms: I64 = field(name="pollTime", default=0)
    born_timestamp: I64 = field(name="bornTime", default=0)
    """The client's clock; 0 is replaced by the broker's."""
    init_mode: I32 = 0
    """Where a new group starts: 0 at the first message, 1 behind the last."""
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageResponse(Header, kw_only=True):
    """200050 and 200052: what a receipt is made of."""

    pop_timestamp: I64 = field(name="popTime", default=0)
    invisible_time_ms: I64 = field(name="invisibleTime", default=0)
    revive_qid: I32 = 0
    rest_num: I64 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageRequest(TopicHeader, kw_only=True):
    """200051: a popped message is consumed."""

    consumer_group: str
    topic: str
    queue_id: I32
    extra_info: str
    """The receipt, property POP_CK."""
    queue_offset: I64 = field(name="offset")
    lite_topic: str | None = None


class ChangeInvisibleTimeRequest(TopicHeader, kw_only=True):
    """200053: keep a popped message hidden for longer or shorter."""

    consumer_group: str
    topic: str
    queue_id: I32
    extra_info: str
    queue_offset: I64 = field(name="offset")
    invisible_time_ms: I64 = field(name="invisibleTime")
    lite_topic: str | None = None
    suspend: bool = False


class ChangeInvisibleTimeResponse(Header, kw_only=True):
    """200053: what the new receipt is made of."""

    pop_timestamp: I64 = field(name="popTime", default=0)
    invisible_time_ms: I64 = field(name="invisibleTime", default=0)
    revive_qid: I32 = 0


class PeekMessageRequest(TopicHeader, kw_only=True):
    """200052: look at messages without taking them."""

    consumer_group: str
    topic: str
    queue_id: I32 = 0
    max_msg_nums: I32 = 0


class NotificationRequest(TopicHeader, kw_only=True):
    """200054: wait until a pop would find something."""

    consumer_group: str
    topic: str
    queue_id: I32 = 0
    poll_time_ms: I64 = field(name="pollTime", default=0)
    born_timestamp: I64 = field(name="bornTime", default=0)
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationResponse(Header, kw_only=True):
    """200054."""

    has_msg: bool = False
    polling_full: bool = False


class PollingInfoRequest(TopicHeader, kw_only=True):
    """200055."""

    consumer_group: str
    topic: str
    queue_id: I32 = 0


class PollingInfoResponse(Header, kw_only=True):
    """200055: how many pops wait."""

    polling_num: I32 = 0
