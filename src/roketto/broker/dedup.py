"""Dedup windows and the store: what windows know after a start, and the messages behind their ids.

What a window has to know is in the queues of its topic, and for messages that wait for their time
or for the end of their transaction in the queues of these. So nothing else is kept: after a start,
or when an operator gives a topic a window, they are read from where the window begins, some
hundred messages a turn. Until that is done whoever sends to the topic waits; a retry cannot slip
through.

What became of the first message decides whether another one with its id is a duplicate:

=================================  ================================================================
it is in its queue                 yes
it waits for its time              yes; the answer names the place where it waits, as the first did
it is part of an open transaction  yes, if the other one is, too: the producer decides on the first
its transaction was committed      yes
it was rolled back, or given up    no: the message is nowhere, and is taken
its topic was deleted              no
retention has removed it           no
=================================  ================================================================
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import Final

from roketto.broker.context import Context
from roketto.broker.dedup_window import UNKNOWN, DedupWindow
from roketto.broker.half_messages import first_link
from roketto.broker.topics import Topics
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX
from roketto.protocol.properties import get_property
from roketto.protocol.property_names import REAL_QUEUE_ID, REAL_TOPIC
from roketto.protocol.record import Record
from roketto.protocol.record_layout import (
    peek_properties,
    peek_store_time_ms,
    peek_sys_flag,
)
from roketto.protocol.sysflags import TRANSACTION_COMMIT, TRANSACTION_TYPE
from roketto.store.errors import StoreError
from roketto.store.huge_pages import collapse
from roketto.store.segments import OutsideLogError
from roketto.store.store import Store
from roketto.store.unit import UNIT_BYTES, scan

__all__ = ["Dedup", "find_first", "note_committed", "queue_of", "wait_until_ready"]

log = logging.getLogger(__name__)

LOOKS_PER_TURN: Final = 256
"""Messages that are looked at in one turn: about a millisecond."""
OPENED_PER_TURN: Final = 16
"""Queues in which the begin of a window is looked for in one turn."""
FORGOTTEN_PER_TURN: Final = 2_048
_UNITS_AT_ONCE: Final = 128

WAIT_S_MAX: Final = 2.0
"""How long a send waits for its window; clients wait three seconds for an answer."""
_BEAT_S: Final = 1.0
_FLUSH_S: Final = 0.005
_BEATS_PER_MINUTE: Final = 60
_BEATS_PER_COLLAPSE: Final = 10
IDS_MANY: Final = 100_000
"""Three megabytes: in use all over, these are most of the pages that some processors remember the
places of."""

_WAITING_TOPICS: Final = (SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX + "wheel_timer", HALF_TOPIC)
"""Where messages wait that name their real topic."""

_Seen = tuple[int, int, str]
"""Log offset and size of a message, and its topic."""


# --- the message behind an id ---------------------------------------------------------------------


def find_first(
    context: Context, window: DedupWindow, identity: str, *, is_half: bool
) -> Record | None:
    """The message that another one with this id is a duplicate of; None if it is to be stored."""
    at = window.find(identity)
    if at == UNKNOWN:
        return None
    first = _read(context.store, at)
    if first is None or window.identity(first.properties_raw) != identity:
        return None  # removed, or of another id with the same hash
    if first.topic != window.topic and first.get_property(REAL_TOPIC) != window.topic:
        return None
    if first.topic == HALF_TOPIC:
        is_open = context.transactions.find_open(first_link(first)) is not None
        return first if is_half and is_open else None
    if is_half:
        if first.sys_flag & TRANSACTION_TYPE != TRANSACTION_COMMIT:
            return None
        half = _read(context.store, first.prepared_log_offset)
        return half if half is not None and half.topic == HALF_TOPIC else first
    return first


def queue_of(first: Record, window: DedupWindow) -> str:
    """The queue that the producer was told of when this message came, as an answer says it."""
    if first.topic == window.topic:
        return str(first.queue_id)
    return first.get_property(REAL_QUEUE_ID) or "0"


def note_committed(context: Context, topic: str, raw: bytes, log_offset: int) -> None:
    """The message of a transaction is where it belongs."""
    window = context.topics.windows.get(topic)
    identity = None if window is None else window.identity(raw)
    if window is not None and identity is not None:
        window.remember_early(identity, log_offset)


async def wait_until_ready(window: DedupWindow) -> None:
    """Wait until a window knows what it has to; RequestError if that takes too long."""
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            await window.ready.wait()
    except TimeoutError:
        raise RequestError(
            ResponseCode.SYSTEM_BUSY,
            f"[DEDUP]system busy, start flow control for a while: topic {window.topic} was waited"
            f" for {WAIT_S_MAX:g} s, until what it took in the last {window.seconds} s is read"
            " again (dedup.window.seconds); send again",
        ) from None


def _read(store: Store, log_offset: int) -> Record | None:
    try:
        return store.record_at(log_offset)
    except (OutsideLogError, RecordError):
        return None


# --- what was stored before -----------------------------------------------------------------------


class Rebuild:
    """Reads again what some windows have to know, in the order of the log.

    rebuild = Rebuild(store, windows, now_ms)
    while not rebuild.step():
        await asyncio.sleep(0)
    """

    def __init__(self, store: Store, windows: list[DedupWindow], now_ms: int, ids_max: int) -> None:
        self.seen = 0
        self._store = store
        self._windows = {window.topic: window for window in windows}
        self._now_ms = now_ms
        self._ids_max = ids_max
        self._needed = store.log.written
        self._unopened: list[tuple[str, int, int]] | None = None
        """Queues that are to be read, each from a time on; None: nobody has looked yet."""
        self._opened: list[Iterator[_Seen]] = []
        self._all: Iterator[_Seen] | None = None

    def _queues(self) -> list[tuple[str, int, int]]:
        """Those of the topics, and those where messages of them may wait."""
        ids = dict(self._store.topics())
        seconds = {topic: window.seconds for topic, window in self._windows.items()}
        seconds |= dict.fromkeys(_WAITING_TOPICS, max(seconds.values()))
        return [
            (topic, queue_id, self._since_ms(seconds[topic]))
            for topic in seconds
            for queue_id in ids.get(topic, ())
        ]

    def _since_ms(self, seconds: int) -> int:
        return self._now_ms - seconds * 1_000

    @property
    def waits_for_disk(self) -> bool:
        """Whether messages that were stored before are in no queue yet."""
        waiting_from = self._store.appender.waiting.log_offset()
        return waiting_from is not None and waiting_from < self._needed

    def step(self) -> bool:
        """Look at some more; whether all were looked at."""
        if self.waits_for_disk:
            return False
        if self._unopened is None:
            self._unopened = self._queues()
        if self._unopened:
            for _ in range(min(OPENED_PER_TURN, len(self._unopened))):
                self._opened.append(self._open(*self._unopened.pop()))
            return False
        if self._all is None:
            self._all = merge(*self._opened)
        count = 0
        for log_offset, size, topic in islice(self._all, LOOKS_PER_TURN):
            count += 1
            try:
                self._look(log_offset, size, topic)
            except (OutsideLogError, RecordError) as error:
                log.warning("a message that may come again cannot be read: %s", error)
        self.seen += count
        if count == LOOKS_PER_TURN:
            return False
        for window in self._windows.values():
            window.set_ready()
        return True

    def _open(self, topic: str, queue_id: int, since_ms: int) -> Iterator[_Seen]:
        """The messages of a queue since a time, but no more of the last ones than count."""
        queue = self._store.queue(topic, queue_id)
        end = 0 if queue is None else queue.queue_offset_max
        begin = self._store.offset_by_time(topic, queue_id, since_ms)
        return self._follow(topic, queue_id, max(begin, end - self._ids_max), end)

    def _follow(self, topic: str, queue_id: int, at: int, end: int) -> Iterator[_Seen]:
        while at < end:
            queue = self._store.queue(topic, queue_id)
            if queue is None:
                return
            at = max(at, queue.queue_offset_min)
            raw = queue.read(at, min(_UNITS_AT_ONCE, end - at))
            if not raw:
                return
            for log_offset, size, _, _ in scan(raw, None):
                yield log_offset, size, topic
            at += len(raw) // UNIT_BYTES

    def _look(self, log_offset: int, size: int, topic: str) -> None:
        view = self._store.log.read(log_offset, size)
        raw = bytes(peek_properties(view))
        if topic in _WAITING_TOPICS:
            topic = get_property(raw, REAL_TOPIC) or ""
        window = self._windows.get(topic)
        if window is None or window.is_ready:  # an operator has taken it away meanwhile
            return
        identity = window.identity(raw)
        store_time_ms = peek_store_time_ms(view)
        if identity is not None and store_time_ms >= self._since_ms(window.seconds):
            is_commit = peek_sys_flag(view) & TRANSACTION_TYPE == TRANSACTION_COMMIT
            window.recall(identity, log_offset, store_time_ms, is_last=is_commit)


class Dedup:
    """Keeps the windows of a broker: fills new ones, and lets ids be forgotten in time.

    dedup = Dedup(store, topics, clock_ms)
    dedup.start()                                # the store is open
    task = asyncio.create_task(dedup.run())
    """

    def __init__(
        self,
        store: Store,
        topics: Topics,
        clock_ms: Callable[[], int],
        collapse: Callable[[], int] = collapse,
    ) -> None:
        self._store = store
        self._topics = topics
        self._windows = topics.windows
        self._clock_ms = clock_ms
        self._collapse = collapse
        self._beats = 0
        self._forgotten = 0

    def start(self) -> None:
        """Make the windows that topics have."""
        for config in self._topics.topics.values():
            self._windows.of(config)

    async def run(self) -> None:
        """Never ends by itself."""
        while True:
            self._windows.made.clear()
            try:
                await self.fill()
                await self.tick()
            except (OSError, StoreError, RecordError) as error:
                log.error("dedup windows cannot be kept, and are tried again: %s", error)
                await asyncio.sleep(_BEAT_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEAT_S):
                    await self._windows.made.wait()

    async def fill(self) -> None:
        """Let windows that are new know what they have to."""
        new = [window for window in self._windows.by_topic.values() if not window.is_ready]
        if not new:
            return
        rebuild = Rebuild(self._store, new, self._clock_ms(), self._windows.ids_max)
        while not rebuild.step():  # noqa: ASYNC110 (it works, and lets others work in between)
            await asyncio.sleep(_FLUSH_S if rebuild.waits_for_disk else 0)
        log.info(
            "%d dedup windows know %d ids, of %d messages that were read",
            len(new), sum(map(len, new)), rebuild.seen,
        )  # fmt: skip

    async def tick(self) -> None:
        """Once a second: forget ids whose time is over, and windows that nobody wants."""
        now_ms, log_end = self._clock_ms(), self._store.log.written
        for topic, window in list(self._windows.by_topic.items()):
            config = self._topics.get(topic)
            if config is None:
                self._windows.drop(topic)
            elif self._windows.of(config) is window:
                if len(window):
                    window.mark(now_ms, log_end)
                while window.expire(now_ms, FORGOTTEN_PER_TURN):  # noqa: ASYNC110 (likewise)
                    await asyncio.sleep(0)
        self._beats += 1
        if self._beats % _BEATS_PER_MINUTE == 0:
            self._warn()
        if self._beats % _BEATS_PER_COLLAPSE == 0 and self._windows.count >= IDS_MANY:
            # An id may be anywhere in them, and to look for its page takes as long as for itself.
            await asyncio.to_thread(self._collapse)

    def _warn(self) -> None:
        forgotten, self._forgotten = self._forgotten, self._windows.room.forgotten
        if self._forgotten > forgotten:
            log.warning(
                "%d ids were forgotten before their windows were over: there is room for %d"
                " (dedupIdsMax); raise it, or shorten dedup.window.seconds",
                self._forgotten - forgotten, self._windows.ids_max,
            )  # fmt: skip
