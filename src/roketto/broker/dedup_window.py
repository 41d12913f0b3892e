"""Dedup windows: the ids that topics have seen of late, and where their messages are in the log.

A topic has one if an operator gave it attributes for it::

    dedup.window.seconds    how long an id counts, from when its message was stored; 0: not at all
    dedup.by                UNIQ_KEY, the id that producers give (the default), or KEYS

Only a hash of each id is kept, with the log offset of its message: whoever finds one reads the
message and compares. So an id takes about 35 bytes whatever its length, and two ids with one hash
cost a look and no more.

The number of ids of all windows is bounded. Where there is no room for one more, the oldest one is
forgotten before its time, and that counts.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from roketto.broker.id_order import IdOrder
from roketto.broker.id_table import UNKNOWN, IdTable, hash_of_id
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.names import is_dlq_topic, is_retry_topic, is_system_topic
from roketto.protocol.properties import get_property
from roketto.protocol.property_names import KEYS, UNIQ_KEY
from roketto.protocol.utf8 import encode_utf8

__all__ = [
    "BY", "BY_KEYS", "BY_UNIQUE_KEY", "EARLY_MAX", "SECONDS", "SECONDS_MAX", "UNKNOWN",
    "DedupWindow", "Windows",
]  # fmt: skip

SECONDS: Final = "dedup.window.seconds"
BY: Final = "dedup.by"
BY_UNIQUE_KEY: Final = UNIQ_KEY
BY_KEYS: Final = KEYS
SECONDS_MAX: Final = 86_400
"""A day: nobody tries again for longer, and a start has to read that much of the queues."""

_MARKS_PER_WINDOW: Final = 64
_MARK_MS_LEAST: Final = 1_000
_PARTS: Final = 64
"""Tables of a window. One of a million ids would stop everything each time it grows."""
_LAST_BITS: Final = _PARTS - 1

EARLY_MAX: Final = 65_536
"""A few megabytes. Rebuilding takes seconds, in which so many transactions hardly end."""

_IDS_PER_FORGOTTEN: Final = 16_384
"""Of a million ids, sixty are forgotten at once when there is no room for another one."""


class _Room:
    """How many more ids may be kept in all, and what became of ids and messages."""

    __slots__ = ("duplicates", "forgotten", "left")

    def __init__(self, ids_max: int) -> None:
        self.left: i64 = ids_max
        self.duplicates: int = 0
        self.forgotten: int = 0


class DedupWindow:
    """The ids of one topic: who takes a message looks here first, and notes it when it is stored.

    window.find(identity)                   # UNKNOWN, or the log offset of a message to look at
    window.remember(identity, log_offset)

    A window that was just made knows nothing, and nothing may be taken by it before ``is_ready``:
    see dedup.py.
    """

    __slots__ = (
        "_bound", "_early", "_has_replaced", "_mark_ms", "_marks", "_next_part", "_order",
        "_owner", "_room", "_tables", "_window_ms", "is_by_keys", "is_ready", "ready", "seconds",
        "topic",
    )  # fmt: skip

    def __init__(self, owner: "Windows", topic: str, seconds: int, is_by_keys: bool) -> None:
        self.topic: str = topic
        self.seconds: int = seconds
        self.is_by_keys: bool = is_by_keys
        self.is_ready: bool = False
        self.ready: asyncio.Event = asyncio.Event()
        """Set with ``is_ready``, for those who wait."""
        self._owner: Windows = owner
        self._room: _Room = owner.room
        self._window_ms: int = seconds * 1_000
        self._mark_ms: int = max(_MARK_MS_LEAST, self._window_ms // _MARKS_PER_WINDOW)
        self._order: IdOrder = IdOrder()
        """Hashes of ids and log offsets, as they are in the log; the first is forgotten next."""
        self._tables: list[IdTable] = [IdTable() for _ in range(_PARTS)]
        """Where a hash is in the order; its last bits say which of these knows it."""
        self._early: deque[tuple[str, int]] = deque()
        """Ids and log offsets of what was stored while what came before was still read again."""
        self._marks: deque[tuple[int, int]] = deque()
        """Times, and the log offsets that everything before them is below."""
        self._bound: int = 0
        self._has_replaced: bool = False
        """Whether an id was known when it was noted, and so comes twice in the order."""
        self._next_part: i64 = 0

    def __len__(self) -> int:
        """How many ids it takes the room of."""
        return self._order.count

    def identity(self, raw: bytes) -> str | None:
        """What tells a message with these properties from others; None if nothing does."""
        found = get_property(raw, KEYS if self.is_by_keys else UNIQ_KEY)
        return found if found is not None and found.strip() else None

    def find(self, identity: str) -> int:
        """Where a message is that may have this id; UNKNOWN if there is none."""
        return self.find_hash(hash_of_id(encode_utf8(identity)))

    def remember(self, identity: str, log_offset: int) -> None:
        """The message with this id is stored, and is the one to answer with from now on."""
        self.remember_hash(hash_of_id(encode_utf8(identity)), log_offset)

    def find_hash(self, number: i64) -> i64:
        """``find`` for whoever has the ``hash_of_id`` of the id, as it stands in properties."""
        order = self._order
        serial = self._tables[number & _LAST_BITS].find(number, order)
        return order.place_of(serial) if serial >= 0 else UNKNOWN

    def remember_hash(self, number: i64, log_offset: i64) -> None:
        """``remember`` likewise."""
        room = self._room
        if room.left <= 0:
            self._owner.make_room(self)
        room.left -= 1
        order = self._order
        order.add(number, log_offset)
        if self._tables[number & _LAST_BITS].put(number, order):
            self._has_replaced = True

    def remember_early(self, identity: str, log_offset: int) -> None:
        """``remember`` for a message that may be stored before this ``is_ready``.

        It comes behind what is read again. Only messages of transactions that were open before do
        not wait until then; of more than ``EARLY_MAX`` the first are forgotten.
        """
        if self.is_ready:
            self.remember(identity, log_offset)
            return
        if len(self._early) == EARLY_MAX:
            self._early.popleft()
            self._room.forgotten += 1
        self._early.append((identity, log_offset))

    def recall(self, identity: str, log_offset: int, store_time_ms: int, *, is_last: bool) -> None:
        """The same for one that was stored before: the first counts, unless this ``is_last``."""
        self.mark(store_time_ms, log_offset)
        if is_last or self.find(identity) == UNKNOWN:
            self.remember(identity, log_offset)

    def set_ready(self) -> None:
        """It knows all that it has to."""
        for identity, log_offset in self._early:
            self.remember(identity, log_offset)
        self._early.clear()
        self.is_ready = True
        self.ready.set()

    # --- time and room ----------------------------------------------------------------------------

    def mark(self, time_ms: int, log_end: int) -> None:
        """Everything that was stored before ``time_ms`` is below ``log_end`` in the log."""
        if not self._marks:
            self._marks.append((time_ms, log_end))
            return
        last_ms = self._marks[-1][0]
        if time_ms - last_ms >= self._mark_ms:
            # After a pause: what was stored before it need not live as long as what comes now.
            self._marks.append((last_ms + self._mark_ms, log_end))
            self._marks.append((time_ms, log_end))

    def expire(self, now_ms: int, count_max: int) -> bool:
        """Forget up to ``count_max`` ids whose time is over; whether there may be more."""
        while self._marks and self._marks[0][0] + self._window_ms <= now_ms:
            self._bound = self._marks.popleft()[1]
        left: i64 = count_max
        while left > 0:
            count = self._order.count_below(self._bound, left)
            if not count:
                self._tidy()
                return False
            self._forget_first(count)
            left -= count
        return True

    def forget_oldest(self, count: i64) -> int:
        """Forget what came first; of how many it was the newest of its id."""
        order = self._order
        count = min(count, order.end - order.begin)
        if not self._has_replaced:  # as ever, but where there are transactions
            self._forget_first(count)
            return count
        newest = 0
        for _ in range(count):
            serial = order.begin
            number = order.number_of(serial)
            if self._tables[number & _LAST_BITS].find(number, order) == serial:
                newest += 1
            self._forget_first(1)
        return newest

    def _forget_first(self, count: i64) -> None:
        self._order.drop(count)
        self._room.left += count

    def _tidy(self) -> None:
        """Let another one of the tables give its room back."""
        self._next_part = self._next_part + 1 & _LAST_BITS
        self._tables[self._next_part].tidy(self._order)

    def clear(self) -> None:
        """Give its room back: nobody uses it any more."""
        self._room.left += self._order.count
        self._order = IdOrder()
        self._tables = [IdTable() for _ in range(_PARTS)]
        self._early.clear()
        self.set_ready()  # whoever waits looks for the window that is now


class Windows:
    """The windows of all topics that have one.

    windows = Windows(config.dedup_ids_max)
    window = windows.of(topic_config)          # None: the topic takes whatever is sent
    windows.drop(topic)                        # it was deleted
    """

    def __init__(self, ids_max: int) -> None:
        self.ids_max: int = ids_max
        self.room: _Room = _Room(ids_max)
        self.made: asyncio.Event = asyncio.Event()
        """Set when there is a window that is not ready."""
        self._windows: dict[str, DedupWindow] = {}

    @property
    def by_topic(self) -> Mapping[str, DedupWindow]:
        """All of them."""
        return self._windows

    @property
    def count(self) -> int:
        """How many ids there are in all of them."""
        return self.ids_max - self.room.left

    def get(self, topic: str) -> DedupWindow | None:
        """The window that a topic has."""
        return self._windows.get(topic)

    def of(self, config: TopicConfig) -> DedupWindow | None:
        """The window of a topic as it is configured now."""
        topic = config.topic_name
        seconds, is_by_keys = _settings(config)
        current = self._windows.get(topic)
        if current is not None:
            if current.seconds == seconds and current.is_by_keys == is_by_keys:
                return current
            self.drop(topic)
        if not seconds:
            return None
        window = self._windows[topic] = DedupWindow(self, topic, seconds, is_by_keys)
        self.made.set()
        return window

    def drop(self, topic: str) -> None:
        """Forget what a topic has seen."""
        dropped = self._windows.pop(topic, None)
        if dropped is not None:
            dropped.clear()

    def make_room(self, window: DedupWindow) -> None:
        """Forget the oldest ids of a window that has its share, or of the largest one.

        Of very many some at once, which takes less time for each.
        """
        share = self.ids_max // max(1, len(self._windows))
        if len(window) < max(1, share):
            window = max(self._windows.values(), key=len)
        self.room.forgotten += window.forget_oldest(max(1, self.ids_max // _IDS_PER_FORGOTTEN))

    def figures(self) -> dict[str, str]:
        """What operators are shown; nothing where nobody uses it."""
        if not self._windows:
            return {}
        return {
            "dedupTopics": str(len(self._windows)),
            "dedupIds": str(self.count),
            "dedupIdsMax": str(self.ids_max),
            "dedupDuplicates": str(self.room.duplicates),
            "dedupForgottenEarly": str(self.room.forgotten),
        }


def _settings(config: TopicConfig) -> tuple[int, bool]:
    """Seconds and whether KEYS count; 0 for a topic without a window.

    Retries have the ids of what they are retries of, so that topics of groups have none, whatever
    their attributes say; neither have those that the broker writes to.
    """
    text = config.attributes.get(SECONDS, "0")
    name = config.topic_name
    if is_retry_topic(name) or is_dlq_topic(name) or is_system_topic(name):
        return 0, False
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(SECONDS_MAX))):
        return 0, False  # topics.json may say anything
    return min(int(text), SECONDS_MAX), config.attributes.get(BY) == BY_KEYS
