"""Where a source begins and ends, in numbers: topics, times, groups and ends are looked up here.

Drivers call this, once for a batch and once for a new stream.
"""

import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from roketto.client.errors import ClientError, RefusedError, TopicNotFoundError
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from roketto.spark.cluster import Cluster
from roketto.spark.loss import report_loss
from roketto.spark.options import OptionError
from roketto.spark.planner import QueueRange
from roketto.spark.source_options import EARLIEST, LATEST, Place, PlaceKind, SourceOptions

__all__ = ["chosen_queues", "find_ranges", "find_start", "retrying", "shown"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_SHOWN_MAX: Final = 5
_FINAL: Final = (TopicNotFoundError, RefusedError)
"""What another attempt would not change."""


def retrying(options: SourceOptions, work: Callable[[], T]) -> T:
    """What ``work`` returns; a cluster that does not answer is asked again a few times."""
    for attempt in range(options.retries_max + 1):
        try:
            return work()
        except ClientError as error:
            is_final = any(isinstance(one, _FINAL) for one in (error, error.__cause__))
            if is_final or attempt == options.retries_max:
                raise
            log.warning(
                "offsets are asked for again in %d ms (attempt %d of %d): %s",
                options.retry_interval_ms, attempt + 1, options.retries_max, error,
            )  # fmt: skip
            threading.Event().wait(options.retry_interval_ms / 1000)
    raise AssertionError("the last attempt returns or raises")


# --- queues ---------------------------------------------------------------------------------------


def chosen_queues(cluster: Cluster, options: SourceOptions) -> list[MessageQueue]:
    """The queues that options choose, as routes are now; TopicNotFoundError."""
    if options.assigned is not None:
        queues = _assigned(cluster, options.assigned)
    else:
        topics = _matching(cluster, options.pattern) if options.pattern else options.topics
        queues = [queue for topic in topics for queue in cluster.queues(topic)]
    wanted = options.queue_ids
    if wanted is None:
        return queues
    found = [queue for queue in queues if queue.queue_id in wanted]
    if missing := sorted(wanted - {queue.queue_id for queue in found}):
        raise OptionError(
            f"option queueIds names {missing[0]}, and no topic that is read has such a queue; there"
            f" are {shown(queues)}"
        )
    return found


def _matching(cluster: Cluster, pattern: str) -> list[str]:
    """Topics of users whose whole name matches; those that brokers make for themselves do not."""
    wanted = re.compile(pattern)
    servers = cluster.server_names()
    return [
        topic
        for topic in cluster.topics()
        if wanted.fullmatch(topic)
        and topic not in servers
        and not is_system_topic(topic)
        and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    ]


def _assigned(
    cluster: Cluster, assigned: Mapping[str, Mapping[str, tuple[int, ...]]]
) -> list[MessageQueue]:
    found = []
    for topic, brokers in assigned.items():
        there = cluster.queues(topic)
        for broker_name, ids in brokers.items():
            queues = [MessageQueue(broker_name, queue_id, topic) for queue_id in ids]
            if missing := [queue for queue in queues if queue not in there]:
                raise OptionError(
                    f"option assign names {shown(missing)}, and there are {shown(there)}"
                )
            found += queues
    return found


def shown(queues: Collection[MessageQueue]) -> str:
    """Some queues in words."""
    texts = [f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"
             for queue in sorted(queues)[:_SHOWN_MAX]]  # fmt: skip
    more = len(queues) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "") or "no queues"


# --- places ---------------------------------------------------------------------------------------


def find_start(
    cluster: Cluster, options: SourceOptions, queues: Collection[MessageQueue]
) -> dict[MessageQueue, int]:
    """Where each queue begins, which is within what it has."""
    lowest, highest = cluster.min_offsets(queues), cluster.max_offsets(queues)
    return _start(cluster, options, lowest, highest)


def _start(
    cluster: Cluster,
    options: SourceOptions,
    lowest: Mapping[MessageQueue, int],
    highest: Mapping[MessageQueue, int],
) -> dict[MessageQueue, int]:
    place = options.start
    if place.kind is PlaceKind.EARLIEST:
        return dict(lowest)
    if place.kind is PlaceKind.LATEST:
        return dict(highest)
    if place.kind is PlaceKind.GROUP:
        found = _group_start(cluster, place.group, lowest)
    elif place.kind is PlaceKind.OFFSETS:
        found = _given(place, lowest, highest)
    else:
        found = cluster.offsets_by_time(_times(place, lowest))
        if not options.is_late_start_allowed:
            _check_times(place, found, lowest, highest)
        return {queue: _within(offset, queue, lowest, highest) for queue, offset in found.items()}
    for queue, offset in found.items():
        if not lowest[queue] <= offset <= highest[queue]:
            report_loss(
                options.fails_on_data_loss,
                f"{place.option} begins at {offset} in queue {queue.queue_id} of {queue.topic} on"
                f" {queue.broker_name}, which has {lowest[queue]} to {highest[queue]}",
            )
    return {queue: _within(offset, queue, lowest, highest) for queue, offset in found.items()}


