"""What operators are shown of a push consumer, under the names that Java's tools know."""

import logging
from collections.abc import Iterable
from datetime import datetime

from roketto.client.listeners import Consumed, ConsumeResult
from roketto.client.owned_queue import OwnedQueue, PushParts
from roketto.client.positions import FromWhere
from roketto.client.received import ReceivedMessage
from roketto.protocol.bodies.heartbeat import ConsumeType, SubscriptionData
from roketto.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from roketto.protocol.errors import CompressionError
from roketto.protocol.names import retry_topic
from roketto.protocol.property_names import RETRY_TOPIC
from roketto.protocol.record import Record
from roketto.protocol.versions import CURRENT_VERSION, version_name

__all__ = ["direct_message", "direct_result", "make_running_info"]

log = logging.getLogger(__name__)

_NOT_LIMITED = -1
_REMARK_CHARS_MAX = 1_000


def make_running_info(
    parts: PushParts,
    queues: Iterable[OwnedQueue],
    subscriptions: list[SubscriptionData],
    *,
    started_ms: int,
    from_where: FromWhere,
    timestamp_ms: int,
    strategy_name: str,
) -> ConsumerRunningInfo:
    """The answer to GET_CONSUMER_RUNNING_INFO."""
    properties = {
        **_own_properties(parts, from_where, timestamp_ms, strategy_name),
        **_client_properties(parts),
        "PROP_NAMESERVER_ADDR": "".join(f"{name};" for name in parts.client.names.addresses),
        "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.value,
        "PROP_CONSUMEORDERLY": _text(parts.in_order),
        "PROP_THREADPOOL_CORE_SIZE": str(parts.tuning.concurrency),
        "PROP_CLIENT_VERSION": version_name(CURRENT_VERSION),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
    }
    return ConsumerRunningInfo(
        properties=properties,
        subscription_set=sorted(subscriptions, key=lambda data: data.topic),
        mq_table={queue.name: queue.messages.describe(_offset(parts, queue)) for queue in queues},
        status_table={data.topic: parts.rates.of(data.topic).status() for data in subscriptions},
    )


def _offset(parts: PushParts, queue: OwnedQueue) -> int:
    known = parts.store.memory(queue.name)
    return -1 if known is None else known


def _own_properties(
    parts: PushParts, from_where: FromWhere, timestamp_ms: int, strategy_name: str
) -> dict[str, str]:
    """The fields of Java's DefaultMQPushConsumer."""
    tuning = parts.tuning
    begin = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    return {
        "consumerGroup": parts.group,
        "messageModel": parts.model.value,
        "consumeFromWhere": from_where.value.value,
        "consumeTimestamp": begin.strftime("%Y%m%d%H%M%S"),
        "allocateMessageQueueStrategy": strategy_name,
        "consumeThreadMin": str(tuning.concurrency),
        "consumeThreadMax": str(tuning.concurrency),
        "consumeConcurrentlyMaxSpan": str(tuning.span_max),
        "pullThresholdForQueue": str(tuning.cached_count_max),
        "pullThresholdSizeForQueue": str(tuning.cached_mib_max),
        "pullThresholdForTopic": _limit(tuning.topic_cached_count_max),
        "pullThresholdSizeForTopic": _limit(tuning.topic_cached_mib_max),
        "pullInterval": str(tuning.pull_interval_ms),
        "consumeMessageBatchMaxSize": str(tuning.batch_max),
        "pullBatchSize": str(tuning.pull_count_max),
        "pullBatchSizeInBytes": str(tuning.pull_bytes_max),
        "postSubscriptionWhenPull": _text(tuning.sends_expression),
        "maxReconsumeTimes": _limit(tuning.reconsume_max),
        "suspendCurrentQueueTimeMillis": str(tuning.suspend_ms),
        "consumeTimeout": str(round(tuning.consume_timeout_s / 60)),
        "awaitTerminationMillisWhenShutdown": str(round(tuning.stop_timeout_s * 1000)),
        "clientRebalance": _text(True),
        "unitMode": _text(False),
    }


def _client_properties(parts: PushParts) -> dict[str, str]:
    """Those of its ClientConfig; no credentials are among them."""
    settings = parts.client.settings
    return {
        "namesrvAddr": ";".join(parts.client.names.addresses),
        "clientIP": parts.client.ip,
        "instanceName": parts.client.id.split("@")[1],
        "pollNameServerInterval": str(round(settings.route_interval_s * 1000)),
        "heartbeatBrokerInterval": str(round(settings.heartbeat_interval_s * 1000)),
        "persistConsumerOffsetInterval": str(round(settings.offsets_interval_s * 1000)),
        "mqClientApiTimeout": str(settings.request_timeout_ms),
        "useTLS": _text(settings.tls is not None),
        "language": "PYTHON",
    }


def _text(value: bool) -> str:
    return "true" if value else "false"


def _limit(value: int | None) -> str:
    return str(_NOT_LIMITED if value is None else value)


def direct_message(parts: PushParts, record: Record, broker_name: str) -> ReceivedMessage:
    """A message that an operator has chosen, as a listener sees it."""
    topic = record.topic
    if topic == retry_topic(parts.group):
        topic = record.get_property(RETRY_TOPIC) or topic
    try:
        record.decompress()
    except CompressionError as error:
        log.warning("the body of %r is given as it is: %s", record, error)
    return ReceivedMessage(record, broker_name, parts.client.unwrap(topic))


_RESULTS = {
    ConsumeResult.SUCCESS: CMResult.CR_SUCCESS,
    ConsumeResult.LATER: CMResult.CR_LATER,
    ConsumeResult.COMMIT: CMResult.CR_COMMIT,
    ConsumeResult.ROLLBACK: CMResult.CR_ROLLBACK,
}


def direct_result(consumed: Consumed, *, in_order: bool) -> ConsumeMessageDirectlyResult:
    """The answer to CONSUME_MESSAGE_DIRECTLY."""
    remark = None
    if consumed.error is not None:
        result = CMResult.CR_THROW_EXCEPTION
        remark = f"{type(consumed.error).__name__}: {consumed.error}"[:_REMARK_CHARS_MAX]
    elif consumed.result is None:
        result = CMResult.CR_RETURN_NULL
    else:
        result = _RESULTS[consumed.result]
    return ConsumeMessageDirectlyResult(
        auto_commit=consumed.context.auto_commit,
        consume_result=result,
        order=in_order,
        remark=remark,
        spent_time_ms=round(consumed.took_ms),
    )
