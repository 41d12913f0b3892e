"""Pulling: messages of one queue from an offset on, or a wait for them.

An answer's body is the log's own bytes; nothing is done for each message. A request that finds
nothing and may wait is parked, and run again when a message arrives that it wants.
"""

import logging
from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.groups import READ_FORBIDDEN
from roketto.broker.longpoll import PASSED_BY_MAX, Poll
from roketto.broker.wanted import Wanted
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import ConsumeType, MessageModel
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.pull import (
    PullMessageRequest,
    encode_pull_answer,
    encode_pull_refusal,
)
from roketto.protocol.names import is_system_group
from roketto.protocol.sysflags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from roketto.remoting.connection import Connection, Reply, failure_answer
from roketto.store.dispatch import Arrival
from roketto.store.reading import GetResult, GetStatus

log = logging.getLogger(__name__)

READABLE: Final = 4
"""The bit of a broker's or a topic's permissions."""

FORBIDDEN_BY_BROKER: Final = 1
FORBIDDEN_BY_GROUP: Final = 2
FORBIDDEN_BY_TOPIC: Final = 3
FORBIDDEN_TO_BROADCAST: Final = 4
FORBIDDEN_BY_SUBSCRIPTION: Final = 5

_SUSPEND_MS_MAX: Final = 300_000
"""Clients ask for 15 or 20 seconds; whoever asks for more is told to ask again after this."""

_LITE_PULL: Final = int(RequestCode.LITE_PULL_MESSAGE)
_FOUND: Final = int(ResponseCode.SUCCESS)
_NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
_RETRY: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)


class ForbiddenError(RequestError):
    """A refusal with a type of its own beside the code."""

    def __init__(self, forbidden_type: int, reason: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, reason)
        self.forbidden_type = forbidden_type

    def answer(self, request: Command) -> Command:
        return request.answer(
            self.code, encode_pull_refusal(self.forbidden_type), remark=self.reason
        )


class Pulled:
    """What one run of a pull has come to."""

    __slots__ = ("code", "found", "group", "topic", "wanted")

    def __init__(
        self,
        code: int,
        found: GetResult,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
        wanted: Wanted,
    ) -> None:
        self.code: int = code
        self.found: GetResult = found
        self.topic: TopicConfig = topic
        self.group: SubscriptionGroupConfig = group
        self.wanted: Wanted = wanted


def pull(context: Context, connection: Connection, request: Command) -> Reply:
    """Answer PULL_MESSAGE and LITE_PULL_MESSAGE, or park them."""
    header = decode_header(PullMessageRequest, request.ext)
    try:
        pulled = _run(context, connection, request, header)
    except ForbiddenError as error:
        return error.answer(request)
    sys_flag = header.sys_flag
    if sys_flag & PULL_COMMIT_OFFSET:
        context.offsets.commit(
            header.topic, header.consumer_group, header.queue_id, header.consume_offset,
            connection.peer,
        )  # fmt: skip
    if pulled.code == _NOT_FOUND and sys_flag & PULL_SUSPEND:
        parked = ParkedPull(context, connection, request, header, pulled.wanted)
        if context.polls.park(parked):
            return None
    return _answer(context, request, header, pulled)


