"""Request and response codes; each request's permission class; language codes."""

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Self


class Permission(Enum):
    """What the sender of a request must be allowed to do.

    The kinds follow RocketMQ's authorization 2.0, where a request needs an action (Pub, Sub, Get,
    List, Create, Update, Delete) on a topic, a group or the cluster, and superusers may do
    everything. Java checks only requests whose header class is annotated; here every request has
    a kind, and what may show or change secrets (configurations, users) is ADMIN even where Java
    asks for less or for nothing.
    """

    PUBLISH = "send messages to a topic: topic Pub"
    SUBSCRIBE = "consume in a group: group Sub and topic Sub"
    CONNECT = "announce or retire a client: Sub on each group and topic it consumes"
    ROUTE = "find the brokers of a topic: any of topic Pub, Sub, Get"
    READ = "look at messages, offsets, topics, groups or statistics: Get or List"
    MANAGE = "change topics, groups or offsets: Create, Update or Delete on them"
    ADMIN = "change or read the configuration of servers, users and rules: cluster Update"
    INTERNAL = "what brokers, name servers and controllers of one cluster say to each other"
    PUSH = "sent by a broker to a client; no server serves it"


class RequestCode(IntEnum):
    """Every request of RocketMQ 4.9 and 5.5, and ours, with the permission it needs.

    ``RequestCode(105)`` finds a code by its number; a code is equal to its number, so tables keyed
    by codes can be asked with the plain integer of a command.
    """

    permission: Permission

    def __new__(cls, code: int, permission: Permission = Permission.ADMIN) -> Self:
        # A code without a permission could only come from a forgotten one: closed, not open.
        self = int.__new__(cls, code)
        self._value_ = code
        self.permission = permission
        return self

    # Messages and offsets.
    SEND_MESSAGE = 10, Permission.PUBLISH
    PULL_MESSAGE = 11, Permission.SUBSCRIBE
    QUERY_MESSAGE = 12, Permission.READ
    QUERY_BROKER_OFFSET = 13, Permission.ADMIN
    QUERY_CONSUMER_OFFSET = 14, Permission.READ
    UPDATE_CONSUMER_OFFSET = 15, Permission.SUBSCRIBE
    UPDATE_AND_CREATE_TOPIC = 17, Permission.MANAGE
    UPDATE_AND_CREATE_TOPIC_LIST = 18, Permission.MANAGE
    GET_ALL_TOPIC_CONFIG = 21, Permission.READ
    GET_TOPIC_CONFIG_LIST = 22, Permission.ADMIN
    GET_TOPIC_NAME_LIST = 23, Permission.ADMIN
    UPDATE_BROKER_CONFIG = 25, Permission.ADMIN
    GET_BROKER_CONFIG = 26, Permission.ADMIN
    TRIGGER_DELETE_FILES = 27, Permission.ADMIN
    GET_BROKER_RUNTIME_INFO = 28, Permission.READ
    SEARCH_OFFSET_BY_TIMESTAMP = 29, Permission.READ
    GET_MAX_OFFSET = 30, Permission.READ
    GET_MIN_OFFSET = 31, Permission.READ
    GET_EARLIEST_MSG_STORETIME = 32, Permission.READ
    VIEW_MESSAGE_BY_ID = 33, Permission.READ
    HEART_BEAT = 34, Permission.CONNECT
    UNREGISTER_CLIENT = 35, Permission.CONNECT
    CONSUMER_SEND_MSG_BACK = 36, Permission.SUBSCRIBE
    END_TRANSACTION = 37, Permission.PUBLISH
    GET_CONSUMER_LIST_BY_GROUP = 38, Permission.SUBSCRIBE
    CHECK_TRANSACTION_STATE = 39, Permission.PUSH
    NOTIFY_CONSUMER_IDS_CHANGED = 40, Permission.PUSH
    LOCK_BATCH_MQ = 41, Permission.SUBSCRIBE
    UNLOCK_BATCH_MQ = 42, Permission.SUBSCRIBE
    GET_ALL_CONSUMER_OFFSET = 43, Permission.INTERNAL
    GET_ALL_DELAY_OFFSET = 45, Permission.INTERNAL
    CHECK_CLIENT_CONFIG = 46, Permission.SUBSCRIBE
    GET_CLIENT_CONFIG = 47, Permission.ADMIN
    UPDATE_AND_CREATE_ACL_CONFIG = 50, Permission.ADMIN
    DELETE_ACL_CONFIG = 51, Permission.ADMIN
    GET_BROKER_CLUSTER_ACL_INFO = 52, Permission.ADMIN
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53, Permission.ADMIN
    GET_BROKER_CLUSTER_ACL_CONFIG = 54, Permission.ADMIN
    GET_TIMER_CHECK_POINT = 60, Permission.INTERNAL
    GET_TIMER_METRICS = 61, Permission.INTERNAL

    # The name server.
    PUT_KV_CONFIG = 100, Permission.ADMIN
    GET_KV_CONFIG = 101, Permission.READ
    DELETE_KV_CONFIG = 102, Permission.ADMIN
    REGISTER_BROKER = 103, Permission.INTERNAL
    UNREGISTER_BROKER = 104, Permission.INTERNAL
    GET_ROUTEINFO_BY_TOPIC = 105, Permission.ROUTE
    GET_BROKER_CLUSTER_INFO = 106, Permission.READ

    # Groups, clients and their statistics.
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200, Permission.MANAGE
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201, Permission.READ
    GET_TOPIC_STATS_INFO = 202, Permission.READ
    GET_CONSUMER_CONNECTION_LIST = 203, Permission.READ
    GET_PRODUCER_CONNECTION_LIST = 204, Permission.READ
    WIPE_WRITE_PERM_OF_BROKER = 205, Permission.ADMIN
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206, Permission.READ
    DELETE_SUBSCRIPTIONGROUP = 207, Permission.MANAGE
    GET_CONSUME_STATS = 208, Permission.READ
    SUSPEND_CONSUMER = 209, Permission.ADMIN
    RESUME_CONSUMER = 210, Permission.ADMIN
    RESET_CONSUMER_OFFSET_IN_CONSUMER = 211, Permission.ADMIN
    RESET_CONSUMER_OFFSET_IN_BROKER = 212, Permission.ADMIN
    ADJUST_CONSUMER_THREAD_POOL = 213, Permission.ADMIN
    WHO_CONSUME_THE_MESSAGE = 214, Permission.ADMIN
    DELETE_TOPIC_IN_BROKER = 215, Permission.MANAGE
    DELETE_TOPIC_IN_NAMESRV = 216, Permission.ADMIN
    REGISTER_TOPIC_IN_NAMESRV = 217, Permission.INTERNAL
    GET_KVLIST_BY_NAMESPACE = 219, Permission.READ
    RESET_CONSUMER_CLIENT_OFFSET = 220, Permission.PUSH
    GET_CONSUMER_STATUS_FROM_CLIENT = 221, Permission.PUSH
    INVOKE_BROKER_TO_RESET_OFFSET = 222, Permission.MANAGE
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223, Permission.READ
    GET_TOPICS_BY_CLUSTER = 224, Permission.READ
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225, Permission.MANAGE

    # Later additions of 3.x and 4.x.
    QUERY_TOPIC_CONSUME_BY_WHO = 300, Permission.READ
    REGISTER_FILTER_SERVER = 301, Permission.ADMIN
    REGISTER_MESSAGE_FILTER_CLASS = 302, Permission.ADMIN
    QUERY_CONSUME_TIME_SPAN = 303, Permission.READ
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304, Permission.READ
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305, Permission.READ
    CLEAN_EXPIRED_CONSUMEQUEUE = 306, Permission.ADMIN
    GET_CONSUMER_RUNNING_INFO = 307, Permission.READ
    QUERY_CORRECTION_OFFSET = 308, Permission.READ
    CONSUME_MESSAGE_DIRECTLY = 309, Permission.SUBSCRIBE
    SEND_MESSAGE_V2 = 310, Permission.PUBLISH
    GET_UNIT_TOPIC_LIST = 311, Permission.READ
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312, Permission.READ
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313, Permission.READ
    CLONE_GROUP_OFFSET = 314, Permission.MANAGE
    VIEW_BROKER_STATS_DATA = 315, Permission.READ
    CLEAN_UNUSED_TOPIC = 316, Permission.ADMIN
    GET_BROKER_CONSUME_STATS = 317, Permission.READ
    UPDATE_NAMESRV_CONFIG = 318, Permission.ADMIN
    GET_NAMESRV_CONFIG = 319, Permission.ADMIN
    SEND_BATCH_MESSAGE = 320, Permission.PUBLISH
    QUERY_CONSUME_QUEUE = 321, Permission.READ
    QUERY_DATA_VERSION = 322, Permission.INTERNAL
    RESUME_CHECK_HALF_MESSAGE = 323, Permission.MANAGE
    SEND_REPLY_MESSAGE = 324, Permission.PUBLISH
    SEND_REPLY_MESSAGE_V2 = 325, Permission.PUBLISH
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326, Permission.PUSH
    ADD_WRITE_PERM_OF_BROKER = 327, Permission.ADMIN
    GET_ALL_PRODUCER_INFO = 328, Permission.READ
    DELETE_EXPIRED_COMMITLOG = 329, Permission.ADMIN
    QUERY_TOPICS_BY_CONSUMER = 343, Permission.READ
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345, Permission.READ
    GET_TOPIC_CONFIG = 351, Permission.READ
    GET_SUBSCRIPTIONGROUP_CONFIG = 352, Permission.READ
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353, Permission.MANAGE
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS = 354, Permission.READ
    EXPORT_ROCKSDB_CONFIG_TO_JSON = 355, Permission.ADMIN
    LITE_PULL_MESSAGE = 361, Permission.SUBSCRIBE
    RECALL_MESSAGE = 370, Permission.PUBLISH
    QUERY_ASSIGNMENT = 400, Permission.SUBSCRIBE
    SET_MESSAGE_REQUEST_MODE = 401, Permission.MANAGE
    GET_ALL_MESSAGE_REQUEST_MODE = 402, Permission.INTERNAL
    UPDATE_AND_CREATE_STATIC_TOPIC = 513, Permission.MANAGE

    # Replica groups and containers of 5.x.
    GET_BROKER_MEMBER_GROUP = 901, Permission.INTERNAL
    ADD_BROKER = 902, Permission.ADMIN
    REMOVE_BROKER = 903, Permission.ADMIN
    BROKER_HEARTBEAT = 904, Permission.INTERNAL
    NOTIFY_MIN_BROKER_ID_CHANGE = 905, Permission.INTERNAL
    EXCHANGE_BROKER_HA_INFO = 906, Permission.INTERNAL
    GET_BROKER_HA_STATUS = 907, Permission.READ
    RESET_MASTER_FLUSH_OFFSET = 908, Permission.ADMIN

    # The controller.
    CONTROLLER_ALTER_SYNC_STATE_SET = 1001, Permission.INTERNAL
    CONTROLLER_ELECT_MASTER = 1002, Permission.INTERNAL
    CONTROLLER_REGISTER_BROKER = 1003, Permission.INTERNAL
    CONTROLLER_GET_REPLICA_INFO = 1004, Permission.INTERNAL
    CONTROLLER_GET_METADATA_INFO = 1005, Permission.READ
    CONTROLLER_GET_SYNC_STATE_DATA = 1006, Permission.READ
    GET_BROKER_EPOCH_CACHE = 1007, Permission.READ
    NOTIFY_BROKER_ROLE_CHANGED = 1008, Permission.INTERNAL
    UPDATE_CONTROLLER_CONFIG = 1009, Permission.ADMIN
    GET_CONTROLLER_CONFIG = 1010, Permission.ADMIN
    CLEAN_BROKER_DATA = 1011, Permission.ADMIN
    CONTROLLER_GET_NEXT_BROKER_ID = 1012, Permission.INTERNAL
    CONTROLLER_APPLY_BROKER_ID = 1013, Permission.INTERNAL
    BROKER_CLOSE_CHANNEL_REQUEST = 1014, Permission.INTERNAL
    CHECK_NOT_ACTIVE_BROKER_REQUEST = 1015, Permission.INTERNAL
    GET_BROKER_LIVE_INFO_REQUEST = 1016, Permission.INTERNAL
    GET_SYNC_STATE_DATA_REQUEST = 1017, Permission.INTERNAL
    RAFT_BROKER_HEART_BEAT_EVENT_REQUEST = 1018, Permission.INTERNAL

    # Cold data, users and rules, the timer.
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = 2001, Permission.ADMIN
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = 2002, Permission.ADMIN
    GET_COLD_DATA_FLOW_CTR_INFO = 2003, Permission.READ
    SET_COMMITLOG_READ_MODE = 2004, Permission.ADMIN
    AUTH_CREATE_USER = 3001, Permission.ADMIN
    AUTH_UPDATE_USER = 3002, Permission.ADMIN
    AUTH_DELETE_USER = 3003, Permission.ADMIN
    AUTH_GET_USER = 3004, Permission.ADMIN
    AUTH_LIST_USER = 3005, Permission.ADMIN
    AUTH_CREATE_ACL = 3006, Permission.ADMIN
    AUTH_UPDATE_ACL = 3007, Permission.ADMIN
    AUTH_DELETE_ACL = 3008, Permission.ADMIN
    AUTH_GET_ACL = 3009, Permission.ADMIN
    AUTH_LIST_ACL = 3010, Permission.ADMIN
    SWITCH_TIMER_ENGINE = 5001, Permission.ADMIN

    # Pop consumption and lite topics; these do not fit the 16 bits of the compact header.
    POP_MESSAGE = 200050, Permission.SUBSCRIBE
    ACK_MESSAGE = 200051, Permission.SUBSCRIBE
    PEEK_MESSAGE = 200052, Permission.SUBSCRIBE
    CHANGE_MESSAGE_INVISIBLETIME = 200053, Permission.SUBSCRIBE
    NOTIFICATION = 200054, Permission.SUBSCRIBE
    POLLING_INFO = 200055, Permission.READ
    POP_ROLLBACK = 200056, Permission.ADMIN
    POP_LITE_MESSAGE = 200070, Permission.SUBSCRIBE
    LITE_SUBSCRIPTION_CTL = 200071, Permission.SUBSCRIBE
    ACK_LITE_MESSAGE = 200072, Permission.SUBSCRIBE
    NOTIFY_UNSUBSCRIBE_LITE = 200073, Permission.PUSH
    GET_BROKER_LITE_INFO = 200074, Permission.READ
    GET_PARENT_TOPIC_INFO = 200075, Permission.READ
    GET_LITE_TOPIC_INFO = 200076, Permission.READ
    GET_LITE_CLIENT_INFO = 200077, Permission.READ
    GET_LITE_GROUP_INFO = 200078, Permission.READ
    TRIGGER_LITE_DISPATCH = 200079, Permission.MANAGE
    BATCH_ACK_MESSAGE = 200151, Permission.SUBSCRIBE

    # Ours: far from Java's, and small enough for the compact header. Others answer 3 to them.
    READ_RANGE = 20480, Permission.SUBSCRIBE
    STAGE_BATCH = 20481, Permission.PUBLISH
    SINK_STATE = 20482, Permission.PUBLISH
    DECIDE_STAGED = 20483, Permission.PUBLISH
    PUBLISH_STAGED = 20484, Permission.PUBLISH


