"""Put each record of the log into its queue and the index, and announce that it arrived.

The writer calls ``dispatch`` right after an append, or, under SYNC_FLUSH, once the record is on the
disk: what a consumer can see is as safe as its producer was told. CatchUp reads the same facts from
the log itself and calls it, too. Repeats do no harm: queues and index know how far they are.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mypy_extensions import i64

from roketto.compiled import is_compiled
from roketto.protocol.javahash import hash_on
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.properties import (
    Spans,
    encode_properties,
    find_spans,
    get_property,
)
from roketto.protocol.property_names import DELAY, TAGS
from roketto.protocol.record import decode_record
from roketto.protocol.sysflags import (
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from roketto.protocol.tags import tag_code
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.run_properties import RunProperties

DelayOfLevel = Callable[[int], int]
"""How many milliseconds a delay level means."""

_UNKNOWN_DELAY_MS: Final = 1_000
"""What Java grants a message whose delay level it does not know."""

_CODES_KEPT_MAX: Final = 4_096
"""Hashes of tags that are remembered; a topic has a handful of tags."""

_ITEM_END: Final = 0x02
_TAGS: Final = b"TAGS\x01"
_NOT_LOOKED_FOR: Final[Spans] = (0, 0, 0, 0, 0, 0)


class ArrivedBatch(NamedTuple):
    """Of every message of a batch, tags code and property string."""

    tags_codes: list[int]
    properties: RunProperties


class Arrival(NamedTuple):
    """One message that can be consumed from now on, or a batch of them, with the first one's place.

    ``each`` gives the messages of a batch: only they have their own codes and properties.
    """

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    store_time_ms: int
    properties_raw: bytes
    batch: ArrivedBatch | None = None

    def each(self) -> "list[Arrival]":
        """The messages one by one; worth their time only where somebody waits for the queue."""
        if self.batch is None:
            return [self]
        topic, queue_id, queue_offset, store_time_ms = (
            self.topic, self.queue_id, self.queue_offset, self.store_time_ms,
        )  # fmt: skip
        codes = self.batch.tags_codes
        return [
            Arrival(topic, queue_id, queue_offset + number, codes[number], store_time_ms, raw)
            for number, raw in enumerate(self.batch.properties.each)
        ]


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
    properties: RunProperties


class Dispatcher:
    """Keeps queues and index up with the log.

    ``on_arrival`` is called for every message that has entered its queue, not for repeats; once for
    those of a batch. Of those in queues that are not in ``waited`` nobody needs to be told.

    ``looks_at_bytes`` is for compiled code, which finds tag and keys with one look at each byte.
    """

    def __init__(
        self,
        queues: Queues,
        index: Index | None,
        on_arrival: Callable[[Arrival], None] | None = None,
        delay_of_level: DelayOfLevel | None = None,
        waited: Mapping[tuple[str, int], object] | None = None,
        looks_at_bytes: bool = is_compiled(),
    ) -> None:
        self._looks_at_bytes = looks_at_bytes
        self._waited = waited
        self._queues = queues
        self._index = index
        self._delay_of_level = delay_of_level
        self._codes: dict[str, int] = {}
        # The last tag, as it stands in a property string, and its hash.
        self._tag: bytes = encode_properties({TAGS: ""})
        self._tag_code: int = 0
        self.on_arrival = on_arrival

    def dispatch(self, stored: Stored | StoredBatch) -> None:
        """Put one record, or those of a batch, where they can be found; again if need be."""
        if isinstance(stored, StoredBatch):
            self.dispatch_batch(None, *stored)
        else:
            self.dispatch_one(
                None, stored[0], stored[1], stored[2], stored[3], stored[4], stored[5], stored[6],
                stored[7],
            )  # fmt: skip

    def dispatch_one(
        self,
        queue: ConsumeQueue | None,
        topic: str,
        queue_id: int,
        queue_offset: int,
        log_offset: int,
        size: int,
        sys_flag: int,
        store_time_ms: int,
        properties_raw: bytes,
    ) -> None:
        """The same for a record without its ``Stored``; ``queue`` is its queue, if it is known.

        Half messages and rollbacks belong to no queue; rollbacks have no keys either.
        """
        kind = sys_flag & TRANSACTION_TYPE
        spans = find_spans(properties_raw) if self._looks_at_bytes else _NOT_LOOKED_FOR
        if kind != TRANSACTION_PREPARED and kind != TRANSACTION_ROLLBACK:
            if topic == SCHEDULE_TOPIC:
                code = self._due_time(properties_raw, store_time_ms)
            elif self._looks_at_bytes:
                code = self._code_at(properties_raw, spans[4], spans[5])
            else:
                code = self.tags_code(properties_raw)
            if queue is None:
                queue = self._queues.get_or_create(topic, queue_id)
            is_new = queue.append(log_offset, size, code, queue_offset)
            if is_new and self.on_arrival is not None and self._is_waited(topic, queue_id):
                self.on_arrival(
                    Arrival(topic, queue_id, queue_offset, code, store_time_ms, properties_raw)
                )
        index = self._index
        if index is not None and kind != TRANSACTION_ROLLBACK:
            if self._looks_at_bytes:
                index.make_room()
                index.add_found(topic, properties_raw, spans, log_offset, store_time_ms)
            else:
                index.add(topic, properties_raw, log_offset, store_time_ms)

    def dispatch_batch(
        self,
        queue: ConsumeQueue | None,
        topic: str,
        queue_id: int,
        queue_offset: int,
        log_offset: int,
        sizes: list[int],
        store_time_ms: int,
        properties: RunProperties,
    ) -> None:
        """Records one behind the other, none of which was ever dispatched.

        The queue comes last: whatever goes wrong before it may be tried again.
        """
        if queue is None:
            queue = self._queues.get_or_create(topic, queue_id)
        if self._looks_at_bytes:
            codes = self._look_at_run(topic, properties.each, log_offset, sizes, store_time_ms)
        else:
            codes = self._tags_codes(properties)
            if self._index is not None:
                self._index.add_run(topic, properties, log_offset, sizes, store_time_ms)
        if topic == SCHEDULE_TOPIC:
            codes = [self._due_time(raw, store_time_ms) for raw in properties.each]
        queue.append_run(log_offset, sizes, codes, queue_offset)
        if self.on_arrival is not None and self._is_waited(topic, queue_id):
            batch = ArrivedBatch(codes, properties)
            self.on_arrival(
                Arrival(topic, queue_id, queue_offset, codes[0], store_time_ms, b"", batch)
            )

    def _look_at_run(
        self, topic: str, each: list[bytes], log_offset: int, sizes: list[int], store_time_ms: int
    ) -> list[int]:
        """Add the keys of records to the index, and return the hashes of their tags."""
        index = self._index
        if index is not None:
            index.make_room()
        codes: list[int] = []
        for number, raw in enumerate(each):
            spans = find_spans(raw)
            codes.append(self._code_at(raw, spans[4], spans[5]))
            if index is not None:
                index.add_found(topic, raw, spans, log_offset, store_time_ms)
            log_offset += sizes[number]
        return codes

    def _is_waited(self, topic: str, queue_id: int) -> bool:
        waited = self._waited
        return waited is None or (len(waited) > 0 and (topic, queue_id) in waited)

    def _due_time(self, raw: bytes, store_time_ms: int) -> int:
        """When a delayed message is due; one without a delay has the hash of its tag."""
        level = get_property(raw, DELAY)
        return store_time_ms + self._delay_ms(level) if level else self.tags_code(raw)

    def tags_code(self, raw: bytes) -> int:
        """The hash of the tag in a property string, 0 without one.

        Mostly that of the message before, and found again by its bytes.
        """
        if self._looks_at_bytes:
            spans = find_spans(raw)
            return self._code_at(raw, spans[4], spans[5])
        at = raw.rfind(_TAGS)
        if at < 0:
            return 0
        if raw.startswith(self._tag, at) and (at == 0 or raw[at - 1] == _ITEM_END):
            return self._tag_code
        return self._other_code(raw)

    def _code_at(self, raw: bytes, start: i64, end: i64) -> int:
        """The same for a tag that was found by a look at each byte."""
        code = hash_on(0, raw, start, end)
        if code < 0:
            return self._other_code(raw)
        return code - 0x1_0000_0000 if code & 0x8000_0000 else code

    def _tags_codes(self, properties: RunProperties) -> list[int]:
        """The same for messages of a batch.

        Mostly all have one tag at one place: if the text has no more of them than messages, a look
        at that place of each is enough.
        """
        each = properties.each
        count = len(each)
        found = properties.text.count(_TAGS)
        if not found:
            return [0] * count
        code = self.tags_code(each[0])
        at = each[0].rfind(_TAGS)
        if found == count and at >= 0:
            # With the 02 before it, without which it would be the end of another name.
            begin = max(at - 1, 0)
            end = at + len(self._tag)
            tag = each[0][begin:end]
            if [raw[begin:end] for raw in each].count(tag) == count:
                return [code] * count
        return [self.tags_code(raw) for raw in each]

    def _other_code(self, raw: bytes) -> int:
        tag = get_property(raw, TAGS)
        if tag is None:
            return 0
        code = self._codes.get(tag)
        if code is None:
            if len(self._codes) >= _CODES_KEPT_MAX:
                self._codes.clear()
            code = self._codes[tag] = tag_code(tag)
        self._tag = encode_properties({TAGS: tag})
        self._tag_code = code
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
