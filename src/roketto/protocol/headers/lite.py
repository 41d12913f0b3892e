"""Headers of lite topics, which 5.5 added: many small queues under one parent topic."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header, RpcHeader


class PopLiteMessageRequest(RpcHeader, kw_only=True):
    """200070: messages of the lite topics that a client has subscribed."""

    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: I32 = 0
    invisible_time_ms: I64 = field(name="invisibleTime", default=0)
    poll_time_ms: I64 = field(name="pollTime", default=0)
    born_timestamp: I64 = field(name="bornTime", default=0)
    attempt_id: str | None = None


class PopLiteMessageResponse(Header, kw_only=True):
    """200070."""

    pop_timestamp: I64 = field(name="popTime", default=0)
    invisible_time_ms: I64 = field(name="invisibleTime", default=0)
    revive_qid: I32 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class LiteSubscriptionCtlRequest(RpcHeader, kw_only=True):
    """200071: the subscriptions are in the body."""


class NotifyUnsubscribeLiteRequest(RpcHeader, kw_only=True):
    """200073, from the broker to a client: a lite topic was taken from it."""

    lite_topic: str
    consumer_group: str
    client_id: str


class GetParentTopicInfoRequest(Header, kw_only=True):
    """200075."""

    topic: str


class GetLiteTopicInfoRequest(Header, kw_only=True):
    """200076."""

    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfoRequest(Header, kw_only=True):
    """200077."""

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: I32 = 1000


class GetLiteGroupInfoRequest(Header, kw_only=True):
    """200078."""

    group: str
    lite_topic: str | None = None
    top_k: I32 = 0


class TriggerLiteDispatchRequest(Header, kw_only=True):
    """200079."""

    group: str
    client_id: str | None = None
