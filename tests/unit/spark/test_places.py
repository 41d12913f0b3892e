"""Where sources begin and end: names, times and groups become numbers that queues have."""

import logging

import pytest

from roketto.client.errors import TopicNotFoundError, UnreachableError
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.cluster import Cluster
from roketto.spark.loss import DataLossError
from roketto.spark.options import OptionError
from roketto.spark.places import chosen_queues, find_ranges, find_start, retrying
from roketto.spark.source_options import SourceOptions
from unit.spark.fake_cluster import T0, T1, FakeCluster

S0 = MessageQueue("b", 0, "S")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster.put_in_place(monkeypatch)
    found.ends = {T0: (0, 10), T1: (5, 20), S0: (0, 0)}
    found.times_ms = {T0: [100 * number for number in range(10)]}
    return found


def options(**given: str) -> SourceOptions:
    return _read(given, is_stream=False)


def _read(given: dict[str, str], *, is_stream: bool) -> SourceOptions:
    chosen = {"topic": "T"} if not {"subscribePattern", "assign", "topic"} & given.keys() else {}
    named = {name.replace("__", "."): value for name, value in given.items()}
    return SourceOptions.of({"nameServer": "h:1", **chosen, **named}, is_stream=is_stream)


def cluster_of(found: SourceOptions) -> Cluster:
    return Cluster.of(found.connection)


def ranges(**given: str) -> list[tuple[int, int]]:
    found = options(**given)
    return [(one.start, one.end) for one in find_ranges(cluster_of(found), found)]


def chosen(**given: str) -> list[MessageQueue]:
    found = options(**given)
    return chosen_queues(cluster_of(found), found)


@pytest.mark.usefixtures("fake")
def test_a_batch_reads_all_that_there_is_unless_told_otherwise() -> None:
    assert ranges() == [(0, 10), (5, 20)]
    assert ranges(queueIds="1") == [(5, 20)]
    assert ranges(topic="S") == [(0, 0)]


@pytest.mark.usefixtures("fake")
def test_a_pattern_finds_whole_names_of_users_topics() -> None:
    assert chosen(subscribePattern=".*") == [S0, T0, T1]
    assert chosen(subscribePattern="T") == [T0, T1]
    assert chosen(subscribePattern="X.*") == []


@pytest.mark.usefixtures("fake")
def test_queues_that_are_not_there_are_named() -> None:
    assert chosen(assign='{"T": {"b": [1]}}') == [T1]
    with pytest.raises(OptionError, match="queue 7 of T on b, and there are queue 0 of T"):
        chosen(assign='{"T": {"b": [7]}}')
    with pytest.raises(OptionError, match="queueIds names 9"):
        chosen(queueIds="0,9")
    with pytest.raises(TopicNotFoundError):
        chosen(topic="Missing")


@pytest.mark.usefixtures("fake")
def test_offsets_say_where_every_queue_begins_and_ends() -> None:
    begin, end = '{"T": {"b": {"0": 3, "1": -2}}}', '{"T": {"b": {"0": 7, "1": -1}}}'
    assert ranges(startingOffsets=begin, endingOffsets=end) == [(3, 7), (5, 20)]
    with pytest.raises(OptionError, match="says nothing of queue 1 of T"):
        ranges(startingOffsets='{"T": {"b": {"0": 3}}}')
    with pytest.raises(OptionError, match="names queue 4 of T on b, which is not read"):
        ranges(startingOffsets='{"T": {"b": {"0": 3, "1": 6, "4": 1}}}')
    with pytest.raises(OptionError, match="begins at 3 and ends at 2"):
        ranges(startingOffsets=begin, endingOffsets=end.replace("7", "2"))


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"startingOffsets": '{"T": {"b": {"0": 0, "1": 4}}}'}, [(0, 10), (5, 20)]),
        ({"startingOffsets": '{"T": {"b": {"0": 0, "1": 21}}}'}, [(0, 10), (20, 20)]),
        ({"endingOffsets": '{"T": {"b": {"0": 11, "1": 9}}}'}, [(0, 10), (5, 9)]),
    ],
)
def test_offsets_out_of_range_are_an_error_or_cut(
    given: dict[str, str], left: list[tuple[int, int]]
) -> None:
    with pytest.raises(DataLossError, match=r"which has .*failOnDataLoss"):
        ranges(**given)
    assert ranges(**given, failOnDataLoss="false") == left


@pytest.mark.usefixtures("fake")
def test_times_find_the_first_message_that_is_not_older() -> None:
    only = {"queueIds": "0"}
    assert ranges(**only, startingTimestamp="150", endingTimestamp="500") == [(2, 5)]
    assert ranges(**only, startingTimestamp="150", endingTimestamp="9999") == [(2, 10)]
    times = '{"T": {"b": {"0": 300}}}'
    assert ranges(**only, startingOffsetsByTimestamp=times) == [(3, 10)]
    assert ranges(**only, endingOffsetsByTimestamp=times) == [(0, 3)]


@pytest.mark.usefixtures("fake")
def test_a_time_behind_all_messages_is_an_error_or_the_end() -> None:
    late = {"startingTimestamp": "9999", "queueIds": "0"}
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy to latest"):
        ranges(**late)
    assert ranges(**late, startingOffsetsByTimestampStrategy="latest") == [(10, 10)]
    assert ranges(topic="S", startingTimestamp="9999") == [(0, 0)]


def test_a_group_goes_on_where_it_is(fake: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    fake.groups["g"] = {T0: 4}
    assert ranges(startingOffsets="group:g") == [(4, 10), (5, 20)]
    with caplog.at_level(logging.WARNING):
        assert ranges(startingOffsets="group:nobody") == [(0, 10), (5, 20)]
    assert "group nobody has committed nothing" in caplog.text
    fake.groups["g"] = {T1: 2}
    with pytest.raises(DataLossError):
        ranges(startingOffsets="group:g")


@pytest.mark.usefixtures("fake")
def test_a_stream_begins_at_the_end_of_what_there_is() -> None:
    found = _read({}, is_stream=True)
    assert find_start(cluster_of(found), found, [T0, T1]) == {T0: 10, T1: 20}


def test_brokers_that_do_not_answer_are_asked_again_a_few_times() -> None:
    found = options(fetchOffset__numRetries="2", fetchOffset__retryIntervalMs="1")
    attempts: list[int] = []

    def fail() -> None:
        attempts.append(1)
        raise UnreachableError("h:1", "no answer", is_sent=False)

    with pytest.raises(UnreachableError):
        retrying(found, fail)
    assert len(attempts) == 3
