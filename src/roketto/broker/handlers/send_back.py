"""Messages that a consumer gives back to have them again later (36)."""

import logging
import random
from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.expiry import mark_end
from roketto.broker.put import put
from roketto.broker.retry import decide_send_back, retries_max
from roketto.broker.topics import PERM_WRITE
from roketto.protocol import property_names as names
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.crc import without_crc
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.send import ConsumerSendMsgBackRequest
from roketto.protocol.names import dlq_topic, retry_topic
from roketto.protocol.record import Record
from roketto.remoting.connection import Connection, Reply
from roketto.store.put_status import PutRefusedError
from roketto.store.segments import OutsideLogError

log = logging.getLogger(__name__)

_DLQ_QUEUES: Final = 1


def send_back(context: Context, connection: Connection, request: Command) -> Reply:
    """36: store the message again, delayed, for this group alone; or as a dead letter.

    Java answers before the message is on the disk, whatever its setting. Here SYNC_FLUSH holds for
    these, too: the consumer goes on as if it had consumed the message.
    """
    if context.durability.is_busy:
        context.durability.refuse()
    header = decode_header(ConsumerSendMsgBackRequest, request.ext)
    group = _find_group(context, header.group)
    if group.retry_queue_nums <= 0:
        return request.answer(ResponseCode.SUCCESS)
    topic = retry_topic(header.group)
    queue_id = random.randrange(group.retry_queue_nums)
    config = context.topics.create_for_group(
        topic, group.retry_queue_nums, is_unit=header.unit_mode
    )
    if not config.perm & PERM_WRITE:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the topic[{topic}] sending message is forbidden: its perm is {config.perm}, without"
            " write (2)",
        )
    original = _find_message(context, header.log_offset)
    times_max = retries_max(group, request.version, header.max_reconsume_times)
    retry = decide_send_back(original.reconsume_times, times_max, header.delay_level)
    if retry.is_dead:
        topic = dlq_topic(header.group)
        queue_id = 0
        context.topics.create_for_group(topic, _DLQ_QUEUES)
    record = make_retry(original, topic, queue_id, retry.delay_level, context.store_host)
    if context.topics.expiring:
        mark_end(context.topics.expiring, original, record)
    try:
        where = put(context, record, is_given_back=True)
    except PutRefusedError as refused:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"{refused.status.name}: {refused.reason}"
        ) from refused
    origin = record.get_property(names.RETRY_TOPIC) or original.topic
    context.stats.note_send_back(origin, header.group)
    if retry.is_dead:
        context.stats.note_dead(header.origin_topic or origin, header.group)
        log.info("a message of topic %s is now a dead letter of group %s", origin, header.group)
    answer = request.answer(ResponseCode.SUCCESS)
    return context.durability.answer_when_safe(connection, request, answer, where.end)


def make_retry(
    original: Record, topic: str, queue_id: int, delay_level: int, store_host: bytes
) -> Record:
    """The message once more, for ``topic``, with what a consumer needs to see it as the same."""
    record = Record(
        topic,
        original.body,
        without_crc(original.properties_raw),
        queue_id=queue_id,
        flag=original.flag,
        sys_flag=original.sys_flag,
        born_time_ms=original.born_time_ms,
        born_host=original.born_host,
        store_host=store_host,
        reconsume_times=original.reconsume_times + 1,
    )
    if record.get_property(names.RETRY_TOPIC) is None:
        record.set_property(names.RETRY_TOPIC, original.topic)
    if not (record.get_property(names.ORIGIN_MESSAGE_ID) or "").strip():
        record.set_property(names.ORIGIN_MESSAGE_ID, original.offset_id)
    record.set_property(names.WAIT, "false")
    record.set_property(names.DELAY, str(delay_level))
    return record


def _find_group(context: Context, name: str) -> SubscriptionGroupConfig:
    group = context.groups.find(name)
    if group is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group not exist, {name[:255]}: create it with mqadmin updateSubGroup, or"
            " set autoCreateSubscriptionGroup",
        )
    permission = context.config.broker_permission
    if not permission & PERM_WRITE:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{context.address}] sending message is forbidden: brokerPermission is"
            f" {permission}, without write (2)",
        )
    return group


def _find_message(context: Context, log_offset: int) -> Record:
    try:
        return context.store.record_at(log_offset)
    except (OutsideLogError, RecordError) as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"look message by offset failed, {log_offset}: {error}",
        ) from error


ROUTES: Final[Mapping[RequestCode, Handler]] = {RequestCode.CONSUMER_SEND_MSG_BACK: send_back}
