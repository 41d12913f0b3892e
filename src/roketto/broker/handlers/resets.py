"""An operator lets a group go on elsewhere, by time or by offset, also while it consumes (222).

There are two ways. With useServerSideResetOffset the broker notes the offsets, and answers the next
pull of each queue with its own: every client understands that, and none has to be online. Without,
clients that are online are told (220), and commit the new offsets themselves.
"""

import logging
from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.handlers.offsets import is_queue
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.offsets import MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import LanguageCode, RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.offsets import ResetOffsetRequest
from roketto.protocol.versions import V3_0_7_SNAPSHOT, version_name
from roketto.remoting.connection import Connection

log = logging.getLogger(__name__)

_NO_OFFSET: Final = -1
"""What tools send when they mean a time."""


def reset(context: Context, connection: Connection, request: Command) -> Command:
    """222: all queues of a topic, or one of them, to a time, to the end, or to an offset."""
    said = decode_header(ResetOffsetRequest, request.ext)
    is_here = context.config.use_server_side_reset_offset
    offsets = _reset_here(context, said) if is_here else _tell(context, said, request.language)
    log.info(
        "%s resets group %s in topic %s to %s", connection.peer, said.group, said.topic, offsets
    )
    return request.answer(body=_plain_body(context, said.topic, offsets))


# --- where to -------------------------------------------------------------------------------------


def _find_topic(context: Context, name: str) -> TopicConfig:
    topic = context.topics.get(name)
    if topic is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name[:255]} does not exist")
    return topic


def _targets(context: Context, said: ResetOffsetRequest, queues: int) -> dict[int, int]:
    """The new offset of each queue that is meant."""
    queue_id = said.queue_id
    if queue_id < 0:
        found = {number: _by_time(context, said, number) for number in range(queues)}
        if not found:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        return found
    if not is_queue(context, said.topic, queue_id):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"topic {said.topic} has no queue {queue_id}, but 0..{queues - 1}",
        )
    if said.queue_offset is None or said.queue_offset == _NO_OFFSET:
        return {queue_id: _by_time(context, said, queue_id)}
    queue = context.store.queue(said.topic, queue_id)
    least, most = (0, 0) if queue is None else (queue.queue_offset_min, queue.queue_offset_max)
    if not least <= said.queue_offset <= most + 1:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"Target offset {said.queue_offset} not in consume queue range [{least}-{most}]",
        )
    return {queue_id: said.queue_offset}


def _by_time(context: Context, said: ResetOffsetRequest, queue_id: int) -> int:
    """The first message that is not older; a time below zero is the end of the queue."""
    if said.timestamp >= 0:
        return context.store.offset_by_time(said.topic, queue_id, said.timestamp)
    queue = context.store.queue(said.topic, queue_id)
    return 0 if queue is None else queue.queue_offset_max


# --- the broker's way -----------------------------------------------------------------------------


def _reset_here(context: Context, said: ResetOffsetRequest) -> dict[int, int]:
    """Note the offsets; pulls that wait hear of them at once, and not when they are over."""
    topic = _find_topic(context, said.topic)
    if context.groups.get(said.group) is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {said.group[:255]} does not exist"
        )
    offsets = _targets(context, said, topic.read_queue_nums)
    for queue_id, offset in offsets.items():
        context.offsets.reset(said.topic, said.group, queue_id, offset)
        context.polls.wake_queue(said.topic, queue_id)
    return offsets


# --- the clients' way -----------------------------------------------------------------------------


def _tell(context: Context, said: ResetOffsetRequest, language: int) -> dict[int, int]:
    """Tell every member of the group; unless it is forced, no queue goes forward."""
    topic = _find_topic(context, said.topic)
    offsets = _targets(context, said, topic.write_queue_nums)
    for queue_id, offset in offsets.items():
        current = context.offsets.get(said.topic, said.group, queue_id)
        if current is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"THe consumer group <{said.group[:255]}> not exist: it has no offset in queue"
                f" {queue_id} of topic {said.topic}",
            )
        if not said.is_force:
            offsets[queue_id] = min(offset, current)
    group = context.clients.consumer_group(said.group)
    if group is None:
        raise RequestError(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {said.group[:255]}"
            f" Topic: {said.topic} Timestamp: {said.timestamp}",
        )
    for member in group.members:
        if member.version < V3_0_7_SNAPSHOT:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the client does not support this feature. version={version_name(member.version)}",
            )
    ext = encode_header(
        ResetOffsetRequest(group=said.group, topic=said.topic, timestamp=said.timestamp)
    )
    plain, for_c = _plain_body(context, said.topic, offsets), _c_body(context, said.topic, offsets)
    for member in group.members:
        body = for_c if _reads_c(member.language, language) else plain
        command = Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(ext), body)
        if not member.connection.send_one_way(command):
            log.warning("%.255r of group %s could not be told", member.client_id, said.group)
    return offsets


def _reads_c(member: int, asker: int) -> bool:
    """Clients in C++ cannot read Java's form. Java goes by the language of who asks, a flag of the
    tool; clients say themselves what they are, and not all that are made of C++ say so.
    """
    if member == LanguageCode.JAVA:
        return False
    return LanguageCode.CPP in (member, asker)


def _plain_body(context: Context, topic: str, offsets: Mapping[int, int]) -> bytes:
    name = context.config.broker_name
    table = {MessageQueue(name, queue_id, topic): offset for queue_id, offset in offsets.items()}
    return encode_body(ResetOffsetBody(table))


def _c_body(context: Context, topic: str, offsets: Mapping[int, int]) -> bytes:
    name = context.config.broker_name
    return encode_body(
        ResetOffsetBodyForC(
            [
                MessageQueueForC(broker_name=name, offset=offset, queue_id=queue_id, topic=topic)
                for queue_id, offset in offsets.items()
            ]
        )
    )


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset,
}
