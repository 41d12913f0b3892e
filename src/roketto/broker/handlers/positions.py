"""What operators and slaves ask about offsets as a whole: copies, corrections, times, tables."""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.handlers.offsets import store_time_ms
from roketto.protocol.bodies.base import Body, encode_body
from roketto.protocol.bodies.offsets import QueryCorrectionOffsetBody
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import QueryConsumeTimeSpanBody, QueueTimeSpan
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.offsets import CloneGroupOffsetRequest, QueryCorrectionOffsetRequest
from roketto.protocol.headers.topics import QueryConsumeTimeSpanRequest
from roketto.protocol.limits import FRAME_BYTES_MAX
from roketto.remoting.connection import Connection

log = logging.getLogger(__name__)

_LONG_MAX: Final = 2**63 - 1
"""No correction: the group itself is the one that is farthest behind."""
_NO_TIME: Final = -1
_HEADER_BYTES: Final = 64 * 1024


def clone(context: Context, connection: Connection, request: Command) -> Command:
    """314: give a group the offsets of another one, in one topic or in all of them.

    As for progress, topics that the other group no longer subscribes to are left out while it is
    online, unless ``offline`` says that this does not matter. Java clones nothing without a topic.
    """
    said = decode_header(CloneGroupOffsetRequest, request.ext)
    if context.groups.find(said.dest_group) is None:
        reason = f"Group {said.dest_group[:255]} not exist!"
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, reason)
    for topic in _topics_to_clone(context, said):
        context.offsets.clone(topic, said.src_group, said.dest_group)
        log.info(
            "%s gives group %s the offsets of group %s in topic %s",
            connection.peer, said.dest_group, said.src_group, topic,
        )  # fmt: skip
    return request.answer()


def _topics_to_clone(context: Context, said: CloneGroupOffsetRequest) -> Iterable[str]:
    asked = said.topic if said.topic is not None and said.topic.strip() else None
    topics = context.offsets.topics_of(said.src_group) if asked is None else [asked]
    group = context.clients.consumer_group(said.src_group)
    is_any = said.offline or group is None or not group.subscriptions
    return [
        topic
        for topic in topics
        if context.topics.get(topic) is not None
        and (is_any or (group is not None and topic in group.subscriptions))
    ]


def query_correction(context: Context, connection: Connection, request: Command) -> Command:
    """308: of each queue the smallest offset of all groups but some.

    A queue in which the compared group is behind all of them needs no correction. Java forgets the
    offsets of the groups that are to be left out, for good; here they are only left out.
    """
    said = decode_header(QueryCorrectionOffsetRequest, request.ext)
    topic = said.topic
    left_out = (said.filter_groups or "").split(",")
    found: dict[int, int] = {}
    for group in context.offsets.groups_of(topic):
        if group in left_out:
            continue
        for queue_id, offset in context.offsets.offsets(topic, group).items():
            queue = context.store.queue(topic, queue_id)
            if offset >= (0 if queue is None else queue.queue_offset_min):
                found[queue_id] = min(offset, found.get(queue_id, offset))
    for queue_id, offset in context.offsets.offsets(topic, said.compare_group).items():
        if found.get(queue_id, _LONG_MAX) > offset:
            found[queue_id] = _LONG_MAX
    return request.answer(body=encode_body(QueryCorrectionOffsetBody(found)))


def query_time_span(context: Context, connection: Connection, request: Command) -> Command:
    """303: of each queue when its first and last message were stored, and the last one consumed."""
    said = decode_header(QueryConsumeTimeSpanRequest, request.ext)
    topic = context.topics.get(said.topic)
    if topic is None:
        reason = f"topic[{said.topic[:255]}] not exist"
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, reason)
    spans = [
        _time_span(context, said.topic, said.group, queue_id)
        for queue_id in range(topic.write_queue_nums)
    ]
    return request.answer(body=encode_body(QueryConsumeTimeSpanBody(spans)))


def _time_span(context: Context, topic: str, group: str, queue_id: int) -> QueueTimeSpan:
    """One queue. ``delay_time`` is how old the next message is; 0 where there is none, for which
    Java counts from 1970.
    """
    queue = context.store.queue(topic, queue_id)
    least, most = (0, 0) if queue is None else (queue.queue_offset_min, queue.queue_offset_max)
    consumed = context.offsets.get(topic, group, queue_id) or 0

    def time_of(offset: int) -> int:
        return store_time_ms(context.store, topic, queue_id, offset) or _NO_TIME

    first_ms, last_ms = time_of(least), time_of(most - 1)
    consumed_ms = time_of(consumed - 1) if consumed > 0 else first_ms
    next_ms = time_of(max(consumed, least))
    return QueueTimeSpan(
        consume_time_stamp=consumed_ms,
        consume_time_stamp_str=_show_time(consumed_ms),
        delay_time=0 if next_ms == _NO_TIME else context.clock_ms() - next_ms,
        max_time_stamp=last_ms,
        max_time_stamp_str=_show_time(last_ms),
        message_queue=MessageQueue(context.config.broker_name, queue_id, topic),
        min_time_stamp=first_ms,
        min_time_stamp_str=_show_time(first_ms),
    )


def _show_time(time_ms: int) -> str:
    """Local time as Java's tools show it."""
    local = datetime.fromtimestamp(time_ms // 1000, UTC).astimezone()
    return f"{local:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03d}"


def get_all_offsets(context: Context, connection: Connection, request: Command) -> Command:
    """43: the offsets of all groups, as slaves copy them."""
    return _answer_whole(request, "offsets of consumer groups", context.offsets.wrapper())


def get_all_delay_offsets(context: Context, connection: Connection, request: Command) -> Command:
    """45: how far each delay level has been delivered, as slaves copy it."""
    return _answer_whole(request, "offsets of delay levels", context.delays.wrapper())


def _answer_whole(request: Command, what: str, table: Body) -> Command:
    body = encode_body(table)
    bytes_max = FRAME_BYTES_MAX - _HEADER_BYTES
    if len(body) > bytes_max:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"the {what} take {len(body)} bytes, and a frame holds {bytes_max}: delete groups that"
            " nobody uses",
        )
    return request.answer(body=body)


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.CLONE_GROUP_OFFSET: clone,
    RequestCode.QUERY_CORRECTION_OFFSET: query_correction,
    RequestCode.QUERY_CONSUME_TIME_SPAN: query_time_span,
    RequestCode.GET_ALL_CONSUMER_OFFSET: get_all_offsets,
    RequestCode.GET_ALL_DELAY_OFFSET: get_all_delay_offsets,
}
