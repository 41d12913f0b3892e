"""What a scan of store files is asked for: where they are, which messages, in how many parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from roketto.protocol.errors import FilterError
from roketto.protocol.tags import TagFilter, parse_tags
from roketto.spark.columns import PropertiesAs
from roketto.spark.option_values import OptionError, OptionValues

__all__ = ["EARLIEST", "LATEST", "QueueOffsets", "StoreOptions", "properties_option"]

EARLIEST: Final = -2
LATEST: Final = -1
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_WHAT: Final = "rocketmq-store"
_OPTIONS: Final = (
    "storePath", "path", "commitLogPath", "brokerName", "source", "topic", "topics", "queueIds",
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "tags",
    "properties", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition",
)  # fmt: skip
_OFFSETS_EXAMPLE: Final = 'earliest, latest or {"Orders":{"0":23,"1":-2}}'
_QUEUES_MAX: Final = 65_536
_PARTITIONS_MAX: Final = 10_000
PARTITION_ROWS: Final = 250_000
"""Rows of a task where nobody says otherwise: a task costs as much time as some 50,000 rows."""

Source = Literal["queues", "commitlog"]


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """An offset for every queue: a word for all of them, and numbers for some.

    >>> QueueOffsets(EARLIEST, {"Orders": {0: 23}}).of("Orders", 1)
    -2
    """

    otherwise: int
    by_topic: Mapping[str, Mapping[int, int]]

    def of(self, topic: str, queue_id: int) -> int:
        """The offset of one queue; EARLIEST and LATEST are negative."""
        return self.by_topic.get(topic, {}).get(queue_id, self.otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The options of one scan: plain values that travel from the driver to the tasks.

    options = StoreOptions.of({"storePath": "/var/rocketmq/store", "topic": "Orders"})
    """

    store_path: str
    commit_log_path: str
    broker_name: str | None
    source: Source
    topics: tuple[str, ...]
    """Empty: all, for a scan of queues without those of the broker itself."""
    queue_ids: frozenset[int] | None
    starting: QueueOffsets
    ending: QueueOffsets
    starting_time_ms: int | None
    ending_time_ms: int | None
    tags: frozenset[str]
    tag_codes: frozenset[int]
    fails_on_loss: bool
    partitions_min: int | None
    partition_rows_max: int | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "StoreOptions":
        """What a user's options say; OptionError names the one that is wrong."""
        values = OptionValues(given, _OPTIONS, _WHAT)
        source = cast("Source", values.choice("source", ("queues", "commitlog"), "queues"))
        store_path = _store_path(values)
        broker_name = values.text("brokerName") or None
        _check_together(values, source)
        tags = _tags(values)
        return cls(
            store_path=store_path,
            commit_log_path=values.text("commitLogPath") or f"{store_path}/commitlog",
            broker_name=broker_name,
            source=source,
            topics=_topics(values),
            queue_ids=_queue_ids(values),
            starting=_offsets(values, "startingOffsets", EARLIEST, broker_name),
            ending=_offsets(values, "endingOffsets", LATEST, broker_name),
            starting_time_ms=values.maybe_number("startingTimestamp"),
            ending_time_ms=values.maybe_number("endingTimestamp"),
            tags=tags.tags,
            tag_codes=tags.codes,
            fails_on_loss=values.flag("failOnDataLoss", True),
            partitions_min=values.maybe_number("minPartitions", 1, _PARTITIONS_MAX),
            partition_rows_max=values.maybe_number("maxRecordsPerPartition", 1),
        )


def properties_option(given: Mapping[str, str]) -> PropertiesAs:
    """What ``properties`` says; the other options are not looked at."""
    one = {name: value for name, value in given.items() if name.lower() == "properties"}
    values = OptionValues(one, ["properties"], _WHAT)
    return cast("PropertiesAs", values.choice("properties", ("map", "raw", "none"), "map"))


def _store_path(values: OptionValues) -> str:
    given = values.given("storePath", "path")
    if not given:
        raise OptionError(
            f"{_WHAT}: no store is named; give the option storePath, the directory that has"
            " commitlog and consumequeue in it, as driver and executors see it"
        )
    if len(given) > 1 and values.text("storePath") != values.text("path"):
        raise OptionError(f"{_WHAT}: storePath and load(path) name two stores; give one of them")
    return values.text(given[0]).rstrip("/") or "/"


def _check_together(values: OptionValues, source: Source) -> None:
    """Two ways to say the same would leave it open which one counts."""
    for end in ("starting", "ending"):
        if len(values.given(f"{end}Offsets", f"{end}Timestamp")) > 1:
            raise OptionError(f"{_WHAT}: give {end}Offsets or {end}Timestamp, not both")
    refused = values.given("startingOffsets", "endingOffsets")
    if source == "commitlog" and refused:
        raise OptionError(
            f"{_WHAT}: {refused[0]} is of queues, and source=commitlog has none; give"
            " startingTimestamp and endingTimestamp, or source=queues"
        )


def _topics(values: OptionValues) -> tuple[str, ...]:
    given = values.given("topic", "topics")
    if len(given) > 1:
        raise OptionError(f"{_WHAT}: topic and topics are the same option; give one of them")
    if not given:
        return ()
    names = [name.strip() for name in values.text(given[0]).split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def _queue_ids(values: OptionValues) -> frozenset[int] | None:
    if not values.has("queueIds"):
        return None
    text = values.text("queueIds")
    try:
        numbers = frozenset(int(piece) for piece in text.strip("[]").split(","))
    except ValueError:
        numbers = frozenset([-1])
    if any(not 0 <= number < _QUEUES_MAX for number in numbers):
        raise values.error("queueIds", text, "write numbers of queues such as 0,1,5")
    return numbers


def _tags(values: OptionValues) -> TagFilter:
    try:
        return parse_tags(values.text("tags"))
    except FilterError as error:
        raise values.error("tags", values.text("tags"), str(error)) from error


def _offsets(
    values: OptionValues, name: str, otherwise: int, broker_name: str | None
) -> QueueOffsets:
    word = values.text(name).lower()
    if not word:
        return QueueOffsets(otherwise, {})
    if word in _WORDS:
        return QueueOffsets(_WORDS[word], {})
    table = values.table(name, _OFFSETS_EXAMPLE)
    assert table is not None, "it was given"
    by_topic = {topic: _queues(values, name, topic, broker_name, table[topic]) for topic in table}
    return QueueOffsets(otherwise, by_topic)


def _queues(
    values: OptionValues, name: str, topic: str, broker_name: str | None, given: Any
) -> dict[int, int]:
    """``{"0": 23}``, or the same below the name of a broker, as the source of brokers has it."""
    if isinstance(given, dict) and given and all(isinstance(one, dict) for one in given.values()):
        if broker_name is None and len(given) > 1:
            raise values.error(name, given, f"topic {topic} has several brokers: give brokerName")
        given = given.get(broker_name, {}) if broker_name else next(iter(given.values()))
    try:
        found = {int(queue_id): int(offset) for queue_id, offset in given.items()}
    except (AttributeError, TypeError, ValueError):
        found = {-1: -1}
    if any(queue_id < 0 or offset < EARLIEST for queue_id, offset in found.items()):
        raise values.error(name, given, f"write {_OFFSETS_EXAMPLE} (-2 earliest, -1 latest)")
    return found
