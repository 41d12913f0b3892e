"""Follow the log: put each record into its queue and the index, and announce that it arrived.

The writer calls ``dispatch`` right after an append, or, under SYNC_FLUSH, once the record is on the
disk: what a consumer can see is as safe as its producer was told. Recovery and replication call
``catch_up``, which reads the same facts from the log itself. Repeats do no harm: queues and
index know how far they are.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.properties import get_property
from roketto.protocol.property_names import DELAY, KEYS, TAGS, UNIQ_KEY
from roketto.protocol.record import decode_record
from roketto.protocol.sysflags import (
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from roketto.protocol.tags import tag_code
from roketto.protocol.utf8 import decode_utf8
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.record_check import check_record
from roketto.store.segments import Segments

DelayOfLevel = Callable[[int], int]
"""How many milliseconds a delay level means."""

_UNKNOWN_DELAY_MS: Final = 1_000
"""What Java grants a message whose delay level it does not know."""

_CODES_KEPT_MAX: Final = 4_096
"""Hashes of tags that are remembered; a topic has a handful of tags."""

_ITEM_END: Final = "\x02"
_NAME_END: Final = "\x01"


class Arrival(NamedTuple):
    """One message that can be consumed from now on."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    store_time_ms: int
    properties_raw: bytes


class Stored(NamedTuple):
    """What is to be known of a record in the log to dispatch it."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    sys_flag: int
    store_time_ms: int
    properties_raw: bytes


class StoredBatch(NamedTuple):
    """The same of the records of one batch: one behind the other in the log and in their queue."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    sizes: list[int]
    store_time_ms: int
    properties: list[bytes]


class Dispatcher:
    """Keeps queues and index up with the log.

    ``on_arrival`` is called for every message that has entered its queue, not for repeats.
    """

    def __init__(
        self,
        queues: Queues,
        index: Index | None,
        on_arrival: Callable[[Arrival], None] | None = None,
        delay_of_level: DelayOfLevel | None = None,
    ) -> None:
        self._queues = queues
        self._index = index
        self._delay_of_level = delay_of_level
        self._codes: dict[str, int] = {}
        self.on_arrival = on_arrival

    def dispatch(self, stored: Stored | StoredBatch) -> None:
        """Put one record, or those of a batch, where they can be found.

        Half messages and rollbacks belong to no queue; rollbacks have no keys either.
        """
        if isinstance(stored, StoredBatch):
            self._dispatch_batch(stored)
            return
        (
            topic, queue_id, queue_offset, log_offset, size, sys_flag, store_time_ms, raw,
        ) = stored  # fmt: skip
        kind = sys_flag & TRANSACTION_TYPE
        tag, unique_key, keys = read_facts(raw)
        if kind != TRANSACTION_PREPARED and kind != TRANSACTION_ROLLBACK:
            code = self._code_of(topic, tag, store_time_ms, raw)
            queue = self._queues.get_or_create(topic, queue_id)
            is_new = queue.append(log_offset, size, code, queue_offset)
            if is_new and self.on_arrival is not None:
                self.on_arrival(Arrival(topic, queue_id, queue_offset, code, store_time_ms, raw))
        if self._index is not None and kind != TRANSACTION_ROLLBACK:
            self._index.put(topic, unique_key, keys, log_offset, store_time_ms)

    def _dispatch_batch(self, batch: StoredBatch) -> None:
        """Records one behind the other, none of which was ever dispatched.

        The queue comes last: whatever goes wrong before it may be tried again.
        """
        (
            topic, queue_id, queue_offset, log_offset, sizes, store_time_ms, properties,
        ) = batch  # fmt: skip
        index = self._index
        codes: list[int] = []
        at = log_offset
        for size, raw in zip(sizes, properties, strict=True):
            tag, unique_key, keys = read_facts(raw)
            codes.append(self._code_of(topic, tag, store_time_ms, raw))
            if index is not None:
                index.put(topic, unique_key, keys, at, store_time_ms)
            at += size
        queue = self._queues.get_or_create(topic, queue_id)
        queue.append_run(log_offset, sizes, codes, queue_offset)
        if self.on_arrival is not None:
            for number, raw in enumerate(properties):
                self.on_arrival(
                    Arrival(
                        topic, queue_id, queue_offset + number, codes[number], store_time_ms, raw
                    )
                )

    def catch_up(self, segments: Segments, start: int, end: int) -> int:
        """Dispatch the sound records from ``start`` on, up to ``end``; return where it stopped.

        RecordError where the log is damaged: whoever calls this has made sure that it is not.
        """
        at = start
        while at < end:
            segment = segments.find(at)
            view = segments.view(segment)
            size = check_record(view, at - segment.start, at, check_body_crc=False)
            if size == 0:
                at = segment.end
                continue
            self.dispatch(read_stored(view, at - segment.start))
            at += size
        return at

    def _code_of(self, topic: str, tag: str | None, store_time_ms: int, raw: bytes) -> int:
        """The hash of the tag, or the time at which a delayed message is due."""
        if topic == SCHEDULE_TOPIC:
            level = get_property(raw, DELAY)
            if level:
                return store_time_ms + self._delay_ms(level)
        if tag is None:
            return 0
        code = self._codes.get(tag)
        if code is None:
            if len(self._codes) >= _CODES_KEPT_MAX:
                self._codes.clear()
            code = self._codes[tag] = tag_code(tag)
        return code

    def _delay_ms(self, level_text: str) -> int:
        if self._delay_of_level is None or not (level_text.isascii() and level_text.isdigit()):
            return _UNKNOWN_DELAY_MS
        return self._delay_of_level(int(level_text[:9]))


def read_stored(view: memoryview, at: int) -> Stored:
    """Return what the record at ``at`` says of itself."""
    record = decode_record(view, at, read_body=False)
    return Stored(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.log_offset,
        record.size,
        record.sys_flag,
        record.store_time_ms,
        record.properties_raw,
    )


def read_facts(raw: bytes) -> tuple[str | None, str | None, str | None]:
    """Tag, unique key and keys of a property string in one pass; None for what it lacks."""
    tag = unique_key = keys = None
    for item in decode_utf8(raw).split(_ITEM_END):
        name, _, value = item.partition(_NAME_END)
        if not value:
            continue
        if name == TAGS:
            tag = value
        elif name == UNIQ_KEY:
            unique_key = value
        elif name == KEYS:
            keys = value
    return tag, unique_key, keys
