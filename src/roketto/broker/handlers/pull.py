"""Pulling: messages of one queue from an offset on, or a wait for them.

An answer's body is the log's own bytes; nothing is done for each message. A request that finds
nothing and may wait is parked, and run again when a message arrives that it wants.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.expiry import Alive, alive_in
from roketto.broker.filter_work import WAITING_MAX, Look
from roketto.broker.groups import READ_FORBIDDEN
from roketto.broker.longpoll import PASSED_BY_MAX, Poll
from roketto.broker.offsets import Sent
from roketto.broker.priority import HOLD_S
from roketto.broker.wanted import Wanted, is_tag_type
from roketto.clock import monotonic_s
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

SUSPEND_MS_MAX: Final = 300_000
"""Clients ask for 15 or 20 seconds; whoever asks for more is told to ask again after this."""

_BROADCASTING: Final = MessageModel.BROADCASTING
_LITE_PULL: Final = int(RequestCode.LITE_PULL_MESSAGE)
_FOUND: Final = int(ResponseCode.SUCCESS)
_NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
_RETRY: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)
_RESET: Final = GetStatus.OFFSET_RESET


class ForbiddenError(RequestError):
    """A refusal with a type of its own beside the code."""

    def __init__(self, forbidden_type: int, reason: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, reason)
        self.forbidden_type = forbidden_type

    def answer(self, request: Command) -> Command:
        return request.answer(
            self.code, encode_pull_refusal(self.forbidden_type), remark=self.reason
        )


class Asked:
    """What a pull asks for.

    A class of its own, and not the header it comes from: this one is compiled, and every pull
    looks at it a dozen times.
    """

    __slots__ = (
        "began_s", "consume_offset", "count", "expression_type", "group", "queue_id",
        "queue_offset", "sent", "sub_version", "subscription", "suspend_ms", "sys_flag", "topic",
    )  # fmt: skip

    def __init__(self, header: PullMessageRequest) -> None:
        self.group: str = header.consumer_group
        self.topic: str = header.topic
        self.queue_id: int = header.queue_id
        self.queue_offset: int = header.queue_offset
        self.count: int = header.max_msg_nums
        self.sys_flag: int = header.sys_flag
        self.consume_offset: int = header.consume_offset
        self.suspend_ms: int = header.suspend_timeout_ms
        self.subscription: str | None = header.subscription
        self.sub_version: int = header.sub_version
        self.expression_type: str | None = header.expression_type
        self.began_s: float = 0.0
        """When it was last begun to read for it."""
        self.sent: Sent | None = None
        """Where to note what it was sent; None before that was looked up."""


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
    asked = Asked(decode_header(PullMessageRequest, request.ext))
    return _pull(context, connection, request, asked)


def _pull(
    context: Context,
    connection: Connection,
    request: Command,
    asked: Asked,
    is_its_turn: bool = False,
) -> Command | None:
    """The answer, None if it comes later; ``is_its_turn``: it has waited for others' filters."""
    try:
        pulled = _run(context, connection, request, asked, is_its_turn)
    except ForbiddenError as error:
        return error.answer(request)
    if pulled is None:
        _wait_for_turn(context, connection, request, asked)
        return None
    if pulled.found.status is not _RESET:
        commit(context, connection, asked)
    if pulled.code == _NOT_FOUND and asked.sys_flag & PULL_SUSPEND:
        parked = ParkedPull(context, connection, request, asked, pulled.wanted)
        if context.polls.park(parked):
            _note_priority(context, connection, asked, pulled)
            return None
    if _is_held(context, connection, request, asked, pulled):
        return None
    _note_priority(context, connection, asked, pulled)
    return _answer(context, request, asked, pulled)


def _is_held(
    context: Context, connection: Connection, request: Command, asked: Asked, pulled: Pulled
) -> bool:
    """Whether a pull that has found messages is kept, because others of its client come first."""
    if (
        asked.topic not in context.topics.prioritized
        or pulled.code != _FOUND
        or not asked.sys_flag & PULL_SUSPEND
        or not context.priorities.must_wait(pulled.topic, pulled.group, asked.queue_id, connection)
    ):
        return False
    held = ParkedPull(context, connection, request, asked, pulled.wanted, is_held=True)
    return context.priorities.hold(asked.topic, asked.group, held)


