"""Which header each request and its answer carry."""

from collections.abc import Mapping
from types import MappingProxyType

from roketto.protocol.codes import RequestCode
from roketto.protocol.headers import (
    auth,
    broker_config,
    clients,
    controller,
    groups,
    lite,
    namesrv,
    offsets,
    pop,
    pull,
    pushes,
    query,
    range_read,
    replication,
    send,
    staged,
    stats,
    topics,
    transactions,
)
from roketto.protocol.headers.base import Header

_HeaderType = type[Header] | None

_HEADERS: dict[RequestCode, tuple[_HeaderType, _HeaderType]] = {
    # Code: header of the request, header of the answer; None where there is none.
    RequestCode.SEND_MESSAGE: (send.SendMessageRequest, send.SendMessageResponse),
    RequestCode.SEND_MESSAGE_V2: (send.SendMessageV2Request, send.SendMessageResponse),
    RequestCode.SEND_BATCH_MESSAGE: (send.SendMessageV2Request, send.SendMessageResponse),
    RequestCode.SEND_REPLY_MESSAGE: (send.SendMessageRequest, send.SendMessageResponse),
    RequestCode.SEND_REPLY_MESSAGE_V2: (send.SendMessageV2Request, send.SendMessageResponse),
    RequestCode.CONSUMER_SEND_MSG_BACK: (send.ConsumerSendMsgBackRequest, None),
    RequestCode.RECALL_MESSAGE: (send.RecallMessageRequest, send.RecallMessageResponse),
    RequestCode.STAGE_BATCH: (staged.StageBatchRequest, staged.StageBatchResponse),
    RequestCode.SINK_STATE: (staged.SinkStateRequest, staged.SinkStateResponse),
    RequestCode.DECIDE_STAGED: (staged.DecideStagedRequest, staged.DecideStagedResponse),
    RequestCode.PUBLISH_STAGED: (staged.PublishStagedRequest, staged.PublishStagedResponse),
    # Pulling and popping.
    RequestCode.PULL_MESSAGE: (pull.PullMessageRequest, pull.PullMessageResponse),
    RequestCode.LITE_PULL_MESSAGE: (pull.PullMessageRequest, pull.PullMessageResponse),
    RequestCode.READ_RANGE: (range_read.ReadRangeRequest, range_read.ReadRangeResponse),
    RequestCode.POP_MESSAGE: (pop.PopMessageRequest, pop.PopMessageResponse),
    RequestCode.ACK_MESSAGE: (pop.AckMessageRequest, None),
    RequestCode.BATCH_ACK_MESSAGE: (None, None),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: (
        pop.ChangeInvisibleTimeRequest,
        pop.ChangeInvisibleTimeResponse,
    ),
    RequestCode.PEEK_MESSAGE: (pop.PeekMessageRequest, pop.PopMessageResponse),
    RequestCode.NOTIFICATION: (pop.NotificationRequest, pop.NotificationResponse),
    RequestCode.POLLING_INFO: (pop.PollingInfoRequest, pop.PollingInfoResponse),
    RequestCode.POP_ROLLBACK: (None, None),
    RequestCode.QUERY_ASSIGNMENT: (None, None),
    RequestCode.SET_MESSAGE_REQUEST_MODE: (None, None),
    # Lite topics.
    RequestCode.POP_LITE_MESSAGE: (lite.PopLiteMessageRequest, lite.PopLiteMessageResponse),
    RequestCode.LITE_SUBSCRIPTION_CTL: (lite.LiteSubscriptionCtlRequest, None),
    RequestCode.NOTIFY_UNSUBSCRIBE_LITE: (lite.NotifyUnsubscribeLiteRequest, None),
    RequestCode.GET_BROKER_LITE_INFO: (None, None),
    RequestCode.GET_PARENT_TOPIC_INFO: (lite.GetParentTopicInfoRequest, None),
    RequestCode.GET_LITE_TOPIC_INFO: (lite.GetLiteTopicInfoRequest, None),
    RequestCode.GET_LITE_CLIENT_INFO: (lite.GetLiteClientInfoRequest, None),
    RequestCode.GET_LITE_GROUP_INFO: (lite.GetLiteGroupInfoRequest, None),
    RequestCode.TRIGGER_LITE_DISPATCH: (lite.TriggerLiteDispatchRequest, None),
    # Offsets.
    RequestCode.QUERY_CONSUMER_OFFSET: (
        offsets.QueryConsumerOffsetRequest,
        offsets.QueryConsumerOffsetResponse,
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: (offsets.UpdateConsumerOffsetRequest, None),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (
        offsets.SearchOffsetRequest,
        offsets.SearchOffsetResponse,
    ),
    RequestCode.GET_MAX_OFFSET: (offsets.GetMaxOffsetRequest, offsets.GetMaxOffsetResponse),
    RequestCode.GET_MIN_OFFSET: (offsets.GetMinOffsetRequest, offsets.GetMinOffsetResponse),
    RequestCode.GET_EARLIEST_MSG_STORETIME: (
        offsets.GetEarliestMsgStoretimeRequest,
        offsets.GetEarliestMsgStoretimeResponse,
    ),
    RequestCode.QUERY_CORRECTION_OFFSET: (offsets.QueryCorrectionOffsetRequest, None),
    RequestCode.CLONE_GROUP_OFFSET: (offsets.CloneGroupOffsetRequest, None),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (offsets.ResetOffsetRequest, None),
    # Clients.
    RequestCode.HEART_BEAT: (clients.HeartbeatRequest, clients.HeartbeatResponse),
    RequestCode.UNREGISTER_CLIENT: (clients.UnregisterClientRequest, None),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: (clients.GetConsumerListByGroupRequest, None),
    RequestCode.CHECK_CLIENT_CONFIG: (None, None),
    RequestCode.LOCK_BATCH_MQ: (clients.LockBatchMqRequest, None),
    RequestCode.UNLOCK_BATCH_MQ: (clients.UnlockBatchMqRequest, None),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: (clients.GetConsumerConnectionListRequest, None),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: (clients.GetProducerConnectionListRequest, None),
    # Transactions.
    RequestCode.END_TRANSACTION: (transactions.EndTransactionRequest, None),
    RequestCode.CHECK_TRANSACTION_STATE: (transactions.CheckTransactionStateRequest, None),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: (transactions.ResumeCheckHalfMessageRequest, None),
    # From the broker to clients.
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: (pushes.NotifyConsumerIdsChangedRequest, None),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: (offsets.ResetOffsetRequest, None),
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: (pushes.GetConsumerStatusRequest, None),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (pushes.GetConsumerStatusRequest, None),
    RequestCode.GET_CONSUMER_RUNNING_INFO: (pushes.GetConsumerRunningInfoRequest, None),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: (pushes.ConsumeMessageDirectlyRequest, None),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: (pushes.ReplyMessageRequest, None),
    # Looking for messages.
    RequestCode.QUERY_MESSAGE: (query.QueryMessageRequest, query.QueryMessageResponse),
    RequestCode.VIEW_MESSAGE_BY_ID: (query.ViewMessageRequest, None),
    RequestCode.QUERY_CONSUME_QUEUE: (query.QueryConsumeQueueRequest, None),
    # Topics.
    RequestCode.UPDATE_AND_CREATE_TOPIC: (topics.CreateTopicRequest, None),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: (topics.CreateTopicListRequest, None),
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: (topics.CreateTopicRequest, None),
    RequestCode.DELETE_TOPIC_IN_BROKER: (topics.DeleteTopicRequest, None),
    RequestCode.GET_ALL_TOPIC_CONFIG: (
        topics.GetAllTopicConfigRequest,
        topics.GetAllTopicConfigResponse,
    ),
    RequestCode.GET_TOPIC_CONFIG: (topics.GetTopicConfigRequest, None),
    RequestCode.GET_TOPIC_STATS_INFO: (topics.GetTopicStatsInfoRequest, None),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: (topics.QueryTopicConsumeByWhoRequest, None),
    RequestCode.QUERY_CONSUME_TIME_SPAN: (topics.QueryConsumeTimeSpanRequest, None),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: (None, None),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: (topics.QueryTopicsByConsumerRequest, None),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: (topics.QuerySubscriptionByConsumerRequest, None),
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: (topics.CheckRocksdbCqWriteProgressRequest, None),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: (None, None),
    RequestCode.CLEAN_UNUSED_TOPIC: (None, None),
    RequestCode.DELETE_EXPIRED_COMMITLOG: (None, None),
    # Groups.
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (None, None),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (None, None),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (
        groups.GetAllSubscriptionGroupRequest,
        groups.GetAllSubscriptionGroupResponse,
    ),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: (groups.GetSubscriptionGroupConfigRequest, None),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: (groups.DeleteSubscriptionGroupRequest, None),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: (groups.UpdateGroupForbiddenRequest, None),
    # Statistics.
    RequestCode.GET_CONSUME_STATS: (stats.GetConsumeStatsRequest, None),
    RequestCode.GET_BROKER_CONSUME_STATS: (stats.GetConsumeStatsInBrokerRequest, None),
    RequestCode.VIEW_BROKER_STATS_DATA: (stats.ViewBrokerStatsDataRequest, None),
    RequestCode.GET_ALL_PRODUCER_INFO: (stats.GetAllProducerInfoRequest, None),
    # The broker and its store.
    RequestCode.UPDATE_BROKER_CONFIG: (None, None),
    RequestCode.GET_BROKER_CONFIG: (None, broker_config.GetBrokerConfigResponse),
    RequestCode.GET_BROKER_RUNTIME_INFO: (None, None),
    RequestCode.GET_BROKER_HA_STATUS: (None, None),
    RequestCode.GET_BROKER_EPOCH_CACHE: (None, None),
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: (
        broker_config.ExportRocksDbConfigToJsonRequest,
        None,
    ),
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: (None, None),
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: (None, None),
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: (None, None),
    RequestCode.SET_COMMITLOG_READ_MODE: (broker_config.SetCommitLogReadModeRequest, None),
    RequestCode.SWITCH_TIMER_ENGINE: (broker_config.SwitchTimerEngineRequest, None),
    RequestCode.ADD_BROKER: (broker_config.AddBrokerRequest, None),
    RequestCode.REMOVE_BROKER: (broker_config.RemoveBrokerRequest, None),
    # The name server.
    RequestCode.PUT_KV_CONFIG: (namesrv.PutKvConfigRequest, None),
    RequestCode.GET_KV_CONFIG: (namesrv.GetKvConfigRequest, namesrv.GetKvConfigResponse),
    RequestCode.DELETE_KV_CONFIG: (namesrv.DeleteKvConfigRequest, None),
    RequestCode.GET_KVLIST_BY_NAMESPACE: (namesrv.GetKvListRequest, None),
    RequestCode.REGISTER_BROKER: (namesrv.RegisterBrokerRequest, namesrv.RegisterBrokerResponse),
    RequestCode.UNREGISTER_BROKER: (namesrv.UnregisterBrokerRequest, None),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: (namesrv.GetRouteInfoRequest, None),
    RequestCode.GET_BROKER_CLUSTER_INFO: (None, None),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: (
        namesrv.WipeWritePermRequest,
        namesrv.WipeWritePermResponse,
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: (
        namesrv.AddWritePermRequest,
        namesrv.AddWritePermResponse,
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (None, None),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: (namesrv.DeleteTopicFromNamesrvRequest, None),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: (namesrv.RegisterTopicRequest, None),
    RequestCode.GET_TOPICS_BY_CLUSTER: (namesrv.GetTopicsByClusterRequest, None),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (None, None),
    RequestCode.GET_UNIT_TOPIC_LIST: (None, None),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (None, None),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (None, None),
    RequestCode.UPDATE_NAMESRV_CONFIG: (None, None),
    RequestCode.GET_NAMESRV_CONFIG: (None, None),
    RequestCode.QUERY_DATA_VERSION: (
        namesrv.QueryDataVersionRequest,
        namesrv.QueryDataVersionResponse,
    ),
    RequestCode.GET_BROKER_MEMBER_GROUP: (namesrv.GetBrokerMemberGroupRequest, None),
    RequestCode.BROKER_HEARTBEAT: (namesrv.BrokerHeartbeatRequest, None),
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: (namesrv.NotifyMinBrokerIdChangeRequest, None),
    # Between master and slave.
    RequestCode.GET_ALL_CONSUMER_OFFSET: (None, None),
    RequestCode.GET_ALL_DELAY_OFFSET: (None, None),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: (None, None),
    RequestCode.GET_TIMER_CHECK_POINT: (None, None),
    RequestCode.GET_TIMER_METRICS: (None, None),
    RequestCode.EXCHANGE_BROKER_HA_INFO: (
        replication.ExchangeHaInfoRequest,
        replication.ExchangeHaInfoResponse,
    ),
    RequestCode.RESET_MASTER_FLUSH_OFFSET: (replication.ResetMasterFlushOffsetRequest, None),
    # The controller.
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: (
        controller.AlterSyncStateSetRequest,
        controller.AlterSyncStateSetResponse,
    ),
    RequestCode.CONTROLLER_ELECT_MASTER: (
        controller.ElectMasterRequest,
        controller.ElectMasterResponse,
    ),
    RequestCode.CONTROLLER_REGISTER_BROKER: (
        controller.RegisterBrokerToControllerRequest,
        controller.RegisterBrokerToControllerResponse,
    ),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: (
        controller.GetReplicaInfoRequest,
        controller.GetReplicaInfoResponse,
    ),
    RequestCode.CONTROLLER_GET_METADATA_INFO: (None, controller.GetMetaDataResponse),
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: (None, None),
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: (controller.NotifyBrokerRoleChangedRequest, None),
    RequestCode.UPDATE_CONTROLLER_CONFIG: (None, None),
    RequestCode.GET_CONTROLLER_CONFIG: (None, None),
    RequestCode.CLEAN_BROKER_DATA: (controller.CleanControllerBrokerDataRequest, None),
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: (
        controller.GetNextBrokerIdRequest,
        controller.GetNextBrokerIdResponse,
    ),
    RequestCode.CONTROLLER_APPLY_BROKER_ID: (
        controller.ApplyBrokerIdRequest,
        controller.ApplyBrokerIdResponse,
    ),
    # Users and rules.
    RequestCode.AUTH_CREATE_USER: (auth.CreateUserRequest, None),
    RequestCode.AUTH_UPDATE_USER: (auth.UpdateUserRequest, None),
    RequestCode.AUTH_DELETE_USER: (auth.DeleteUserRequest, None),
    RequestCode.AUTH_GET_USER: (auth.GetUserRequest, None),
    RequestCode.AUTH_LIST_USER: (auth.ListUsersRequest, None),
    RequestCode.AUTH_CREATE_ACL: (auth.CreateAclRequest, None),
    RequestCode.AUTH_UPDATE_ACL: (auth.UpdateAclRequest, None),
    RequestCode.AUTH_DELETE_ACL: (auth.DeleteAclRequest, None),
    RequestCode.AUTH_GET_ACL: (auth.GetAclRequest, None),
    RequestCode.AUTH_LIST_ACL: (auth.ListAclsRequest, None),
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: (auth.CreateAccessConfigRequest, None),
    RequestCode.DELETE_ACL_CONFIG: (auth.DeleteAccessConfigRequest, None),
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: (None, auth.GetBrokerAclConfigResponse),
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: (auth.UpdateGlobalWhiteAddrsConfigRequest, None),
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: (None, None),
}

HEADER_OF_REQUEST: Mapping[RequestCode, _HeaderType] = MappingProxyType(
    {code: pair[0] for code, pair in _HEADERS.items()}
)
"""The header of every request that somebody serves (all but codes.UNSERVED)."""

HEADER_OF_RESPONSE: Mapping[RequestCode, _HeaderType] = MappingProxyType(
    {code: pair[1] for code, pair in _HEADERS.items()}
)
"""The header of the answer to each of them."""
