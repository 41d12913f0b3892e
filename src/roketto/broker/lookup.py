"""Messages by key: the index is read in steps, and every message that it leads to is looked at.

The index knows hashes only, and times by the second. Java sends whatever has the hash, at most so
many of them: messages with other keys take the place of those that were asked for. Here a message
counts if it has the key and was stored in the time. A key may have millions of messages: sends do
not wait until all were looked at, and searches that take long wait for each other.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RecordError, RequestError
from roketto.protocol.limits import FRAME_BYTES_MAX
from roketto.protocol.property_names import KEYS, UNIQ_KEY
from roketto.protocol.record import Record
from roketto.store.errors import StoreError
from roketto.store.store import Store

__all__ = ["Lookup", "Lookups"]

ENTRIES_PER_STEP: Final = 1_024
"""Entries of the index that are looked at in one step: about a millisecond."""
MESSAGES_PER_STEP: Final = 64
BYTES_PER_STEP: Final = 4 << 20
BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 1024
"""What a frame holds beside a header."""

SEARCHES_MAX: Final = 64
"""Searches that wait for each other; beyond, clients are told to come again."""
SEARCH_S_MAX: Final = 15.0
"""Java's tools wait 18 seconds for what they ask by key."""

_INDEX_STEP_MS: Final = 1_000
"""The index has whole seconds, counted from its first key."""


class Lookup:
    """One search.

    lookup = Lookup(store, "T", "key", 64, begin_ms, end_ms)    # StoreError without an index
    while not lookup.step():
        ...                                                     # let others have their turn
    lookup.views                                                # the newest, oldest first
    """

    def __init__(
        self, store: Store, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
    ) -> None:
        self._store = store
        self._topic = topic
        self._key = key
        self._count_max = count_max
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._search = store.search(topic, key, begin_ms - _INDEX_STEP_MS, end_ms)
        self._left: list[int] = []
        """Log offsets that are to be looked at, the next one at the end."""
        self._seen: set[int] = set()
        self._found: list[memoryview] = []
        self._bytes = 0
        self._is_full = count_max <= 0

    @property
    def views(self) -> tuple[memoryview, ...]:
        """The messages that were found, in the order they were stored."""
        return tuple(reversed(self._found))

    def step(self) -> bool:
        """Look at some more; whether that was all, or enough."""
        if not self._left and not self._is_full and not self._search.is_done:
            self._left = self._search.step(ENTRIES_PER_STEP)[::-1]
        looks = read_bytes = 0
        while self._left and not self._is_full:
            if looks >= MESSAGES_PER_STEP or read_bytes >= BYTES_PER_STEP:
                return False
            looks += 1
            read_bytes += self._look(self._left.pop())
        return self._is_full or self._search.is_done

    def _look(self, log_offset: int) -> int:
        """Take the message if it is wanted; how many bytes were read for that."""
        if log_offset in self._seen:  # two of its keys have the same hash, or are the same
            return 0
        try:
            record = self._store.record_at(log_offset)
        except (StoreError, RecordError):  # old files of the log go before those of the index
            return 0
        if self._is_wanted(record):
            self._seen.add(log_offset)
            self._take(self._store.log.read(log_offset, record.size))
        return record.size

    def _is_wanted(self, record: Record) -> bool:
        return (
            record.topic == self._topic
            and self._begin_ms <= record.store_time_ms <= self._end_ms
            and (
                record.get_property(UNIQ_KEY) == self._key
                or self._key in (record.get_property(KEYS) or "").split(" ")
            )
        )

    def _take(self, view: memoryview) -> None:
        if self._found and self._bytes + len(view) > BYTES_MAX:
            self._is_full = True
            return
        self._found.append(view)
        self._bytes += len(view)
        self._is_full = len(self._found) >= self._count_max


class Lookups:
    """The searches that need more than one step: one after the other, so that others have theirs.

    lookups = Lookups()
    await lookups.finish(lookup)          # RequestError: too many, or it took too long in vain
    """

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._turn = asyncio.Lock()
        self._count = 0

    async def finish(self, lookup: Lookup) -> None:
        """Take steps until all was looked at, or the time is up: then what was found counts."""
        if self._count >= SEARCHES_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{self._count} searches by key wait for each other, which is the most; try again"
                " later, or narrow the time",
            )
        deadline_s = self._now_s() + SEARCH_S_MAX
        self._count += 1
        try:
            async with self._turn:
                while not lookup.step():
                    if self._now_s() >= deadline_s:
                        _check_found(lookup)
                        return
                    await asyncio.sleep(0)
        finally:
            self._count -= 1


def _check_found(lookup: Lookup) -> None:
    if not lookup.views:
        raise RequestError(
            ResponseCode.SYSTEM_BUSY,
            f"nothing was found in {SEARCH_S_MAX:.0f} s, and not all was looked at yet: narrow the"
            " time",
        )
