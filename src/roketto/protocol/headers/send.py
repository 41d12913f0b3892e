"""Headers of sending: messages in both spellings, messages given back, messages recalled."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header, RpcHeader, TopicHeader


class SendMessageRequest(TopicHeader, kw_only=True):
    """10 and 324: one message (or a batch), with the full names of its fields."""

    producer_group: str
    topic: str
    default_topic: str
    """The topic whose configuration a new topic inherits, TBW102."""
    default_topic_queue_nums: I32
    queue_id: I32
    """Below zero: the broker chooses."""
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    """The application's own; the broker only stores it."""
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: I32 | None = None


class SendMessageV2Request(TopicHeader, kw_only=True):
    """310, 320 and 325: the same under one-letter names, which clients prefer."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: I32 = field(name="d")
    queue_id: I32 = field(name="e")
    sys_flag: I32 = field(name="f")
    born_timestamp: I64 = field(name="g")
    flag: I32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: I32 | None = field(name="j", default=None)
    unit_mode: bool | None = field(name="k", default=None)
    max_reconsume_times: I32 | None = field(name="l", default=None)
    batch: bool | None = field(name="m", default=None)
    broker_name: str | None = field(name="n", default=None)


class SendMessageResponse(Header, kw_only=True):
    """10, 310, 320, 324 and 325: where the message is; also with codes 10, 11 and 12."""

    msg_id: str
    """The offset message id; those of a batch are joined by commas."""
    queue_id: I32
    queue_offset: I64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = field(name="MSG_REGION", default=None)
    trace_on: bool | None = field(name="TRACE_ON", default=None)


class ConsumerSendMsgBackRequest(RpcHeader, kw_only=True):
    """36: a consumer could not consume a message and wants it again later."""

    log_offset: I64 = field(name="offset")
    group: str
    delay_level: I32
    """0: the broker's choice; below zero: to the dead letters at once."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None


class RecallMessageRequest(TopicHeader, kw_only=True):
    """370: take back a timer message before it is delivered."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponse(Header, kw_only=True):
    """370."""

    msg_id: str


def send_request_from_v2(request: SendMessageV2Request) -> SendMessageRequest:
    """Return the request under its full names; ``n`` becomes the broker meant, as in Java."""
    return SendMessageRequest(
        producer_group=request.producer_group,
        topic=request.topic,
        default_topic=request.default_topic,
        default_topic_queue_nums=request.default_topic_queue_nums,
        queue_id=request.queue_id,
        sys_flag=request.sys_flag,
        born_timestamp=request.born_timestamp,
        flag=request.flag,
        properties=request.properties,
        reconsume_times=request.reconsume_times,
        unit_mode=request.unit_mode,
        batch=request.batch,
        max_reconsume_times=request.max_reconsume_times,
        namespace=request.namespace,
        is_namespaced=request.is_namespaced,
        target_broker_name=request.broker_name,
        is_one_way=request.is_one_way,
        is_logical=request.is_logical,
    )


def send_request_to_v2(request: SendMessageRequest) -> SendMessageV2Request:
    """Return the request under its one-letter names."""
    return SendMessageV2Request(
        producer_group=request.producer_group,
        topic=request.topic,
        default_topic=request.default_topic,
        default_topic_queue_nums=request.default_topic_queue_nums,
        queue_id=request.queue_id,
        sys_flag=request.sys_flag,
        born_timestamp=request.born_timestamp,
        flag=request.flag,
        properties=request.properties,
        reconsume_times=request.reconsume_times,
        unit_mode=request.unit_mode,
        batch=request.batch,
        max_reconsume_times=request.max_reconsume_times,
        broker_name=request.target_broker_name,
        namespace=request.namespace,
        is_namespaced=request.is_namespaced,
        target_broker_name=request.target_broker_name,
        is_one_way=request.is_one_way,
        is_logical=request.is_logical,
    )