REQUEST_PERMISSION: Mapping[RequestCode, Permission] = MappingProxyType(
    {code: code.permission for code in RequestCode}
)
"""The permission of every request; it has no gap because a code is declared with its permission."""

OURS = frozenset(
    {
        RequestCode.READ_RANGE,
        RequestCode.STAGE_BATCH,
        RequestCode.SINK_STATE,
        RequestCode.DECIDE_STAGED,
        RequestCode.PUBLISH_STAGED,
    }
)
"""Codes that no other broker knows."""

UNSERVED = frozenset(
    {
        RequestCode.QUERY_BROKER_OFFSET,
        RequestCode.GET_TOPIC_CONFIG_LIST,
        RequestCode.GET_TOPIC_NAME_LIST,
        RequestCode.TRIGGER_DELETE_FILES,
        RequestCode.GET_CLIENT_CONFIG,
        RequestCode.SUSPEND_CONSUMER,
        RequestCode.RESUME_CONSUMER,
        RequestCode.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER,
        RequestCode.ADJUST_CONSUMER_THREAD_POOL,
        RequestCode.WHO_CONSUME_THE_MESSAGE,
        # Filter servers are gone; these two were their registration.
        RequestCode.REGISTER_FILTER_SERVER,
        RequestCode.REGISTER_MESSAGE_FILTER_CLASS,
        # Entries of the controller's replicated log; they never travel as requests.
        RequestCode.BROKER_CLOSE_CHANNEL_REQUEST,
        RequestCode.CHECK_NOT_ACTIVE_BROKER_REQUEST,
        RequestCode.GET_BROKER_LIVE_INFO_REQUEST,
        RequestCode.GET_SYNC_STATE_DATA_REQUEST,
        RequestCode.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST,
        # 5.5 acknowledges lite messages with ACK_MESSAGE and its liteTopic field.
        RequestCode.ACK_LITE_MESSAGE,
    }
)
"""Codes that exist only as constants: no server and no client answers them."""


