"""Where consumer groups stand: they ask, they commit, operators look."""

from collections.abc import Iterable, Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.offsets import (
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from roketto.protocol.headers.stats import GetConsumeStatsRequest
from roketto.protocol.record_layout import peek_store_time_ms
from roketto.remoting.connection import Connection
from roketto.store.reading import GetStatus
from roketto.store.store import Store


def query(context: Context, connection: Connection, request: Command) -> Command:
    """Where a group continues in a queue.

    Nothing stored means 0 if the queue's first message is still at hand: a new group then reads a
    young topic from its beginning. Otherwise the client decides, from its consumeFromWhere.
    """
    said = decode_header(QueryConsumerOffsetRequest, request.ext)
    offset = context.offsets.get(said.topic, said.consumer_group, said.queue_id)
    if offset is None:
        if said.set_zero_if_not_found is False:
            reason = "Not found, do not set to zero, maybe this group boot first"
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, reason)
        if not _is_start_at_hand(context.store, said.topic, said.queue_id):
            reason = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            raise RequestError(ResponseCode.QUERY_NOT_FOUND, reason)
        offset = 0
    return request.answer(ext=encode_header(QueryConsumerOffsetResponse(consume_offset=offset)))


def _is_start_at_hand(store: Store, topic: str, queue_id: int) -> bool:
    """Whether the message at offset 0 exists and is probably in memory."""
    found = store.get(topic, queue_id, 0, 1)
    return found.status is GetStatus.FOUND and not found.is_behind_memory


def update(context: Context, connection: Connection, request: Command) -> Command:
    """A group commits how far it has come."""
    said = decode_header(UpdateConsumerOffsetRequest, request.ext)
    if context.groups.get(said.consumer_group) is None:
        reason = f"Group {said.consumer_group[:255]} not exist!"
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, reason)
    if not is_queue(context, said.topic, said.queue_id):
        return request.answer()
    if context.offsets.has_reset(said.topic, said.consumer_group, said.queue_id):
        return request.answer(remark="Offset has been previously reset")
    context.offsets.commit(
        said.topic, said.consumer_group, said.queue_id, said.consume_offset, connection.peer
    )
    return request.answer()


def is_queue(context: Context, topic: str, queue_id: int) -> bool:
    """Whether a topic has such a queue, or had: it may have been made smaller since.

    Java keeps offsets of queues that never were; here they would only fill the table.
    """
    config = context.topics.get(topic)
    if config is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic[:255]} not exist!")
    queues = max(config.read_queue_nums, config.write_queue_nums)
    return 0 <= queue_id < queues or context.store.queue(topic, queue_id) is not None


def consume_stats(context: Context, connection: Connection, request: Command) -> Command:
    """How far a group has come in every queue, beside how far the queue goes."""
    said = decode_header(GetConsumeStatsRequest, request.ext)
    stats = ConsumeStats()
    for topic in _topics_to_show(context, said):
        config = context.topics.get(topic)
        if config is None:
            continue
        for queue_id in range(config.read_queue_nums):
            queue = MessageQueue(context.config.broker_name, queue_id, topic)
            stats.offset_table[queue] = _progress(context, topic, said.consumer_group, queue_id)
        stats.consume_tps += context.stats.group_tps(said.consumer_group, topic)
    return request.answer(body=encode_body(stats))


def _topics_to_show(context: Context, said: GetConsumeStatsRequest) -> Iterable[str]:
    """The topics asked for; without a list, those only that the group subscribes to now."""
    listed = [topic for topic in (said.topic_list or "").split(";") if topic]
    if listed:
        return dict.fromkeys(listed)
    has_topic = said.topic is not None and said.topic.strip()
    topics = [said.topic or ""] if has_topic else context.offsets.topics_of(said.consumer_group)
    group = context.clients.consumer_group(said.consumer_group)
    if group is None or not group.subscriptions:
        return topics
    return [topic for topic in topics if topic in group.subscriptions]


def _progress(context: Context, topic: str, group: str, queue_id: int) -> OffsetWrapper:
    queue = context.store.queue(topic, queue_id)
    committed = context.offsets.get(topic, group, queue_id) or 0
    pulled = context.offsets.pulled(topic, group, queue_id) or 0
    return OffsetWrapper(
        broker_offset=0 if queue is None else queue.queue_offset_max,
        consumer_offset=committed,
        last_timestamp=store_time_ms(context.store, topic, queue_id, committed - 1),
        pull_offset=max(committed, pulled),
    )


def store_time_ms(store: Store, topic: str, queue_id: int, queue_offset: int) -> int:
    """When a message was stored; 0 if there is none."""
    if queue_offset < 0:
        return 0
    found = store.get(topic, queue_id, queue_offset, 1)
    return peek_store_time_ms(found.views[0], 0) if found.status is GetStatus.FOUND else 0


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.QUERY_CONSUMER_OFFSET: query,
    RequestCode.UPDATE_CONSUMER_OFFSET: update,
    RequestCode.GET_CONSUME_STATS: consume_stats,
}
