"""Requests that wait for messages: parked by queue, woken by arrivals, ended by their deadlines.

The table knows nothing of pulls: whoever parks a poll says what it wants and what happens when it
is resumed. An arrival in a queue on which nobody waits costs one look-up.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from roketto.clock import monotonic_s
from roketto.remoting.connection import Connection
from roketto.store.dispatch import Arrival

log = logging.getLogger(__name__)

POLLS_MAX: Final = 100_000
"""Polls of all queues: each holds a request of about a kilobyte."""
POLLS_OF_QUEUE_MAX: Final = 10_000
"""Polls of one queue: every arrival there looks at all of them."""
PASSED_BY_MAX: Final = 700
"""Unwanted messages after which a poll is woken all the same: one read looks at 800 at least, so
that its answer can say that all of them were seen."""
_BUCKETS_PER_S: Final = 10
"""Deadlines are kept by tenths of a second: more often nobody looks at them."""

CallSoon = Callable[[Callable[[], None]], object]


class Poll:
    """One request that waits for a message of a queue from ``queue_offset`` on.

    Whoever parks it derives a class from this one. A poll that does not ``wait_for_arrivals`` is
    resumed at its deadline only.
    """

    __slots__ = (
        "bucket", "connection", "deadline_s", "queue", "queue_offset", "waits_for_arrivals",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        topic: str,
        queue_id: int,
        queue_offset: int,
        deadline_s: float,
        waits_for_arrivals: bool = True,
    ) -> None:
        self.connection: Connection = connection
        self.queue: tuple[str, int] = (topic, queue_id)
        self.queue_offset: int = queue_offset
        self.deadline_s: float = deadline_s
        self.waits_for_arrivals: bool = waits_for_arrivals
        self.bucket: int = int(deadline_s * _BUCKETS_PER_S)

    def wants(self, arrival: Arrival) -> bool:
        """Whether this message is one that the poll waits for."""
        raise NotImplementedError

    def resume(self, is_late: bool) -> None:
        """Answer the request, or park it again; ``is_late``: its time is up. It is not parked now.

        Nothing may escape from here but what is a bug.
        """
        raise NotImplementedError


class LongPolls:
    """All parked polls of a broker. One thread uses it, the loop's.

    polls = LongPolls()
    store = Store(..., on_arrival=polls.arrived)
    polls.park(poll)                # False: there are too many, answer at once
    polls.expire(monotonic_s())     # ten times a second

    Arrivals only collect the polls they wake. These are resumed once the loop has handled what it
    read: so the producer is not kept waiting, and one answer has all messages of one turn.
    """

    def __init__(
        self,
        *,
        polls_max: int = POLLS_MAX,
        polls_of_queue_max: int = POLLS_OF_QUEUE_MAX,
        call_soon: CallSoon | None = None,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """``call_soon`` is that of the running loop unless it is given."""
        self.now_s = now_s
        self._polls_max = polls_max
        self._polls_of_queue_max = polls_of_queue_max
        self._call_soon = call_soon
        self._queues: dict[tuple[str, int], dict[Poll, None]] = {}
        self._buckets: dict[int, dict[Poll, None]] = {}
        self._connections: dict[Connection, dict[Poll, None]] = {}
        self._woken: list[Poll] = []
        self.answered: dict[Connection, None] = {}
        """Connections with answers that leave when all that were woken are resumed."""
        self._count = 0
        self._is_closed = False

    def __len__(self) -> int:
        """How many polls wait."""
        return self._count

    @property
    def queues(self) -> Mapping[tuple[str, int], object]:
        """The queues on which somebody waits, by topic and id; ``Store.waited``."""
        return self._queues

    def waiting_on(self, topic: str, queue_id: int) -> int:
        """How many polls wait for messages of one queue."""
        return len(self._queues.get((topic, queue_id), ()))

    def park(self, poll: Poll) -> bool:
        """Keep a poll until a message arrives or its time is up; False if it cannot be kept."""
        connection = poll.connection
        if self._count >= self._polls_max or self._is_closed or connection.closed:
            return False
        if poll.waits_for_arrivals:
            polls = self._queues.get(poll.queue)
            if polls is None:
                self._queues[poll.queue] = {poll: None}
            elif len(polls) < self._polls_of_queue_max:
                polls[poll] = None
            else:
                return False
        bucket = self._buckets.get(poll.bucket)
        if bucket is None:
            self._buckets[poll.bucket] = {poll: None}
        else:
            bucket[poll] = None
        mates = self._connections.get(connection)
        if mates is None:
            # Kept until the connection ends, though it may be empty: it is told only once.
            self._connections[connection] = {poll: None}
            connection.add_close_callback(self._drop_connection)
        else:
            mates[poll] = None
        self._count += 1
        return True

    def arrived(self, arrival: Arrival) -> None:
        """Wake who waits for this message, or for one of its batch; ``Store.on_arrival``."""
        polls = self._queues.get((arrival.topic, arrival.queue_id))
        if polls is None:
            return
        if arrival.batch is None:
            self._arrived(polls, arrival)
            return
        for each in arrival.each():
            self._arrived(polls, each)

    def _arrived(self, polls: dict[Poll, None], arrival: Arrival) -> None:
        """Wake those of these; there are none left where others of a batch have woken them."""
        passed_by = arrival.queue_offset - PASSED_BY_MAX
        found = [
            poll
            for poll in polls
            if poll.queue_offset <= arrival.queue_offset
            and (poll.queue_offset <= passed_by or poll.wants(arrival))
        ]
        if found:
            self._wake(found)

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Let the requests of one queue be looked at again."""
        self._wake(list(self._queues.get((topic, queue_id), ())))

    def wake(self, polls: list[Poll]) -> None:
        """Resume these, as far as they wait, in the next turn."""
        self._wake([poll for poll in polls if poll in self._buckets.get(poll.bucket, ())])

    def wake_all(self) -> None:
        """Let every request be looked at again, as if a message had come for each."""
        self._wake([poll for polls in self._queues.values() for poll in polls])

    def expire(self, now_s: float) -> None:
        """Resume the polls whose time is up."""
        due = int(now_s * _BUCKETS_PER_S)
        for bucket in sorted(bucket for bucket in self._buckets if bucket < due):
            for poll in list(self._buckets.get(bucket, ())):
                if self._take(poll):
                    _resume(poll, is_late=True)

    def close(self) -> None:
        """Resume all polls, and park no more: the broker stops."""
        self._is_closed = True
        self.serve()
        for bucket in sorted(self._buckets):
            for poll in list(self._buckets.get(bucket, ())):
                if self._take(poll):
                    _resume(poll, is_late=True)

    def serve(self) -> None:
        """Resume the polls that arrivals have woken."""
        woken, self._woken = self._woken, []
        for poll in woken:
            _resume(poll, is_late=False)
        if self.answered:
            answered, self.answered = self.answered, {}
            for connection in answered:
                connection.proceed()

    def _wake(self, polls: list[Poll]) -> None:
        if polls and not self._woken:
            call_soon = self._call_soon or asyncio.get_running_loop().call_soon
            call_soon(self.serve)
        for poll in polls:
            self._take(poll)
        self._woken += polls

    def _take(self, poll: Poll) -> bool:
        """Take a poll out of the table; False if it is not there any more."""
        bucket = self._buckets.get(poll.bucket)
        if bucket is None or poll not in bucket:
            return False
        del bucket[poll]
        if not bucket:
            del self._buckets[poll.bucket]
        if poll.waits_for_arrivals:
            polls = self._queues[poll.queue]
            del polls[poll]
            if not polls:
                del self._queues[poll.queue]
        mates = self._connections.get(poll.connection)
        if mates is not None:  # None while its connection is being dropped
            del mates[poll]
        self._count -= 1
        return True

    def _drop_connection(self, connection: Connection) -> None:
        """Forget the polls of a client that has gone."""
        for poll in self._connections.pop(connection, ()):
            self._take(poll)


def _resume(poll: Poll, is_late: bool) -> None:
    """Resume one poll; a bug in what it does must not take those behind it along."""
    try:
        poll.resume(is_late)
    except Exception:
        log.exception("%s: a parked request failed and gets no answer", poll.connection.peer)