def _note_priority(context: Context, connection: Connection, asked: Asked, pulled: Pulled) -> None:
    """Let pulls go on that were held for this one."""
    if context.topics.prioritized and asked.topic in context.topics.prioritized:
        found = pulled.found
        next_offset = found.next_offset if pulled.code == _FOUND else found.max_offset
        context.priorities.note_sent(
            pulled.topic, asked.group, asked.queue_id, connection, next_offset
        )


def commit(context: Context, connection: Connection, asked: Asked) -> None:
    """Take note of how far the group has consumed, if the pull says so."""
    if asked.sys_flag & PULL_COMMIT_OFFSET:
        context.offsets.commit(
            asked.topic, asked.group, asked.queue_id, asked.consume_offset, connection.peer
        )


def _wait_for_turn(
    context: Context, connection: Connection, request: Command, asked: Asked
) -> None:
    """Run a pull when filters may work again; RequestError if too many wait for that."""
    work = context.filters.work
    if len(work) >= WAITING_MAX:
        raise RequestError(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD]system busy, start flow control for a while: {len(work)} pulls with SQL92"
            " filters wait; simplify the expressions, or filter by tags",
        )
    work.wait(LatePull(context, connection, request, asked).take_turn)


class LatePull:
    """A pull that waits until filters may work again."""

    __slots__ = ("asked", "connection", "context", "request")

    def __init__(
        self, context: Context, connection: Connection, request: Command, asked: Asked
    ) -> None:
        self.context: Context = context
        self.connection: Connection = connection
        self.request: Command = request
        self.asked: Asked = asked

    def take_turn(self) -> None:
        if self.connection.closed:
            return
        try:
            answer = _pull(self.context, self.connection, self.request, self.asked, True)
        except Exception as error:  # noqa: BLE001 (every failure becomes an answer)
            answer = failure_answer(self.request, error)
        if answer is not None:
            if answer.code:
                self.context.stats.note_refusal(self.request.code, answer.code)
            self.connection.reply(self.request, answer)


class ParkedPull(Poll):
    """A pull that waits; it is run again as it came, but commits nothing a second time."""

    __slots__ = ("asked", "context", "is_held", "request", "wanted")

    def __init__(
        self,
        context: Context,
        connection: Connection,
        request: Command,
        asked: Asked,
        wanted: Wanted,
        *,
        is_held: bool = False,
        deadline_s: float | None = None,
    ) -> None:
        """One that ``is_held`` waits for other queues, and a moment only.

        ``deadline_s`` is that of one that has waited already.
        """
        config = context.config
        is_long = config.long_polling_enable and not is_held
        suspend_ms = asked.suspend_ms if is_long else config.short_polling_time_mills
        wait_s = HOLD_S if is_held else min(suspend_ms, SUSPEND_MS_MAX) / 1000
        super().__init__(
            connection, asked.topic, asked.queue_id, asked.queue_offset,
            context.polls.now_s() + wait_s if deadline_s is None else deadline_s, is_long,
        )  # fmt: skip
        self.is_held: bool = is_held
        self.context: Context = context
        self.request: Command = request
        self.asked: Asked = asked
        self.wanted: Wanted = wanted

    def wants(self, arrival: Arrival) -> bool:
        wanted = self.wanted
        if wanted.codes is not None and arrival.tags_code not in wanted.codes:
            return False
        if not wanted.needs_properties:
            return True
        work = self.context.filters.work
        if work.is_used_up:
            return True  # perhaps: it is looked at when its turn comes
        is_wanted = wanted.matches(arrival.properties_raw)
        work.spend(wanted.work_of(arrival.properties_raw))
        return is_wanted

    def resume(self, is_late: bool) -> None:
        if self.is_held:
            self.context.priorities.forget(self.asked.topic, self.asked.group, self)
            is_late = True
        work = self.context.filters.work
        if self.wanted.needs_properties and work.is_used_up:
            work.wait(partial(self._resume_now, is_late))
        else:
            self._resume_now(is_late)

    def _resume_now(self, is_late: bool) -> None:
        if self.connection.closed:
            return
        try:
            answer = self._run_again(is_late)
        except ForbiddenError as forbidden:
            answer = forbidden.answer(self.request)
        except Exception as error:  # noqa: BLE001 (every failure becomes an answer)
            answer = failure_answer(self.request, error)
        if answer is not None:
            if answer.code:
                self.context.stats.note_refusal(self.request.code, answer.code)
            self.connection.reply(self.request, answer)

    def _run_again(self, is_late: bool) -> Command | None:
        """The answer; None if the pull is parked again for the rest of its time."""
        asked, connection = self.asked, self.connection
        pulled = _run(self.context, connection, self.request, asked, True)
        assert pulled is not None, "it is its turn"
        found = pulled.found
        # Where there is more behind what was looked at, the client has to ask for that.
        is_idle = pulled.code == _NOT_FOUND or (
            pulled.code == _RETRY
            and found.next_offset - asked.queue_offset < PASSED_BY_MAX
            and found.next_offset >= found.max_offset
        )
        _note_priority(self.context, connection, asked, pulled)
        if is_idle and not is_late:
            self.wanted = pulled.wanted
            if self.context.polls.park(self):
                return None
        if connection.is_write_stalled and pulled.code == _FOUND:
            # It has not read what it was sent: let it ask again when it has, and hold nothing.
            pulled.code = _NOT_FOUND
            pulled.found = GetResult(
                GetStatus.OFFSET_OVERFLOW_ONE, asked.queue_offset, found.min_offset,
                found.max_offset, [],
            )  # fmt: skip
        return _answer(self.context, self.request, asked, pulled)


