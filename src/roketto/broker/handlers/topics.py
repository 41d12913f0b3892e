"""Topics as operators see them: create, change, delete, list, how full their queues are."""

import logging
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from roketto.broker.attributes import MESSAGE_TYPE, TOPIC_ATTRIBUTES, change, parse_changes
from roketto.broker.context import Context, Handler
from roketto.broker.handlers.offsets import store_time_ms
from roketto.broker.pages import Page, page_of
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.groups import GroupList
from roketto.protocol.bodies.heartbeat import QuerySubscriptionResponseBody
from roketto.protocol.bodies.route import MessageQueue, TopicList
from roketto.protocol.bodies.stats import TopicOffset, TopicStatsTable
from roketto.protocol.bodies.topics import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicFilterType,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import IllegalNameError, RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.topics import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetAllTopicConfigRequest,
    GetAllTopicConfigResponse,
    GetTopicConfigRequest,
    GetTopicStatsInfoRequest,
    QuerySubscriptionByConsumerRequest,
    QueryTopicConsumeByWhoRequest,
    QueryTopicsByConsumerRequest,
)
from roketto.protocol.names import (
    RETRY_PREFIX,
    SYSTEM_TOPICS,
    check_topic,
    is_system_topic,
    path_component,
    reply_topic,
)
from roketto.remoting.connection import Connection

log = logging.getLogger(__name__)

QUEUES_MAX: Final = 65_535
"""Queues of one topic for reading or writing; a thousand are many, and each may become a file."""

_FILTER_TYPES: Final = TopicFilterType.__members__


def update(context: Context, connection: Connection, request: Command) -> Command:
    """Create a topic, or give it another configuration."""
    said = decode_header(CreateTopicRequest, request.ext)
    if said.topic_filter_type not in _FILTER_TYPES:
        reason = (
            f"topicFilterType = [{said.topic_filter_type[:64]}] value invalid; "
            f"write one of {', '.join(_FILTER_TYPES)}"
        )
        raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
    asked = TopicConfig(
        attributes=parse_changes(said.attributes),
        order=said.order,
        perm=said.perm,
        read_queue_nums=said.read_queue_nums,
        topic_filter_type=_FILTER_TYPES[said.topic_filter_type],
        topic_name=said.topic,
        topic_sys_flag=said.topic_sys_flag or 0,
        write_queue_nums=said.write_queue_nums,
    )
    _check(context, asked)
    _put(context, _resolve(context, asked))
    return request.answer()


def update_list(context: Context, connection: Connection, request: Command) -> Command:
    """The same for several topics: all of them, or none if one may not be."""
    asked = decode_body(CreateTopicListRequestBody, request.body).topic_config_list
    for topic in asked:
        _check(context, topic)
    for topic in [_resolve(context, topic) for topic in asked]:
        _put(context, topic)
    return request.answer()


def _check(context: Context, topic: TopicConfig) -> None:
    """Refuse a configuration that no topic may have."""
    name = topic.topic_name
    check_topic(name)
    _check_not_system(context, name)
    for kind, count in ("read", topic.read_queue_nums), ("write", topic.write_queue_nums):
        if not 0 <= count <= QUEUES_MAX:
            reason = f"topic {name} would have {count} {kind} queues; write 0..{QUEUES_MAX}"
            raise RequestError(ResponseCode.INVALID_PARAMETER, reason)
    if topic.attributes.get(f"+{MESSAGE_TYPE}") == "MIXED":
        reason = "MIXED message type is not supported."
        raise RequestError(ResponseCode.INVALID_PARAMETER, reason)


def _check_not_system(context: Context, topic: str) -> None:
    config = context.config
    own = (
        config.broker_cluster_name,
        config.broker_name,
        reply_topic(config.broker_cluster_name),
    )
    is_system = is_system_topic(topic) or topic in own
    if is_system and config.validate_system_topic_when_update_topic:
        reason = f"The topic[{topic}] is conflict with system topic."
        raise RequestError(ResponseCode.INVALID_PARAMETER, reason)


def _resolve(context: Context, asked: TopicConfig) -> TopicConfig:
    """The configuration with the attributes that its changes lead to."""
    current = context.topics.get(asked.topic_name)
    before = None if current is None else current.attributes
    return replace(asked, attributes=change(TOPIC_ATTRIBUTES, before, asked.attributes))


def _put(context: Context, topic: TopicConfig) -> None:
    if context.topics.get(topic.topic_name) != topic:
        context.topics.put(topic)
        log.info("an operator sets %s", topic)


