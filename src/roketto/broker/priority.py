"""Messages with a priority: which queue they go to, and which queues a client is served first.

As in Java's broker, the priority of a message (property ``_SYS_MSG_PRIORITY_``, from 0 on) is the
number of its queue, and higher queues come first, unless ``priorityOrderAsc`` is false.

Consumers that pull ask for each queue by itself, and a broker cannot give them another one. What it
can do is to let them wait: a pull of a lower queue is held while the same client has not been sent
all that is in a higher one. It is held for a tenth of a second or two at most, so that a lower
queue gets an answer of its usual size now and then: it is slowed down, never stopped.

Only clients count that ask: a higher queue that nobody has asked for lately, or that another client
has, holds nothing back. The group's attribute ``priority.factor``, Java's for pop, says how many of
a hundred pulls may be held.
"""

import re
from collections.abc import Callable
from typing import Final

from roketto.broker.longpoll import LongPolls, Poll
from roketto.clock import monotonic_s
from roketto.protocol import property_names as names
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.record import Record
from roketto.remoting.connection import Connection
from roketto.store.store import Store

__all__ = ["FACTOR", "HOLD_S", "Priorities", "is_prioritized", "prioritize", "queue_end"]

FACTOR: Final = "priority.factor"
"""Attribute of groups: of a hundred pulls, so many go by priority; Java's default is all."""
FACTOR_MAX: Final = 100

