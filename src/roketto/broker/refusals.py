"""Requests that this broker knows and does not serve: for each, the code and the reason it gets.

Every code of protocol/codes.py is served (see dispatch.py) or stands here. A code that nobody knows
is told that much, in Java's words.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from roketto.protocol.codes import REQUEST_PERMISSION, UNSERVED, Permission, ResponseCode
from roketto.protocol.codes import RequestCode as Code
from roketto.protocol.errors import RequestError

__all__ = ["REFUSALS", "refuse"]

_UNSUPPORTED: Final = ResponseCode.REQUEST_CODE_NOT_SUPPORTED

_TO_NAME_SERVERS: Final = (
    Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.REGISTER_BROKER,
    Code.UNREGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO,
    Code.WIPE_WRITE_PERM_OF_BROKER, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.DELETE_TOPIC_IN_NAMESRV, Code.REGISTER_TOPIC_IN_NAMESRV, Code.GET_KVLIST_BY_NAMESPACE,
    Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_UNIT_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.QUERY_DATA_VERSION,
    Code.ADD_WRITE_PERM_OF_BROKER, Code.GET_BROKER_MEMBER_GROUP, Code.BROKER_HEARTBEAT,
)  # fmt: skip
_TO_CONTROLLERS: Final = (
    Code.CONTROLLER_ALTER_SYNC_STATE_SET, Code.CONTROLLER_ELECT_MASTER,
    Code.CONTROLLER_REGISTER_BROKER, Code.CONTROLLER_GET_REPLICA_INFO,
    Code.CONTROLLER_GET_METADATA_INFO, Code.CONTROLLER_GET_SYNC_STATE_DATA,
    Code.UPDATE_CONTROLLER_CONFIG, Code.GET_CONTROLLER_CONFIG, Code.CLEAN_BROKER_DATA,
    Code.CONTROLLER_GET_NEXT_BROKER_ID, Code.CONTROLLER_APPLY_BROKER_ID,
)  # fmt: skip
_REPLICAS: Final = (
    Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.EXCHANGE_BROKER_HA_INFO, Code.NOTIFY_BROKER_ROLE_CHANGED,
)  # fmt: skip
_POP: Final = (
    Code.POP_MESSAGE, Code.ACK_MESSAGE, Code.BATCH_ACK_MESSAGE, Code.PEEK_MESSAGE,
    Code.CHANGE_MESSAGE_INVISIBLETIME, Code.NOTIFICATION, Code.POLLING_INFO, Code.POP_ROLLBACK,
)  # fmt: skip
_LITE: Final = (
    Code.POP_LITE_MESSAGE, Code.LITE_SUBSCRIPTION_CTL, Code.GET_BROKER_LITE_INFO,
    Code.GET_PARENT_TOPIC_INFO, Code.GET_LITE_TOPIC_INFO, Code.GET_LITE_CLIENT_INFO,
    Code.GET_LITE_GROUP_INFO, Code.TRIGGER_LITE_DISPATCH,
)  # fmt: skip
_USERS: Final = (
    Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_GET_USER,
    Code.AUTH_LIST_USER, Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL,
    Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL, Code.UPDATE_AND_CREATE_ACL_CONFIG,
    Code.DELETE_ACL_CONFIG, Code.GET_BROKER_CLUSTER_ACL_INFO,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, Code.GET_BROKER_CLUSTER_ACL_CONFIG,
)  # fmt: skip
_COLD_DATA: Final = (
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    Code.GET_COLD_DATA_FLOW_CTR_INFO,
)  # fmt: skip

_Reasons = Iterable[tuple[Iterable[Code], ResponseCode, str]]

_REASONS: Final[_Reasons] = (
    (_TO_NAME_SERVERS, _UNSUPPORTED, "name servers answer it, not brokers: ask one of those"),
    (_TO_CONTROLLERS, _UNSUPPORTED, "controllers answer it, not brokers: ask one of those"),
    (
        [code for code in Code if REQUEST_PERMISSION[code] is Permission.PUSH],
        _UNSUPPORTED,
        "brokers send it to clients: do not send it to a broker",
    ),
    (UNSERVED, _UNSUPPORTED, "no server of any version of RocketMQ serves it"),
    (
        _REPLICAS,
        _UNSUPPORTED,
        "this broker is its only replica: there is nobody to take over from, or to follow",
    ),
    (
        [Code.GET_BROKER_EPOCH_CACHE],
        ResponseCode.SYSTEM_ERROR,
        "this request only for controllerMode: only brokers that a controller elects have epochs",
    ),
    (
        [Code.ADD_BROKER, Code.REMOVE_BROKER],
        _UNSUPPORTED,
        "a broker is no container of brokers: start another process with a store of its own",
    ),
    (
        _POP,
        _UNSUPPORTED,
        "messages are not popped here: consume by push or pull, with clientRebalance=true",
    ),
    (
        [Code.QUERY_ASSIGNMENT],
        _UNSUPPORTED,
        "clients share out queues among themselves here: consume with clientRebalance=true",
    ),
    (_LITE, _UNSUPPORTED, "there are no lite topics here: use an ordinary topic"),
    (
        _USERS,
        _UNSUPPORTED,
        "there are no users and rules here: let only those reach the port who may do everything",
    ),
    (
        _COLD_DATA,
        _UNSUPPORTED,
        "reading old messages is not slowed down here, so that there are no thresholds for it",
    ),
    (
        [Code.SET_COMMITLOG_READ_MODE],
        _UNSUPPORTED,
        "how far files are read ahead is left to the system here",
    ),
    (
        [Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Code.EXPORT_ROCKSDB_CONFIG_TO_JSON],
        _UNSUPPORTED,
        "nothing is kept in RocksDB here: the tables in the store are JSON already",
    ),
    (
        [Code.SWITCH_TIMER_ENGINE],
        _UNSUPPORTED,
        "there is one engine for timers here, that of files: nothing is to be switched",
    ),
    (
        [Code.UPDATE_AND_CREATE_STATIC_TOPIC],
        _UNSUPPORTED,
        "there are no static topics here, whose queues move between brokers: use updateTopic",
    ),
)

REFUSALS: Final[Mapping[int, tuple[ResponseCode, str]]] = {
    int(code): (answer, f"{code.name} ({int(code)}) is not served: {reason}")
    for codes, answer, reason in _REASONS
    for code in codes
}
"""What is not served, by its number: the code and the reason that whoever asks is told."""


def refuse(code: int) -> RequestError:
    """What to tell to a request that no handler is there for."""
    unknown = (_UNSUPPORTED, f" request type {code} not supported")
    return RequestError(*REFUSALS.get(code, unknown))
