"""The stream on the driver: limits, long polls, ends that replays cannot change, groups."""

import json
import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from roketto.clock import monotonic_s
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark import availability, stream_reader
from roketto.spark.availability import OutageError
from roketto.spark.columns import all_columns
from roketto.spark.loss import DataLossError
from roketto.spark.source_options import SourceOptions
from roketto.spark.stream_reader import StreamReader
from unit.spark.fake_cluster import T0, T1, FakeCluster

T2 = MessageQueue("b", 2, "T")
ALL = ReadAllAvailable()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster.put_in_place(monkeypatch)
    found.ends = {T0: (0, 100), T1: (5, 25)}
    return found


def reader(**given: str) -> StreamReader:
    base = {
        "nameServer": "h:1", "topic": "T", "startingOffsets": "earliest",
        "latestOffsetWaitMs": "0", "discoveryIntervalMs": "0",
    }  # fmt: skip
    options = SourceOptions.of({**base, **given}, is_stream=True)
    return StreamReader(options, all_columns())


def through_spark(offset: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(offset))
    return value


def step(
    stream: StreamReader, start: dict[str, Any], limit: ReadLimit | None = None
) -> tuple[dict[str, Any], list[tuple[int, int, int]]]:
    """The end of the next batch, and what it reads of each queue."""
    end = through_spark(stream.latestOffset(start, limit or stream.getDefaultReadLimit()))
    return end, planned(stream, start, end)


def planned(
    stream: StreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[int, int, int]]:
    return [
        (one.queue_id, one.start, one.end)
        for partition in stream.partitions(start, end)
        for one in partition.value
    ]


def test_each_batch_begins_where_the_last_has_ended(fake: FakeCluster) -> None:
    stream = reader()
    start = through_spark(stream.initialOffset())
    end, read = step(stream, start)
    assert read == [(0, 0, 100), (1, 5, 25)]
    fake.ends[T0] = (0, 130)
    later, read = step(stream, end)
    assert read == [(0, 100, 130)]
    assert step(stream, later) == (later, [])


def test_the_same_offset_comes_back_as_the_same_text(fake: FakeCluster) -> None:
    stream = reader()
    end, _ = step(stream, through_spark(stream.initialOffset()))
    assert json.dumps(stream.latestOffset(end, ALL)) == json.dumps(end)


def test_a_replay_of_the_first_batch_ignores_a_new_beginning(fake: FakeCluster) -> None:
    stream = reader(startingOffsets="latest")
    start = through_spark(stream.initialOffset())
    fake.ends[T0] = (0, 110)
    end, read = step(stream, start)
    assert read == [(0, 100, 110)]
    fake.ends[T0] = (0, 500)
    restarted = reader(startingOffsets="latest")
    fresh = through_spark(restarted.initialOffset())
    assert planned(restarted, fresh, end) == [(0, 100, 110)]
    assert step(restarted, end)[1] == [(0, 110, 500)]


def test_the_beginning_is_the_same_however_often_it_is_asked(fake: FakeCluster) -> None:
    stream = reader(startingOffsets="latest")
    first = stream.initialOffset()
    fake.ends[T0] = (0, 200)
    assert stream.initialOffset() == first


def test_new_queues_are_read_from_their_beginning_also_when_replayed(fake: FakeCluster) -> None:
    stream = reader(startingOffsets="latest")
    start = through_spark(stream.initialOffset())
    fake.ends[T0] = (0, 101)
    first, _ = step(stream, start)
    fake.ends[T2] = (7, 9)
    second, read = step(stream, first)
    assert read == [(2, 7, 9)]
    fake.ends[T2] = (8, 9)
    assert planned(reader(), first, second) == [(2, 7, 9)]
    assert step(stream, second) == (second, [])


def test_a_row_limit_is_shared_by_the_queues(fake: FakeCluster) -> None:
    stream = reader(maxOffsetsPerTrigger="60")
    assert stream.getDefaultReadLimit() == ReadMaxRows(60)
    end, read = step(stream, through_spark(stream.initialOffset()))
    assert read == [(0, 0, 50), (1, 5, 15)]
    assert step(stream, end, ALL)[1] == [(0, 50, 100), (1, 15, 25)]


def test_a_byte_limit_goes_by_the_size_of_the_next_messages(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "bytes_per_row", lambda *_: 100.0)
    stream = reader(maxBytesPerTrigger="1200", maxOffsetsPerTrigger="1000")
    assert reader(maxBytesPerTrigger="1200").getDefaultReadLimit() == ReadMaxBytes(1200)
    assert step(stream, through_spark(stream.initialOffset()))[1] == [(0, 0, 10), (1, 5, 7)]


