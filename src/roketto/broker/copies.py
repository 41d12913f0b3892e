"""Which messages were delivered before a start: looked up in the queues that they are for.

The copy of a message that has waited, for a delay level or for a time, names the record that it is
a copy of: ``prepared_log_offset``, which has no other use there, is where that record ends in the
log. So after a kill what was delivered tells itself.

The look back is bounded: the newest 262,144 messages of each queue, some hundred of them a turn.
Beyond, which needs that much traffic in one queue between two saves of the progress, a copy may
come twice. A message is never taken for delivered because others are.
"""

from typing import Final

from roketto.protocol.errors import RecordError
from roketto.protocol.sysflags import TRANSACTION_TYPE
from roketto.store.errors import StoreError
from roketto.store.store import Store
from roketto.store.unit import Unit

__all__ = ["LOOKS_PER_TURN", "Copies"]

LOOKS_PER_TURN: Final = 256
"""Records of a queue that are looked at in one turn after a start."""
LOOK_BACK_MAX: Final = 262_144


class Copies:
    """The copies that queues have had at some moment, stored since a time, found piece by piece."""

    def __init__(self, store: Store, since_ms: int) -> None:
        self._store = store
        self._since_ms = since_ms
        self._queues: dict[tuple[str, int], _Queue] = {}

    def has(self, topic: str, queue_id: int, end: int) -> bool | None:
        """Whether a queue has the copy of the record that ends there; None: ask once more."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = _Queue(self._store, topic, queue_id, self._since_ms)
            self._queues[topic, queue_id] = queue
        return end in queue.found if queue.look() else None

    def forget(self) -> None:
        """Nobody needs to know any more."""
        self._queues.clear()


class _Queue:
    """The copies of one queue."""

    __slots__ = ("_at", "_end", "_queue_id", "_store", "_topic", "found")

    def __init__(self, store: Store, topic: str, queue_id: int, since_ms: int) -> None:
        queue = store.queue(topic, queue_id)
        self._store = store
        self._topic = topic
        self._queue_id = queue_id
        self._end: int = queue.queue_offset_max if queue is not None else 0
        since = store.offset_by_time(topic, queue_id, since_ms)
        self._at: int = max(since, self._end - LOOK_BACK_MAX)
        self.found: set[int] = set()
        """Where the records that were delivered end in the log."""

    def look(self) -> bool:
        """Look at some more; whether all were looked at."""
        queue = self._store.queue(self._topic, self._queue_id)
        end = min(self._end, self._at + LOOKS_PER_TURN)
        while self._at < end and queue is not None:
            unit = queue.unit(self._at)
            self._at += 1
            origin = _origin(self._store, unit) if unit is not None else 0
            if origin:
                self.found.add(origin)
        return self._at >= self._end or queue is None


def _origin(store: Store, unit: Unit) -> int:
    """Where the record ends in the log that a record is the copy of, 0 if it is no copy."""
    try:
        record = store.record_at(unit.log_offset)
    except (StoreError, RecordError):
        return 0
    return 0 if record.sys_flag & TRANSACTION_TYPE else record.prepared_log_offset
