"""Which figures stand behind a name and a key of Java's BrokerStatsManager; pure.

===============================================  ==========================================
TOPIC_PUT_NUMS, TOPIC_PUT_SIZE                   topic
TOPIC_PUT_LATENCY                                queue@topic
QUEUE_PUT_NUMS, QUEUE_PUT_SIZE                   topic@queue, of delayed messages
GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS  topic@group
GROUP_GET_LATENCY                                queue@topic@group, without detail topic@group
QUEUE_GET_NUMS, QUEUE_GET_SIZE                   topic@queue@group, of delayed messages
SNDBCK2DLQ_TIMES                                 null@topic@group@SEND_BACK_TO_DLQ
BROKER_PUT_NUMS, BROKER_GET_NUMS and both with
_WITHOUT_SYSTEM_TOPIC                            cluster
===============================================  ==========================================

Averages of latencies are those of what took a millisecond or more.

Java has more names that nothing here can have an item for: those of pop (GROUP_ACK_NUMS,
GROUP_CK_NUMS, BROKER_ACK_NUMS, BROKER_CK_NUMS) before there is any, those that only its commercial
edition counts (COMMERCIAL_..., DLQ_PUT_NUMS, ..._FROM_DISK_...), and two that its own broker does
not find by their names, either (GROUP_GET_FALL_SIZE, GROUP_GET_FALL_TIME).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from roketto.broker.stats import Statistics
from roketto.broker.stats_topics import ALL_QUEUES, GroupStats
from roketto.broker.stats_window import DAY, HOUR, MINUTE, Figures, Meter

__all__ = ["Item", "find_item"]

_QUEUE_DIGITS_MAX: Final = 10
"""No queue has an id with more: it is a Java int."""
_NO_QUEUE: Final = -2
_DEAD_BEGIN: Final = "null@"
"""The owner of a message, of which clients that are free software know nothing."""
_DEAD_END: Final = "@SEND_BACK_TO_DLQ"


class Item(NamedTuple):
    """What was counted in the last minute, hour and day."""

    minute: Figures
    hour: Figures
    day: Figures


def find_item(stats: Statistics, cluster: str, name: str, key: str) -> Item | None:
    """The figures of a statistic; None if nothing was counted for it, or it is unknown."""
    if name in _TOTALS:
        return _total(stats, *_TOTALS[name](stats)) if key == cluster else None
    kind = _KINDS.get(name)
    meter = kind.find(stats, key) if kind is not None else None
    if kind is None or meter is None or meter.is_new:
        return None
    read = stats.byte_figures if kind.is_of_bytes else stats.figures
    return Item(read(meter, MINUTE), read(meter, HOUR), read(meter, DAY))


# --- of a topic, a group, a queue -----------------------------------------------------------------


def _topic_put(stats: Statistics, key: str) -> Meter | None:
    found = stats.topics.get(key)
    return None if found is None or found.is_aside else found.put


def _topic_latency(stats: Statistics, key: str) -> Meter | None:
    queue, _, topic = key.partition("@")
    put = _topic_put(stats, topic)
    return None if put is None else _latency(put, stats.topics[topic].latency, _queue_id(queue))


def _topic_queue(stats: Statistics, key: str) -> Meter | None:
    topic, _, queue = key.partition("@")
    found = stats.topics.get(topic)
    return None if found is None else found.queues.get(_queue_id(queue))


def _group(stats: Statistics, key: str) -> GroupStats | None:
    topic, _, group = key.partition("@")
    found = stats.topics.get(topic)
    return None if found is None else found.groups.get(group)


def _group_get(stats: Statistics, key: str) -> Meter | None:
    taken = _group(stats, key)
    return None if taken is None else taken.get


def _group_send_back(stats: Statistics, key: str) -> Meter | None:
    taken = _group(stats, key)
    return None if taken is None else taken.send_back


def _group_dead(stats: Statistics, key: str) -> Meter | None:
    if not (key.startswith(_DEAD_BEGIN) and key.endswith(_DEAD_END)):
        return None
    taken = _group(stats, key[len(_DEAD_BEGIN) : -len(_DEAD_END)])
    return None if taken is None else taken.dead


def _group_latency(stats: Statistics, key: str) -> Meter | None:
    queue_id = ALL_QUEUES
    if stats.has_detail:
        queue, _, key = key.partition("@")
        queue_id = _queue_id(queue)
    taken = _group(stats, key)
    return None if taken is None else _latency(taken.get, taken.latency, queue_id)


def _latency(used: Meter, slow: Mapping[int, Meter], queue_id: int) -> Meter | None:
    """Only what was slow has a meter of its own; where nothing was, all took no time."""
    if used.is_new or queue_id == _NO_QUEUE:
        return None
    return slow.get(queue_id, _QUICK)


def _group_queue(stats: Statistics, key: str) -> Meter | None:
    topic, _, rest = key.partition("@")
    queue, _, group = rest.partition("@")
    taken = _group(stats, f"{topic}@{group}")
    return None if taken is None else taken.queues.get(_queue_id(queue))


def _queue_id(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= _QUEUE_DIGITS_MAX
    return int(text) if is_number else _NO_QUEUE


def _quick() -> Meter:
    meter = Meter()
    meter.is_new = False
    return meter


_QUICK: Final = _quick()
"""Was used, and counts nothing."""


class _Kind(NamedTuple):
    """How a key of one statistic is read, and which counter of the meter is meant."""

    find: Callable[[Statistics, str], Meter | None]
    is_of_bytes: bool = False


_KINDS: Final[Mapping[str, _Kind]] = {
    "TOPIC_PUT_NUMS": _Kind(_topic_put),
    "TOPIC_PUT_SIZE": _Kind(_topic_put, is_of_bytes=True),
    "TOPIC_PUT_LATENCY": _Kind(_topic_latency),
    "QUEUE_PUT_NUMS": _Kind(_topic_queue),
    "QUEUE_PUT_SIZE": _Kind(_topic_queue, is_of_bytes=True),
    "GROUP_GET_NUMS": _Kind(_group_get),
    "GROUP_GET_SIZE": _Kind(_group_get, is_of_bytes=True),
    "GROUP_GET_LATENCY": _Kind(_group_latency),
    "QUEUE_GET_NUMS": _Kind(_group_queue),
    "QUEUE_GET_SIZE": _Kind(_group_queue, is_of_bytes=True),
    "SNDBCK_PUT_NUMS": _Kind(_group_send_back),
    "SNDBCK2DLQ_TIMES": _Kind(_group_dead),
}


# --- of the broker --------------------------------------------------------------------------------

_Total: TypeAlias = tuple[Meter, tuple[Meter, ...]]
"""What all was counted in, and what of it does not belong to it."""


def _total(stats: Statistics, whole: Meter, without: tuple[Meter, ...]) -> Item | None:
    """Java counts no times for these, and so has no average."""
    if whole.count <= sum(meter.count for meter in without):
        return None
    return Item(*(_rest(stats, whole, without, window) for window in (MINUTE, HOUR, DAY)))


def _rest(stats: Statistics, whole: Meter, without: tuple[Meter, ...], window: int) -> Figures:
    all_of_it = stats.figures(whole, window)
    rest = all_of_it.sum - sum(stats.figures(meter, window).sum for meter in without)
    share = rest / all_of_it.sum if all_of_it.sum else 0.0
    return Figures(rest, all_of_it.tps * share, 0.0, 0)


_TOTALS: Final[Mapping[str, Callable[[Statistics], _Total]]] = {
    "BROKER_PUT_NUMS": lambda stats: (stats.put, (stats.put_aside,)),
    "BROKER_GET_NUMS": lambda stats: (stats.get, ()),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": lambda stats: (
        stats.put,
        (stats.put_aside, stats.system_put),
    ),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": lambda stats: (stats.get, (stats.system_get,)),
}
