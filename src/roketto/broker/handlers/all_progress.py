"""How far all groups of a broker have come, in one answer (317)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.handlers.offsets import store_time_ms
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, OffsetWrapper
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.stats import GetConsumeStatsInBrokerRequest
from roketto.remoting.connection import Connection

QUEUES_PER_TURN: Final = 64
"""Queues of groups that are looked at before others get their turn."""


async def get_all_progress(context: Context, connection: Connection, request: Command) -> Command:
    """317: of each group, its topics with their queues; only ordered topics if so asked.

    A group without offsets has an empty list, as in Java. What is told of a group is written in its
    turn: of a thousand groups it is a megabyte.
    """
    only_ordered = decode_header(GetConsumeStatsInBrokerRequest, request.ext).is_order
    answer = ConsumeStatsList(broker_addr=context.address)
    topics_of = context.offsets.topics_by_group()
    pieces: list[bytes] = []
    looked_at = 0
    for group in list(context.groups.groups):
        found: list[ConsumeStats] = []
        for topic in topics_of.get(group, ()):
            config = context.topics.get(topic)
            if config is None or (only_ordered and not config.order):
                continue
            if _is_left(context, group, topic):
                continue
            found.append(_progress(context, config, group))
            looked_at += config.write_queue_nums
            if looked_at >= QUEUES_PER_TURN:
                looked_at = 0
                await asyncio.sleep(0)
        pieces.append(encode_body({group: found}))
        _add_up(answer, found)
    empty, filled = b'"consumeStatsList":[]', b'"consumeStatsList":[%b]' % b",".join(pieces)
    return request.answer(body=encode_body(answer).replace(empty, filled, 1))


def _add_up(answer: ConsumeStatsList, found: list[ConsumeStats]) -> None:
    for stats in found:
        for queue in stats.offset_table.values():
            answer.total_diff += queue.broker_offset - queue.consumer_offset
            answer.total_inflight_diff += queue.pull_offset - queue.consumer_offset


def _is_left(context: Context, group: str, topic: str) -> bool:
    """Whether a group that is online does not subscribe to a topic any more."""
    online = context.clients.consumer_group(group)
    return online is not None and bool(online.subscriptions) and topic not in online.subscriptions


def _progress(context: Context, topic: TopicConfig, group: str) -> ConsumeStats:
    name = topic.topic_name
    offsets = context.offsets.offsets(name, group)
    stats = ConsumeStats(consume_tps=context.stats.group_tps(group, name))
    for queue_id in range(topic.write_queue_nums):
        key = MessageQueue(context.config.broker_name, queue_id, name)
        queue = context.store.queue(name, queue_id)
        committed = max(0, offsets.get(queue_id, 0))
        stats.offset_table[key] = OffsetWrapper(
            broker_offset=0 if queue is None else queue.queue_offset_max,
            consumer_offset=committed,
            last_timestamp=store_time_ms(context.store, name, queue_id, committed - 1),
            pull_offset=max(committed, context.offsets.pulled(name, group, queue_id) or 0),
        )
    return stats


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.GET_BROKER_CONSUME_STATS: get_all_progress,
}
