"""What clients say of themselves, and who asks for them: heartbeats, farewells, members."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from roketto.broker.consumer_group import Member
from roketto.broker.context import Context, Handler
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.connections import Connection as ConnectionBody
from roketto.protocol.bodies.connections import (
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from roketto.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
)
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import LANGUAGES, Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.clients import (
    GetConsumerConnectionListRequest,
    GetConsumerListByGroupRequest,
    GetProducerConnectionListRequest,
    HeartbeatResponse,
    UnregisterClientRequest,
)
from roketto.protocol.names import retry_topic
from roketto.remoting.connection import Connection


def heartbeat(context: Context, connection: Connection, request: Command) -> Command:
    """Note what a client produces and consumes.

    A client of 5.1 or later sends a fingerprint of its subscriptions, and leaves them out while
    both sides know them. It is asked for all of them when another member of the group has sent
    another fingerprint since, and when this broker does not know them: it may be a new one.
    """
    said = decode_body(HeartbeatData, request.body)
    rejects_pull = context.config.reject_pull_consumer_enable
    consumers = [
        data
        for data in said.consumer_data_set
        if not (rejects_pull and data.consume_type is ConsumeType.CONSUME_ACTIVELY)
    ]
    producers = [data.group_name for data in said.producer_data_set]
    context.clients.check_heartbeat(connection, said.client_id, consumers, producers)
    is_changed = said.heartbeat_fingerprint == 0
    for data in consumers:
        member = context.clients.member(connection, said.client_id, request)
        is_changed |= _register_consumer(context, said, data, member)
    for name in producers:
        member = context.clients.member(connection, said.client_id, request)
        context.clients.register_producer(name, member)
    answer = HeartbeatResponse(supports_heartbeat_v2=True, subscription_changed=is_changed)
    return request.answer(ext=encode_header(answer))


def _register_consumer(
    context: Context, said: HeartbeatData, data: ConsumerData, member: Member
) -> bool:
    """Note one group of a client; whether it should send its subscriptions again."""
    config = context.groups.find(data.group_name)
    if config is None:
        return False
    known = context.clients.consumer_group(data.group_name)
    fingerprint = None if known is None else known.fingerprint
    context.topics.create_for_group(
        retry_topic(data.group_name), config.retry_queue_nums, is_unit=data.unit_mode
    )
    without_sub = said.without_sub and said.heartbeat_fingerprint != 0
    context.clients.register_consumer(
        data,
        member,
        without_sub=without_sub,
        should_notify=config.notify_consumer_ids_changed_enable,
    )
    group = context.clients.consumer_group(data.group_name)
    assert group is not None, "it was registered"
    group.fingerprint = said.heartbeat_fingerprint
    if not without_sub:
        _order_retry_topic(context, data)
        context.filters.register(data.group_name, data.subscription_data_set)
    is_unknown = without_sub and not group.subscriptions
    return is_unknown or fingerprint not in (None, said.heartbeat_fingerprint)


def _order_retry_topic(context: Context, data: ConsumerData) -> None:
    """A group that subscribes to an ordered topic has an ordered retry topic, and else has not."""
    topics = context.topics
    found = (topics.get(said.topic) for said in data.subscription_data_set)
    is_order = any(topic is not None and topic.order for topic in found)
    retry = topics.get(retry_topic(data.group_name))
    if retry is not None and retry.order != is_order:
        topics.put(replace(retry, order=is_order))


def unregister_client(context: Context, connection: Connection, request: Command) -> Command:
    """A client leaves groups, usually because it stops."""
    said = decode_header(UnregisterClientRequest, request.ext)
    if said.producer_group is not None:
        context.clients.unregister_producer(said.producer_group, connection)
    if said.consumer_group is not None:
        config = context.groups.get(said.consumer_group)
        should_notify = config is None or config.notify_consumer_ids_changed_enable
        context.clients.unregister_consumer(
            said.consumer_group, connection, should_notify=should_notify
        )
    return request.answer()


def check_client_config(context: Context, connection: Connection, request: Command) -> Command:
    """May a consumer subscribe like that? It asks before it starts."""
    if request.body:
        said = decode_body(CheckClientRequestBody, request.body)
        wanted = said.subscription_data
        if wanted is not None:
            context.filters.check(wanted.expression_type, wanted.sub_string)
    return request.answer()


def list_consumers(context: Context, connection: Connection, request: Command) -> Command:
    """The client ids of a group, by which its members share out queues."""
    group = decode_header(GetConsumerListByGroupRequest, request.ext).consumer_group
    client_ids = context.clients.client_ids(group)
    if not client_ids:
        reason = f"no consumer for this group, {group[:255]}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
    return request.answer(body=encode_body(GetConsumerListByGroupResponseBody(client_ids)))


def list_consumer_connections(
    context: Context, connection: Connection, request: Command
) -> Command:
    """The members of a consumer group and how they consume."""
    name = decode_header(GetConsumerConnectionListRequest, request.ext).consumer_group
    group = context.clients.consumer_group(name)
    if group is None:
        reason = f"the consumer group[{name[:255]}] not online"
        raise RequestError(ResponseCode.CONSUMER_NOT_ONLINE, reason)
    body = ConsumerConnection(
        connection_set=[_describe(member) for member in group.members],
        consume_from_where=group.consume_from_where,
        consume_type=group.consume_type,
        message_model=group.message_model,
        subscription_table=dict(group.subscriptions),
    )
    return request.answer(body=encode_body(body))


def list_producer_connections(
    context: Context, connection: Connection, request: Command
) -> Command:
    """The members of a producer group."""
    name = decode_header(GetProducerConnectionListRequest, request.ext).producer_group
    members = context.clients.producers(name)
    if not members:
        reason = f"the producer group[{name[:255]}] not exist"
        raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
    body = ProducerConnection(connection_set=[_describe(member) for member in members])
    return request.answer(body=encode_body(body))


def list_all_producers(context: Context, connection: Connection, request: Command) -> Command:
    """All producer groups with their members, and when each was last heard of."""
    clients, now_ms = context.clients, context.clock_ms()
    table = {
        group: [
            _describe_producer(member, now_ms - clients.silent_ms(member)) for member in members
        ]
        for group, members in clients.all_producers().items()
    }
    return request.answer(body=encode_body(ProducerTableInfo(table)))


def _describe_producer(member: Member, seen_ms: int) -> ProducerInfo:
    return ProducerInfo(
        client_id=member.client_id,
        language=_language(member),
        last_update_timestamp=seen_ms,
        remote_ip=f"/{member.connection.peer}",  # as Java writes addresses
        version=member.version,
    )


def _describe(member: Member) -> ConnectionBody:
    return ConnectionBody(
        client_addr=member.connection.peer,
        client_id=member.client_id,
        language=_language(member),
        version=member.version,
    )


def _language(member: Member) -> str | None:
    return LANGUAGES[member.language] if member.language >= 0 else None


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.HEART_BEAT: heartbeat,
    RequestCode.UNREGISTER_CLIENT: unregister_client,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: list_consumers,
    RequestCode.CHECK_CLIENT_CONFIG: check_client_config,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: list_consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: list_producer_connections,
    RequestCode.GET_ALL_PRODUCER_INFO: list_all_producers,
}