class ParkedPull(Poll):
    """A pull that waits; it is run again as it came, but commits nothing a second time."""

    __slots__ = ("context", "header", "request", "wanted")

    def __init__(
        self,
        context: Context,
        connection: Connection,
        request: Command,
        header: PullMessageRequest,
        wanted: Wanted,
    ) -> None:
        config = context.config
        is_long = config.long_polling_enable
        suspend_ms = header.suspend_timeout_ms if is_long else config.short_polling_time_mills
        super().__init__(
            connection, header.topic, header.queue_id, header.queue_offset,
            context.polls.now_s() + min(suspend_ms, _SUSPEND_MS_MAX) / 1000, is_long,
        )  # fmt: skip
        self.context: Context = context
        self.request: Command = request
        self.header: PullMessageRequest = header
        self.wanted: Wanted = wanted

    def wants(self, arrival: Arrival) -> bool:
        wanted = self.wanted
        if wanted.codes is not None and arrival.tags_code not in wanted.codes:
            return False
        return not wanted.needs_properties or wanted.matches(arrival.properties_raw)

    def resume(self, is_late: bool) -> None:
        try:
            answer = self._run_again(is_late)
        except ForbiddenError as error:
            answer = error.answer(self.request)
        except Exception as error:  # noqa: BLE001 (every failure becomes an answer)
            answer = failure_answer(self.request, error)
        if answer is not None:
            if answer.code:
                self.context.stats.note_refusal(self.request.code, answer.code)
            self.connection.reply(self.request, answer)

    def _run_again(self, is_late: bool) -> Command | None:
        """The answer; None if the pull is parked again for the rest of its time."""
        header, connection = self.header, self.connection
        pulled = _run(self.context, connection, self.request, header)
        found = pulled.found
        is_idle = pulled.code == _NOT_FOUND or (
            pulled.code == _RETRY and found.next_offset - header.queue_offset < PASSED_BY_MAX
        )
        if is_idle and not is_late:
            self.wanted = pulled.wanted
            if self.context.polls.park(self):
                return None
        if connection.is_write_stalled and pulled.code == _FOUND:
            # It has not read what it was sent: let it ask again when it has, and hold nothing.
            pulled.code = _NOT_FOUND
            pulled.found = GetResult(
                GetStatus.OFFSET_OVERFLOW_ONE, header.queue_offset, found.min_offset,
                found.max_offset, [],
            )  # fmt: skip
        return _answer(self.context, self.request, header, pulled)


# --- one run --------------------------------------------------------------------------------------


def _run(
    context: Context, connection: Connection, request: Command, header: PullMessageRequest
) -> Pulled:
    """Check whether the group may read the queue, and read; RequestError says why not."""
    group = _find_group(context, request, header)
    topic = find_queue(context, connection, header.topic, header.queue_id)
    if header.sys_flag & PULL_SUBSCRIPTION:
        wanted = context.filters.wanted_in(
            header.consumer_group, header.topic, header.subscription, header.expression_type
        )
    else:
        wanted = _wanted_by_heartbeat(context, header, group)
    config = context.config
    if config.reject_pull_consumer_enable:
        _check_online(context, connection, header.consumer_group)
    # The store stops at these bounds anyway; asked for more, it would only look at more units.
    count_max = min(
        header.max_msg_nums,
        max(
            config.max_transfer_count_on_message_in_memory,
            config.max_transfer_count_on_message_in_disk,
        ),
    )
    found = context.store.get(
        header.topic,
        header.queue_id,
        header.queue_offset,
        max(count_max, 1),
        codes=wanted.codes,
        predicate=wanted.matches_record if wanted.needs_properties else None,
    )
    code = code_of(found, header.queue_offset)
    if code != _FOUND:
        context.stats.note_get(header.topic, header.consumer_group, header.queue_id, 0, 0)
    return Pulled(code, found, topic, group, wanted)


def _find_group(
    context: Context, request: Command, header: PullMessageRequest
) -> SubscriptionGroupConfig:
    check_readable(context)
    if request.code == _LITE_PULL and not context.config.lite_pull_message_enable:
        raise ForbiddenError(
            FORBIDDEN_BY_BROKER,
            f"the broker[{context.address}] for lite pull consumer is forbidden",
        )
    group = context.groups.find(header.consumer_group)
    if group is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{header.consumer_group}] does not exist; create it, or set"
            " autoCreateSubscriptionGroup=true",
        )
    if not group.consume_enable:
        raise ForbiddenError(
            FORBIDDEN_BY_GROUP, f"subscription group no permission, {header.consumer_group}"
        )
    return group


def check_readable(context: Context) -> None:
    """ForbiddenError if nobody may read from this broker."""
    if not context.config.broker_permission & READABLE:
        raise ForbiddenError(
            FORBIDDEN_BY_BROKER, f"the broker[{context.address}] pulling message is forbidden"
        )