def test_few_rows_wait_for_more_or_for_their_time(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(stream_reader, "monotonic_s", lambda: now_s)
    stream = reader(minOffsetsPerTrigger="20", maxTriggerDelay="15m")
    assert stream.getDefaultReadLimit() == ReadMinRows(20)
    end, read = step(stream, through_spark(stream.initialOffset()))
    assert len(read) == 2
    fake.ends[T0] = (0, 110)
    now_s += 899
    assert step(stream, end) == (end, [])
    now_s += 1
    end, read = step(stream, end)
    assert read == [(0, 100, 110)]
    fake.ends[T0] = (0, 130)
    assert step(stream, end)[1] == [(0, 110, 130)], "these are enough"


def test_available_now_reads_what_was_there_and_no_more(fake: FakeCluster) -> None:
    stream = reader(maxOffsetsPerTrigger="80", minOffsetsPerTrigger="1000")
    stream.prepareForTriggerAvailableNow()
    fake.ends = {T0: (0, 150), T1: (5, 25), T2: (0, 9)}
    end, first = step(stream, through_spark(stream.initialOffset()))
    end, second = step(stream, end)
    assert sum(last - start for _, start, last in first + second) == 120
    assert step(stream, end) == (end, [])


def test_available_now_from_the_end_finds_nothing_and_loses_nothing(fake: FakeCluster) -> None:
    stream = reader(startingOffsets="latest")
    stream.prepareForTriggerAvailableNow()
    fake.ends[T0] = (0, 150)
    start = through_spark(stream.initialOffset())
    assert step(stream, start) == (start, [])


def test_an_idle_stream_waits_for_messages_before_it_answers(fake: FakeCluster) -> None:
    stream = reader(startingOffsets="latest", latestOffsetWaitMs="150")
    start = through_spark(stream.initialOffset())
    looks, began_s = fake.looks, monotonic_s()
    assert stream.latestOffset(start, ALL) == start
    assert monotonic_s() - began_s >= 0.15
    assert fake.looks - looks < 10


def test_a_queue_that_got_shorter_is_a_loss_and_never_a_negative_range(
    fake: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = reader()
    end, _ = step(stream, through_spark(stream.initialOffset()))
    fake.ends[T0] = (0, 40)
    with pytest.raises(DataLossError, match="was read up to 100, and ends at 40"):
        stream.latestOffset(end, ALL)
    tolerant = reader(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        shorter, read = step(tolerant, end)
    assert read == []
    assert "ends at 40" in caplog.text
    with pytest.raises(DataLossError):
        stream.partitions(end, shorter)
    fake.ends[T0] = (0, 45)
    assert step(tolerant, shorter)[1] == [(0, 40, 45)]


def test_a_broker_that_is_away_holds_up_only_its_own_queues(
    fake: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = reader(pullTimeoutMs="60000")
    end, _ = step(stream, through_spark(stream.initialOffset()))
    fake.away = {T1}
    fake.ends = {T0: (0, 120), T1: (5, 40)}
    with caplog.at_level(logging.WARNING):
        end, read = step(stream, end)
    assert read == [(0, 100, 120)]
    assert "waits for queue 1 of T on b" in caplog.text
    fake.away = set()
    assert step(stream, end)[1] == [(1, 25, 40)]


def test_a_broker_that_stays_away_ends_the_query_unless_loss_may_be(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(availability, "monotonic_s", lambda: now_s)
    strict, tolerant = reader(), reader(failOnDataLoss="false")
    end, _ = step(strict, through_spark(strict.initialOffset()))
    del fake.ends[T1]
    for seconds in (0, 119, 2):
        now_s += seconds
        assert tolerant.latestOffset(end, ALL) == end
        if seconds != 2:
            assert strict.latestOffset(end, ALL) == end
    with pytest.raises(OutageError, match=r"pullTimeoutMs.*queue 1 of T on b: no route"):
        strict.latestOffset(end, ALL)


def test_what_has_gone_through_the_sink_is_committed_for_the_group(fake: FakeCluster) -> None:
    stream = reader(group="g", commitOffsets="true")
    start = through_spark(stream.initialOffset())
    end, _ = step(stream, start)
    assert fake.groups == {}
    assert step(stream, end) == (end, [])
    assert fake.groups == {"g": {T0: 100, T1: 25}}
    fake.groups.clear()
    stream.commit(end)
    assert fake.groups == {}, "it is told once"


def test_progress_shows_how_far_the_queues_are(fake: FakeCluster) -> None:
    stream = reader(maxOffsetsPerTrigger="10")
    assert stream.reportLatestOffset() is None
    step(stream, through_spark(stream.initialOffset()))
    assert stream.reportLatestOffset() == {"q": {"T": {"b": {"0": 100, "1": 25}}}, "v": 1}
