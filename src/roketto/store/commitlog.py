"""The commit log: append records, assign offsets, read by log offset.

All messages of a broker lie in it one after the other, in the layout that record_layout.py draws.
No record crosses the end of a segment. At least 8 bytes are left there, for the blank::

    0   4   what is left of the segment, these 4 bytes included
    4   4   0xCBD43194
    8       anything

Whatever is refused leaves not a byte behind: bytes behind the written mark that look like a record
would come to life in a recovery.
"""

from collections.abc import Callable, Iterator
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol import property_names
from roketto.protocol.crc import CRC_PROPERTY_BYTES
from roketto.protocol.errors import RecordError
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.limits import (
    MESSAGE_BYTES_MAX,
    PROPERTIES_BYTES_MAX,
    RETRY_TOPIC_BYTES_MAX,
    TOPIC_BYTES_MAX,
)
from roketto.protocol.properties import join_properties
from roketto.protocol.record import (
    Record,
    decode_record,
    encode_fields_into,
    encode_topic,
    fields_size,
    record_size,
)
from roketto.protocol.record_layout import HEADS, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from roketto.protocol.utf8 import encode_utf8
from roketto.store.batch_records import EncodedBatch, encode_batch_records
from roketto.store.errors import CorruptStoreError, StoreError, StoreReadOnlyError
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.record_check import BLANK, BLANK_BYTES, RECORD_BYTES_MIN
from roketto.store.run_properties import RunProperties
from roketto.store.segments import Segments
from roketto.store.stretch import Stretch

_PUBLISHED_LAST: Final = 8
"""Size and magic: without them there is no record."""

_HEAD_AND_TOPIC_BYTES_MAX: Final = HEADS[3].size + 2 + RETRY_TOPIC_BYTES_MAX + 2
_RETRY_PREFIX: Final = "%RETRY%"


class Appended:
    """Where a record went."""

    __slots__ = ("log_offset", "size", "store_time_ms")

    def __init__(self, log_offset: int, size: int, store_time_ms: int) -> None:
        self.log_offset: int = log_offset
        self.size: int = size
        self.store_time_ms: int = store_time_ms

    @property
    def end(self) -> int:
        """The log offset behind it: what must be flushed for it to be safe."""
        return self.log_offset + self.size


class AppendedBatch:
    """Where the records of a batch went: one behind the other from ``log_offset`` on."""

    __slots__ = ("log_offset", "properties", "size", "sizes", "store_time_ms")

    def __init__(
        self,
        log_offset: int,
        size: int,
        store_time_ms: int,
        sizes: list[int],
        properties: RunProperties,
    ) -> None:
        self.log_offset: int = log_offset
        self.size: int = size
        self.store_time_ms: int = store_time_ms
        self.sizes: list[int] = sizes
        """Of each record."""
        self.properties: RunProperties = properties
        """Those of the records, for tags and keys."""

    @property
    def end(self) -> int:
        """The log offset behind the last of them."""
        return self.log_offset + self.size