def find_queue(context: Context, connection: Connection, name: str, queue_id: int) -> TopicConfig:
    """The topic of a queue that may be read; RequestError says why not."""
    topic = context.topics.get(name)
    if topic is None:
        raise RequestError(
            ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
        )
    if not topic.perm & READABLE:
        raise ForbiddenError(FORBIDDEN_BY_TOPIC, f"the topic[{name}] pulling message is forbidden")
    if not 0 <= queue_id < topic.read_queue_nums:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic:[{name}]"
            f" topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{connection.peer}]",
        )
    return topic


def _wanted_by_heartbeat(
    context: Context, header: PullMessageRequest, group: SubscriptionGroupConfig
) -> Wanted:
    """What the group has told with its heartbeats that it wants of the topic."""
    name, topic = header.consumer_group, header.topic
    online = context.clients.consumer_group(name)
    if online is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's group info not exist: no heartbeat of group {name} has come",
        )
    if online.message_model is MessageModel.BROADCASTING and not group.consume_broadcast_enable:
        raise ForbiddenError(
            FORBIDDEN_TO_BROADCAST, f"the consumer group[{name}] can not consume by broadcast way"
        )
    if context.groups.forbidden(name, topic) & READ_FORBIDDEN:
        raise ForbiddenError(
            FORBIDDEN_BY_SUBSCRIPTION,
            f"the consumer group[{name}] is forbidden for topic[{topic}]",
        )
    subscription = online.subscription(topic)
    if subscription is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's subscription not exist: group {name} does not subscribe to {topic};"
            " all members of a group must have the same subscriptions",
        )
    if subscription.sub_version < header.sub_version:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        )
    return context.filters.wanted_by(name, topic, subscription, header.sub_version)


def _check_online(context: Context, connection: Connection, group: str) -> None:
    """Refuse pull consumers that send no heartbeats (rejectPullConsumerEnable)."""
    online = context.clients.consumer_group(group)
    if online is not None and (
        online.consume_type is not ConsumeType.CONSUME_ACTIVELY
        or online.member(connection) is not None
    ):
        return
    if not is_system_group(group):
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            "the consumer's group info not exist, or the pull consumer is rejected by server"
            f" (rejectPullConsumerEnable): no heartbeat of group {group} has come from this client",
        )


def code_of(found: GetResult, queue_offset: int) -> int:
    """The response code for what was found at an offset."""
    status = found.status
    if status is GetStatus.FOUND:
        return _FOUND
    if status is GetStatus.OFFSET_OVERFLOW_ONE:
        return _NOT_FOUND
    if status is GetStatus.NO_MATCHED_MESSAGE or status is GetStatus.MESSAGE_WAS_REMOVING:
        return _RETRY
    if status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
        # For Java a queue that may be read is there, if only as an empty one.
        found.status = GetStatus.NO_MESSAGE_IN_QUEUE
    if found.status is GetStatus.NO_MESSAGE_IN_QUEUE and queue_offset == 0:
        return _NOT_FOUND
    return _MOVED


# --- the answer -----------------------------------------------------------------------------------


def _answer(
    context: Context, request: Command, header: PullMessageRequest, pulled: Pulled
) -> Command:
    found, group = pulled.found, pulled.group
    broker_id = 0
    if context.config.slave_read_enable:
        broker_id = (
            group.which_broker_when_consume_slowly if found.is_behind_memory else group.broker_id
        )
    ext = encode_pull_answer(
        broker_id,
        found.next_offset,
        found.min_offset,
        found.max_offset,
        pulled.topic.topic_sys_flag,
        group.group_sys_flag,
    )
    name, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    context.offsets.note_pulled(topic, name, queue_id, found.next_offset)
    if pulled.code == _FOUND:
        context.stats.note_get(topic, name, queue_id, found.count, found.size)
        views = found.views
        return request.answer(
            _FOUND, ext, views[0] if len(views) == 1 else tuple(views), found.status.name
        )
    if pulled.code == _MOVED:
        log.info(
            "group %s asks for offset %d of queue %d of %s and goes on at %d: %s",
            name, header.queue_offset, queue_id, topic, found.next_offset, found.status.name,
        )  # fmt: skip
    return request.answer(pulled.code, ext, b"", found.status.name)


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.PULL_MESSAGE: pull,
    RequestCode.LITE_PULL_MESSAGE: pull,
}
