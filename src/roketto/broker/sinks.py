"""How far sinks are with their batches: what they have decided, begun and published here.

Every step is a record of rmq_sys_sinks; all of them together make this table, and a start reads
those that ``config/sinks.json`` knows nothing of. That file has a step only when it is on the disk,
so that it never says more than the log does.

A sink that nobody has used for longest is forgotten where there are too many. If it comes back it
is new: its next batch is decided whatever its number.
"""

import logging
from collections.abc import Callable
from typing import Final

from roketto.broker.sending import Sending
from roketto.broker.staged import (
    BEGUN,
    DECIDED,
    PUBLISHED,
    QUEUE_ID,
    Step,
    make_step,
    read_step,
)
from roketto.broker.topics import Topics
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.staged import NEVER, SinkEntry, StagedDecision
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import BodyError, RecordError, RequestError
from roketto.protocol.names import SINKS_TOPIC
from roketto.protocol.record import Record
from roketto.store.errors import StoreError
from roketto.store.put_result import PutResult
from roketto.store.sink_table import SINKS_MAX, SinkTable
from roketto.store.store import Store

__all__ = ["NEVER", "Progress", "Sink", "Sinks"]

log = logging.getLogger(__name__)

Progress = tuple[int, int]
"""How many pieces of a batch are published, and how many messages of the next one."""

_BEGINNING: Final = (0, 0)


class Sink:
    """One sink. Batches that there are none of have the number NEVER."""

    __slots__ = (
        "begun", "begun_at", "decided", "decided_at", "digest", "end", "has_pieces_here", "is_busy",
        "progress", "published", "query_id", "sink_id", "used_ms",
    )  # fmt: skip

    def __init__(self, sink_id: str) -> None:
        self.sink_id = sink_id
        self.query_id = ""
        self.decided = NEVER
        self.decided_at = NEVER
        self.has_pieces_here = False
        """Whether the last decision names pieces of this broker."""
        self.begun = NEVER
        self.begun_at = NEVER
        self.digest = ""
        self.published = NEVER
        self.used_ms = 0
        self.end = 0
        """Where its last step ends in the log: all that is known of it is safe then."""
        self.progress: Progress | None = None
        """Of the batch that was begun; None: a broker before this one has, and the log knows."""
        self.is_busy = False
        """Whether it publishes at this moment."""

    @classmethod
    def load(cls, sink_id: str, entry: SinkEntry) -> "Sink":
        """A sink as it was saved."""
        sink = cls(sink_id)
        sink.query_id, sink.used_ms = entry.query_id, entry.used_ms
        sink.decided, sink.decided_at = entry.decided_batch_id, entry.decided_at
        sink.has_pieces_here = entry.has_pieces_here
        sink.begun, sink.begun_at = entry.begun_batch_id, entry.begun_at
        sink.digest, sink.published = entry.digest, entry.published_batch_id
        return sink

    def entry(self) -> SinkEntry:
        """The same to be saved."""
        return SinkEntry(
            begun_at=self.begun_at,
            begun_batch_id=self.begun,
            decided_at=self.decided_at,
            decided_batch_id=self.decided,
            digest=self.digest,
            has_pieces_here=self.has_pieces_here,
            published_batch_id=self.published,
            query_id=self.query_id,
            used_ms=self.used_ms,
        )

    @property
    def is_unpublished(self) -> bool:
        """Whether something of the last batch that was decided is left to publish here."""
        return self.has_pieces_here and self.published < self.decided

    @property
    def is_published(self) -> bool:
        """Whether a batch was decided, and nothing of the last one is left."""
        return self.decided != NEVER and not self.is_unpublished


