"""What operators let go before its time: queues and topics without messages, old files (306...)."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.names import is_lmq, is_system_topic
from roketto.remoting.connection import Connection

log = logging.getLogger(__name__)


async def clean_queues(context: Context, connection: Connection, request: Command) -> Command:
    """306: remove queues whose messages the log has lost, all of them, and that nobody uses.

    Java also removes those that are in use, which then begin at 0 again: groups that were further
    miss what comes next.
    """
    removed = 0
    for topic, queue_ids in context.store.topics():
        unused = [] if is_system_topic(topic) else _unused(context, topic, queue_ids)
        removed += sum(context.store.delete_expired_queue(topic, at) for at in unused)
        await asyncio.sleep(0)
    log.info("%s removes queues whose messages are gone: %d", connection.peer, removed)
    return request.answer()


def _unused(context: Context, topic: str, queue_ids: Iterable[int]) -> list[int]:
    """The queues that a topic has no more, and in which no group has an offset."""
    config = context.topics.get(topic)
    count = 0 if config is None else max(config.read_queue_nums, config.write_queue_nums)
    groups = context.offsets.groups_of(topic)
    return [
        queue_id
        for queue_id in queue_ids
        if queue_id >= count
        and all(context.offsets.get(topic, group, queue_id) is None for group in groups)
    ]


async def clean_topics(context: Context, connection: Connection, request: Command) -> Command:
    """316: remove the queues of topics that are not there any more."""
    for topic, _ in context.store.topics():
        # Each is looked up in its turn: somebody may have made it again meanwhile.
        if context.topics.get(topic) is None and not is_system_topic(topic) and not is_lmq(topic):
            context.store.delete_topic(topic)
            log.info("%s removes the queues of %s, which is no topic", connection.peer, topic)
            await asyncio.sleep(0)
    return request.answer()


def clean_log(context: Context, connection: Connection, request: Command) -> Command:
    """329: let files of the log that are old enough go now, and not at the hour."""
    context.store.retention.request()
    log.info("%s lets old files of the log be removed", connection.peer)
    return request.answer()


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: clean_queues,
    RequestCode.CLEAN_UNUSED_TOPIC: clean_topics,
    RequestCode.DELETE_EXPIRED_COMMITLOG: clean_log,
}