class ResponseCode(IntEnum):
    """Every response code; SUCCESS is 0 and everything else says why not, or not quite."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    # 10 to 12: the message is stored, but not yet as safely as the broker promises.
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29

    TRANSACTION_SHOULD_COMMIT = 200
    TRANSACTION_SHOULD_ROLLBACK = 201
    TRANSACTION_STATE_UNKNOW = 202
    TRANSACTION_STATE_GROUP_WRONG = 203
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    # 209 to 211 changed their meaning in 5.0. The name of 5.x is the member; the name of 4.x is an
    # alias of it, for answers to the ACL 1.0 requests 50, 51 and 53.
    POLLING_FULL = 209
    UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209
    POLLING_TIMEOUT = 210
    DELETE_ACL_CONFIG_FAILED = 210
    BROKER_NOT_EXIST = 211
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211
    BROKER_DISPATCH_NOT_COMPLETE = 212
    BROADCAST_CONSUMPTION = 213
    FLOW_CONTROL = 215
    NOT_LEADER_FOR_QUEUE = 501
    ILLEGAL_OPERATION = 604
    GO_AWAY = 1500

    CONTROLLER_FENCED_MASTER_EPOCH = 2000
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001
    CONTROLLER_INVALID_MASTER = 2002
    CONTROLLER_INVALID_REPLICAS = 2003
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004
    CONTROLLER_INVALID_REQUEST = 2005
    CONTROLLER_BROKER_NOT_ALIVE = 2006
    CONTROLLER_NOT_LEADER = 2007
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010
    CONTROLLER_MASTER_STILL_EXIST = 2011
    CONTROLLER_ELECT_MASTER_FAILED = 2012
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013
    CONTROLLER_BROKER_ID_INVALID = 2014
    CONTROLLER_JRAFT_INTERNAL_ERROR = 2015
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS = 2016
    LMQ_QUOTA_EXCEEDED = 2017
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 2018

    USER_NOT_EXIST = 3001
    POLICY_NOT_EXIST = 3002

    # Below zero: made up inside a broker's own calls to other brokers, never on the wire.
    RPC_UNKNOWN = -1000
    RPC_ADDR_IS_NULL = -1002
    RPC_SEND_TO_CHANNEL_FAILED = -1004
    RPC_TIME_OUT = -1006


class LanguageCode(IntEnum):
    """In which language the sender of a command is written: a name in JSON, a byte in binary."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13
