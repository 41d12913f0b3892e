"""Headers about connected clients: heartbeats, who is there, locks of queues."""

from msgspec import field

from roketto.protocol.headers.base import Header, RpcHeader


class HeartbeatRequest(RpcHeader, kw_only=True):
    """34: what the client produces and consumes is in the body."""


class HeartbeatResponse(Header, kw_only=True):
    """34: Java has no class for these two."""

    supports_heartbeat_v2: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    subscription_changed: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClientRequest(RpcHeader, kw_only=True):
    """35."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequest(RpcHeader, kw_only=True):
    """38: the client ids of a group, to share out queues."""

    consumer_group: str


class LockBatchMqRequest(RpcHeader, kw_only=True):
    """41: the queues are in the body."""


class UnlockBatchMqRequest(RpcHeader, kw_only=True):
    """42: the queues are in the body."""


class GetConsumerConnectionListRequest(RpcHeader, kw_only=True):
    """203."""

    consumer_group: str


class GetProducerConnectionListRequest(RpcHeader, kw_only=True):
    """204."""

    producer_group: str
