"""Append: from a message to its place in the log, and from there into its queue and the index.

Under SYNC_FLUSH a message is not to be found before it is on the disk: it waits for that, as it
does where the disk has no room for its unit or its keys.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import path_component
from roketto.protocol.record import Record
from roketto.protocol.sysflags import (
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.diskgate import DiskGate
from roketto.store.dispatch import Dispatcher, Stored, StoredBatch
from roketto.store.errors import DiskFullError
from roketto.store.flush import Flusher
from roketto.store.put_result import BatchResult, PutResult
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.queues import Queues
from roketto.store.waiting import Waiting

__all__ = ["Appender"]

_WITHOUT_PLACE: Final = frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK})
"""Half messages and rollbacks do not take a place in their queue."""
_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its class takes."""


class Appender:
    """The writing side of a store, which opens and closes it by its ``flusher``.

    ``on_wanted`` is called when a message begins to wait for the disk; whoever gives it sees to it
    that the store is flushed, later than at once: so one sync covers more. Without it the flushing
    thread is asked for each.
    """

    def __init__(
        self,
        root: Path,
        log: CommitLog,
        queues: Queues,
        dispatcher: Dispatcher,
        gate: DiskGate,
        *,
        is_flush_sync: bool,
        on_wanted: Callable[[], None] | None = None,
    ) -> None:
        self.flusher: Flusher | None = None
        """None while the store is not open."""
        self.waiting: Waiting = Waiting()
        self.is_behind: bool = False
        """Whether queues or index could not be written."""
        self._root: Path = root
        self._log: CommitLog = log
        self._queues: Queues = queues
        self._dispatcher: Dispatcher = dispatcher
        self._gate: DiskGate = gate
        self._is_flush_sync: bool = is_flush_sync
        self._on_wanted: Callable[[], None] | None = on_wanted

    def append(self, record: Record) -> PutResult:
        """Store one message in its queue; PutRefusedError says why not."""
        self._check_writable()
        topic = record.topic
        queue_id = record.queue_id
        sys_flag = record.sys_flag
        queue: ConsumeQueue | None = None
        queue_offset = 0
        next_offset: int | None = None
        if sys_flag & TRANSACTION_TYPE not in _WITHOUT_PLACE:
            queue = self._queues.get(topic, queue_id)
            if queue is None or self.waiting.places:
                queue_offset = self._next_offset(queue, topic, queue_id)
            else:
                queue_offset = queue.queue_offset_max
            next_offset = queue_offset + 1
        try:
            size = self._log.write(record, queue_offset)
        except PutRefusedError as refused:
            self._hold_if_starved(refused)
            raise
        self._enter(
            queue, topic, queue_id, queue_offset, next_offset, record.log_offset, size, sys_flag,
            record.properties_raw,
        )  # fmt: skip
        return _new(
            PutResult,
            (queue_offset, record.log_offset, size, record.store_time_ms, record.store_host),
        )

    def append_fields(
        self,
        topic: str,
        topic_field: bytes,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_time_ms: int,
        born_host: bytes,
        store_host: bytes,
        body: bytes | memoryview,
        properties: bytes,
        reconsume_times: int = 0,
        prepared_log_offset: int = 0,
    ) -> tuple[int, int, int]:
        """The same for a message without a record of its own: queue offset, log offset and size.

        It is within the bounds of the log, has a place in its queue, and is for a legal topic.
        """
        self._check_writable()
        queue = self._queues.get(topic, queue_id)
        if queue is None or self.waiting.places:
            queue_offset = self._next_offset(queue, topic, queue_id)
        else:
            queue_offset = queue.queue_offset_max
        log = self._log
        try:
            size = log.write_fields(
                topic_field, body, properties, queue_id, flag, queue_offset, sys_flag, born_time_ms,
                born_host, store_host, reconsume_times, prepared_log_offset,
            )  # fmt: skip
        except PutRefusedError as refused:
            self._hold_if_starved(refused)
            raise
        log_offset = log.segments.written - size
        self._enter(
            queue, topic, queue_id, queue_offset, queue_offset + 1, log_offset, size, sys_flag,
            properties,
        )  # fmt: skip
        return queue_offset, log_offset, size

    def _enter(
        self,
        queue: ConsumeQueue | None,
        topic: str,
        queue_id: int,
        queue_offset: int,
        next_offset: int | None,
        log_offset: int,
        size: int,
        sys_flag: int,
        raw: bytes,
    ) -> None:
        """Let the message that was written last be found, now or when it is on the disk."""
        time_ms = self._log.store_time_ms
        error: BaseException | None = None
        if not self._is_flush_sync:
            assert not self.waiting.messages, "nothing is taken while something waits for room"
            try:
                self._dispatcher.dispatch_one(
                    queue, topic, queue_id, queue_offset, log_offset, size, sys_flag, time_ms, raw
                )
            except BaseException as raised:  # noqa: BLE001 - raised again if it is not the disk
                error = raised
        if self._is_flush_sync or error is not None:
            stored = Stored(topic, queue_id, queue_offset, log_offset, size, sys_flag, time_ms, raw)
            self._let_wait(log_offset + size, stored, next_offset, error)

    def append_batch(self, batch: Record) -> BatchResult:
        """Store the messages of a batch in its queue, all or none."""
        self._check_writable()
        topic = batch.topic
        queue_id = batch.queue_id
        queue = self._queues.get(topic, queue_id)
        first = self._next_offset(queue, topic, queue_id)
        try:
            where = self._log.append_batch(batch, first)
        except PutRefusedError as refused:
            self._hold_if_starved(refused)
            raise
        sizes = where.sizes
        log_offset = where.log_offset
        time_ms = where.store_time_ms
        properties = where.properties
        error: BaseException | None = None
        if not self._is_flush_sync:
            assert not self.waiting.messages, "nothing is taken while something waits for room"
            try:
                self._dispatcher.dispatch_batch(
                    queue, topic, queue_id, first, log_offset, sizes, time_ms, properties
                )
            except BaseException as raised:  # noqa: BLE001 - raised again if it is not the disk
                error = raised
        if self._is_flush_sync or error is not None:
            stored = StoredBatch(topic, queue_id, first, log_offset, sizes, time_ms, properties)
            self._let_wait(where.end, stored, first + len(sizes), error)
        return _new(BatchResult, (first, log_offset, sizes, time_ms, batch.store_host))

    def _next_offset(self, queue: ConsumeQueue | None, topic: str, queue_id: int) -> int:
        """The place of the next message of a queue; None stands for one that is not there yet.

        IllegalNameError if it may not have a directory: recovery would leave a record of such a
        queue in the log, where nobody could consume it.
        """
        queue_offset = self.waiting.places.get((topic, queue_id))
        if queue_offset is not None:
            return queue_offset
        if queue is not None:
            return queue.queue_offset_max
        path_component(topic)
        if queue_id < 0:
            raise IllegalNameError(f"queue {queue_id} of topic {topic}: ids begin with 0")
        return 0

    def _check_writable(self) -> None:
        flusher = self.flusher
        if flusher is None:
            raise PutRefusedError(
                PutStatus.SERVICE_NOT_AVAILABLE, f"the store {self._root} is not open"
            )
        if flusher.failure is not None:
            raise PutRefusedError(
                PutStatus.SERVICE_NOT_AVAILABLE,
                f"the store {self._root} takes no more messages: a write to its disk has failed "
                f"({flusher.failure}); look at the disk and start the broker again",
            )
        if self._gate.reason is not None:
            raise PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, self._gate.reason)

    def _hold_if_starved(self, refused: PutRefusedError) -> None:
        """Try for the next file of the log once a tick, not with every message."""
        if refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED:
            self._gate.hold(refused.reason)

    def _let_wait(
        self,
        end: int,
        stored: Stored | StoredBatch,
        next_offset: int | None,
        error: BaseException | None,
    ) -> None:
        """Let messages be consumed once they are on the disk, or, after an error of it, once there
        is room; any other error is raised.
        """
        if error is None:
            self.waiting.add(end, stored, next_offset)
            self._ask_for_flush()
        elif isinstance(error, OSError | DiskFullError):
            self.waiting.add(end, stored, next_offset)
            self.fall_behind(error)
        else:
            self.waiting.keep_place(stored, next_offset)
            raise error

    def fall_behind(self, error: OSError | DiskFullError) -> None:
        """The unit or the keys of a message in the log could not be written.

        It is stored, so its producer is not refused; it waits with those behind it, and no more
        are taken.
        """
        self._gate.hold(f"the queues and the index of {self._root} cannot be written: {error}")
        self.is_behind = True

    def dispatch_waiting(self, flushed: int) -> None:
        """Let messages be found that wait no more: the log is on the disk up to ``flushed``."""
        waiting = self.waiting
        until = flushed if self._is_flush_sync else self._log.written
        self.is_behind = False
        while (stored := waiting.first(until)) is not None:
            try:
                self._dispatcher.dispatch(stored)
            except (OSError, DiskFullError) as error:
                self.fall_behind(error)
                break
            waiting.remove_first()

    def _ask_for_flush(self) -> None:
        assert self.flusher is not None
        if self._on_wanted is None:
            self.flusher.request()
        else:
            self._on_wanted()
