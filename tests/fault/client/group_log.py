"""What a group of our consumers saw and committed, in order, and how much may have come twice.

A message comes twice when somebody begins with a queue before it. How many that may be follows from
the thresholds of consumers: they say how much of a queue a member can have in hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from checker import Committed, GroupHistory, Saw
from fault.appender import value_of
from fault.client.cluster import name_of
from roketto.client.lite_limits import LiteLimits
from roketto.client.message import MessageQueue
from roketto.client.push_tuning import PushTuning
from roketto.client.received import ReceivedMessage
from roketto.clock import monotonic_s

CONCURRENT: Final = "concurrent"
ORDERLY: Final = "orderly"
LITE: Final = "lite"
LITE_AUTO: Final = "lite-auto"
"""One that commits by itself what earlier polls have given."""
KINDS: Final = (CONCURRENT, ORDERLY, LITE)

TUNING: Final = PushTuning(
    concurrency=4, batch_max=1, pull_count_max=8, cached_count_max=16, span_max=16,
    stop_timeout_s=2.0,
)  # fmt: skip
POLLED_MAX: Final = 8
LIMITS: Final = LiteLimits(pull_count=POLLED_MAX, queue_count_max=16, auto_commit_interval_ms=1_000)

IN_HAND: Final = {
    # A queue is pulled while no more than this lies between its first message and its last one.
    CONCURRENT: TUNING.span_max + TUNING.pull_count_max + 1,
    # What a listener has.
    ORDERLY: TUNING.batch_max,
    # What a poll has given; the next one comes after the commit.
    LITE: POLLED_MAX,
}
"""Messages of a queue that a member may have given to its listener and not committed."""

SHARED_S_MAX: Final = 15.0
"""Members give up a queue that is another's when they hear of it, a second or two later: who waits
for the round that comes every 20 s is noticed."""


@dataclass(slots=True, eq=False)
class Tenure:
    """The time in which one member has a queue."""

    member: object
    start: int
    offset: int
    """The next message, where order counts."""


@dataclass(slots=True)
class GroupLog:
    """What all members saw and committed, in order, and how much may have come twice."""

    kind: str
    events: list[Saw | Committed] = field(default_factory=list)
    seen: dict[MessageQueue, set[int]] = field(default_factory=dict)
    total: int = 0
    """How often somebody saw a message."""
    duplicates: int = 0
    takeovers: int = 0
    """How often somebody began with a queue of which the group had seen something."""
    behind: int = 0
    """Messages that were committed by one member when another began before them: brokers did not
    know, or had lost it."""
    shared: int = 0
    """How often somebody saw a message of a queue that two members had: one had begun, and the
    other did not know yet that it was to give it up."""
    shared_s_max: float = 0.0
    """The longest time in which two members had a queue."""
    ahead_max: int = 0
    """The most messages of a queue that a member has had in hand, the one that it sees included."""
    disorder: list[str] = field(default_factory=list)
    busy: int = 0
    """Messages that somebody works at now."""
    _next: dict[MessageQueue, int] = field(default_factory=dict)
    _committed: dict[MessageQueue, int] = field(default_factory=dict)
    _tenures: dict[MessageQueue, list[Tenure]] = field(default_factory=dict)
    """Those that have not ended, the newest last."""
    _shared_since_s: dict[MessageQueue, float] = field(default_factory=dict)

    def next_offset(self, queue: MessageQueue) -> int:
        """Behind the last message that was seen."""
        return self._next.get(queue, 0)

    def committed(self, queue: MessageQueue) -> int:
        """The highest offset that a member would have told."""
        return self._committed.get(queue, 0)

    def begin(self, queue: MessageQueue, member: object, start: int) -> None:
        """A member takes a queue over."""
        self.takeovers += self.next_offset(queue) > 0
        self.behind += max(0, self.committed(queue) - start)
        self.end(queue, member)
        self._tenures[queue].append(Tenure(member, start, start))
        if len(self._tenures[queue]) > 1:
            self._shared_since_s.setdefault(queue, monotonic_s())

    def end(self, queue: MessageQueue, member: object) -> None:
        """It has given it up."""
        left = [tenure for tenure in self._tenures.get(queue, ()) if tenure.member is not member]
        self._tenures[queue] = left
        if len(left) < 2 and (since_s := self._shared_since_s.pop(queue, None)) is not None:
            self.shared_s_max = max(self.shared_s_max, monotonic_s() - since_s)

    def leave(self, member: object) -> None:
        """It is gone."""
        for queue in tuple(self._tenures):
            self.end(queue, member)

    def commit(self, queue: MessageQueue, consume_offset: int) -> None:
        self.events.append(Committed(name_of(queue), consume_offset))
        self._committed[queue] = max(self.committed(queue), consume_offset)

    def see(self, member: object, message: ReceivedMessage, known: int | None) -> None:
        """A member was given a message, and has committed the queue up to ``known``."""
        queue, offset = message.queue, message.queue_offset
        self.see_value(queue, offset, value_of(message.body))
        tenures = self._tenures.get(queue, [])
        tenure = next((one for one in tenures if one.member is member), None)
        self.shared += tenure is None or len(tenures) > 1
        if tenure is None or tenure is not tenures[-1]:
            self.disorder.append(f"{queue}@{offset} was seen after another member had begun")
        if tenure is None:
            return  # a poll had given it before the queue was given up
        in_hand = offset + 1 - (tenure.start if known is None else known)
        self.ahead_max = max(self.ahead_max, in_hand)
        if self.kind != CONCURRENT and offset != tenure.offset:
            self.disorder.append(f"{queue}@{offset} was seen instead of {tenure.offset}")
        tenure.offset = offset + 1

    def see_value(self, queue: MessageQueue, offset: int, value: str) -> None:
        """The same where it is not known who has seen it."""
        if offset > self.next_offset(queue) and self.kind != CONCURRENT:
            self.disorder.append(f"{queue}@{offset} was seen before {self.next_offset(queue)}")
        self.events.append(Saw(name_of(queue), offset, value))
        self.total += 1
        seen = self.seen.setdefault(queue, set())
        self.duplicates += offset in seen
        seen.add(offset)
        self._next[queue] = max(self.next_offset(queue), offset + 1)

    def has_seen(self, ends: dict[str, int]) -> bool:
        """Whether every message of all queues was seen."""
        counts = {name_of(queue): len(offsets) for queue, offsets in self.seen.items()}
        return all(counts.get(name, 0) >= end for name, end in ends.items())

    def history(self, group: str, queues: Sequence[str]) -> GroupHistory:
        wanted = set(queues)
        events = [event for event in self.events if event.queue in wanted]
        return GroupHistory(group, queues, events)

    @property
    def bound(self) -> int:
        """How often a message may have come twice: what each take-over found in hand, what brokers
        did not know, and what was seen while two members had a queue."""
        return self.takeovers * IN_HAND[self.kind] + self.behind + self.shared

    def check_bounds(self) -> str:
        """AssertionError unless duplicates are within bounds, and in order what has to be."""
        text = (
            f"{self.kind}: {self.total} seen, {self.duplicates} twice, {self.bound} may be"
            f" ({self.takeovers} take-overs, {self.behind} unknown to brokers, {self.shared} while"
            f" two had a queue, for {self.shared_s_max:.1f} s at most); at most {self.ahead_max} in"
            " hand"
        )
        assert self.ahead_max <= IN_HAND[self.kind], text
        assert self.duplicates <= self.bound, text
        assert self.shared_s_max <= SHARED_S_MAX, text
        if self.kind == ORDERLY:
            assert not self.disorder, f"{text}; {self.disorder[:10]}"
        return text