# --- one run --------------------------------------------------------------------------------------


def _run(
    context: Context, connection: Connection, request: Command, asked: Asked, is_its_turn: bool
) -> Pulled | None:
    """Check whether the group may read the queue, and read; RequestError says why not.

    None if its filter has to wait for another turn.
    """
    must_wait = not is_its_turn and context.filters.work.is_used_up
    if must_wait and asked.sys_flag & PULL_SUBSCRIPTION and not is_tag_type(asked.expression_type):
        return None  # also with a look at its expression
    check_readable(context)
    if request.code == _LITE_PULL and not context.config.lite_pull_message_enable:
        raise ForbiddenError(
            FORBIDDEN_BY_BROKER,
            f"the broker[{context.address}] for lite pull consumer is forbidden",
        )
    group = context.groups.find(asked.group)
    if group is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{asked.group}] does not exist; create it, or set"
            " autoCreateSubscriptionGroup=true",
        )
    topic, wanted = check(context, connection, asked, group)
    if must_wait and wanted.needs_properties:
        return None
    found = _reset_of(context, asked)
    if found is None:
        found = read(context, asked, wanted)
    code = code_of(found, asked.queue_offset)
    if code != _FOUND:
        context.stats.note_get(asked.topic, asked.group, asked.queue_id, 0, 0, _taken_ms(asked))
    return Pulled(code, found, topic, group, wanted)


def _reset_of(context: Context, asked: Asked) -> GetResult | None:
    """Where an operator wants the group to go on; None, nearly always, if it is not to move."""
    topic, queue_id = asked.topic, asked.queue_id
    offset = context.offsets.take_reset(topic, asked.group, queue_id)
    if offset is None:
        return None
    asked.began_s = monotonic_s()  # nothing is read for it
    queue = context.store.queue(topic, queue_id)
    least, most = (0, 0) if queue is None else (queue.queue_offset_min, queue.queue_offset_max)
    return GetResult(_RESET, offset, least, most, [])


