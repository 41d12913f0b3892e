"""Options of the source: what they choose, in which order they count, what they refuse."""

import pickle

import pytest

from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.options import OptionError
from roketto.spark.source_options import EARLIEST, LATEST, PlaceKind, SourceOptions

OFFSETS = '{"T": {"b": {"0": 5, "1": -2}}}'


def options(**given: str) -> SourceOptions:
    return _read(given, is_stream=False)


def of_stream(**given: str) -> SourceOptions:
    return _read(given, is_stream=True)


def _read(given: dict[str, str], *, is_stream: bool) -> SourceOptions:
    base = {"nameServer": "h:9876", **({"topic": "T"} if _names_no_topic(given) else {})}
    named = {name.replace("__", "."): value for name, value in given.items()}
    return SourceOptions.of({**base, **named}, is_stream=is_stream)


def _names_no_topic(given: dict[str, str]) -> bool:
    return not {"topic", "subscribe", "subscribePattern", "assign", "path"} & given.keys()


def test_batches_begin_at_the_beginning_and_streams_at_the_end() -> None:
    assert options().start.kind is PlaceKind.EARLIEST
    assert of_stream().start.kind is PlaceKind.LATEST
    assert options().end.kind is PlaceKind.LATEST


def test_times_count_before_offsets_as_in_kafkas_source() -> None:
    both = options(startingTimestamp="17", startingOffsets="earliest",
                   startingOffsetsByTimestamp=OFFSETS.replace("-2", "6"))  # fmt: skip
    assert (both.start.kind, both.start.time_ms) == (PlaceKind.TIME, 17)
    second = options(startingOffsetsByTimestamp=OFFSETS.replace("-2", "6"))
    assert second.start.kind is PlaceKind.TIMES


def test_offsets_may_name_both_ends_of_a_queue() -> None:
    start = of_stream(startingOffsets='{"T": {"b": {"0": -1, "1": -2}}}').start
    assert start.offsets == {
        MessageQueue("b", 0, "T"): LATEST, MessageQueue("b", 1, "T"): EARLIEST
    }  # fmt: skip
    assert options(startingOffsets="group:orders").start.group == "orders"


def test_topics_are_named_in_one_way_only() -> None:
    assert options(subscribe="A, B,A").topics == ("A", "B")
    assert options(path="Orders").topics == ("Orders",)
    assert options(assign='{"T": {"b": [1, 0]}}').assigned == {"T": {"b": (0, 1)}}
    with pytest.raises(OptionError, match="topic and subscribe are given"):
        options(topic="A", subscribe="B")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "/warehouse/t"}, "no topic is named"),
        ({"topic": "bad topic"}, "option topic is 'bad topic'"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": '{"T": [0]}'}, "option assign"),
        ({"assign": '{"T": {"b": ["0"]}}'}, "numbers of queues"),
        ({"queueIds": "0,x"}, "write numbers such as 0,2,3"),
        ({"startingOffsets": "first"}, "write earliest, latest"),
        ({"startingOffsets": "latest"}, "reads nothing: begin earlier"),
        ({"startingOffsets": OFFSETS.replace("5", "-1")}, "reads nothing: begin earlier"),
        ({"startingOffsets": OFFSETS.replace("5", "-3")}, "no whole number from -2 on"),
        ({"startingOffsets": "group:"}, "the name of a group"),
        ({"endingOffsets": "earliest"}, "end later"),
        ({"endingOffsets": OFFSETS}, "end later"),
        ({"commitOffsets": "true"}, "name the group"),
        ({"commitOffsets": "true", "group": "g"}, "commitOffsets is for streams"),
        ({"tags": "a", "sql92": "x > 1"}, "tags and sql92 are given"),
        ({"tags": " || "}, "no tag"),
        ({"properties": "json"}, "write one of map, raw, none"),
        ({"maxOffsetsPerTrigger": "0"}, "from 1 on"),
        ({"topics": "T"}, "did you mean 'topic'"),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        options(**given)


def test_a_stream_has_no_end_that_an_option_could_name() -> None:
    with pytest.raises(OptionError, match=r"trigger\(availableNow"):
        of_stream(endingOffsets="latest")


def test_every_option_of_the_table_arrives_where_it_counts() -> None:
    found = of_stream(
        failOnDataLoss="false", pullTimeoutMs="7", fetchOffset__numRetries="1",
        fetchOffset__retryIntervalMs="2", maxOffsetsPerTrigger="3", maxBytesPerTrigger="4",
        minOffsetsPerTrigger="5", maxTriggerDelay="6s", minPartitions="8",
        maxRecordsPerPartition="9", minRecordsPerPartition="10", group="g", commitOffsets="true",
        properties="raw", subExpression="a || b", pullBatchSize="11", queueIds="1,2",
        startingOffsetsByTimestampStrategy="latest", latestOffsetWaitMs="12",
        discoveryIntervalMs="13",
    )  # fmt: skip
    assert (
        found.fails_on_data_loss, found.pull_timeout_ms, found.retries_max,
        found.retry_interval_ms, found.trigger_rows_max, found.trigger_bytes_max,
        found.trigger_rows_min, found.trigger_delay_ms, found.partitions_min,
        found.partition_rows_max, found.partition_rows_min, found.group, found.commits,
        found.properties, found.tag_expression, found.pull_count, found.queue_ids,
        found.is_late_start_allowed, found.wait_ms, found.discovery_interval_ms,
    ) == (
        False, 7, 1, 2, 3, 4, 5, 6_000, 8, 9, 10, "g", True, "raw", "a || b", 11,
        frozenset([1, 2]), True, 12, 13,
    )  # fmt: skip


def test_options_travel_to_executors_as_they_are() -> None:
    found = options(startingOffsets=OFFSETS, sql92="a > 3")
    assert pickle.loads(pickle.dumps(found)) == found


def test_queues_are_chosen_by_topic_pattern_and_number() -> None:
    queue = MessageQueue("b", 1, "Orders")
    assert options(topic="Orders").chooses(queue)
    assert not options(topic="Orders", queueIds="0").chooses(queue)
    assert options(subscribePattern="Ord.*").chooses(queue)
    assert not options(subscribePattern="Ord").chooses(queue)
    assert not options(assign='{"Orders": {"c": [1]}}').chooses(queue)
