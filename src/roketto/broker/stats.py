"""What the broker counts: requests, refusals, bytes, and the messages of topics and groups.

Counting is adding to plain integers; everything else is done by ``tick``, once a second, and only
for what is in use. Names and numbers mean what they mean in Java's BrokerStatsManager and
StoreStatsService, so that mqadmin shows the same figures. stats_topics.py has what is counted for
topics and groups, stats_names.py the names under which all of it is asked for.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from roketto.broker.latency import Latency
from roketto.broker.mornings import Mornings
from roketto.broker.stats_topics import ALL_QUEUES, GROUP_METERS, GroupStats, TopicStats
from roketto.broker.stats_window import MINUTE, Figures, Meter, Windows
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.codes import RequestCode
from roketto.protocol.names import SCHEDULE_TOPIC

__all__ = ["RECENT_S", "SCHEDULE_GROUP", "UNKNOWN_CODE", "Statistics"]

METERS_MAX: Final = 100_000
"""Some 100 MB if all are in use, 50 MB if not: 25,000 topics with a group each."""

UNKNOWN_CODE: Final = -1
"""Requests with a code that RocketMQ does not have are counted together."""

SCHEDULE_GROUP: Final = "SCHEDULE_CONSUMER"
"""The group under which Java counts delayed messages that are delivered."""

_NO_TIME: Final = 1 << 61
"""Of a put that has taken none: it was stored long after now."""

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_PULL: Final = int(RequestCode.PULL_MESSAGE)
_END: Final = int(RequestCode.END_TRANSACTION)

_RECENT_MAX: Final = 601
"""A look at the totals every second, for rates over 10, 60 and 600 seconds."""

RECENT_S: Final = (10, 60, 600)

_PERIOD_S: Final = 60.0
"""The latencies shown are those of the last whole minute."""

_STEP_TOPICS_MAX: Final = 200
"""Topics that are looked through for what is silent before others get their turn."""


class Statistics:
    """All counters of a broker; one thread.

    stats = Statistics()
    stats.note_request(RequestCode.SEND_MESSAGE)
    stats.note_put("Orders", 3, 1, 231, store_time_ms)
    while stats.tick(monotonic_s()):   # every second
        ...                            # there is more to do: let others have their turn
    stats.topic_tps("Orders")

    Topics and groups that nobody used for a day are forgotten, their rates are 0 anyway; so are
    those that are deleted. Beyond ``meters_max`` only totals count; ``left_out`` says how often.

    Where ``is_sync`` a put takes as long as its answer waits for the disk, which Durability tells
    ``latency``; else it has taken what lies between its time in the log and its being noted here.
    """

    __slots__ = (
        "_clock_ms", "_is_sync", "_is_wall_clock", "_last", "_last_topic", "_latency_turned_s",
        "_meter_count", "_meters_max", "_new_count", "_new_size", "_new_times", "_put", "_recent",
        "_requests", "_topics", "_unsure", "_windows", "bytes_in", "bytes_out", "get",
        "get_max_ms", "get_missed", "has_detail", "is_counting", "latency", "left_out",
        "mornings", "plain_ends", "plain_pulls", "plain_sends", "put_aside", "put_failed",
        "refusals", "started_ms", "started_s", "system_get", "system_put",
    )  # fmt: skip

    # First what a put needs: it lies together, and nothing else is touched for the next one.
    is_counting: bool
    _is_wall_clock: bool
    _is_sync: bool
    _last_topic: str
    _last: TopicStats | None
    _new_times: i64
    _new_count: i64
    _new_size: i64

    def __init__(
        self,
        *,
        now_s: Callable[[], float] = monotonic_s,
        clock_ms: Callable[[], int] = wall_ms,
        enable_detail_stat: bool = True,
        is_sync: bool = False,
        meters_max: int = METERS_MAX,
    ) -> None:
        started_s = now_s()
        self.started_s: float = started_s
        self.started_ms: int = clock_ms()
        self.is_counting = True
        """Whether puts count; only a benchmark says no, to see what that costs."""
        # The topic of the last put, which is mostly that of the next; and what was put there since
        # somebody has looked.
        self._last = None
        self._last_topic = ""
        self._new_times = 0
        self._new_count = 0
        self._new_size = 0
        self.refusals: dict[tuple[int, int], int] = {}
        """(request code, response code) -> how often; the latter are our own, and few."""
        self.bytes_in: int = 0
        self.bytes_out: int = 0
        self.plain_sends: int = 0
        """Sends that the quick lane has answered since ``requests`` was read last."""
        self.plain_pulls: int = 0
        """The same of pulls."""
        self.plain_ends: int = 0
        """The same of commits."""
        self._put: Meter = Meter()
        self.put_aside: Meter = Meter()
        """What of it Java counts for the store only."""
        self.put_failed: int = 0
        """Puts that the store has refused."""
        self.system_put: Meter = Meter()
        """What of the rest is in system topics: Java's totals of a day leave it out."""
        self.get: Meter = Meter()
        self.system_get: Meter = Meter()
        self.get_missed: int = 0
        self.get_max_ms: int = 0
        self.latency: Latency = Latency()
        """How long puts have taken."""
        self.mornings: Mornings = Mornings(self.started_ms)
        self.left_out: int = 0
        self._clock_ms: Callable[[], int] = clock_ms
        # The usual clock is called by its name, which compiled code does without a look at it.
        self._is_wall_clock = clock_ms is wall_ms
        self._is_sync = is_sync
        self._latency_turned_s: float = started_s
        self.has_detail: bool = enable_detail_stat
        """Whether queues are told apart where Java tells them apart."""
        self._meter_count: int = 0
        self._meters_max: int = meters_max
        self._requests: dict[int, int] = {UNKNOWN_CODE: 0} | {int(code): 0 for code in RequestCode}
        self._topics: dict[str, TopicStats] = {}
        self._unsure: list[str] = []
        """Topics that may have something that is silent."""
        self._windows: Windows = Windows(started_s)
        self._windows.wake(self._put)
        self._windows.wake(self.get)
        self._recent: deque[tuple[float, int, int, int, int]] = deque(maxlen=_RECENT_MAX)
        """When, and by then: messages put, gets that found some, gets that missed, messages got."""

    # --- counting ---------------------------------------------------------------------------------

    def note_request(self, code: int) -> None:
        count = self._requests.get(code)
        if count is None:
            code = UNKNOWN_CODE
            count = self._requests[code]
        self._requests[code] = count + 1

    def note_refusal(self, code: int, answer_code: int) -> None:
        key = (code if code in self._requests else UNKNOWN_CODE, answer_code)
        self.refusals[key] = self.refusals.get(key, 0) + 1

    def note_bytes(self, received: int, sent: int) -> None:
        """Take over the totals that the connections have counted."""
        self.bytes_in = received
        self.bytes_out = sent

    def note_put(
        self, topic: str, queue_id: int, count: int, size: int, stored_ms: int = _NO_TIME
    ) -> None:
        """One put of ``count`` messages that take ``size`` bytes of the log.

        ``stored_ms`` is the time that they have there.
        """
        if not self.is_counting:
            return
        if topic != self._last_topic and not self._turn_to(topic):
            self._note(self._put, count, size)
            self._note_latency((wall_ms() if self._is_wall_clock else self._clock_ms()) - stored_ms)
            return
        self._new_times += 1
        self._new_count += count
        self._new_size += size
        taken_ms = (wall_ms() if self._is_wall_clock else self._clock_ms()) - stored_ms
        found = self._last
        assert found is not None
        if taken_ms > 0:
            self._note_latency(taken_ms)
            self._note_queue(found.latency, queue_id, taken_ms, 0)
        if found.is_system:
            self._note_system_put(found, queue_id, count, size)

    def _turn_to(self, topic: str) -> bool:
        """Let puts count for another topic from now on; False if there is no room for it."""
        self._settle()
        found = self._topics.get(topic) or self._add_topic(topic)
        self._last = found
        self._last_topic = "" if found is None else topic
        return found is not None

    def _settle(self) -> None:
        """Add to the meters what was put since somebody has looked at them."""
        found = self._last
        if found is None or not self._new_times:
            return
        for meter in (self._put, found.put):
            if not meter.is_awake:
                self._windows.wake(meter)
            meter.times += self._new_times
            meter.count += self._new_count
            meter.size += self._new_size
        self._new_times = self._new_count = self._new_size = 0

    def _note_latency(self, taken_ms: int) -> None:
        if taken_ms > 0 and not self._is_sync:
            self.latency.note(taken_ms)

    def _note_system_put(self, found: TopicStats, queue_id: int, count: int, size: int) -> None:
        self._note(self.put_aside if found.is_aside else self.system_put, count, size)
        if found.has_queues and self.has_detail:
            self._note_queue(found.queues, queue_id, count, size)

    def note_put_back(self, topic: str, queue_id: int, size: int, stored_ms: int) -> None:
        """One put of a message that a consumer has given back.

        If it is to come again it waits in the topic of delayed messages, which Java counts. One
        that is dead now counts for the store only.
        """
        if topic == SCHEDULE_TOPIC:
            self.note_put(topic, queue_id, 1, size, stored_ms)
        else:
            self._note(self._put, 1, size)
            self._note(self.put_aside, 1, size)

    def note_delivered(self, queue_id: int, size: int) -> None:
        """A delayed message was taken out of the queue of its level."""
        found = self._find_group(SCHEDULE_TOPIC, SCHEDULE_GROUP)
        if found is not None:
            self._note(found.get, 1, size)
            if self.has_detail:
                self._note_queue(found.queues, queue_id, 1, size)

    def note_get(
        self, topic: str, group: str, queue_id: int, count: int, size: int, taken_ms: int = 0
    ) -> None:
        """One get that found ``count`` messages of ``size`` bytes; with none it has missed."""
        if taken_ms > self.get_max_ms:
            self.get_max_ms = taken_ms
        if not count:
            self.get_missed += 1
            return
        self._note(self.get, count, size)
        of_topic = self._topics.get(topic) or self._add_topic(topic)
        if of_topic is None:
            return
        found = of_topic.groups.get(group) or self._add_group(of_topic, group)
        if found is None:
            return
        if of_topic.is_system:
            self._note(self.system_get, count, size)
        self._note(found.get, count, size)
        if taken_ms > 0:
            key = queue_id if self.has_detail else ALL_QUEUES
            self._note_queue(found.latency, key, taken_ms, 0)

    def note_send_back(self, topic: str, group: str) -> None:
        """A consumer could not use a message and wants it again later."""
        found = self._find_group(topic, group)
        if found is not None:
            self._note(found.send_back, 1, 0)

    def note_dead(self, topic: str, group: str) -> None:
        """A message that a consumer has given back became a dead letter."""
        found = self._find_group(topic, group)
        if found is not None:
            self._note(found.dead, 1, 0)

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
        self._note(meter, count, size)

    def _add_topic(self, topic: str) -> TopicStats | None:
        if not self._has_room(1):
            return None
        added = self._topics[topic] = TopicStats(topic)
        return added

    def _find_group(self, topic: str, group: str) -> GroupStats | None:
        found = self._topics.get(topic) or self._add_topic(topic)
        if found is None:
            return None
        return found.groups.get(group) or self._add_group(found, group)

    def _add_group(self, topic: TopicStats, group: str) -> GroupStats | None:
        if not self._has_room(GROUP_METERS):
            return None
        added = topic.groups[group] = GroupStats()
        return added

    def _has_room(self, meters: int) -> bool:
        if self._meter_count + meters > self._meters_max:
            self.left_out += 1
            return False
        self._meter_count += meters
        return True

    # --- once a second ----------------------------------------------------------------------------

    def tick(self, now_s: float) -> bool:
        """Look at the totals and at whatever is due; ``now_s`` is of the monotonic clock.

        True if there is more to do than one turn should take: call it again, with the same time,
        as soon as whatever else waits was done.
        """
        self._settle()
        if not self._recent or now_s > self._recent[-1][0]:
            self._look(now_s)
        if self._windows.step():
            return True
        if self._windows.has_silent:
            self._windows.has_silent = False
            self._unsure = list(self._topics)
        return self._forget_silent()

    def _look(self, now_s: float) -> None:
        total, get = self._put, self.get
        self._recent.append((now_s, total.count, get.times, self.get_missed, get.count))
        if now_s - self._latency_turned_s >= _PERIOD_S:
            self._latency_turned_s = now_s
            self.latency.turn(0 if self._is_sync else total.times)
        self.mornings.look(self._clock_ms(), self.user_put_count, self.user_get_count)
        self._windows.tick(now_s)

    def _forget_silent(self) -> bool:
        """Forget what nobody used for a day in some of the topics; whether there are more."""
        names = self._unsure[-_STEP_TOPICS_MAX:]
        del self._unsure[-_STEP_TOPICS_MAX:]
        for name in names:
            found = self._topics.get(name)
            if found is not None and self._is_empty(found):
                self._release([found.put])
                del self._topics[name]
                self._forget_last(name)
        return bool(self._unsure)

    def _is_empty(self, found: TopicStats) -> bool:
        """Whether nothing is left of a topic without what is silent."""
        for group, taken in list(found.groups.items()):
            self._drop_silent(taken.latency)
            self._drop_silent(taken.queues)
            own = (taken.get, taken.send_back, taken.dead)
            if not taken.latency and not taken.queues and all(_is_unused(meter) for meter in own):
                del found.groups[group]
                self._meter_count -= GROUP_METERS
        self._drop_silent(found.latency)
        self._drop_silent(found.queues)
        return not found.groups and not found.latency and not found.queues and _is_unused(found.put)

    def _drop_silent(self, queues: dict[int, Meter]) -> None:
        for queue_id, meter in list(queues.items()):
            if meter.is_silent:
                del queues[queue_id]
                self._meter_count -= 1

    # --- what is gone -----------------------------------------------------------------------------

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        self._forget_last(topic)
        found = self._topics.pop(topic, None)
        if found is not None:
            self._release(found.meters())

    def forget_group(self, group: str) -> None:
        """The group was deleted."""
        for found in self._topics.values():
            taken = found.groups.pop(group, None)
            if taken is not None:
                self._release(taken.meters())

    def _forget_last(self, topic: str) -> None:
        """Let the next put look for its topic again, if the last one was for this."""
        if topic == self._last_topic:
            self._settle()
            self._last = None
            self._last_topic = ""

    def _release(self, meters: list[Meter]) -> None:
        for meter in meters:
            meter.is_gone = True
        self._meter_count -= len(meters)

    # --- what is shown ----------------------------------------------------------------------------

    @property
    def requests(self) -> dict[int, int]:
        """How often each code was asked for; to be read only."""
        self._requests[_SEND] += self.plain_sends
        self._requests[_PULL] += self.plain_pulls
        self._requests[_END] += self.plain_ends
        self.plain_sends = self.plain_pulls = self.plain_ends = 0
        return self._requests

    @property
    def put(self) -> Meter:
        """Everything that was stored; to be read only."""
        self._settle()
        return self._put

    @property
    def user_put_count(self) -> int:
        """Messages put into topics that are not of the system, as Java counts them."""
        return self.put.count - self.put_aside.count - self.system_put.count

    @property
    def user_get_count(self) -> int:
        """Messages got from topics that are not of the system."""
        return self.get.count - self.system_get.count

    @property
    def topics(self) -> dict[str, TopicStats]:
        """The topics that were used within a day; to be read only."""
        self._settle()
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
        for seconds in RECENT_S:
            if len(recent) > seconds:
                begin, end = recent[-1 - seconds], recent[-1]
                taken_s = end[0] - begin[0]
                rates["put"].append((end[1] - begin[1]) / taken_s)
                rates["get_found"].append((end[2] - begin[2]) / taken_s)
                rates["get_missed"].append((end[3] - begin[3]) / taken_s)
                rates["got"].append((end[4] - begin[4]) / taken_s)
        return rates


def _is_unused(meter: Meter) -> bool:
    return meter.is_new or meter.is_silent
