"""Which transactions are open, by what the log says of them: read once, when a broker starts.

* A half message whose offset is in a message of the op topic was decided.
* So was one whose committed message is in its real queue already. A commit is stored at once, and
  its offset goes into the op topic a little later, with those of others: a kill may come between.
  The look back is bounded, as that for delayed messages is.
* Of a transaction with several links (see half_messages.py), each speaks for all of them.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from roketto.broker.half_messages import HALF_QUEUE_ID, as_committed, first_link
from roketto.broker.timer_rules import TIMER_QUEUE_ID, asks_for_time
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.names import HALF_OP_TOPIC, HALF_TOPIC, TIMER_TOPIC
from roketto.protocol.property_names import UNIQ_KEY
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_COMMIT, TRANSACTION_TYPE
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError
from roketto.store.store import Store

__all__ = ["Scan", "find_committed", "scan"]

log = logging.getLogger(__name__)

LOOK_BACK_MAX: Final = 262_144
"""Messages of a real queue that are looked at, for one that was committed."""

_OFFSET: Final = re.compile(rb"\d{1,18}")

Links = dict[int, tuple[int, str | None]]
"""Log offset of the last link -> the first link and the producer's id."""


@dataclass(slots=True)
class Scan:
    """What the half topic and the op topic say."""

    halves: dict[int, Record] = field(default_factory=dict)
    """First link -> the last one, of all that no op speaks of; in the order of the latter."""
    ops: list[tuple[int, int]] = field(default_factory=list)
    """Of each message of the op topic its offset, and the last half message that it speaks of."""
    half_end: int = 0
    op_end: int = 0


def scan(store: Store, half_saved: int | None, op_saved: int | None) -> Scan:
    """Read both topics, from where they were needed last."""
    found = Scan()
    half_begin, found.half_end = _bounds(store, HALF_TOPIC, half_saved)
    op_begin, found.op_end = _bounds(store, HALF_OP_TOPIC, op_saved)
    decided: set[int] = set()
    for offset in range(op_begin, found.op_end):
        op = _read(store, HALF_OP_TOPIC, offset)
        offsets = set() if op is None else _offsets_in(bytes(op.body))
        if offsets:
            found.ops.append((offset, max(offsets)))
            decided |= offsets
    ended: set[int] = set()
    for offset in range(half_begin, found.half_end):
        half = _read(store, HALF_TOPIC, offset)
        if half is None:
            continue
        first = first_link(half)
        found.halves.pop(first, None)
        if offset in decided or first in ended:
            ended.add(first)
        else:
            found.halves[first] = half
    return found


def find_committed(
    store: Store, halves: dict[int, Record], delay: Callable[[Record], None]
) -> list[int]:
    """Which of these transactions have their message in its real queue already.

    ``delay`` says where that is, if the message is a delayed one.
    """
    wanted: dict[tuple[str, int], Links] = {}
    since_ms: dict[tuple[str, int], int] = {}
    for first, half in halves.items():
        committed = as_committed(half)
        if committed is None:
            continue
        for queue in _places(committed, delay):
            wanted.setdefault(queue, {})[half.log_offset] = (first, half.get_property(UNIQ_KEY))
            since_ms[queue] = min(since_ms.get(queue, half.store_time_ms), half.store_time_ms)
    return [
        first
        for (topic, queue_id), links in wanted.items()
        for first in _look_back(store, topic, queue_id, since_ms[topic, queue_id], links)
    ]


def _places(committed: Record, delay: Callable[[Record], None]) -> set[tuple[str, int]]:
    """The queues that a committed message may have come to."""
    places = set()
    if asks_for_time(committed):  # its time may have been over by then, or not
        places = {(committed.topic, committed.queue_id), (TIMER_TOPIC, TIMER_QUEUE_ID)}
    try:
        delay(committed)
    except (RequestError, PutRefusedError):
        return places  # it would have been refused when it was committed, too
    return places | {(committed.topic, committed.queue_id)}


def _look_back(store: Store, topic: str, queue_id: int, since_ms: int, links: Links) -> list[int]:
    """Of the transactions with these last links, those that a queue has the messages of."""
    queue = store.queue(topic, queue_id)
    if queue is None:
        return []
    end = queue.queue_offset_max
    begin = max(store.offset_by_time(topic, queue_id, since_ms), end - LOOK_BACK_MAX)
    found = []
    for offset in range(begin, end):
        record = _read(store, topic, offset, queue_id)
        if record is None or record.sys_flag & TRANSACTION_TYPE != TRANSACTION_COMMIT:
            continue
        first, unique_key = links.get(record.prepared_log_offset, (-1, None))
        if first >= 0 and record.get_property(UNIQ_KEY) == unique_key:
            found.append(first)
    return found


def _bounds(store: Store, topic: str, saved: int | None) -> tuple[int, int]:
    """Where to begin in one of the topics, and where it ends."""
    queue = store.queue(topic, HALF_QUEUE_ID)
    if queue is None:
        return 0, 0
    least, most = queue.queue_offset_min, queue.queue_offset_max
    return (saved if saved is not None and least <= saved <= most else least), most


def _read(store: Store, topic: str, offset: int, queue_id: int = HALF_QUEUE_ID) -> Record | None:
    queue = store.queue(topic, queue_id)
    unit = None if queue is None else queue.unit(offset)
    try:
        return None if unit is None else store.record_at(unit.log_offset)
    except (StoreError, RecordError) as error:
        log.error("message %d of topic %s cannot be read: %s", offset, topic, error)
        return None


def _offsets_in(body: bytes) -> set[int]:
    """The half messages that a message of the op topic speaks of: one, or several."""
    return {int(text) for text in body.split(b",") if _OFFSET.fullmatch(text)}
