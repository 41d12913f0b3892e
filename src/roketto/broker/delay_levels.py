"""How a message is put off and comes back: the rules of delay levels, without store and clock.

A message with property DELAY = n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX, with its topic and
queue as properties. When its time has come, a copy of it goes there. The time is that of storing
plus the delay of the level, as Java computes it; the unit in the queue has it.
"""

import re
from typing import Final

from roketto.broker.timer_rules import TIMERS
from roketto.protocol import property_names as names
from roketto.protocol.codes import ResponseCode
from roketto.protocol.crc import without_crc
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_NONE, with_transaction_type
from roketto.store.delay_levels import DelayLevels

__all__ = ["DelayLevels", "Wait", "level_of", "release", "schedule"]

_NUMBER: Final = re.compile(r"[+-]?\d{1,10}")


def level_of(record: Record) -> int:
    """The delay level that a message asks for; not above 0 means none."""
    # All of them are parsed: whoever asks this asks for more, and sets some.
    text = record.properties.get(names.DELAY)
    if text is None:
        return 0
    if not _NUMBER.fullmatch(text) or not -I32_MAX - 1 <= int(text) <= I32_MAX:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"property DELAY is {text[:64]!a}, expected the number of a delay level, from 1 on",
        )
    return int(text)


def schedule(record: Record, level: int, levels: DelayLevels) -> None:
    """Let a message wait for ``level``; levels above the last count as the last."""
    if level > levels.count:
        level = levels.count
        record.set_property(names.DELAY, str(level))
    for name in TIMERS:  # the level wins
        record.remove_property(name)
    record.set_property(names.REAL_TOPIC, record.topic)
    record.set_property(names.REAL_QUEUE_ID, str(record.queue_id))
    record.topic = SCHEDULE_TOPIC
    record.queue_id = level - 1


def release(record: Record) -> Record | None:
    """The copy of a waiting message that goes to its real queue; None if that cannot be told.

    As in Java it has all properties of the original, those of its waiting too, and its hosts and
    times but for that of storing. ``prepared_log_offset``, which means something in transactions
    only, says where the record ends that it is the copy of, which is never 0: see Delays. So it has
    no bits of a transaction, which it may have been part of until it was committed.
    """
    topic = record.get_property(names.REAL_TOPIC)
    queue = record.get_property(names.REAL_QUEUE_ID) or ""
    if not topic or topic == HALF_TOPIC or not _NUMBER.fullmatch(queue) or int(queue) < 0:
        return None
    return Record(
        topic,
        record.body,
        without_crc(record.properties_raw),
        queue_id=int(queue),
        flag=record.flag,
        sys_flag=with_transaction_type(record.sys_flag, TRANSACTION_NONE),
        born_time_ms=record.born_time_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_log_offset=record.log_offset + record.size,
    )


class Wait:
    """How long the first message of a level still waits, by a wall clock that may be set.

    A message is due at most its delay from now. If it seems to be due later, the clock was set
    back, or levels had other delays once. Java delivers such a message at once, early. Here it
    waits once more for the delay of its level, by the clock that nobody sets, together with all
    that are behind it in the queue at that moment.
    """

    __slots__ = ("_before", "_delay_ms", "_until_s")

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms: int = delay_ms
        self._before: int = 0
        self._until_s: float = 0.0

    def remaining_s(
        self, offset: int, offset_end: int, due_ms: int, now_ms: int, now_s: float
    ) -> float:
        """Seconds until the message at ``offset`` of a queue that ends at ``offset_end`` is due."""
        left_ms = due_ms - now_ms
        if left_ms <= self._delay_ms:
            return left_ms / 1000
        if offset >= self._before:
            self._before = offset_end
            self._until_s = now_s + self._delay_ms / 1000
        return self._until_s - now_s