class CommitLog:
    """The log of one broker over ``segments``, which have a margin of BLANK_BYTES.

    log = CommitLog(segments, wall_ms, memory_bytes=16 << 30)
    where = log.append(record, queue_offset=7)
    log.read(where.log_offset, where.size)      # a view of the mapped file

    One thread appends and reads; another may call ``sync``. Recovery, retention and whoever
    prepares segments ahead work on ``segments`` directly.
    """

    def __init__(
        self,
        segments: Segments,
        clock_ms: Callable[[], int],
        memory_bytes: int,
        memory_percent: int = 40,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        append_crc: bool = False,
        lmq: bool = False,
    ) -> None:
        self.segments: Segments = segments
        self.stretch: Stretch = Stretch(segments)
        """For those who read many records."""
        self.store_time_ms: int = 0
        """The greatest store time so far; recovery sets it to that of the last record."""
        self._clock_ms: Callable[[], int] = clock_ms
        # The usual clock is called by its name, which compiled code does without a look at it.
        self._is_wall_clock: bool = clock_ms is wall_ms
        self._memory_bytes: int = memory_bytes * memory_percent // 100
        self._append_crc: bool = append_crc
        self._lmq: bool = lmq
        # The topic of the last record, which is mostly that of the next, as it stands there.
        self._topic: str = ""
        self._topic_field: bytes = encode_topic("")
        self.limit_messages(message_bytes_max)

    def limit_messages(self, message_bytes_max: int) -> None:
        """Set the bound for bodies, Java's maxMessageSize; it may change at run time."""
        self._message_bytes_max: int = message_bytes_max
        # A record with a body of this size is within all bounds, whatever its other fields are.
        others_bytes_max = PROPERTIES_BYTES_MAX + _HEAD_AND_TOPIC_BYTES_MAX
        self._body_bytes_safe: int = message_bytes_max - others_bytes_max

    # --- marks --------------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """Where the oldest record, or the blank in its place, lies."""
        return self.segments.min_offset

    @property
    def max_offset(self) -> int:
        """Where the next record goes, unless the segment is full."""
        return self.segments.written

    @property
    def written(self) -> int:
        """The same as ``max_offset``, as the flushing thread calls it."""
        return self.segments.written

    @property
    def flushed(self) -> int:
        """Everything below is on the disk."""
        return self.segments.flushed

    def sync(self, start: int, end: int) -> None:
        """Return when the log from ``start`` to ``end`` is on the disk. For the flushing thread."""
        self.segments.sync(start, end)

    def is_likely_in_memory(self, log_offset: int) -> bool:
        """Whether so little was written since that the system still has it cached."""
        return self.segments.written - log_offset <= self._memory_bytes

    # --- appending ----------------------------------------------------------------------------

    def append(self, record: Record, queue_offset: int) -> Appended:
        """Store ``record`` at ``queue_offset`` of its queue; see ``write``."""
        size = self.write(record, queue_offset)
        return Appended(record.log_offset, size, record.store_time_ms)

    def write(self, record: Record, queue_offset: int) -> int:
        """Store ``record`` at ``queue_offset`` of its queue and return its size.

        Both offsets and the store time of the record are set. PutRefusedError if it is too large
        or there is no room for it.
        """
        topic = record.topic
        if topic != self._topic:
            if len(topic) > TOPIC_BYTES_MAX or not topic.isascii():
                self._check_topic(topic)
            self._topic_field = encode_topic(topic)
            self._topic = topic
        if not self.is_within_bounds(len(record.body)):
            self._check_size(record)
        size = self.write_fields(
            self._topic_field, record.body, record.properties_raw, record.queue_id, record.flag,
            queue_offset, record.sys_flag, record.born_time_ms, record.born_host,
            record.store_host, record.reconsume_times, record.prepared_log_offset,
        )  # fmt: skip
        record.queue_offset = queue_offset
        record.log_offset = self.segments.written - size
        record.store_time_ms = self.store_time_ms
        return size

    def is_within_bounds(self, body_bytes: int) -> bool:
        """Whether a record with a body of this size is, whatever its other fields are."""
        return body_bytes <= self._body_bytes_safe

    def write_fields(
        self,
        topic: bytes,
        body: bytes | memoryview,
        properties: bytes,
        queue_id: int,
        flag: int,
        queue_offset: int,
        sys_flag: int,
        born_time_ms: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int = 0,
        prepared_log_offset: int = 0,
    ) -> int:
        """Store a record that is only its fields (record.py), within all bounds; return its size.

        It ends where the log does now, and ``store_time_ms`` is its time.
        """
        segments = self.segments
        log_offset = segments.written
        store_time_ms = wall_ms() if self._is_wall_clock else self._clock_ms()
        if store_time_ms < self.store_time_ms:
            store_time_ms = self.store_time_ms
        try:
            size = encode_fields_into(
                segments.room, log_offset - segments.room_start, topic, body, properties, queue_id,
                flag, queue_offset, log_offset, sys_flag, born_time_ms, born_host, store_time_ms,
                store_host, reconsume_times, prepared_log_offset, self._append_crc,
            )  # fmt: skip
            if not size:
                self._make_room(
                    fields_size(topic, body, properties, born_host, store_host, self._append_crc)
                )
                log_offset = segments.written
                size = encode_fields_into(
                    segments.room, log_offset - segments.room_start, topic, body, properties,
                    queue_id, flag, queue_offset, log_offset, sys_flag, born_time_ms, born_host,
                    store_time_ms, store_host, reconsume_times, prepared_log_offset,
                    self._append_crc,
                )  # fmt: skip
        except RecordError as error:
            raise self._refused(properties, error) from error
        segments.written = log_offset + size
        self.store_time_ms = store_time_ms  # not before: the checkpoint will say that it was stored
        return size

    def append_batch(self, batch: Record, queue_offset: int) -> AppendedBatch:
        """Store the messages of ``batch.body`` as one record each, the first at ``queue_offset``.

        Everything but flag, body and properties is that of ``batch``. They go into one segment,
        all or none. PutRefusedError if the batch is damaged or too large, or there is no room.
        """
        topic = batch.topic
        if len(topic) > TOPIC_BYTES_MAX or not topic.isascii():
            self._check_topic(topic)
        body_bytes = len(batch.body)
        if not 0 < body_bytes <= self._message_bytes_max:
            raise PutRefusedError(
                # The code that Java's broker answers with: for it, this is an exception.
                PutStatus.UNKNOWN_ERROR,
                f"batch of {body_bytes} bytes for topic {batch.topic[:64]}; it takes 1 to"
                f" {self._message_bytes_max}: send smaller batches or raise maxMessageSize",
            )
        segments = self.segments
        store_time_ms = max(self._clock_ms(), self.store_time_ms)
        try:
            log_offset = segments.written
            encoded = self._encode_batch(batch, queue_offset, log_offset, store_time_ms)
            if log_offset - segments.room_start + len(encoded.data) > len(segments.room):
                self._make_room(len(encoded.data))
                if segments.written != log_offset:
                    log_offset = segments.written
                    encoded = self._encode_batch(batch, queue_offset, log_offset, store_time_ms)
        except RecordError as error:
            raise PutRefusedError(PutStatus.UNKNOWN_ERROR, str(error)) from error
        data = encoded.data
        at = log_offset - segments.room_start
        end = at + len(data)
        # A kill between the two leaves no record rather than the first half of one.
        segments.room[at + _PUBLISHED_LAST : end] = memoryview(data)[_PUBLISHED_LAST:]
        segments.room[at : at + _PUBLISHED_LAST] = data[:_PUBLISHED_LAST]
        segments.written = log_offset + len(data)
        self.store_time_ms = store_time_ms
        return AppendedBatch(
            log_offset, len(data), store_time_ms, encoded.sizes, encoded.properties
        )

    def append_raw(self, log_offset: int, data: bytes | memoryview) -> None:
        """Append bytes of a master's log, records or parts of them, as they are.

        They must begin where this log ends; an empty log begins where they do.
        """
        segments = self.segments
        if not len(segments) and log_offset != segments.written:
            segments.start_at(log_offset)
        if log_offset != segments.written:
            raise StoreError(
                f"{len(data)} bytes for log offset {log_offset} of {segments.directory}, which"
                f" ends at {segments.written}: ask the master for what follows that"
            )
        segments.append_bytes(data)

    def _make_room(self, size: int) -> None:
        """See to it that the next ``size`` bytes fit, if need be in a new segment."""
        if not self.segments.widen(size):
            self._roll(size)
            self.segments.widen(size)

    def _roll(self, size: int) -> None:
        """Go on in a new segment, in which ``size`` bytes will fit."""
        segments = self.segments
        if size + BLANK_BYTES > segments.segment_bytes:
            raise PutRefusedError(
                PutStatus.MESSAGE_ILLEGAL,
                f"{size} bytes to store at once; a file of the commit log takes"
                f" {segments.segment_bytes - BLANK_BYTES}: send less or raise"
                " mappedFileSizeCommitLog",
            )
        left = -segments.written % segments.segment_bytes
        assert left == 0 or left >= BLANK_BYTES, f"{left} bytes left at {segments.written}"
        try:
            segments.roll(BLANK.pack(left, MAGIC_BLANK) if left else b"")
        except StoreReadOnlyError as closed:
            raise PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, str(closed)) from closed
        except OSError as failure:
            raise PutRefusedError(
                PutStatus.CREATE_MAPPED_FILE_FAILED,
                f"the next file in {segments.directory} cannot be made: {failure}",
            ) from failure
        except StoreError as error:
            raise PutRefusedError(PutStatus.CREATE_MAPPED_FILE_FAILED, str(error)) from error

    def _encode_batch(
        self, batch: Record, queue_offset: int, log_offset: int, store_time_ms: int
    ) -> EncodedBatch:
        return encode_batch_records(
            batch, queue_offset, log_offset, store_time_ms, self._append_crc
        )

    def _check_topic(self, topic: str) -> None:
        topic_bytes = len(encode_utf8(topic))
        bound = RETRY_TOPIC_BYTES_MAX if topic.startswith(_RETRY_PREFIX) else TOPIC_BYTES_MAX
        if topic_bytes > bound:
            raise PutRefusedError(
                PutStatus.MESSAGE_ILLEGAL,
                f"topic {topic[:64]}... has {topic_bytes} bytes; {bound} are allowed: shorten it",
            )

    def _check_size(self, record: Record) -> None:
        """The limits of a large message.

        Java's bound for the whole record, 64 KiB more than for the body, needs no look: topic and
        properties cannot take that much.
        """
        bound = self._message_bytes_max
        body_bytes = len(record.body)
        if body_bytes > bound:
            raise PutRefusedError(
                PutStatus.MESSAGE_ILLEGAL,
                f"body of {body_bytes} bytes for topic {record.topic[:64]}; {bound} are allowed:"
                " send less or raise maxMessageSize",
            )
        if not self._lmq or record.get_property(property_names.INNER_MULTI_DISPATCH) is None:
            return
        size = record_size(record, self._append_crc)
        if size > bound:
            raise PutRefusedError(
                PutStatus.MESSAGE_ILLEGAL,
                f"message for several queues takes {size} bytes with topic and properties;"
                f" {bound} are allowed: send less or raise maxMessageSize",
            )

    def _refused(self, properties: bytes, error: RecordError) -> PutRefusedError:
        if self._append_crc:
            properties = join_properties(properties, bytes(CRC_PROPERTY_BYTES))
        if len(properties) > PROPERTIES_BYTES_MAX:
            return PutRefusedError(PutStatus.PROPERTIES_SIZE_EXCEEDED, str(error))
        return PutRefusedError(PutStatus.MESSAGE_ILLEGAL, str(error))

    # --- reading ------------------------------------------------------------------------------

    def read(self, log_offset: int, size: int) -> memoryview:
        """``size`` bytes at ``log_offset``, not copied; OutsideLogError if they are not there."""
        return self.segments.read(log_offset, size)

    def record_at(self, log_offset: int) -> Record:
        """The record that begins at ``log_offset``; RecordError if none does."""
        segments = self.segments
        if log_offset >= segments.written:
            raise segments.outside(log_offset, 1)
        segment = segments.find(log_offset)
        written = segments.view(segment)[: segments.written - segment.start]
        record = decode_record(written, log_offset - segment.start)
        if record.log_offset != log_offset:
            raise RecordError(
                f"no record begins at log offset {log_offset}: what is there says that it lies at"
                f" {record.log_offset}"
            )
        return record

    def record_by_id(self, message_id: str) -> Record:
        """The record that a broker's message id names; RecordError if there is none."""
        return self.record_at(decode_offset_id(message_id).log_offset)

    def records(self, start: int, end: int | None = None) -> Iterator[tuple[int, int, memoryview]]:
        """Log offset, size and bytes of each whole record from ``start`` to ``end``, in order.

        Without ``end``, those written by now. Stops before a record that is not all there yet, as
        the last of a slave's log may be. Contents are not checked, but where there is neither a
        record nor a blank it is a CorruptStoreError.
        """
        written = self.segments.written
        end = written if end is None else min(end, written)
        while start < end:
            segment = self.segments.find(start)
            view = self.segments.view(segment)
            at = start - segment.start
            limit = min(end, segment.end) - segment.start
            size = 0
            while at + BLANK_BYTES <= limit:
                size, magic = BLANK.unpack_from(view, at)
                if magic == MAGIC_BLANK:
                    break
                if (
                    (magic != MAGIC_V1 and magic != MAGIC_V2)
                    or size < RECORD_BYTES_MIN
                    or at + size + BLANK_BYTES > len(view)
                ):
                    raise CorruptStoreError(
                        segment.path, at, f"no record has size {size} and magic 0x{magic:08X} there"
                    )
                if at + size > limit:
                    return
                yield segment.start + at, size, view[at : at + size]
                at += size
            else:
                return
            start = segment.end
