"""Options of a store scan say what they mean, and each mistake is named with its remedy."""

import pickle

import pytest

from roketto.protocol.tags import tag_code
from roketto.spark.option_values import OptionError
from roketto.spark.store_options import EARLIEST, LATEST, StoreOptions, properties_option

PATH = {"storePath": "/data/store/"}


def test_defaults_are_all_queues_of_all_topics_from_end_to_end() -> None:
    options = StoreOptions.of({"PATH": "/data/store"})
    assert options.store_path == "/data/store"
    assert options.commit_log_path == "/data/store/commitlog"
    assert options.source == "queues"
    assert (options.topics, options.queue_ids, options.tags) == ((), None, frozenset())
    assert options.starting.of("any", 3) == EARLIEST
    assert options.ending.of("any", 3) == LATEST
    assert options.fails_on_loss
    assert pickle.loads(pickle.dumps(options)) == options


def test_all_options_are_read_whatever_their_case() -> None:
    options = StoreOptions.of(
        {
            **PATH,
            "COMMITLOGPATH": "/log",
            "brokername": "broker-a",
            "topics": "A, B,A",
            "queueIds": "[0, 2]",
            "startingoffsets": '{"A":{"0":5},"B":{"broker-a":{"1":-1},"broker-b":{"1":9}}}',
            "endingTimestamp": "1700000000000",
            "tags": "TagA || TagB",
            "failOnDataLoss": "false",
            "minPartitions": "4",
            "maxRecordsPerPartition": "100",
            "properties": "raw",
        }
    )
    assert (options.commit_log_path, options.broker_name) == ("/log", "broker-a")
    assert options.topics == ("A", "B")
    assert options.queue_ids == frozenset([0, 2])
    assert [options.starting.of("A", 0), options.starting.of("A", 1)] == [5, EARLIEST]
    assert options.starting.of("B", 1) == LATEST
    assert options.ending_time_ms == 1_700_000_000_000
    assert options.tag_codes == {tag_code("TagA"), tag_code("TagB")}
    assert not options.fails_on_loss
    assert (options.partitions_min, options.partition_rows_max) == (4, 100)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give the option storePath"),
        ({**PATH, "path": "/other"}, "name two stores"),
        ({**PATH, "topik": "A"}, "unknown option 'topik'; did you mean 'topic'?"),
        ({**PATH, "source": "index"}, "write one of queues, commitlog"),
        ({**PATH, "topic": "A", "topics": "B"}, "give one of them"),
        ({**PATH, "queueIds": "a"}, "write numbers of queues"),
        ({**PATH, "queueIds": "-1"}, "write numbers of queues"),
        ({**PATH, "tags": "||"}, "TagA || TagB"),
        ({**PATH, "startingOffsets": "first"}, "that is no JSON"),
        ({**PATH, "startingOffsets": '{"A":5}'}, "write earliest, latest or"),
        ({**PATH, "endingOffsets": '{"A":{"0":-3}}'}, "-2 earliest, -1 latest"),
        ({**PATH, "endingOffsets": '{"A":{"b":{"0":1},"c":{}}}'}, "give brokerName"),
        (
            {**PATH, "startingOffsets": "latest", "startingTimestamp": "1"},
            "give startingOffsets or startingTimestamp, not both",
        ),
        ({**PATH, "source": "commitlog", "endingOffsets": "latest"}, "or source=queues"),
        ({**PATH, "minPartitions": "0"}, "from 1 to 10000"),
    ],
)
def test_wrong_option_is_named_with_its_remedy(given: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError) as caught:
        StoreOptions.of(given)
    assert told in str(caught.value)


def test_properties_are_chosen_without_a_look_at_other_options() -> None:
    assert properties_option({"Properties": "RAW", "unknown": ""}) == "raw"
    with pytest.raises(OptionError, match="map, raw, none"):
        properties_option({"properties": "json"})
