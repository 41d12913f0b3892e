"""How fast a consumer is: counts of the last minute and hour by topic, for operators; pure."""

from typing import Final

from roketto.clock import monotonic_s
from roketto.protocol.bodies.running import ConsumeStatus

__all__ = ["Rates", "TopicRates"]

_TOPICS_MAX: Final = 10_000


class Window:
    """A sum over the last ``slots`` * ``slot_s`` seconds, exact to one slot."""

    __slots__ = ("_counts", "_slot", "_slot_s", "_sums")

    def __init__(self, slots: int, slot_s: float) -> None:
        self._slot_s = slot_s
        self._sums = [0.0] * slots
        self._counts = [0] * slots
        self._slot = 0

    def add(self, amount: float, now_s: float, count: int = 1) -> None:
        at = self._turn(now_s)
        self._sums[at] += amount
        self._counts[at] += count

    def sum(self, now_s: float) -> float:
        self._turn(now_s)
        return sum(self._sums)

    def mean(self, now_s: float) -> float:
        self._turn(now_s)
        count = sum(self._counts)
        return sum(self._sums) / count if count else 0.0

    def _turn(self, now_s: float) -> int:
        """Empty the slots that time has passed since; the place of the current one."""
        slot, slots = int(now_s / self._slot_s), len(self._sums)
        if slot == self._slot:
            return slot % slots
        for passed in range(min(slot - self._slot, slots)):
            self._sums[(slot - passed) % slots] = 0.0
            self._counts[(slot - passed) % slots] = 0
        self._slot = max(slot, self._slot)
        return self._slot % slots


class TopicRates:
    """Those of one topic."""

    def __init__(self) -> None:
        self._pulls_ms = Window(6, 10.0)
        self._pulled = Window(6, 10.0)
        self._calls_ms = Window(6, 10.0)
        self._consumed = Window(6, 10.0)
        self._failed = Window(6, 10.0)
        self._failed_hour = Window(60, 60.0)

    def pull(self, count: int, taken_ms: float) -> None:
        """A pull has found so many messages."""
        now_s = monotonic_s()
        self._pulls_ms.add(taken_ms, now_s)
        self._pulled.add(count, now_s)

    def consume(self, consumed: int, failed: int, taken_ms: float, calls: int = 1) -> None:
        """A listener was called, and so many of its messages were consumed or not."""
        now_s = monotonic_s()
        self._calls_ms.add(taken_ms, now_s, calls)
        if consumed:
            self._consumed.add(consumed, now_s)
        if failed:
            self._failed.add(failed, now_s)
            self._failed_hour.add(failed, now_s)

    def status(self) -> ConsumeStatus:
        """As operators are shown it."""
        now_s = monotonic_s()
        return ConsumeStatus(
            consume_failed_msgs=int(self._failed_hour.sum(now_s)),
            consume_failed_tps=self._failed.sum(now_s) / 60,
            consume_ok_tps=self._consumed.sum(now_s) / 60,
            consume_rt=self._calls_ms.mean(now_s),
            pull_rt=self._pulls_ms.mean(now_s),
            pull_tps=self._pulled.sum(now_s) / 60,
        )


class Rates:
    """Topic -> its rates, made when they are first asked for."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicRates] = {}

    def of(self, topic: str) -> TopicRates:
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= _TOPICS_MAX:  # of topics that nobody is subscribed to any more
                self._topics.pop(next(iter(self._topics)))
            found = self._topics[topic] = TopicRates()
        return found