HOLD_S: Final = 0.1
"""How long a pull is held, until the next look at deadlines: a tenth of a second more at most."""
BEGIN_S: Final = 0.5
"""How long after its first pull a group is taken to be about to ask for its other queues."""
SILENT_S: Final = 3.0
"""Who has not asked for a queue for so long does not want it now."""
READERS_MAX: Final = 100_000
"""Queues of groups that are looked after. If there are more, it is begun anew."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_DELAYS: Final = (
    names.DELAY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS,
)  # fmt: skip
_MESSAGE_TYPE: Final = "message.type"
_PRIORITY: Final = "PRIORITY"

EndOf = Callable[[str, int], int]
"""The offset behind the last message of a queue of a topic."""


def queue_end(store: Store, topic: str, queue_id: int) -> int:
    """The offset behind the last message of a queue; 0 if there is none."""
    queue = store.queue(topic, queue_id)
    return 0 if queue is None else queue.queue_offset_max


# --- sending --------------------------------------------------------------------------------------


def is_prioritized(config: TopicConfig) -> bool:
    """Whether an operator made the topic one of priorities."""
    return config.attributes.get(_MESSAGE_TYPE) == _PRIORITY


def prioritize(record: Record, queue_count: int) -> bool:
    """Let the priority of a message choose its queue, among so many; whether it does.

    Java looks at the message alone, not at the type of its topic. In a message that is delayed, of
    a transaction or of an order a priority means nothing, and is taken away.
    """
    text = record.get_property(names.PRIORITY) or ""
    priority = int(text) if _NUMBER.fullmatch(text) else -1
    if not 0 <= priority <= I32_MAX:
        return False
    if (
        (record.get_property(names.TRANSACTION_PREPARED) or "").lower() == "true"
        or any(record.get_property(name) is not None for name in _DELAYS)
        or record.get_property(names.SHARDING_KEY) is not None
    ):
        record.remove_property(names.PRIORITY)
        return False
    record.queue_id = max(0, min(priority, queue_count - 1))
    return True


# --- pulling --------------------------------------------------------------------------------------


class _Reader:
    """Who has asked last for a queue, when, and what it has not been sent yet."""

    __slots__ = ("asked_s", "connection", "next_offset")

    def __init__(self, connection: Connection, asked_s: float, next_offset: int) -> None:
        self.connection: Connection = connection
        self.asked_s: float = asked_s
        self.next_offset: int = next_offset


class _Group:
    """A group that reads a topic: its readers by queue, and the pulls that are held."""

    __slots__ = ("asked_s", "begun_s", "held", "pulls", "readers")

    def __init__(self, now_s: float) -> None:
        self.begun_s: float = now_s
        self.asked_s: float = now_s
        self.readers: dict[int, _Reader] = {}
        self.held: dict[Poll, None] = {}
        self.pulls: int = 0


class Priorities:
    """Which pulls of topics with priorities are held, and who is waited for.

    if priorities.must_wait(topic, group, queue_id, connection):
        priorities.hold(group, poll)                     # parked for HOLD_S, or less
    else:
        priorities.note_sent(topic, group, queue_id, connection, next_offset)   # and answer
    """

    def __init__(
        self,
        polls: LongPolls,
        end_of: EndOf,
        *,
        is_ascending: Callable[[], bool] = lambda: True,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self._polls = polls
        self._end_of = end_of
        self._is_ascending = is_ascending
        self._now_s = now_s
        self._groups: dict[tuple[str, str], _Group] = {}
        self._count = 0

    def must_wait(
        self,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
        queue_id: int,
        connection: Connection,
    ) -> bool:
        """Whether a pull that would be answered with messages has to let others go first."""
        found = self._group(topic.topic_name, group.group_name)
        found.pulls += 1
        if found.pulls % FACTOR_MAX >= _factor(group):
            return False
        return self._is_behind(found, topic, queue_id, connection)

    def _is_behind(
        self, group: _Group, topic: TopicConfig, queue_id: int, connection: Connection
    ) -> bool:
        now_s = self._now_s()
        higher = (
            range(queue_id + 1, topic.read_queue_nums)
            if self._is_ascending()
            else range(min(queue_id, topic.read_queue_nums))
        )
        return any(
            self._has_more(group, topic.topic_name, other, connection, now_s) for other in higher
        )

    def _has_more(
        self, group: _Group, topic: str, queue_id: int, connection: Connection, now_s: float
    ) -> bool:
        """Whether a client is about to be sent messages of a queue."""
        reader = group.readers.get(queue_id)
        if reader is None:
            is_beginning = now_s - group.begun_s < BEGIN_S
            return is_beginning and self._end_of(topic, queue_id) > 0
        if reader.connection is not connection or now_s - reader.asked_s > SILENT_S:
            return False
        return self._end_of(topic, queue_id) > reader.next_offset

    def hold(self, topic: str, group: str, poll: Poll) -> bool:
        """Keep a pull for a while; False if there are too many."""
        if not self._polls.park(poll):
            return False
        held = self._group(topic, group).held
        for other in [other for other in held if other.connection.closed]:
            del held[other]
        held[poll] = None
        return True

    def note_sent(
        self,
        topic: TopicConfig,
        group: str,
        queue_id: int,
        connection: Connection,
        next_offset: int,
    ) -> None:
        """A client has all messages of a queue before ``next_offset``: who may go on now?"""
        found = self._group(topic.topic_name, group)
        reader = found.readers.get(queue_id)
        if reader is None:
            self._count += 1
        found.readers[queue_id] = _Reader(connection, self._now_s(), next_offset)
        free = [
            poll
            for poll in found.held
            if not self._is_behind(found, topic, poll.queue[1], poll.connection)
        ]
        for poll in free:
            del found.held[poll]
        self._polls.wake(free)

    def forget(self, topic: str, group: str, poll: Poll) -> None:
        """A pull is held no more."""
        self._group(topic, group).held.pop(poll, None)

    def _group(self, topic: str, group: str) -> _Group:
        found = self._groups.get((topic, group))
        if found is None:
            if self._count >= READERS_MAX or len(self._groups) >= READERS_MAX:
                self._groups.clear()
                self._count = 0
            found = self._groups[topic, group] = _Group(self._now_s())
        elif self._now_s() - found.asked_s > SILENT_S:  # it comes back
            self._count -= len(found.readers)
            found.readers.clear()
            found.begun_s = self._now_s()
        found.asked_s = self._now_s()
        return found


def _factor(group: SubscriptionGroupConfig) -> int:
    text = group.attributes.get(FACTOR, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(FACTOR_MAX))
    return min(int(text), FACTOR_MAX) if is_number else FACTOR_MAX
