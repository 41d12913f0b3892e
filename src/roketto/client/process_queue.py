"""What was pulled of one queue and is not consumed yet, and how far its group is; pure.

The consume offset is that of the first message which is not consumed: a consumer that begins there
again misses nothing, and gets again what was consumed behind it.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from roketto.client.received import ReceivedMessage
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.bodies.running import ProcessQueueInfo

__all__ = ["LOCK_S_MAX", "NOTHING", "PULL_IDLE_S_MAX", "ProcessQueue"]

LOCK_S_MAX: Final = 30.0
"""How long a lock counts after a broker has confirmed it; brokers hold it for 60."""
PULL_IDLE_S_MAX: Final = 120.0
"""A queue that was not pulled for so long has lost its loop: it is dropped and taken anew."""
NOTHING: Final = -1
"""Instead of an offset: there is none to commit."""


class ProcessQueue:
    """The messages of one queue; made when a consumer gets the queue, dropped when it loses it.

    queue.put(pulled.messages)
    consume_offset = queue.remove(consumed)     # concurrent: in any order

    batch = queue.take(32)                      # orderly: in the order of the queue, and then
    consume_offset = queue.commit()             # one of commit, put_back and rollback
    """

    __slots__ = (
        "_begun_s", "_last_offset", "_messages", "_offsets", "_taken", "behind", "body_bytes",
        "count", "is_dropped", "is_locked", "last_consume_s", "last_pull_s", "locked_s",
        "unlock_tries",
    )  # fmt: skip

    def __init__(self) -> None:
        now_s = monotonic_s()
        self._messages: dict[int, ReceivedMessage] = {}
        self._offsets: deque[int] = deque()
        """Ascending; has all of ``_messages``, and between them some that are gone."""
        self._taken: dict[int, ReceivedMessage] = {}
        self._begun_s: dict[int, float] = {}
        self._last_offset = 0
        self.count = 0
        """Messages that are here, with those that were taken."""
        self.body_bytes = 0
        """Bytes of their bodies."""
        self.behind = 0
        """How many messages of the queue came after the last one that was pulled."""
        self.is_dropped = False
        """The queue is another member's: nothing that is here counts any more."""
        self.is_locked = False
        self.locked_s = now_s
        self.unlock_tries = 0
        self.last_pull_s = now_s
        self.last_consume_s = now_s

    # --- in and out, in any order -----------------------------------------------------------------

    def put(self, messages: Iterable[ReceivedMessage]) -> None:
        """Add what was pulled. What is here already is not counted twice."""
        held, offsets = self._messages, self._offsets
        is_sorted = True
        message = None
        for message in messages:
            offset = message.record.queue_offset
            if offset not in held:
                self.count += 1
                self.body_bytes += len(message.record.body)
                self._last_offset = offset
                if not offsets or offset > offsets[-1]:
                    offsets.append(offset)
                else:
                    is_sorted = False
            held[offset] = message
        if not is_sorted:
            self._sort()
        if message is not None and message.max_offset > message.record.queue_offset:
            self.behind = message.max_offset - message.record.queue_offset

    def remove(self, messages: Iterable[ReceivedMessage]) -> int:
        """Forget what was consumed: the offset to commit, NOTHING if there was nothing here."""
        self.last_consume_s = monotonic_s()
        if not self._messages:
            return NOTHING
        for message in messages:
            self._forget(self._messages, message.record.queue_offset)
        first = self.first_offset
        return self._last_offset + 1 if first is None else first

    def __contains__(self, message: object) -> bool:
        """Whether a message is still to be consumed here."""
        return isinstance(message, ReceivedMessage) and message.queue_offset in self._messages

    def clear(self) -> None:
        """Forget everything, as if nothing was ever pulled."""
        self._messages.clear()
        self._offsets.clear()
        self._taken.clear()
        self._begun_s.clear()
        self._last_offset = 0
        self.count = 0
        self.body_bytes = 0

    # --- in order ---------------------------------------------------------------------------------

    def take(self, count: int) -> list[ReceivedMessage]:
        """The next messages in the order of the queue; they stay here until they are committed."""
        self.last_consume_s = monotonic_s()
        taken: list[ReceivedMessage] = []
        offsets = self._offsets
        while offsets and len(taken) < count:
            message = self._messages.pop(offset := offsets.popleft(), None)
            if message is not None:
                self._taken[offset] = message
                taken.append(message)
        return taken

    def commit(self) -> int:
        """Forget all that were taken: the offset to commit, NOTHING if none was."""
        if not self._taken:
            return NOTHING
        last = max(self._taken)
        for offset in list(self._taken):
            self._forget(self._taken, offset)
        return last + 1

    def put_back(self, messages: Iterable[ReceivedMessage]) -> None:
        """Let some that were taken be taken again."""
        for message in messages:
            offset = message.record.queue_offset
            self._taken.pop(offset, None)
            self._messages[offset] = message
        self._sort()

    def rollback(self) -> None:
        """The same for all that were taken."""
        self.put_back(list(self._taken.values()))

    # --- what is here -----------------------------------------------------------------------------

    @property
    def first_offset(self) -> int | None:
        """The lowest offset that is to be consumed, without those that were taken."""
        messages, offsets = self._messages, self._offsets
        while offsets and offsets[0] not in messages:
            offsets.popleft()
        return offsets[0] if offsets else None

    @property
    def last_offset(self) -> int | None:
        """The highest one."""
        messages, offsets = self._messages, self._offsets
        while offsets and offsets[-1] not in messages:
            offsets.pop()
        return offsets[-1] if offsets else None

    @property
    def first(self) -> ReceivedMessage | None:
        """The message that holds back the consume offset."""
        offset = self.first_offset
        return None if offset is None else self._messages[offset]

    @property
    def span(self) -> int:
        """From the first offset to the last that was pulled: what a new start would at most consume
        again.

        Java's takes the last that is here: behind one slow message others come and go, however
        many, and all of them come again.
        """
        first = self.first_offset
        return 0 if first is None else max(0, self._last_offset - first)

    @property
    def has_messages(self) -> bool:
        """Whether something is to be consumed that was not taken."""
        return bool(self._messages)

    # --- times ------------------------------------------------------------------------------------

    def begin(self, messages: Iterable[ReceivedMessage], begun_s: float | None = None) -> None:
        """Somebody begins to consume these now, or has begun then."""
        moment_s = monotonic_s() if begun_s is None else begun_s
        for message in messages:
            offset = message.record.queue_offset
            if offset in self._messages or offset in self._taken:
                self._begun_s[offset] = moment_s

    @property
    def first_begun_s(self) -> float | None:
        """When somebody began to consume the first message, None if nobody has yet."""
        offset = self.first_offset
        return None if offset is None else self._begun_s.get(offset)

    def lock(self) -> None:
        """A broker has confirmed that the queue is this consumer's alone."""
        self.is_locked = True
        self.locked_s = monotonic_s()

    def unlock(self) -> None:
        """It is not, or no longer."""
        self.is_locked = False

    @property
    def is_lock_expired(self) -> bool:
        """Whether the last confirmation is too old to count."""
        return monotonic_s() - self.locked_s > LOCK_S_MAX

    @property
    def is_pull_expired(self) -> bool:
        """Whether it was not pulled for so long that nobody seems to do it."""
        return monotonic_s() - self.last_pull_s > PULL_IDLE_S_MAX

    def describe(self, consume_offset: int) -> ProcessQueueInfo:
        """What an operator is shown of it."""
        taken = self._taken
        return ProcessQueueInfo(
            cached_msg_count=len(self._messages),
            cached_msg_max_offset=self.last_offset or 0,
            cached_msg_min_offset=self.first_offset or 0,
            cached_msg_size_mib=self.body_bytes // (1024 * 1024),
            commit_offset=consume_offset,
            dropped=self.is_dropped,
            last_consume_timestamp=_wall_ms(self.last_consume_s),
            last_lock_timestamp=_wall_ms(self.locked_s),
            last_pull_timestamp=_wall_ms(self.last_pull_s),
            locked=self.is_locked,
            transaction_msg_count=len(taken),
            transaction_msg_max_offset=max(taken, default=0),
            transaction_msg_min_offset=min(taken, default=0),
            try_unlock_times=self.unlock_tries,
        )

    def _forget(self, held: dict[int, ReceivedMessage], offset: int) -> None:
        message = held.pop(offset, None)
        if message is not None:
            self.count -= 1
            self.body_bytes -= len(message.record.body)
            self._begun_s.pop(offset, None)

    def _sort(self) -> None:
        self._offsets = deque(sorted(self._messages))


def _wall_ms(moment_s: float) -> int:
    """A moment of the monotonic clock on the one that operators read."""
    return wall_ms() - int((monotonic_s() - moment_s) * 1000)
