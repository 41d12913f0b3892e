"""Publishes the pieces of one batch: reads them from the log, and stores what they hold in slices.

All of it is steps that another one takes (publications.py), some of them between other work: what
was read before a step may be somewhere else behind it.
"""

import struct
from collections.abc import Callable, Generator
from typing import Final, TypeVar

from roketto.broker.config import BrokerConfig
from roketto.broker.dedup_window import DedupWindow
from roketto.broker.sinks import Sink
from roketto.broker.staged import QUEUE_ID, Piece, read_piece
from roketto.broker.stats import Statistics
from roketto.broker.topics import SendTarget, Topics
from roketto.protocol.batch import cut_batch, decode_batch
from roketto.protocol.bodies.topics import TopicFilterType
from roketto.protocol.codes import ResponseCode
from roketto.protocol.crc import masked_crc32
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.names import DEFAULT_TOPIC, STAGED_TOPIC
from roketto.protocol.record import Record, decode_record
from roketto.protocol.record_layout import peek_body
from roketto.protocol.sysflags import MULTI_TAGS
from roketto.store.errors import StoreError
from roketto.store.put_result import BatchResult
from roketto.store.put_status import PutRefusedError
from roketto.store.store import Store

__all__ = ["PiecePublisher", "Steps"]

SLICE_MESSAGES_MAX: Final = 2_048
SLICE_BYTES_MAX: Final = 1 << 20
"""Stored at once, all or none: some milliseconds."""
UNFLUSHED_BYTES_MAX: Final = 32 << 20
"""Under SYNC_FLUSH: published and not on the disk yet. What waits for it is in memory."""
WINDOW_WAIT_S_MAX: Final = 30.0
"""For a dedup window that reads what was sent before a start; there is no hurry."""
_RECORD_BYTES_MORE: Final = 320
"""What a record takes at most beyond its item: head, hosts, topic and checksum."""
_SIZE: Final = struct.Struct(">i")

T = TypeVar("T")
Steps = Generator[bool | None, None, T]
"""Work in small steps; it yields True where it can only go on a little later."""


