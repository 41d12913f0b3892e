"""Routes and clusters: which brokers hold a topic, where they listen, who belongs together."""

from msgspec import Struct, field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.topics import TopicQueueMappingInfo

__all__ = [
    "BrokerData",
    "BrokerMemberGroup",
    "ClusterInfo",
    "GetBrokerMemberGroupResponseBody",
    "KVTable",
    "MessageQueue",
    "QueueData",
    "TopicList",
    "TopicRouteData",
]


class MessageQueue(Struct, rename="camel", frozen=True, order=True):
    """One queue of a topic on one broker; the key of many maps."""

    broker_name: str = ""
    queue_id: Int = 0
    topic: str = ""


class QueueData(Body):
    """What one broker offers of a topic: how many queues, and who may use them."""

    broker_name: str = ""
    perm: Int = 0
    read_queue_nums: Int = 0
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 0


class BrokerData(Body):
    """One broker name: its members by broker id, of which 0 is the master."""

    broker_addrs: dict[Long, str] = field(default_factory=dict)
    broker_name: str = ""
    cluster: str = ""
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(Body):
    """The answer to GET_ROUTEINFO_BY_TOPIC."""

    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = field(default_factory=list)
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None


class ClusterInfo(Body):
    """The answer to GET_BROKER_CLUSTER_INFO: all brokers, and the broker names of each cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


class TopicList(Body):
    """Names of topics; a name server may add the address of one broker."""

    broker_addr: str | None = None
    topic_list: list[str] = field(default_factory=list)


class BrokerMemberGroup(Body):
    """The live members of one broker name, by broker id."""

    broker_addrs: dict[Long, str] = field(default_factory=dict)
    broker_name: str = ""
    cluster: str = ""


class GetBrokerMemberGroupResponseBody(Body):
    """The answer to GET_BROKER_MEMBER_GROUP."""

    broker_member_group: BrokerMemberGroup | None = None


class KVTable(Body):
    """A table of texts: runtime figures of a broker, a namespace of the KV configuration."""

    table: dict[str, str] = field(default_factory=dict)
