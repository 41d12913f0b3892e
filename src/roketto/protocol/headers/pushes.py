"""Headers of what a broker asks of a client, also when a tool asks the broker to."""

from roketto.protocol.headers.base import I32, I64, RpcHeader, TopicHeader


class NotifyConsumerIdsChangedRequest(RpcHeader, kw_only=True):
    """40, one-way: share out the queues anew."""

    consumer_group: str


class GetConsumerStatusRequest(TopicHeader, kw_only=True):
    """221 to the client, 223 to the broker."""

    topic: str
    group: str
    client_addr: str | None = None
    """Compared with client ids, in spite of its name."""


class GetConsumerRunningInfoRequest(RpcHeader, kw_only=True):
    """307, relayed."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequest(TopicHeader, kw_only=True):
    """309, relayed: the broker fills in the message and the fields after ``msg_id``."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None


class ReplyMessageRequest(TopicHeader, kw_only=True):
    """326: the reply to a request of this client, its body in the body."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False
    born_host: str
    """As text, ``ip:port``; so is the next."""
    store_host: str
    store_timestamp: I64 = 0
