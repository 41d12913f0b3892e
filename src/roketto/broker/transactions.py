"""The transactions of a broker: which are open, who is asked about them, how far all is decided.

Every half message that nobody has decided is in one table, by the first of its links (see
half_messages.py). What is not in it was decided: a second word of its producer changes nothing.
The table is made anew at each start, of what the log says (transaction_scan.py).

How far the table reaches back is kept as Java does, in the consumer offsets of CID_RMQ_SYS_TRANS:
of the half topic the first message that is still open, of the op topic the first that speaks of it
or of a later one. They are noted when everything that they rest on is on the disk.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from heapq import nlargest
from typing import Final

from roketto.broker.config import BrokerConfig
from roketto.broker.half_messages import (
    HALF_QUEUE_ID,
    as_given_up,
    asked_times,
    immunity_ms,
    make_half,
    real_queue_end,
    renew,
)
from roketto.broker.offsets import Offsets
from roketto.broker.sending import Sending
from roketto.broker.transaction_scan import find_committed, scan
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.errors import RecordError
from roketto.protocol.names import HALF_OP_TOPIC, HALF_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.property_names import REAL_TOPIC, TAGS, UNIQ_KEY
from roketto.protocol.record import Record, encode_topic
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import PutResult, Store
from roketto.store.transaction_metrics import TransactionMetricsTable

__all__ = ["OpenTransaction", "Transactions"]

log = logging.getLogger(__name__)

GROUP: Final = "CID_RMQ_SYS_TRANS"
OPEN_MAX: Final = 1_000_000
"""Transactions that may be open, of some 300 bytes each; no more half messages are taken then."""
TOPICS_MAX: Final = 200_000
"""Topics whose transactions are counted, as many as a broker has; those of more are together."""
TURN_MAX: Final = 64
"""Half messages that are asked about before others get their turn."""

_DECIDED: Final = "d"
"""The tag of messages in the op topic."""
_OP_BYTES_MAX: Final = 4_096
_BEAT_S: Final = 0.5
_SHOWN_TOPICS_MAX: Final = 10
_HOUR_MS: Final = 3_600_000


class OpenCount:
    """How many transactions of a topic are open, and what tells their half messages."""

    __slots__ = ("_ends", "_field", "count", "topic")

    def __init__(self, topic: str) -> None:
        self.topic: str = topic
        self.count: int = 0
        self._field: bytes = b""
        self._ends: dict[int, bytes] = {}

    @property
    def field(self) -> bytes:
        """The name of the topic as records have it; of one that plain half messages are for."""
        if not self._field:
            self._field = encode_topic(self.topic)
        return self._field

    def real_queue_end(self, queue_id: int) -> bytes:
        """What the properties of plain half messages for a queue of the topic end with."""
        end = self._ends.get(queue_id)
        if end is None:
            end = self._ends[queue_id] = real_queue_end(self.topic, queue_id)
        return end


class OpenTransaction:
    """A transaction that nobody has decided: its first link, its last one, and when to ask."""

    __slots__ = (
        "counted", "due_ms", "first", "group", "log_offset", "offset", "queue_id", "size",
    )  # fmt: skip

    def __init__(
        self,
        first: int,
        offset: int,
        log_offset: int,
        due_ms: int,
        counted: OpenCount,
        group: str = "",
        queue_id: int = 0,
        size: int = 0,
    ) -> None:
        self.first: int = first
        self.offset: int = offset
        self.log_offset: int = log_offset
        self.due_ms: int = due_ms
        """Its producers are not asked before."""
        self.group: str = group
        """Of its producers, if it is a plain one with a single link; then its message belongs
        into ``queue_id`` of the topic, and ``size`` is that of its half message in the log. Empty:
        the log has to be asked for all that."""
        self.counted: OpenCount = counted
        """With the others of its topic."""
        self.queue_id: int = queue_id
        self.size: int = size


class _Counts:
    """How transactions went since the start."""

    __slots__ = ("asked", "committed", "given_up", "rolled_back", "unheard")

    def __init__(self) -> None:
        self.committed: int = 0
        self.rolled_back: int = 0
        self.asked: int = 0
        """Questions to producers."""
        self.unheard: int = 0
        """Questions that no producer was there for."""
        self.given_up: int = 0


class Transactions:
    """All of them. ``put`` stores a message as it is, ``delay`` lets one wait that is delayed,
    ``give_up`` is called before a message is given up, and ``ask`` asks a producer about a link.

    transactions.start()                          # the store is open
    transactions.prepare(record)
    transactions.find_open(first)                 # the log offset of its last link
    transactions.commit(first, offset, end)       # its message is stored, and ends there in the log
    task = asyncio.create_task(transactions.run())
    """

    def __init__(
        self,
        store: Store,
        offsets: Offsets,
        config: BrokerConfig,
        sending: Sending,
        put: Callable[[Record], PutResult],
        metrics: TransactionMetricsTable,
        *,
        delay: Callable[[Record], None],
        give_up: Callable[[], object],
        ask: Callable[[Record], bool],
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._config = config
        self._sending = sending
        self._put = put
        self._delay = delay
        self._give_up = give_up
        self._ask = ask
        self._clock_ms = clock_ms
        # The usual clock is called by its name, which compiled code does without a look at it.
        self._is_wall_clock = clock_ms is wall_ms
        self._group = ""
        """The producers of the last half message: thousands of one group have one text for it."""
        self._metrics = metrics
        self._open: dict[int, OpenTransaction] = {}
        """By the first link, in the order of the last ones."""
        self._topics: dict[str, OpenCount] = {}
        """How many of them there are for each topic."""
        self._decided: list[int] = []
        """Offsets of half messages that no message of the op topic speaks of yet."""
        self._ops: deque[tuple[int, int]] = deque()
        """Of messages of the op topic: where, and the last half message that it speaks of."""
        self._half_end = 0
        self._op_end = 0
        self._end = 0
        """Where the last record that all this rests on ends in the log."""
        self._mark: tuple[int, int] = (0, 0)
        self._mark_end = 0
        self._counts = _Counts()
        self._soon: Callable[[Callable[[], object]], object] | None = None
        self._is_due = False
        self._refused = ""

    # --- one transaction --------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Whether no more half messages are taken."""
        return len(self._open) >= OPEN_MAX

    def prepare(self, record: Record) -> PutResult:
        """Store a message that waits for the end of its transaction."""
        if self.is_full:
            raise PutRefusedError(
                PutStatus.SERVICE_NOT_AVAILABLE,
                f"{len(self._open)} transactions are open, the bound; let producers of their groups"
                " come and decide them, or lower transactionCheckMax so that they are given up",
            )
        make_half(record)
        where = self._put(record)
        record.queue_offset = where.queue_offset
        self._enter(record.queue_offset, record, where.log_offset)
        return where

    def _enter(self, first: int, half: Record, log_offset: int) -> None:
        immunity = immunity_ms(half)
        if immunity is None:
            immunity = self._config.transaction_time_out
        born_ms = min(half.born_time_ms, self._clock_ms())  # nobody's clock puts it off for long
        before = self._open.pop(first, None)
        if before is None:
            counted = self._count_in(half.get_property(REAL_TOPIC) or "")
        else:
            counted = before.counted
        self._open[first] = OpenTransaction(
            first, half.queue_offset, log_offset, born_ms + immunity, counted
        )
        self._half_end = half.queue_offset + 1

    def enter_plain(
        self,
        offset: int,
        log_offset: int,
        size: int,
        born_time_ms: int,
        group: str,
        topic: str,
        queue_id: int,
    ) -> None:
        """A half message was stored that says nothing of when its producer wants to be asked."""
        now_ms = wall_ms() if self._is_wall_clock else self._clock_ms()
        born_ms = born_time_ms if born_time_ms < now_ms else now_ms
        if group != self._group:
            self._group = group
        self._open[offset] = OpenTransaction(
            offset, offset, log_offset, born_ms + self._config.transaction_time_out,
            self._count_in(topic), self._group, queue_id, size,
        )  # fmt: skip
        self._half_end = offset + 1

    def _count_in(self, topic: str) -> OpenCount:
        """One more is open for a topic."""
        counted = self._topics.get(topic)
        if counted is None:
            if len(self._topics) >= TOPICS_MAX:
                topic = ""
            counted = self._topics.setdefault(topic, OpenCount(topic))
        counted.count += 1
        return counted

    def find_plain(self, offset: int, log_offset: int, group: str) -> OpenTransaction | None:
        """The open transaction of a plain half message of a group, by its places; None else."""
        found = self._open.get(offset)
        if (
            found is None
            or not found.group
            or found.group != group
            or found.offset != offset
            or found.log_offset != log_offset
        ):
            return None
        return found

    def find_open(self, first: int) -> int | None:
        """Where the last link of an open transaction is in the log; None if it was decided."""
        found = self._open.get(first)
        return None if found is None else found.log_offset

    def commit(self, first: int, offset: int, end: int) -> None:
        """A transaction was committed: its message is stored, and ends at ``end`` of the log."""
        self._counts.committed += 1
        self._decide(first, offset, end)

    def _decide(self, first: int, offset: int, end: int = 0) -> None:
        """A transaction has ended, by what was said of its link ``offset``.

        Its message is stored, if there is one to store, up to ``end``.
        """
        found = self._open.pop(first)
        found.counted.count -= 1
        if first == offset == found.offset:
            self._decided.append(first)
        else:
            self._decided += sorted({first, offset, found.offset})
        self._end = max(self._end, end)
        if self._soon is None:
            self.write_decided()
        elif not self._is_due:
            self._is_due = True
            self._soon(self.write_decided)

    def roll_back(self, first: int, offset: int) -> int:
        """Store that a transaction ends with nothing; where that record ends in the log.

        PutRefusedError if the store does not take it: the transaction is open then.
        """
        found = self._open[first]
        offsets = sorted({first, offset, found.offset})
        self._write_op("".join(f"{at}," for at in offsets), offsets[-1])
        del self._open[first]
        found.counted.count -= 1
        self._counts.rolled_back += 1
        return self._end

    def write_decided(self) -> None:
        """Bring to the op topic what was decided; what the store does not take stays for later."""
        self._is_due = False
        while self._decided:
            count = len(self._decided)
            while (text := "".join(f"{at}," for at in self._decided[:count])) and (
                len(text) > _OP_BYTES_MAX
            ):
                count //= 2
            try:
                self._write_op(text, max(self._decided[:count]))
            except PutRefusedError as refused:
                self._note_refusal(refused)
                break
            del self._decided[:count]

    def _write_op(self, text: str, last: int) -> None:
        """Store a message of the op topic; ``last`` is the last half message that it speaks of."""
        where = self._put(self._make_op(text))
        self._ops.append((where.queue_offset, last))
        self._op_end = where.queue_offset + 1
        self._end = where.end
        self._refused = ""

    def _make_op(self, text: str) -> Record:
        sending = self._sending
        properties = {UNIQ_KEY: sending.next_unique_id(), TAGS: _DECIDED}
        return Record(
            HALF_OP_TOPIC,
            text.encode(),
            encode_properties(properties),
            queue_id=HALF_QUEUE_ID,
            born_time_ms=self._clock_ms(),
            born_host=sending.store_host,
            store_host=sending.store_host,
        )

    def _note_refusal(self, refused: PutRefusedError) -> None:
        if refused.reason != self._refused:
            self._refused = refused.reason
            log.warning("transactions wait, the store takes no messages: %s", refused)

    # --- asking -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask about what is open; never ends by itself."""
        self._soon = asyncio.get_running_loop().call_soon
        checked_s = counted_s = monotonic_s()
        while True:
            await asyncio.sleep(_BEAT_S)
            try:
                self.write_decided()
                self.settle()
                interval_s = self._config.transaction_metric_flush_interval / 1000
                if monotonic_s() - counted_s >= interval_s:
                    counted_s = monotonic_s()
                    self.note_counts()
                if monotonic_s() - checked_s >= self._config.transaction_check_interval / 1000:
                    checked_s = monotonic_s()
                    await self.check()
            except (OSError, StoreError, RecordError) as error:
                log.error("transactions cannot be looked after, and are tried again: %s", error)

    async def check(self) -> None:
        """Ask about everything that has been open for long enough, once."""
        for number, found in enumerate(list(self._open.values())):
            if number % TURN_MAX == TURN_MAX - 1:
                await asyncio.sleep(0)
            is_open = self._open.get(found.first) is found
            if is_open and self._clock_ms() >= found.due_ms and not self._check_one(found):
                break

    def _check_one(self, found: OpenTransaction) -> bool:
        """Ask about one, or give it up; False if the store does not take it."""
        try:
            half = self._store.record_at(found.log_offset)
        except (StoreError, RecordError) as error:
            log.error("the half message at %d of the log is lost: %s", found.log_offset, error)
            self._decide(found.first, found.offset)
            return True
        try:
            if self._is_hopeless(half):
                self._give_up()
                where = self._put(as_given_up(half))
                log.warning("%r is given up: nobody says what became of its transaction", half)
                self._decide(found.first, found.offset, where.end)
                self._counts.given_up += 1
                return True
            link = renew(half)
            where = self._put(link)
        except PutRefusedError as refused:
            self._note_refusal(refused)
            return False
        link.queue_offset, link.log_offset = where.queue_offset, where.log_offset
        self._enter(found.first, link, where.log_offset)
        self._end = where.end
        self._counts.asked += 1
        if not self._ask(link):
            self._counts.unheard += 1
        return True

    def _is_hopeless(self, half: Record) -> bool:
        config = self._config
        age_ms = self._clock_ms() - half.born_time_ms
        return (
            asked_times(half) >= config.transaction_check_max
            or age_ms > config.file_reserved_time * _HOUR_MS
        )

    # --- starting ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Find out what is open."""
        found = scan(
            self._store,
            self._offsets.get(HALF_TOPIC, GROUP, HALF_QUEUE_ID),
            self._offsets.get(HALF_OP_TOPIC, GROUP, HALF_QUEUE_ID),
        )
        self._ops.extend(found.ops)
        self._op_end = found.op_end
        for first, half in found.halves.items():
            self._enter(first, half, half.log_offset)
        self._half_end = found.half_end
        for first in find_committed(self._store, found.halves, self._delay):
            self._decide(first, first)
        self._mark = self._progress()
        self.note_counts()
        if self._open:
            log.info("%d transactions are open", len(self._open))

    # --- how it is doing --------------------------------------------------------------------------

    def figures(self) -> dict[str, str]:
        """What operators are shown."""
        counts = self._counts
        return {
            "transactionsOpen": str(len(self._open)),
            "transactionsOpenMax": str(OPEN_MAX),
            "transactionsOpenByTopic": self._shown_counts(),
            "transactionsCommitted": str(counts.committed),
            "transactionsRolledBack": str(counts.rolled_back),
            "transactionsAsked": str(counts.asked),
            "transactionsAskedNobody": str(counts.unheard),
            "transactionsGivenUp": str(counts.given_up),
        }

    def _shown_counts(self) -> str:
        """The topics with most of what is open, as other distributions are shown."""
        most = nlargest(_SHOWN_TOPICS_MAX, self._topics.values(), key=lambda found: found.count)
        return " ".join(f"[{found.topic}]:{found.count}" for found in most if found.count) or "none"

    def note_counts(self) -> None:
        """Let the table of open transactions be what it should be."""
        self._metrics.note({topic: found.count for topic, found in self._topics.items()})

    # --- how far it is ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Note how far everything is decided, as far as that is on the disk."""
        flushed = self._store.flushed
        if self._end <= flushed and not self._decided:
            self._note(self._progress())
        elif self._mark_end <= flushed:
            self._note(self._mark)
            if not self._decided:
                self._mark, self._mark_end = self._progress(), self._end

    def _progress(self) -> tuple[int, int]:
        """The first half message that is open, and the first of the op topic that is needed."""
        half = next((found.offset for found in self._open.values()), self._half_end)
        while self._ops and self._ops[0][1] < half:
            self._ops.popleft()
        return half, self._ops[0][0] if self._ops else self._op_end

    def _note(self, progress: tuple[int, int]) -> None:
        for topic, offset in zip((HALF_TOPIC, HALF_OP_TOPIC), progress, strict=True):
            if offset != (self._offsets.get(topic, GROUP, HALF_QUEUE_ID) or 0):
                self._offsets.commit(topic, GROUP, HALF_QUEUE_ID, offset)
