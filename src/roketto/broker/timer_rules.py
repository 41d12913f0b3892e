"""How a message waits for a time of its own and comes back: the rules, without store and clock.

A message with TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS waits in queue 0 of
rmq_sys_wheel_timer, with its topic and queue as properties and its slot as TIMER_OUT_MS. Slots are
as long as the precision; what is due in one, or when it ends, is delivered when it ends::

    precision 1000 ms     slot 7000          slot 8000
                          |------------------|------------------|
    due at                       7300     8000
    delivered                             8000: never before, at most a precision later

One that is due further ahead than the wheel reaches *rolls*: it waits for a part of its time in an
earlier slot, and then goes to the end of that queue once more.
"""

import re
from typing import Final

from roketto.protocol import property_names as names
from roketto.protocol.crc import without_crc
from roketto.protocol.headers.base import I64_MAX
from roketto.protocol.names import NOT_SENDABLE_TOPICS, TIMER_TOPIC
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_NONE, with_transaction_type
from roketto.store.put_status import PutRefusedError, PutStatus

__all__ = [
    "TIMERS", "TIMER_QUEUE_ID", "asks_for_time", "deliver_ms", "is_recalled", "out_ms", "release",
    "roll", "roll_slot", "slot_of", "wait",
]  # fmt: skip

TIMERS: Final = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
"""The first of them that a message has counts."""
TIMER_QUEUE_ID: Final = 0

_NOT_REAL: Final = NOT_SENDABLE_TOPICS | {TIMER_TOPIC}
"""Anybody can send to the topic of timers and name a topic there that he cannot send to."""
_NUMBER: Final = re.compile(r"[+-]?\d{1,19}")
_QUEUE_ID: Final = re.compile(r"\d{1,9}")


def asks_for_time(record: Record) -> bool:
    """Whether a message wants to be delivered at a time of its own, and has not waited yet."""
    return (
        any(record.get_property(name) is not None for name in TIMERS)
        and record.topic != TIMER_TOPIC
        and record.get_property(names.TIMER_OUT_MS) is None
    )


def deliver_ms(record: Record, now_ms: int) -> int:
    """When a message shall be delivered; PutRefusedError if it does not say so."""
    name = next(name for name in TIMERS if record.get_property(name) is not None)
    text = record.get_property(name) or ""
    if not _NUMBER.fullmatch(text):
        raise PutRefusedError(
            PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
            f"timer message illegal: property {name} is {text[:32]!a}, expected a whole number",
        )
    if name == names.TIMER_DELAY_SEC:
        return now_ms + int(text) * 1000
    return now_ms + int(text) if name == names.TIMER_DELAY_MS else int(text)


def slot_of(deliver: int, precision_ms: int) -> int:
    """The slot of a message: it ends when the message is due, or soon after."""
    return deliver - 1 - (deliver - 1) % precision_ms


def wait(record: Record, slot_ms: int) -> None:
    """Let a message wait for the end of a slot."""
    record.set_property(names.TIMER_OUT_MS, str(slot_ms))
    record.set_property(names.REAL_TOPIC, record.topic)
    record.set_property(names.REAL_QUEUE_ID, str(record.queue_id))
    record.topic = TIMER_TOPIC
    record.queue_id = TIMER_QUEUE_ID


def out_ms(record: Record) -> int | None:
    """The slot that a waiting message names; None if it is none."""
    text = record.get_property(names.TIMER_OUT_MS) or ""
    if not _NUMBER.fullmatch(text) or not 0 <= int(text) <= I64_MAX:
        return None
    return int(text)


def roll_slot(slot_ms: int, base_ms: int, precision_ms: int, window: int) -> int | None:
    """Where a message waits first that is due more than ``window`` slots ahead; None: it is not.

    What would be left of its time for the next round is not too short.
    """
    left_ms = slot_ms - base_ms - window * precision_ms
    if left_ms < 0:
        return None
    slots = window // 2 if left_ms < window // 3 * precision_ms else window
    return base_ms + slots * precision_ms


def is_recalled(record: Record, recalled: dict[str, str]) -> str | None:
    """The key in ``recalled`` that means this message, None if there is none.

    5.5 has the unique key alone, unless appendTopicForTimerDeleteKey is set there; 5.3 had the
    topic before it.
    """
    unique_key = record.get_property(names.UNIQ_KEY)
    if unique_key is None:
        return None
    with_topic = f"{record.get_property(names.REAL_TOPIC)}+{unique_key}"
    return next((key for key in (with_topic, unique_key) if key in recalled), None)


def release(record: Record, enqueued_ms: int, now_ms: int) -> Record | None:
    """The copy of a waiting message that goes to its real queue; None if that cannot be told.

    As in Java it has all properties of its waiting. ``prepared_log_offset`` says where the record
    ends that it is the copy of (see copies.py), so it has no bits of a transaction.
    """
    topic = record.get_property(names.REAL_TOPIC)
    queue = record.get_property(names.REAL_QUEUE_ID) or ""
    if not topic or topic in _NOT_REAL or not _QUEUE_ID.fullmatch(queue):
        return None
    return _copy(record, topic, int(queue), enqueued_ms, now_ms)


def roll(record: Record, slot_ms: int, enqueued_ms: int, now_ms: int) -> Record:
    """The copy of a waiting message that waits for the next part of its time."""
    copy = _copy(record, TIMER_TOPIC, TIMER_QUEUE_ID, enqueued_ms, now_ms)
    times = record.get_property(names.TIMER_ROLL_TIMES) or ""
    copy.set_property(names.TIMER_OUT_MS, str(slot_ms))
    copy.set_property(
        names.TIMER_ROLL_TIMES, str(int(times) + 1 if _NUMBER.fullmatch(times) else 1)
    )
    return copy


def _copy(record: Record, topic: str, queue_id: int, enqueued_ms: int, now_ms: int) -> Record:
    copy = Record(
        topic,
        record.body,
        without_crc(record.properties_raw),
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=with_transaction_type(record.sys_flag, TRANSACTION_NONE),
        born_time_ms=record.born_time_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_log_offset=record.log_offset + record.size,
    )
    copy.set_property(names.TIMER_ENQUEUE_MS, str(enqueued_ms))
    copy.set_property(names.TIMER_DEQUEUE_MS, str(now_ms))
    return copy
