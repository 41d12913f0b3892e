"""Headers of the name server's requests: registration, routes, KV configuration, permissions."""

from msgspec import field

from roketto.protocol.headers.base import I32, I64, Header, TopicHeader


class RegisterBrokerRequest(Header, kw_only=True):
    """103: a broker announces itself, its topics in the body."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: I64
    heartbeat_timeout_ms: I64 | None = field(name="heartbeatTimeoutMillis", default=None)
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: I32 = 0
    """CRC-32 of the body without its sign bit; 0 asks for no check."""
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class RegisterBrokerResponse(Header, kw_only=True):
    """103: where a slave finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerRequest(Header, kw_only=True):
    """104."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


class GetRouteInfoRequest(TopicHeader, kw_only=True):
    """105."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_name: str | None = field(name="__ZONE_NAME", default=None)
    zone_mode: str | None = field(name="__ZONE_MODE", default=None)


class PutKvConfigRequest(Header, kw_only=True):
    """100."""

    namespace: str
    key: str
    value: str


class GetKvConfigRequest(Header, kw_only=True):
    """101."""

    namespace: str
    key: str


class GetKvConfigResponse(Header, kw_only=True):
    """101."""

    value: str | None = None


class DeleteKvConfigRequest(Header, kw_only=True):
    """102."""

    namespace: str
    key: str


class GetKvListRequest(Header, kw_only=True):
    """219."""

    namespace: str


class WipeWritePermRequest(Header, kw_only=True):
    """205: take the write permission from all topics of a broker."""

    broker_name: str


class WipeWritePermResponse(Header, kw_only=True):
    """205."""

    wipe_topic_count: I32


class AddWritePermRequest(Header, kw_only=True):
    """327: give it back."""

    broker_name: str


class AddWritePermResponse(Header, kw_only=True):
    """327."""

    add_topic_count: I32


class DeleteTopicFromNamesrvRequest(TopicHeader, kw_only=True):
    """216."""

    topic: str
    cluster_name: str | None = None


class RegisterTopicRequest(TopicHeader, kw_only=True):
    """217: the queues of one topic are in the body."""

    topic: str


class GetTopicsByClusterRequest(Header, kw_only=True):
    """224."""

    cluster: str


class QueryDataVersionRequest(Header, kw_only=True):
    """322: a broker asks whether it has to register again."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


class QueryDataVersionResponse(Header, kw_only=True):
    """322."""

    changed: bool


class GetBrokerMemberGroupRequest(Header, kw_only=True):
    """901: who belongs to a replica group."""

    cluster_name: str
    broker_name: str


class BrokerHeartbeatRequest(Header, kw_only=True):
    """904, one-way, to name servers and controllers; all but the names is for controllers."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: I64 | None = None
    epoch: I32 | None = None
    max_offset: I64 | None = None
    confirm_offset: I64 | None = None
    heartbeat_timeout_ms: I64 | None = field(name="heartbeatTimeoutMills", default=None)
    """Spelled so on the wire; registration calls the same thing heartbeatTimeoutMillis."""
    election_priority: I32 | None = None


class NotifyMinBrokerIdChangeRequest(Header, kw_only=True):
    """905, one-way, from the name server to the brokers of a group whose acting master changed."""

    min_broker_id: I64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
