"""The options of the source: which topics, from where to where, how much at once, what of them."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.errors import FilterError, IllegalNameError
from roketto.protocol.names import check_group, check_topic
from roketto.protocol.tags import ALL_TAGS, parse_tags
from roketto.spark.offsets import OffsetError, QueueOffsets, flatten
from roketto.spark.options import (
    CONNECTION_OPTIONS,
    SPARK_OPTIONS,
    ConnectionOptions,
    OptionError,
    OptionValues,
)

__all__ = ["EARLIEST", "LATEST", "SOURCE_OPTIONS", "Place", "PlaceKind", "SourceOptions"]

log = logging.getLogger(__name__)

EARLIEST: Final = -2
LATEST: Final = -1
"""What stands for the ends of a queue in JSON, as in Kafka's source."""

_CHOOSING: Final = ("topic", "subscribe", "subscribePattern", "assign")
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "latestOffsetWaitMs", "discoveryIntervalMs",
)  # fmt: skip
SOURCE_OPTIONS: Final = (
    *CONNECTION_OPTIONS, *_CHOOSING, "queueIds", "startingOffsets", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", *_ENDING,
    "failOnDataLoss", "pullTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    *_STREAM_ONLY, "minPartitions", "maxRecordsPerPartition", "minRecordsPerPartition", "group",
    "commitOffsets", "properties", "subExpression", "tags", "sql92", "pullBatchSize",
)  # fmt: skip

_WHAT: Final = "rocketmq source"
_GROUP: Final = "spark-rocketmq-source"
"""Whom brokers count messages for, and what pulls are made as, unless a group is named."""
_GROUP_PREFIX: Final = "group:"
EARLIEST_NAME: Final = "earliest"
LATEST_NAME: Final = "latest"
_OFFSETS_EXAMPLE: Final = '{"Orders": {"broker-a": {"0": 23, "1": -2}}}'
_ASSIGN_EXAMPLE: Final = '{"Orders": {"broker-a": [0, 1]}}'


class PlaceKind(Enum):
    """Ways to say where to begin or end."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIME = "timestamp"
    TIMES = "timestamps"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to begin or end, before brokers are asked what that is in numbers."""

    kind: PlaceKind
    offsets: QueueOffsets = field(default_factory=dict)
    """For OFFSETS with EARLIEST and LATEST among them; for TIMES these are milliseconds."""
    time_ms: int = 0
    group: str = ""
    option: str = ""
    """Which option has said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What one source was told: plain values that travel to executors.

    options = SourceOptions.of({"nameServer": "10.0.0.5:9876", "topic": "Orders"}, is_stream=False)
    """

    connection: ConnectionOptions
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None
    """Topic -> broker -> queues."""
    queue_ids: frozenset[int] | None = None
    start: Place
    end: Place
    is_late_start_allowed: bool = False
    """Whether a time after the last message means the end of a queue, and not an error."""
    fails_on_data_loss: bool = True
    pull_timeout_ms: int = 120_000
    retries_max: int = 3
    retry_interval_ms: int = 1_000
    trigger_rows_max: int | None = None
    trigger_bytes_max: int | None = None
    trigger_rows_min: int | None = None
    trigger_delay_ms: int = 900_000
    wait_ms: int = 500
    discovery_interval_ms: int = 5_000
    partitions_min: int | None = None
    partition_rows_max: int | None = None
    partition_rows_min: int | None = None
    group: str = ""
    commits: bool = False
    properties: str = "map"
    tag_expression: str = ALL_TAGS
    sql: str = ""
    pull_count: int | None = None

    @property
    def pull_group(self) -> str:
        """Whom brokers take this source for."""
        return self.group or _GROUP

    def chooses(self, queue: MessageQueue) -> bool:
        """Whether a queue is one that these options choose."""
        if self.queue_ids is not None and queue.queue_id not in self.queue_ids:
            return False
        if self.assigned is not None:
            brokers = self.assigned.get(queue.topic, {})
            return queue.queue_id in brokers.get(queue.broker_name, ())
        if self.pattern:
            return re.fullmatch(self.pattern, queue.topic) is not None
        return queue.topic in self.topics

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_stream: bool) -> "SourceOptions":
        """Read and check all options; OptionError for the first that is wrong."""
        values = OptionValues(given, SOURCE_OPTIONS, _WHAT, SPARK_OPTIONS)
        topics, pattern, assigned = _topics(values, given)
        start = _start(values, is_stream)
        end = _end(values, is_stream)
        if not is_stream and (ignored := values.given(*_STREAM_ONLY)):
            log.warning("%s: %s is for streams, and ignored", _WHAT, ", ".join(ignored))
        group = _group(values, "group", values.text("group"))
        commits = values.flag("commitOffsets", False)
        _check_commits(commits, group, is_stream)
        tag_expression, sql = _filters(values)
        return cls(
            connection=ConnectionOptions.of(values),
            topics=topics,
            pattern=pattern,
            assigned=assigned,
            queue_ids=_queue_ids(values),
            start=start,
            end=end,
            is_late_start_allowed=values.choice(
                "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
            ) == "latest",
            fails_on_data_loss=values.flag("failOnDataLoss", True),
            pull_timeout_ms=values.number("pullTimeoutMs", 120_000, 1),
            retries_max=values.number("fetchOffset.numRetries", 3, 0, 1_000),
            retry_interval_ms=values.number("fetchOffset.retryIntervalMs", 1_000, 0, 600_000),
            trigger_rows_max=values.maybe_number("maxOffsetsPerTrigger", 1),
            trigger_bytes_max=values.maybe_number("maxBytesPerTrigger", 1),
            trigger_rows_min=values.maybe_number("minOffsetsPerTrigger", 1),
            trigger_delay_ms=values.duration_ms("maxTriggerDelay", 900_000),
            wait_ms=values.number("latestOffsetWaitMs", 500, 0, 60_000),
            discovery_interval_ms=values.number("discoveryIntervalMs", 5_000, 0, 3_600_000),
            partitions_min=values.maybe_number("minPartitions", 1, 1_000_000),
            partition_rows_max=values.maybe_number("maxRecordsPerPartition", 1),
            partition_rows_min=values.maybe_number("minRecordsPerPartition", 1),
            group=group,
            commits=commits,
            properties=values.choice("properties", ("map", "raw", "none"), "map"),
            tag_expression=tag_expression,
            sql=sql,
            pull_count=values.maybe_number("pullBatchSize", 1, 1_000_000),
        )  # fmt: skip