def check(
    context: Context, connection: Connection, asked: Asked, group: SubscriptionGroupConfig
) -> tuple[TopicConfig, Wanted]:
    """The topic, and what of it is wanted; RequestError if the group may not read it so."""
    if not group.consume_enable:
        raise ForbiddenError(FORBIDDEN_BY_GROUP, f"subscription group no permission, {asked.group}")
    topic = find_queue(context, connection, asked.topic, asked.queue_id)
    if asked.sys_flag & PULL_SUBSCRIPTION:
        wanted = context.filters.wanted_in(
            asked.group, asked.topic, asked.subscription, asked.expression_type
        )
    else:
        wanted = _wanted_by_heartbeat(context, asked, group)
    if context.config.reject_pull_consumer_enable:
        _check_online(context, connection, asked.group)
    return topic, wanted


def read(context: Context, asked: Asked, wanted: Wanted) -> GetResult:
    """Read what is wanted; nothing is counted or changed by it."""
    asked.began_s = monotonic_s()
    # The store stops at these bounds anyway; asked for more, it would only look at more units.
    limits = context.store.limits
    count_max = min(asked.count, max(limits.memory_count, limits.disk_count))
    alive: Alive | None = None
    if context.topics.expiring:
        alive = alive_in(context.topics.expiring, asked.topic, context.clock_ms())
    if not wanted.needs_properties:
        return context.store.get(
            asked.topic, asked.queue_id, asked.queue_offset, max(count_max, 1),
            codes=wanted.codes, predicate=None if alive is None else alive.matches_record,
        )  # fmt: skip
    look = Look(context.filters.work, wanted, alive)
    found = context.store.get(
        asked.topic, asked.queue_id, asked.queue_offset, max(count_max, 1),
        predicate=look.matches_record,
    )  # fmt: skip
    look.end(found)
    return found


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


def _wanted_by_heartbeat(context: Context, asked: Asked, group: SubscriptionGroupConfig) -> Wanted:
    """What the group has told with its heartbeats that it wants of the topic."""
    name, topic = asked.group, asked.topic
    online = context.clients.consumer_group(name)
    if online is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's group info not exist: no heartbeat of group {name} has come",
        )
    if online.message_model is _BROADCASTING and not group.consume_broadcast_enable:
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
    if subscription.sub_version < asked.sub_version:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        )
    return context.filters.wanted_by(name, topic, subscription, asked.sub_version)


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


def _answer(context: Context, request: Command, asked: Asked, pulled: Pulled) -> Command:
    found = pulled.found
    ext = encode_pull_answer(
        suggested_broker(context, pulled.group, found),
        found.next_offset,
        found.min_offset,
        found.max_offset,
        pulled.topic.topic_sys_flag,
        pulled.group.group_sys_flag,
    )
    if pulled.code == _FOUND:
        note_sent(context, asked, found)
        found.join_small()
        views = found.views
        return request.answer(
            _FOUND, ext, views[0] if len(views) == 1 else tuple(views), found.status.name
        )
    context.offsets.note_pulled(asked.topic, asked.group, asked.queue_id, found.next_offset)
    if pulled.code == _MOVED:
        log.info(
            "group %s asks for offset %d of queue %d of %s and goes on at %d: %s",
            asked.group, asked.queue_offset, asked.queue_id, asked.topic, found.next_offset,
            found.status.name,
        )  # fmt: skip
    return request.answer(pulled.code, ext, b"", found.status.name)


def suggested_broker(context: Context, group: SubscriptionGroupConfig, found: GetResult) -> int:
    """The broker that the group should pull from next; 0 is the master."""
    if not context.config.slave_read_enable:
        return 0
    return group.which_broker_when_consume_slowly if found.is_behind_memory else group.broker_id


def note_sent(context: Context, asked: Asked, found: GetResult) -> None:
    """Count the messages that are sent, and remember up to where that is."""
    topic, group, queue_id = asked.topic, asked.group, asked.queue_id
    sent = asked.sent
    if sent is None or sent.is_forgotten:
        sent = asked.sent = context.offsets.sent(topic, group, queue_id)
    if sent is not None:
        sent.offset = found.next_offset
    context.stats.note_get(topic, group, queue_id, found.count, found.size, _taken_ms(asked))


def _taken_ms(asked: Asked) -> int:
    return int((monotonic_s() - asked.began_s) * 1000)


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.PULL_MESSAGE: pull,
    RequestCode.LITE_PULL_MESSAGE: pull,
}