class PiecePublisher:
    """Looks at pieces, and publishes them.

    counts, queues = yield from publisher.look_at("sink", 7, [[log_offset, size]])
    yield from publisher.publish(sink, [[log_offset, size]])
    """

    def __init__(
        self,
        store: Store,
        topics: Topics,
        stats: Statistics,
        config: BrokerConfig,
        store_host: bytes,
        now_s: Callable[[], float],
    ) -> None:
        self._store = store
        self._topics = topics
        self._stats = stats
        self._config = config
        self._store_host = store_host
        self._now_s = now_s
        self._is_sync = config.flush_disk_type == "SYNC_FLUSH"

    def look_at(
        self, sink_id: str, batch_id: int, pieces: list[list[int]]
    ) -> Steps[tuple[list[int], set[tuple[str, int]]]]:
        """How many messages all pieces have, and the queues that they are for.

        RequestError if one of them may not be published: nothing of the batch is, then.
        """
        counts: list[int] = []
        queues: set[tuple[str, int]] = set()
        for place in pieces:
            piece, _ = self._read(place, sink_id, batch_id)
            self._target(piece)
            counts.append(piece.messages)
            queues.add((piece.topic, piece.queue_id))
            yield None
        return counts, queues

    def _read(self, place: list[int], sink_id: str, batch_id: int) -> tuple[Piece, memoryview]:
        """A piece and its messages, which stay where they are."""
        log_offset, size = place
        piece: Piece | None = None
        try:
            view = self._store.log.read(log_offset, size)
            record = decode_record(view, read_body=False)
            if (record.log_offset, record.size) == (log_offset, size) and self._is_queued(record):
                piece = read_piece(record)
        except (StoreError, RecordError) as error:
            raise _refused(
                log_offset, size, f"is not there any more, or never was: {error}"
            ) from error
        if piece is None:
            raise _refused(log_offset, size, "is none: something else is there")
        if (piece.sink_id, piece.batch_id) != (sink_id, batch_id):
            of = f"batch {piece.batch_id} of sink {piece.sink_id}"
            raise _refused(log_offset, size, f"is of {of}, not {batch_id} of {sink_id}")
        return piece, peek_body(view)

    def _is_queued(self, record: Record) -> bool:
        """Whether a record is one of the log's own, and not bytes in a body that look like one."""
        queue = self._store.queue(STAGED_TOPIC, QUEUE_ID)
        unit = None if queue is None else queue.unit(record.queue_offset)
        return unit is not None and unit.log_offset == record.log_offset

    def _target(self, piece: Piece) -> SendTarget:
        """Where the messages of a piece belong; RequestError if that is gone."""
        topic = piece.topic
        if self._topics.get(topic) is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic} is gone, for which batch {piece.batch_id} of sink {piece.sink_id}"
                f" has {piece.messages} messages: create it with mqadmin updateTopic, and repeat",
            )
        target = self._topics.target(topic, DEFAULT_TOPIC, 0)
        if piece.queue_id >= target.queue_count:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queue {piece.queue_id} of topic {topic} is gone, for which batch"
                f" {piece.batch_id} of sink {piece.sink_id} has {piece.messages} messages: give the"
                f" topic more than {piece.queue_id} queues again, and repeat",
            )
        return target

    def publish(self, sink: Sink, pieces: list[list[int]]) -> Steps[None]:
        """Store what is left, a slice at a time; ``sink.progress`` says how much is done."""
        assert sink.progress is not None
        first, done = sink.progress
        for number in range(first, len(pieces)):
            piece, body = self._read(pieces[number], sink.sink_id, sink.begun)
            if masked_crc32(body) != piece.record.body_crc:
                raise _refused(piece.log_offset, piece.size, "is damaged: its checksum is wrong")
            at = _skip(body, done)
            while at < len(body):
                yield from self._wait(piece)
                # Whatever others did meanwhile, the file may have been given up and mapped again.
                piece, body = self._read(pieces[number], sink.sink_id, sink.begun)
                items, count = _cut(body, at, self._room)
                self._store_slice(piece, items)
                at, done = at + len(items), done + count
                sink.progress = (number, done)
                yield None
            done = 0
            sink.progress = (number + 1, 0)

    @property
    def _room(self) -> int:
        return min(SLICE_BYTES_MAX, self._store.log.segments.segment_bytes // 2)

    def _wait(self, piece: Piece) -> Steps[None]:
        """Wait for the disk, and for a window that has to know what was sent before."""
        window = self._target(piece).window
        until_s = self._now_s() + WINDOW_WAIT_S_MAX
        while window is not None and not window.is_ready:
            if self._now_s() >= until_s:
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY,
                    f"topic {piece.topic} still reads what it took before"
                    f" (dedup.window.seconds); it was waited for {WINDOW_WAIT_S_MAX:g} s: repeat",
                )
            yield True
        until_s = self._now_s() + self._config.sync_flush_timeout / 1000
        while self._is_sync and self._unflushed > UNFLUSHED_BYTES_MAX:
            if self._now_s() >= until_s:
                raise RequestError(
                    ResponseCode.FLUSH_DISK_TIMEOUT,
                    f"the disk took more than {self._config.sync_flush_timeout} ms"
                    f" (syncFlushTimeout) for {self._unflushed} bytes that are published: repeat",
                )
            yield True

    @property
    def _unflushed(self) -> int:
        return self._store.log.written - self._store.flushed

    def _store_slice(self, piece: Piece, items: bytes) -> None:
        """Store messages of a piece where they belong, all or none."""
        staged = piece.record
        target = self._target(piece)
        is_multi = target.config.topic_filter_type is TopicFilterType.MULTI_TAG
        batch = Record(
            piece.topic,
            items,
            queue_id=piece.queue_id,
            sys_flag=MULTI_TAGS if is_multi else 0,
            born_time_ms=staged.born_time_ms,
            born_host=staged.born_host,
            store_host=self._store_host,
            prepared_log_offset=piece.end,
        )
        try:
            where = self._store.append_batch(batch)
        except PutRefusedError:
            self._stats.put_failed += 1
            raise
        sizes = where.sizes
        self._stats.note_put(
            piece.topic, piece.queue_id, len(sizes), sum(sizes), where.store_time_ms
        )
        if target.window is not None:
            _remember(target.window, items, where)


def _remember(window: DedupWindow, items: bytes, where: BatchResult) -> None:
    """Let whoever sends one of these messages once more be told of it."""
    place = where.log_offset
    for item, size in zip(decode_batch(items), where.sizes, strict=True):
        identity = window.identity(item.properties_raw)
        if identity is not None:
            window.remember(identity, place)
        place += size


def _cut(body: memoryview, at: int, room: int) -> tuple[bytes, int]:
    """The slice that begins at ``at``, and how many messages it has: at least one."""
    size: int = _SIZE.unpack_from(body, at)[0]
    some = bytes(body[at : at + max(size, room)])
    end, count = cut_batch(some, room, _RECORD_BYTES_MORE, SLICE_MESSAGES_MAX)
    return some[:end], count


def _skip(body: memoryview, count: int) -> int:
    """Where the message with this number begins."""
    at = 0
    for _ in range(count):
        at += _SIZE.unpack_from(body, at)[0]
    return at


def _refused(log_offset: int, size: int, reason: str) -> RequestError:
    return RequestError(
        ResponseCode.ILLEGAL_OPERATION,
        f"the piece of {size} bytes at {log_offset} of the log {reason}; nothing of it is"
        " published. Pieces are kept as long as other messages (fileReservedTime)",
    )