class Sinks:
    """All sinks of a broker. ``put`` stores a record as it is.

    sinks.start()                                     # the store is open
    sink, is_new = sinks.decide("sink", 7, "query", decision)
    sinks.begin("sink", 8, "query", digest)           # publications.py does
    sinks.note_published(sink, 8, messages)
    sinks.settle()                                    # now and then, and when the store is closed
    """

    def __init__(
        self,
        store: Store,
        topics: Topics,
        table: SinkTable,
        sending: Sending,
        put: Callable[[Record], PutResult],
        *,
        broker_name: str,
        clock_ms: Callable[[], int],
        sinks_max: int = SINKS_MAX,
    ) -> None:
        self._store = store
        self._topics = topics
        self._table = table
        self._sending = sending
        self._put = put
        self._broker_name = broker_name
        self._clock_ms = clock_ms
        self._sinks_max = min(sinks_max, SINKS_MAX)
        self._sinks: dict[str, Sink] = {}
        """The longest unused first."""
        self._changed: dict[str, Sink] = {}
        self._next_offset = 0
        self._end = 0
        # What the table is given once the log is on the disk that far.
        self._marked: dict[str, SinkEntry] = {}
        self._marked_offset = 0
        self._marked_end = 0

    def __len__(self) -> int:
        return len(self._sinks)

    # --- starting ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Find out how far everybody is."""
        saved = sorted(self._table.sinks.items(), key=lambda item: item[1].used_ms)
        self._sinks = {sink_id: Sink.load(sink_id, entry) for sink_id, entry in saved}
        queue = self._store.queue(SINKS_TOPIC, QUEUE_ID)
        least, most = (0, 0) if queue is None else (queue.queue_offset_min, queue.queue_offset_max)
        begin = min(max(self._table.next_offset, least), most)
        for offset in range(begin, most):
            unit = None if queue is None else queue.unit(offset)
            if unit is not None:
                self._read(unit.log_offset)
        self._next_offset, self._marked_offset = most, begin
        self._end = self._store.log.written
        if most > begin:
            log.info("%d sinks are known, %d steps of them were read", len(self), most - begin)

    def _read(self, log_offset: int) -> None:
        try:
            record = self._store.record_at(log_offset)
        except (StoreError, RecordError) as error:
            log.error("a step of a sink cannot be read: %s", error)
            return
        step = read_step(record)
        if step is None:
            log.error("no step of a sink is in the record at %d of the log", log_offset)
        else:
            self._apply(self._get_or_add(step.sink_id), step, log_offset, record.store_time_ms)

    # --- what is known ----------------------------------------------------------------------------

    def find(self, sink_id: str) -> Sink | None:
        """A sink that somebody asks about; None if nothing is known of it."""
        sink = self._sinks.pop(sink_id, None)
        if sink is not None:
            self._sinks[sink_id] = sink
        return sink

    def decision_of(self, sink: Sink) -> bytes | None:
        """What a sink has decided last; None if the log has lost it, or it has decided nothing."""
        if sink.decided == NEVER:
            return None
        try:
            step = read_step(self._store.record_at(sink.decided_at))
        except (StoreError, RecordError):
            return None
        is_it = step is not None and (step.kind, step.sink_id, step.batch_id) == (
            DECIDED, sink.sink_id, sink.decided,
        )  # fmt: skip
        return step.body if step is not None and is_it else None

    def check_query(self, sink: Sink, query_id: str) -> None:
        """RequestError if the batches of a sink are those of another query."""
        if sink.query_id != query_id:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"sink {sink.sink_id} is that of query {sink.query_id}, which has decided batch"
                f" {sink.decided} and published {sink.published}, and not of query {query_id}:"
                " its numbers mean other batches; choose another sinkId",
            )

    # --- steps ------------------------------------------------------------------------------------

    def decide(self, sink_id: str, batch_id: int, query_id: str, body: bytes) -> tuple[Sink, bool]:
        """Store a decision; whether it is a new one, False if this batch was decided before.

        RequestError if the batch comes too late or too early, PutRefusedError if the store does not
        take it.
        """
        sink = self.find(sink_id)
        if sink is not None:
            self.check_query(sink, query_id)
            if batch_id == sink.decided:
                return sink, False
            self._check_next(sink, batch_id)
        return self._take(Step(DECIDED, sink_id, batch_id, query_id, body)), True

    def _check_next(self, sink: Sink, batch_id: int) -> None:
        if batch_id < sink.decided:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"sink {sink.sink_id} has decided batch {sink.decided} and cannot decide"
                f" {batch_id} any more: ask for its state, and go on behind that batch",
            )
        if sink.is_unpublished:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"sink {sink.sink_id} has decided batch {sink.decided}, which is not published"
                f" here (the last one that is: {sink.published}), and cannot decide {batch_id}"
                " before it is: send PUBLISH_STAGED for it",
            )

    def begin(self, sink_id: str, batch_id: int, query_id: str, digest: str) -> Sink:
        """A batch is about to be published; its messages come behind this step in the log."""
        return self._take(Step(BEGUN, sink_id, batch_id, query_id, digest.encode()))

    def note_published(self, sink_id: str, batch_id: int, query_id: str, messages: int) -> Sink:
        """All of a batch is published; its messages came before this step."""
        body = f"{messages} messages".encode()
        return self._take(Step(PUBLISHED, sink_id, batch_id, query_id, body))

    def _take(self, step: Step) -> Sink:
        if step.sink_id not in self._sinks:
            self._make_room()
        self._topics.create_own(SINKS_TOPIC)
        record = make_step(step)
        record.born_time_ms = self._clock_ms()
        record.born_host = record.store_host = self._sending.store_host
        where = self._put(record)
        sink = self._get_or_add(step.sink_id)
        self._apply(sink, step, where.log_offset, where.store_time_ms)
        sink.end = self._end = where.end
        if step.kind == BEGUN:
            sink.progress = _BEGINNING
        self._next_offset = where.queue_offset + 1
        return sink

    def _get_or_add(self, sink_id: str) -> Sink:
        sink = self.find(sink_id)
        if sink is None:
            self._make_room()
            sink = self._sinks[sink_id] = Sink(sink_id)
        return sink

    def _make_room(self) -> None:
        while len(self._sinks) >= self._sinks_max:
            idle = (sink for sink in self._sinks.values() if not sink.is_busy)
            oldest = next(idle, None)
            if oldest is None:
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY,
                    f"{len(self._sinks)} sinks publish at this moment, the bound; try again",
                )
            self._forget(oldest)

    def _forget(self, sink: Sink) -> None:
        for known in (self._sinks, self._changed, self._marked):
            known.pop(sink.sink_id, None)
        self._table.remove(sink.sink_id)
        log.warning(
            "sink %s of query %s is forgotten, which nobody has used for longest: at most %d are"
            " kept; its last batch here is %d, published up to %d",
            sink.sink_id, sink.query_id, self._sinks_max, sink.decided, sink.published,
        )  # fmt: skip

    def _apply(self, sink: Sink, step: Step, log_offset: int, time_ms: int) -> None:
        """A step was stored, or is read again; whatever is known already changes nothing."""
        sink.query_id = sink.query_id or step.query_id
        sink.used_ms = max(sink.used_ms, time_ms)
        if step.kind == DECIDED and step.batch_id > sink.decided:
            sink.decided, sink.decided_at = step.batch_id, log_offset
            sink.has_pieces_here = self._is_about_us(step.body)
        elif step.kind == BEGUN and step.batch_id > sink.begun:
            sink.begun, sink.begun_at = step.batch_id, log_offset
            sink.digest = step.body.decode("ascii", "replace")
            sink.progress = None
        elif step.kind == PUBLISHED:
            sink.published = max(sink.published, step.batch_id)
        self._changed[sink.sink_id] = sink

    def _is_about_us(self, body: bytes) -> bool:
        try:
            return bool(decode_body(StagedDecision, body).pieces.get(self._broker_name))
        except BodyError:
            return False

    # --- saving -----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Give the table what is on the disk by now."""
        flushed = self._store.flushed
        for _ in range(2):  # what was marked before, and what has come since
            if self._marked_end > flushed:
                return
            for sink_id, entry in self._marked.items():
                self._table.put(sink_id, entry)
            self._table.note_next(self._marked_offset)
            self._marked = {sink_id: sink.entry() for sink_id, sink in self._changed.items()}
            self._changed = {}
            self._marked_offset, self._marked_end = self._next_offset, self._end