def _topics(
    values: OptionValues, given: Mapping[str, str]
) -> tuple[tuple[str, ...], str, Mapping[str, Mapping[str, tuple[int, ...]]] | None]:
    """Exactly one way to choose topics; what ``load("Orders")`` is given is one as well."""
    chosen = values.given(*_CHOOSING)
    path = {key.lower(): value for key, value in given.items()}.get("path", "")
    if len(chosen) > 1:
        raise OptionError(f"{_WHAT}: {' and '.join(chosen)} are given; give one of them")
    if not chosen and (not path or "/" in path):
        raise OptionError(
            f"{_WHAT}: no topic is named; give one of the options {', '.join(_CHOOSING)}, such as"
            ' .option("topic", "Orders")'
        )
    name = chosen[0] if chosen else "topic"
    text = values.text(name) if chosen else path
    if name == "subscribePattern":
        return (), _pattern(values, text), None
    if name == "assign":
        return (), "", _assigned(values)
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise values.error(name, text, "write the names of topics with , between them")
    for topic in topics:
        _check_topic(values, name, topic)
    return topics, "", None


def _check_topic(values: OptionValues, option: str, topic: str) -> None:
    try:
        check_topic(topic)
    except IllegalNameError as error:
        raise values.error(option, topic, error.reason) from error


