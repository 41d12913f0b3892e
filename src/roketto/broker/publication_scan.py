"""How much of a batch is published, by what the queues say: read after a start, piece by piece.

Messages that were published name their piece (see staged.py), and come in the order of the pieces
and of the messages in them. So counting is enough; and only what lies behind the begin of the
publication in the log is looked at, for nothing of it came before.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from typing import Final

from roketto.broker.sinks import Progress
from roketto.protocol.errors import RecordError
from roketto.protocol.record_layout import peek_prepared_log_offset, peek_sys_flag
from roketto.protocol.sysflags import TRANSACTION_TYPE
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.errors import StoreError
from roketto.store.store import Store
from roketto.store.unit import UNIT_BYTES, scan

__all__ = ["count_published", "progress_of"]

_LOOKS_AT_ONCE: Final = 256
"""Messages that are looked at between two moments at which somebody else may have a turn."""


def count_published(
    store: Store, queues: Collection[tuple[str, int]], ends: Collection[int], begun_at: int
) -> Generator[None, None, Counter[int]]:
    """How many messages of each piece are in these queues; pieces are named by their ends.

    It may be left at each ``yield`` for others: what is stored meanwhile is not looked at.
    """
    found: Counter[int] = Counter()
    stops = {key: _end_of(store.queue(*key)) for key in queues}
    for key, stop in stops.items():
        queue = store.queue(*key)
        at = stop if queue is None else _first_behind(queue, begun_at, stop)
        while at < stop:
            queue = store.queue(*key)
            raw = b"" if queue is None else queue.read(at, min(_LOOKS_AT_ONCE, stop - at))
            if not raw:
                break  # its topic was deleted meanwhile
            for log_offset, size, _, _ in scan(raw, None):
                origin = _origin(store, log_offset, size)
                if origin in ends:
                    found[origin] += 1
            at += len(raw) // UNIT_BYTES
            yield
    return found


def progress_of(
    pieces: Sequence[list[int]], counts: Sequence[int], found: Counter[int]
) -> Progress:
    """How many pieces are published, and how many messages of the next one.

    ``counts`` says how many messages each piece has, ``found`` how many of them are there.
    """
    for number, ((log_offset, size), count) in enumerate(zip(pieces, counts, strict=True)):
        there = found[log_offset + size]
        if there < count:
            return number, there
    return len(pieces), 0


def _end_of(queue: ConsumeQueue | None) -> int:
    return 0 if queue is None else queue.queue_offset_max


def _first_behind(queue: ConsumeQueue, log_offset: int, stop: int) -> int:
    """The first message of a queue that lies behind an offset of the log."""

    def place_of(queue_offset: int) -> int:
        unit = queue.unit(queue_offset)
        return -1 if unit is None else unit.log_offset

    least = queue.queue_offset_min
    return least + bisect_left(range(least, stop), log_offset, key=place_of)


def _origin(store: Store, log_offset: int, size: int) -> int:
    """Where the record ends that a record is the copy of; 0 if it is no copy."""
    try:
        view = store.log.read(log_offset, size)
        return 0 if peek_sys_flag(view) & TRANSACTION_TYPE else peek_prepared_log_offset(view)
    except (StoreError, RecordError):
        return 0