def _within(
    offset: int,
    queue: MessageQueue,
    lowest: Mapping[MessageQueue, int],
    highest: Mapping[MessageQueue, int],
) -> int:
    return max(lowest[queue], min(offset, highest[queue]))


def _group_start(
    cluster: Cluster, group: str, lowest: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Where the group is; a queue of which it has consumed nothing is read from its beginning."""
    committed = cluster.group_offsets(group, lowest)
    if all(offset is None for offset in committed.values()):
        log.warning("group %s has committed nothing in %s: it is read from the beginning", group,
                    shown(list(lowest)))  # fmt: skip
    return {
        queue: lowest[queue] if offset is None else offset for queue, offset in committed.items()
    }


def _given(
    place: Place, lowest: Mapping[MessageQueue, int], highest: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    _check_complete(place, lowest.keys())
    ends = {EARLIEST: lowest, LATEST: highest}
    return {
        queue: ends[offset][queue] if offset in ends else offset
        for queue, offset in place.offsets.items()
    }


def _times(place: Place, queues: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
    if place.kind is PlaceKind.TIME:
        return dict.fromkeys(queues, place.time_ms)
    _check_complete(place, queues.keys())
    return place.offsets


def _check_complete(place: Place, queues: Collection[MessageQueue]) -> None:
    """Options name all queues that are read, and no other: the rest would be guessed."""
    if missing := [queue for queue in queues if queue not in place.offsets]:
        raise OptionError(
            f"option {place.option} says nothing of {shown(missing)}; name every queue that is"
            f" read ({EARLIEST} means its beginning, {LATEST} its end)"
        )
    if surplus := [queue for queue in place.offsets if queue not in queues]:
        raise OptionError(
            f"option {place.option} names {shown(surplus)}, which is not read; there are"
            f" {shown(queues)}"
        )


def _check_times(
    place: Place,
    found: Mapping[MessageQueue, int],
    lowest: Mapping[MessageQueue, int],
    highest: Mapping[MessageQueue, int],
) -> None:
    """A queue whose messages are all older; an empty one has none that could be missed."""
    late = [queue for queue, offset in found.items() if lowest[queue] < highest[queue] <= offset]
    if late:
        raise OptionError(
            f"option {place.option}: no message at that time or later in {shown(late)}; choose an"
            " earlier time, or set startingOffsetsByTimestampStrategy to latest to begin at the end"
        )


# --- batches --------------------------------------------------------------------------------------


def find_ranges(cluster: Cluster, options: SourceOptions) -> list[QueueRange]:
    """What a batch reads of each queue; nothing of those that are empty."""
    queues = chosen_queues(cluster, options)
    if not queues:
        log.warning("no topic matches %s: there is nothing to read", options.pattern)
    lowest, highest = cluster.min_offsets(queues), cluster.max_offsets(queues)
    starts = _start(cluster, options, lowest, highest)
    ends = _ends(cluster, options, lowest, highest)
    return [_range(options, queue, starts[queue], ends[queue]) for queue in queues]


def _ends(
    cluster: Cluster,
    options: SourceOptions,
    lowest: Mapping[MessageQueue, int],
    highest: Mapping[MessageQueue, int],
) -> dict[MessageQueue, int]:
    place = options.end
    if place.kind is PlaceKind.LATEST:
        return dict(highest)
    if place.kind is not PlaceKind.OFFSETS:
        found = cluster.offsets_by_time(_times(place, highest))
        return {queue: _within(offset, queue, lowest, highest) for queue, offset in found.items()}
    found = _given(place, lowest, highest)
    for queue, offset in found.items():
        if offset > highest[queue]:
            report_loss(
                options.fails_on_data_loss,
                f"{place.option} ends at {offset} in queue {queue.queue_id} of {queue.topic} on"
                f" {queue.broker_name}, which has only {lowest[queue]} to {highest[queue]}",
            )
    return {queue: min(offset, highest[queue]) for queue, offset in found.items()}


def _range(options: SourceOptions, queue: MessageQueue, start: int, end: int) -> QueueRange:
    if start > end and PlaceKind.OFFSETS in (options.start.kind, options.end.kind):
        raise OptionError(
            f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} begins at {start} and"
            f" ends at {end}: let it end behind its beginning"
        )
    return QueueRange(queue.topic, queue.broker_name, queue.queue_id, start, max(start, end))
