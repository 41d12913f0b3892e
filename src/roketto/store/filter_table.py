"""The SQL filters of consumer groups: ``config/consumerFilter.json``.

A broker remembers them while their consumers are away, to mark in the queues which messages they
will want. Java gives this table no data version.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import field

from roketto.clock import wall_ms
from roketto.protocol.bodies.base import Body, Int, Long
from roketto.store.files import Files
from roketto.store.table import Table
from roketto.store.unknown_members import forget_unknown

__all__ = ["FILTERS_FILE", "BloomFilterData", "ConsumerFilter", "FilterTable"]

FILTERS_FILE: Final = "consumerFilter.json"

FILTERS_MAX: Final = 100_000
"""Pairs of topic and group; a broker with a thousand has many."""

_MEMBER: Final = "filterDataByTopic"
_INNER_MEMBER: Final = "groupFilterData"


class BloomFilterData(Body):
    """Which bits of a Bloom filter of ``bit_num`` bits stand for a group."""

    bit_num: Int = 0
    bit_pos: list[Int] = field(default_factory=list)


class ConsumerFilter(Body):
    """The filter of one group on one topic. The times are milliseconds."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: Long = 0
    client_version: Long = 0
    consumer_group: str = ""
    dead: bool = False
    """Whether it died after it was born; ``FilterTable.put`` sets it."""
    dead_time: Long = 0
    """When the last consumer of the group went; 0 while there is one."""
    expression: str | None = None
    expression_type: str | None = None
    topic: str = ""


class TopicFilters(Body):
    """The filters of all groups on one topic."""

    group_filter_data: dict[str, ConsumerFilter] = field(default_factory=dict)
    topic: str = ""


class ConsumerFilters(Body):
    """The whole table."""

    filter_data_by_topic: dict[str, TopicFilters] = field(default_factory=dict)


class FilterTable(Table[ConsumerFilters]):
    """Topic and group -> the filter. See ``Table``."""

    def __init__(
        self, files: Files, config: Path, *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        super().__init__(files, config / FILTERS_FILE, ConsumerFilters, _MEMBER, clock_ms=clock_ms)

    def __iter__(self) -> Iterator[ConsumerFilter]:
        """All filters."""
        for filters in self._body.filter_data_by_topic.values():
            yield from filters.group_filter_data.values()

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        filters = self._body.filter_data_by_topic.get(topic)
        return None if filters is None else filters.group_filter_data.get(group)

    def put(self, filter_: ConsumerFilter) -> None:
        """Add or replace a filter; TableFullError if there are too many, or if it is too large."""
        filter_.dead = filter_.dead_time >= filter_.born_time
        topics, topic = self._body.filter_data_by_topic, filter_.topic
        filters = topics.get(topic)
        if filters is None:
            filters = TopicFilters(topic=topic)
            forget_unknown(self._unknown, _MEMBER, topic)
        entries = filters.group_filter_data
        if filter_.consumer_group not in entries:
            self._make_room(sum(1 for _ in self), FILTERS_MAX)
        way = (_MEMBER, topic, _INNER_MEMBER)
        self._put(entries, filter_.consumer_group, filter_, FILTERS_MAX, *way)
        topics[topic] = filters

    def remove(self, topic: str, group: str) -> ConsumerFilter | None:
        """Take a filter out, with its topic if that was the last; what it was, if it was there."""
        filters = self._body.filter_data_by_topic.get(topic)
        removed = None if filters is None else filters.group_filter_data.pop(group, None)
        if filters is None or removed is None:
            return None
        if not filters.group_filter_data:
            del self._body.filter_data_by_topic[topic]
        self._change()
        return removed