def _pattern(values: OptionValues, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise values.error(
            "subscribePattern", text, f"that is no regular expression: {error}"
        ) from error
    return text


def _assigned(values: OptionValues) -> dict[str, dict[str, tuple[int, ...]]]:
    table = values.table("assign", _ASSIGN_EXAMPLE) or {}
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for topic, brokers in table.items():
        _check_topic(values, "assign", topic)
        if not isinstance(brokers, dict) or not brokers:
            raise values.error("assign", table, f"write {_ASSIGN_EXAMPLE}")
        found[topic] = {name: _numbers(values, "assign", ids) for name, ids in brokers.items()}
    if not found:
        raise values.error("assign", table, f"it names no queue; write {_ASSIGN_EXAMPLE}")
    return found


def _numbers(values: OptionValues, option: str, ids: Any) -> tuple[int, ...]:
    is_list = isinstance(ids, list) and ids
    if not is_list or not all(type(one) is int and one >= 0 for one in ids):
        raise values.error(option, ids, "write numbers of queues from 0 on, such as [0, 1]")
    return tuple(sorted(set(ids)))


def _queue_ids(values: OptionValues) -> frozenset[int] | None:
    if not values.has("queueIds"):
        return None
    parts = [part.strip() for part in values.text("queueIds").split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise values.error("queueIds", values.text("queueIds"), "write numbers such as 0,2,3")
    return frozenset(map(int, parts))


def _start(values: OptionValues, is_stream: bool) -> Place:
    if values.has("startingTimestamp"):
        return Place(PlaceKind.TIME, time_ms=values.number("startingTimestamp", 0),
                     option="startingTimestamp")  # fmt: skip
    if (times := _offsets(values, "startingOffsetsByTimestamp", 0)) is not None:
        return Place(PlaceKind.TIMES, times, option="startingOffsetsByTimestamp")
    default = LATEST_NAME if is_stream else EARLIEST_NAME
    text = values.text("startingOffsets", default)
    if text.lower().startswith(_GROUP_PREFIX):
        group = _group(values, "startingOffsets", text[len(_GROUP_PREFIX) :].strip())
        if not group:
            raise values.error("startingOffsets", text, "write group: and the name of a group")
        return Place(PlaceKind.GROUP, group=group, option="startingOffsets")
    place = _place(values, "startingOffsets", text)
    if not is_stream and (place.kind is PlaceKind.LATEST or LATEST in place.offsets.values()):
        raise values.error(
            "startingOffsets", text, "a batch that begins at the end reads nothing: begin earlier,"
            " or use readStream",
        )  # fmt: skip
    return place


def _end(values: OptionValues, is_stream: bool) -> Place:
    given = values.given(*_ENDING)
    if is_stream:
        if given:
            raise OptionError(
                f"{_WHAT}: {given[0]} is for batches, and a stream has no end; use"
                " trigger(availableNow=True) to read what there is now"
            )
        return Place(PlaceKind.LATEST)
    if values.has("endingTimestamp"):
        return Place(PlaceKind.TIME, time_ms=values.number("endingTimestamp", 0),
                     option="endingTimestamp")  # fmt: skip
    if (times := _offsets(values, "endingOffsetsByTimestamp", 0)) is not None:
        return Place(PlaceKind.TIMES, times, option="endingOffsetsByTimestamp")
    text = values.text("endingOffsets", LATEST_NAME)
    place = _place(values, "endingOffsets", text)
    if place.kind is PlaceKind.EARLIEST or EARLIEST in place.offsets.values():
        raise values.error(
            "endingOffsets", text, "a batch that ends at the beginning reads nothing: end later"
        )
    return place


def _place(values: OptionValues, option: str, text: str) -> Place:
    if text.lower() in (EARLIEST_NAME, LATEST_NAME):
        return Place(PlaceKind(text.lower()), option=option)
    if not text.startswith("{"):
        raise values.error(
            option, text, f"write earliest, latest, group:<name> or JSON such as {_OFFSETS_EXAMPLE}"
        )
    offsets = _offsets(values, option, EARLIEST)
    return Place(PlaceKind.OFFSETS, offsets or {}, option=option)


def _offsets(values: OptionValues, option: str, low: int) -> dict[MessageQueue, int] | None:
    table = values.table(option, _OFFSETS_EXAMPLE)
    if table is None:
        return None
    try:
        found = flatten(table, low)
    except OffsetError as error:
        raise values.error(option, values.text(option), f"{error}") from error
    if not found:
        raise values.error(option, values.text(option), f"it names no queue: {_OFFSETS_EXAMPLE}")
    return found


def _group(values: OptionValues, option: str, group: str) -> str:
    if group:
        try:
            check_group(group)
        except IllegalNameError as error:
            raise values.error(option, group, error.reason) from error
    return group


def _check_commits(commits: bool, group: str, is_stream: bool) -> None:
    if commits and not group:
        raise OptionError(f"{_WHAT}: commitOffsets is true; name the group that they are for")
    if commits and not is_stream:
        raise OptionError(
            f"{_WHAT}: commitOffsets is for streams, as a batch source is not told when its rows"
            " are handled; leave it out, or use readStream with trigger(availableNow=True)"
        )


def _filters(values: OptionValues) -> tuple[str, str]:
    """The expression of tags, and that of SQL92."""
    given = values.given("subExpression", "tags", "sql92")
    if len(given) > 1:
        raise OptionError(f"{_WHAT}: {' and '.join(given)} are given; give one of them")
    if not given:
        return ALL_TAGS, ""
    text = values.text(given[0])
    if given[0] == "sql92":
        return ALL_TAGS, text
    try:
        parsed = parse_tags(text)
    except FilterError as error:
        raise values.error(given[0], text, error.reason) from error
    if parsed.expression != ALL_TAGS and not parsed.tags:
        raise values.error(given[0], text, "it names no tag; write TagA || TagB, or *")
    return text, ""