def delete(context: Context, connection: Connection, request: Command) -> Command:
    """Delete a topic: its configuration, its queues, the offsets of its groups.

    Its messages stay in the log until they are old enough; nobody finds them there.
    """
    topic = decode_header(DeleteTopicRequest, request.ext).topic
    if not topic.strip():
        raise IllegalNameError("The specified topic is blank.")
    path_component(topic)
    _check_not_system(context, topic)
    doomed = [topic]
    if context.config.clear_retry_topic_when_delete_topic:
        for group in context.offsets.groups_of(topic):
            names = (f"{RETRY_PREFIX}{group}+{topic}", f"{RETRY_PREFIX}{group}_{topic}")
            doomed += [name for name in names if context.topics.get(name) is not None]
    for name in doomed:
        context.topics.remove(name)
        context.offsets.remove_topic(name)
        context.store.delete_topic(name)
        context.stats.forget_topic(name)
        log.info("%s deletes topic %s", connection.peer, name)
    return request.answer()


def get(context: Context, connection: Connection, request: Command) -> Command:
    """The configuration of one topic."""
    name = decode_header(GetTopicConfigRequest, request.ext).topic
    topic = _find(context, name, f"No topic in this broker. topic: {name[:255]}")
    body = TopicConfigAndQueueMapping(
        attributes=topic.attributes,
        order=topic.order,
        perm=topic.perm,
        read_queue_nums=topic.read_queue_nums,
        topic_filter_type=topic.topic_filter_type,
        topic_name=topic.topic_name,
        topic_sys_flag=topic.topic_sys_flag,
        write_queue_nums=topic.write_queue_nums,
    )
    return request.answer(body=encode_body(body))


def get_all(context: Context, connection: Connection, request: Command) -> Command:
    """The configurations of all topics, or of one page of them."""
    said = decode_header(GetAllTopicConfigRequest, request.ext)
    topics, version = context.topics.topics, context.topics.data_version
    page = Page(said.topic_seq, said.max_topic_num, said.data_version)
    names = page_of(topics, page, version)
    body = TopicConfigAndMappingSerializeWrapper(
        data_version=version,
        topic_config_table=dict(topics) if names is None else {n: topics[n] for n in names},
    )
    answer = GetAllTopicConfigResponse(total_topic_num=len(topics))
    return request.answer(ext=encode_header(answer), body=encode_body(body))


def get_stats(context: Context, connection: Connection, request: Command) -> Command:
    """The ends of every queue of a topic, when it last grew, and how fast."""
    name = decode_header(GetTopicStatsInfoRequest, request.ext).topic
    topic = _find(context, name, f"topic[{name[:255]}] not exist")
    stats = TopicStatsTable(topic_put_tps=context.stats.topic_tps(name))
    for queue_id in range(max(topic.write_queue_nums, topic.read_queue_nums)):
        key = MessageQueue(context.config.broker_name, queue_id, name)
        queue = context.store.queue(name, queue_id)
        stats.offset_table[key] = TopicOffset()
        if queue is not None:
            last = queue.queue_offset_max - 1
            stats.offset_table[key] = TopicOffset(
                last_update_timestamp=store_time_ms(context.store, name, queue_id, last),
                max_offset=queue.queue_offset_max,
                min_offset=queue.queue_offset_min,
            )
    return request.answer(body=encode_body(stats))


def list_groups(context: Context, connection: Connection, request: Command) -> Command:
    """The groups that consume a topic: those online and those that have offsets in it."""
    topic = decode_header(QueryTopicConsumeByWhoRequest, request.ext).topic
    online = context.clients.groups_subscribed_to(topic)
    groups = dict.fromkeys([*online, *context.offsets.groups_of(topic)])
    return request.answer(body=encode_body(GroupList(group_list=list(groups))))


def list_of_group(context: Context, connection: Connection, request: Command) -> Command:
    """The topics in which a group has offsets."""
    group = decode_header(QueryTopicsByConsumerRequest, request.ext).group
    topics = TopicList(context.address, context.offsets.topics_of(group))
    return request.answer(body=encode_body(topics))


def get_subscription(context: Context, connection: Connection, request: Command) -> Command:
    """How a group subscribes to a topic; nothing is said of that while it does not."""
    said = decode_header(QuerySubscriptionByConsumerRequest, request.ext)
    topic = said.topic or ""
    body = QuerySubscriptionResponseBody(
        said.group, context.clients.subscription(said.group, topic), topic
    )
    return request.answer(body=encode_body(body))


def list_system_topics(context: Context, connection: Connection, request: Command) -> Command:
    """The topics that are the broker's own, whether or not it has made them."""
    topics = TopicList(topic_list=sorted(SYSTEM_TOPICS | context.topics.own_names()))
    return request.answer(body=encode_body(topics))


def _find(context: Context, topic: str, reason: str) -> TopicConfig:
    found = context.topics.get(topic)
    if found is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, reason)
    return found


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: update,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: update_list,
    RequestCode.DELETE_TOPIC_IN_BROKER: delete,
    RequestCode.GET_TOPIC_CONFIG: get,
    RequestCode.GET_ALL_TOPIC_CONFIG: get_all,
    RequestCode.GET_TOPIC_STATS_INFO: get_stats,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: list_groups,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: list_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: get_subscription,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: list_system_topics,
}
