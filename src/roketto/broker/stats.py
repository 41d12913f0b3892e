"""What the broker counts: requests, refusals, bytes, and the messages of topics and groups.

Counting is adding to plain integers; everything else is done by ``tick``, once a second, and only
for what is in use. Names and numbers mean what they mean in Java's BrokerStatsManager and
StoreStatsService, so that mqadmin shows the same figures:

=====================  =============================================================
TOPIC_PUT_NUMS, SIZE   ``TopicStats.put``
QUEUE_PUT_NUMS, SIZE   ``TopicStats.queues``
GROUP_GET_NUMS, SIZE   ``GroupStats.get``
QUEUE_GET_NUMS, SIZE   ``GroupStats.queues``
SNDBCK_PUT_NUMS        ``GroupStats.send_back``
BROKER_PUT/GET_NUMS    ``Statistics.put``, ``Statistics.get``
=====================  =============================================================
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from roketto.broker.latency import RANGE_NAMES, Latency
from roketto.broker.stats_window import DAY, HOUR, MINUTE, Figures, Meter, Windows
from roketto.clock import monotonic_s
from roketto.protocol.codes import RequestCode
from roketto.protocol.names import is_system_topic

__all__ = ["UNKNOWN_CODE", "GroupStats", "Statistics", "TopicStats"]

METERS_MAX: Final = 100_000
"""Some 100 MB if all are in use, 50 MB if not: 5,000 topics of 8 queues with a group each."""

UNKNOWN_CODE: Final = -1
"""Requests with a code that RocketMQ does not have are counted together."""

_RECENT_MAX: Final = 601
"""A look at the totals every second, for rates over 10, 60 and 600 seconds."""

_RECENT_S: Final = (10, 60, 600)

_PERIOD_S: Final = 60.0
"""The latencies shown are those of the last whole minute."""


class GroupStats:
    """What one group took from one topic."""

    __slots__ = ("get", "queues", "send_back")

    def __init__(self) -> None:
        self.get: Meter = Meter()
        self.send_back: Meter = Meter()
        self.queues: dict[int, Meter] = {}

    def meters(self) -> list[Meter]:
        return [self.get, self.send_back, *self.queues.values()]


class TopicStats:
    """What came into one topic, and who took it."""

    __slots__ = ("groups", "is_system", "put", "queues")

    def __init__(self, topic: str) -> None:
        self.is_system: bool = is_system_topic(topic)
        self.put: Meter = Meter()
        self.queues: dict[int, Meter] = {}
        self.groups: dict[str, GroupStats] = {}

    def meters(self) -> list[Meter]:
        found = [self.put, *self.queues.values()]
        for group in self.groups.values():
            found += group.meters()
        return found


class Statistics:
    """All counters of a broker; one thread, no clock of its own but for the start.

    stats = Statistics()
    stats.note_request(RequestCode.SEND_MESSAGE)
    stats.note_put("Orders", 3, 1, 231)
    stats.tick(monotonic_s())          # every second
    stats.topic_tps("Orders")

    Topics and groups that nobody used for a day are forgotten, their rates are 0 anyway; so are
    those that are deleted. Beyond ``meters_max`` only totals count; ``left_out`` says how often.
    """

    __slots__ = (
        "_has_queues", "_latency_turned_s", "_meter_count", "_meters_max", "_recent", "_topics",
        "_windows", "bytes_in", "bytes_out", "get", "get_missed", "latency", "left_out", "put",
        "refusals", "requests", "started_s", "system_get_count", "system_put_count",
    )  # fmt: skip

    def __init__(
        self,
        *,
        now_s: Callable[[], float] = monotonic_s,
        enable_detail_stat: bool = True,
        meters_max: int = METERS_MAX,
    ) -> None:
        started_s = now_s()
        self.started_s: float = started_s
        self.requests: dict[int, int] = {UNKNOWN_CODE: 0} | {int(code): 0 for code in RequestCode}
        self.refusals: dict[tuple[int, int], int] = {}
        """(request code, response code) -> how often; the latter are our own, and few."""
        self.bytes_in: int = 0
        self.bytes_out: int = 0
        self.put: Meter = Meter()
        self.get: Meter = Meter()
        self.get_missed: int = 0
        self.system_put_count: int = 0
        self.system_get_count: int = 0
        """Java's totals of a day leave out what system topics have."""
        self.latency: Latency = Latency()
        """How long puts waited for the disk, under SYNC_FLUSH; without it nobody measures them."""
        self.left_out: int = 0
        self._latency_turned_s: float = started_s
        self._has_queues: bool = enable_detail_stat
        self._meter_count: int = 0
        self._meters_max: int = meters_max
        self._topics: dict[str, TopicStats] = {}
        self._windows: Windows = Windows(started_s)
        self._windows.wake(self.put)
        self._windows.wake(self.get)
        self._recent: deque[tuple[float, int, int, int, int]] = deque(maxlen=_RECENT_MAX)
        """When, and by then: messages put, gets that found some, gets that missed, messages got."""

    # --- counting ---------------------------------------------------------------------------------

    def note_request(self, code: int) -> None:
        count = self.requests.get(code)
        if count is None:
            code = UNKNOWN_CODE
            count = self.requests[code]
        self.requests[code] = count + 1

    def note_refusal(self, code: int, answer_code: int) -> None:
        key = (code if code in self.requests else UNKNOWN_CODE, answer_code)
        self.refusals[key] = self.refusals.get(key, 0) + 1

    def note_bytes(self, received: int, sent: int) -> None:
        """Take over the totals that the connections have counted."""
        self.bytes_in = received
        self.bytes_out = sent

    def note_put(self, topic: str, queue_id: int, count: int, size: int) -> None:
        """One put of ``count`` messages that take ``size`` bytes of the log."""
        total = self.put
        if not total.is_awake:
            self._windows.wake(total)
        total.times += 1
        total.count += count
        total.size += size
        found = self._topics.get(topic) or self._add_topic(topic)
        if found is None:
            return
        if found.is_system:
            self.system_put_count += count
        meter = found.put
        if not meter.is_awake:
            self._windows.wake(meter)
        meter.times += 1
        meter.count += count
        meter.size += size
        if self._has_queues:
            self._note_queue(found.queues, queue_id, count, size)

    def note_get(self, topic: str, group: str, queue_id: int, count: int, size: int) -> None:
        """One get that found ``count`` messages of ``size`` bytes; with none it has missed."""
        if not count:
            self.get_missed += 1
            return
        self._note(self.get, count, size)
        found = self._find_group(topic, group)
        if found is None:
            return
        if self._topics[topic].is_system:
            self.system_get_count += count
        self._note(found.get, count, size)
        if self._has_queues:
            self._note_queue(found.queues, queue_id, count, size)

    def note_send_back(self, topic: str, group: str) -> None:
        """A consumer could not use a message and wants it again later."""
        found = self._find_group(topic, group)
        if found is not None:
            self._note(found.send_back, 1, 0)

    def _note(self, meter: Meter, count: int, size: int) -> None:
        if not meter.is_awake:
            self._windows.wake(meter)
        meter.times += 1
        meter.count += count
        meter.size += size

    def _note_queue(self, queues: dict[int, Meter], queue_id: int, count: int, size: int) -> None:
        meter = queues.get(queue_id)
        if meter is None:
            if not self._has_room(1):
                return
            meter = queues[queue_id] = Meter()
        if not meter.is_awake:
            self._windows.wake(meter)
        meter.times += 1
        meter.count += count
        meter.size += size

    def _add_topic(self, topic: str) -> TopicStats | None:
        if not self._has_room(1):
            return None
        added = self._topics[topic] = TopicStats(topic)
        return added

    def _find_group(self, topic: str, group: str) -> GroupStats | None:
        found = self._topics.get(topic) or self._add_topic(topic)
        if found is None:
            return None
        known = found.groups.get(group)
        if known is None:
            if not self._has_room(2):
                return None
            known = found.groups[group] = GroupStats()
        return known

    def _has_room(self, meters: int) -> bool:
        if self._meter_count + meters > self._meters_max:
            self.left_out += 1
            return False
        self._meter_count += meters
        return True

    # --- once a second ----------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Look at the totals and at whatever is due; ``now_s`` is of the monotonic clock."""
        if self._recent and now_s <= self._recent[-1][0]:
            return
        total, get = self.put, self.get
        self._recent.append((now_s, total.count, get.times, self.get_missed, get.count))
        if now_s - self._latency_turned_s >= _PERIOD_S:
            self._latency_turned_s = now_s
            self.latency.turn()
        if self._windows.tick(now_s):
            self._forget_silent()

    def _forget_silent(self) -> None:
        for topic, found in list(self._topics.items()):
            for group, taken in list(found.groups.items()):
                self._drop_silent(taken.queues)
                if not taken.queues and _is_unused(taken.get) and _is_unused(taken.send_back):
                    del found.groups[group]
                    self._meter_count -= 2
            self._drop_silent(found.queues)
            if not found.groups and not found.queues and _is_unused(found.put):
                self._release([found.put])
                del self._topics[topic]

    def _drop_silent(self, queues: dict[int, Meter]) -> None:
        for queue_id, meter in list(queues.items()):
            if meter.is_silent:
                del queues[queue_id]
                self._meter_count -= 1

    # --- what is gone -----------------------------------------------------------------------------

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        found = self._topics.pop(topic, None)
        if found is not None:
            self._release(found.meters())

    def forget_group(self, group: str) -> None:
        """The group was deleted."""
        for found in self._topics.values():
            taken = found.groups.pop(group, None)
            if taken is not None:
                self._release(taken.meters())

    def _release(self, meters: list[Meter]) -> None:
        for meter in meters:
            meter.is_gone = True
        self._meter_count -= len(meters)

    # --- what is shown ----------------------------------------------------------------------------

    @property
    def topics(self) -> dict[str, TopicStats]:
        """The topics that were used within a day; to be read only."""
        return self._topics

    def topic_tps(self, topic: str) -> float:
        """Messages put into the topic each second, over the last minute."""
        found = self._topics.get(topic)
        return 0.0 if found is None else self._windows.figures(found.put, MINUTE).tps

    def group_tps(self, group: str, topic: str) -> float:
        """Messages that the group got from the topic each second, over the last minute."""
        found = self._topics.get(topic)
        taken = None if found is None else found.groups.get(group)
        return 0.0 if taken is None else self._windows.figures(taken.get, MINUTE).tps

    def figures(self, meter: Meter, window: int) -> Figures:
        """The figures of one meter of ``topics`` in MINUTE, HOUR or DAY."""
        return self._windows.figures(meter, window)

    def byte_figures(self, meter: Meter, window: int) -> Figures:
        """The same of its bytes."""
        return self._windows.byte_figures(meter, window)

    def recent_tps(self) -> dict[str, list[float]]:
        """Rates of the whole broker over 10, 60 and 600 seconds; those not yet full are missing."""
        rates: dict[str, list[float]] = {"put": [], "get_found": [], "get_missed": [], "got": []}
        recent = self._recent
        for seconds in _RECENT_S:
            if len(recent) > seconds:
                begin, end = recent[-1 - seconds], recent[-1]
                taken_s = end[0] - begin[0]
                rates["put"].append((end[1] - begin[1]) / taken_s)
                rates["get_found"].append((end[2] - begin[2]) / taken_s)
                rates["get_missed"].append((end[3] - begin[3]) / taken_s)
                rates["got"].append((end[4] - begin[4]) / taken_s)
        return rates

    def snapshot(self) -> dict[str, Any]:
        """Everything, as plain dictionaries."""
        return {
            "requests": {code: number for code, number in self.requests.items() if number},
            "refusals": dict(self.refusals),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "put": self._shown(self.put),
            "get": self._shown(self.get),
            "get_missed": self.get_missed,
            "system_put_count": self.system_put_count,
            "system_get_count": self.system_get_count,
            "left_out": self.left_out,
            "recent_tps": self.recent_tps(),
            "put_latency": {
                "max_ms": self.latency.max_ms,
                "ranges": dict(zip(RANGE_NAMES, self.latency.ranges_before, strict=True)),
                "p99_ms": self.latency.percentile_ms(0.99),
                "p999_ms": self.latency.percentile_ms(0.999),
            },
            "topics": {topic: self._shown_topic(found) for topic, found in self._topics.items()},
        }

    def _shown_topic(self, found: TopicStats) -> dict[str, Any]:
        return {
            "put": self._shown(found.put),
            "queues": self._shown_queues(found.queues),
            "groups": {
                group: {
                    "get": self._shown(taken.get),
                    "send_back": self._shown(taken.send_back),
                    "queues": self._shown_queues(taken.queues),
                }
                for group, taken in found.groups.items()
            },
        }

    def _shown_queues(self, queues: dict[int, Meter]) -> dict[int, dict[str, Any]]:
        return {queue_id: self._shown(meter) for queue_id, meter in sorted(queues.items())}

    def _shown(self, meter: Meter) -> dict[str, Any]:
        shown: dict[str, Any] = {"times": meter.times, "count": meter.count, "size": meter.size}
        for name, window in (("minute", MINUTE), ("hour", HOUR), ("day", DAY)):
            counted = self._windows.figures(meter, window)
            weighed = self._windows.byte_figures(meter, window)
            shown[name] = {
                "sum": counted.sum,
                "tps": counted.tps,
                "average": counted.average,
                "size_sum": weighed.sum,
                "size_tps": weighed.tps,
            }
        return shown


def _is_unused(meter: Meter) -> bool:
    return meter.is_new or meter.is_silent
