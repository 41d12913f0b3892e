"""Fetching: all of a range and nothing else, one request ahead, and what is gone is told."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import pytest

from roketto.client.errors import RefusedError, UnreachableError
from roketto.protocol.codes import ResponseCode
from roketto.protocol.record import Record, decode_records, encode_record
from roketto.spark.answers import Answer, Asking, Outcome
from roketto.spark.cluster import Cluster
from roketto.spark.fetch import FetchError, Piece, RangeFetch
from roketto.spark.loss import DataLossError
from roketto.spark.planner import QueueRange
from roketto.spark.source_options import SourceOptions

T = TypeVar("T")


class OneThread:
    """A cluster whose coroutines run when they are begun; it counts how many are ahead."""

    def __init__(self, is_ours: bool, runner: asyncio.Runner) -> None:
        self.is_ours = is_ours
        self.begun = 0
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        self.begun += 1
        future: Future[T] = Future()
        try:
            future.set_result(self.run(work))
        except Exception as error:  # noqa: BLE001 (as a task would have it)
            future.set_exception(error)
        return future

    async def knows_ranges(self, address: str) -> bool:
        return self.is_ours


class FakeQueue:
    """A queue with offsets from ``low`` to ``high``; answers as brokers do."""

    def __init__(self, low: int, high: int, *, at_once: int = 10) -> None:
        self.low, self.high, self.at_once = low, high, at_once
        self.is_filtered = self.is_static = False
        self.takes_ranges = True
        self.is_master = True
        self.wanted: set[int] | None = None
        self.failures: list[Exception] = []
        self.asked: list[int] = []

    async def address(self) -> tuple[str, int]:
        return "h:1", 0

    async def read_range(self, at: int, end: int) -> Answer:
        return self._answer(at, min(end, at + self.at_once))

    async def pull(self, at: int) -> Answer:
        return self._answer(at, at + self.at_once)

    def _answer(self, at: int, until: int) -> Answer:
        self.asked.append(at)
        if self.failures:
            raise self.failures.pop(0)
        until = min(until, self.high)
        if at < self.low or at > self.high:
            inside = self.low if at < self.low else self.high
            return self._make(Outcome.MOVED, inside)
        if at == self.high:
            return self._make(Outcome.NOTHING_YET, at)
        found = [one for one in range(at, until) if self.wanted is None or one in self.wanted]
        outcome = Outcome.FOUND if found else Outcome.NONE_WANTED
        records = [encode_record(Record("T", b"x", queue_offset=one)) for one in found]
        return self._make(outcome, until, b"".join(records))

    def _make(self, outcome: int, next_offset: int, data: bytes = b"") -> Answer:
        return Answer(outcome, next_offset, self.low, self.high, data, self.is_master)


class Fetching(Protocol):
    def __call__(
        self, queue: FakeQueue, start: int, end: int, *, is_ours: bool = True, **given: str
    ) -> tuple[RangeFetch, OneThread]: ...


@pytest.fixture
def fetch() -> Iterator[Fetching]:
    """Makes what is tested, and the cluster that it works with."""
    with asyncio.Runner() as runner:
        yield partial(_make, runner)


def _make(
    runner: asyncio.Runner,
    queue: FakeQueue,
    start: int,
    end: int,
    *,
    is_ours: bool = True,
    **given: str,
) -> tuple[RangeFetch, OneThread]:
    options = SourceOptions.of(
        {"nameServer": "h:1", "topic": "T", "pullTimeoutMs": "300", **given}, is_stream=False
    )
    cluster = OneThread(is_ours, runner)
    found = RangeFetch(
        cast("Cluster", cluster), options, QueueRange("T", "b", 0, start, end),
        cast("Asking", queue),
    )  # fmt: skip
    return found, cluster


def offsets_of(pieces: list[Piece]) -> list[int]:
    return [record.queue_offset for piece in pieces for record in decode_records(piece.data)]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_range_is_read_whole_and_in_order(fetch: Fetching, is_ours: bool) -> None:
    found, _ = fetch(FakeQueue(0, 9_000, at_once=32), 5, 8_123, is_ours=is_ours)
    assert offsets_of(list(found.pieces())) == list(range(5, 8_123))


def test_the_next_request_is_under_way_while_a_piece_is_decoded(fetch: Fetching) -> None:
    found, cluster = fetch(FakeQueue(0, 100), 0, 100)
    pieces = found.pieces()
    next(pieces)
    assert cluster.begun == 2
    pieces.close()  # type: ignore[attr-defined]  # it is a generator


@pytest.mark.parametrize(("is_ours", "pieces"), [(True, 10), (False, 1)])
def test_who_waits_for_the_end_of_a_range_is_told_with_its_last_request(
    fetch: Fetching, is_ours: bool, pieces: int
) -> None:
    """So the next range is asked for while the last piece of this one is decoded."""
    found, _ = fetch(FakeQueue(0, 100), 0, 100, is_ours=is_ours)
    events: list[str] = []
    events.extend("piece" for _ in found.pieces(on_last=lambda: events.append("last")))
    assert events == [*["piece"] * (pieces - 1), "last", "piece"]


def test_a_range_that_was_started_is_asked_for_once_and_may_be_left(fetch: Fetching) -> None:
    queue = FakeQueue(0, 10)
    found, cluster = fetch(queue, 0, 10)
    found.start()
    found.start()
    assert (cluster.begun, queue.asked) == (1, [0])
    assert offsets_of(list(found.pieces())) == list(range(10))
    assert queue.asked == [0]
    found.stop()
    left, _ = fetch(queue, 0, 10)
    left.stop()


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_a_filter_passes_by_is_no_loss(fetch: Fetching, is_ours: bool) -> None:
    queue = FakeQueue(0, 100)
    queue.is_filtered, queue.wanted = True, {3, 4, 77}
    found, _ = fetch(queue, 0, 100, is_ours=is_ours, tags="a")
    assert offsets_of(list(found.pieces())) == [3, 4, 77]


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize(("low", "high"), [(40, 100), (0, 15)])
def test_removed_messages_end_the_task_with_their_offsets(
    fetch: Fetching, low: int, high: int, is_ours: bool
) -> None:
    found, _ = fetch(FakeQueue(low, high), 20, 60, is_ours=is_ours)
    with pytest.raises(DataLossError, match=f"offsets 20 to .* has {low} to {high}.*failOnData"):
        list(found.pieces())


@pytest.mark.parametrize("is_ours", [True, False])
def test_only_what_is_left_is_read_if_loss_may_be(
    fetch: Fetching, is_ours: bool, caplog: pytest.LogCaptureFixture
) -> None:
    found, _ = fetch(FakeQueue(40, 100), 20, 60, is_ours=is_ours, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert offsets_of(list(found.pieces())) == list(range(40, 60))
    assert "offsets 20 to 40 are gone" in caplog.text


def test_a_gap_without_a_filter_is_a_loss(fetch: Fetching) -> None:
    queue = FakeQueue(0, 100)
    queue.wanted = set(range(20, 100))
    found, _ = fetch(queue, 0, 100, is_ours=False)
    with pytest.raises(DataLossError, match="offsets 0 to 10 are gone"):
        list(found.pieces())


def test_a_broker_that_is_away_is_waited_for_with_a_line_in_the_log(
    fetch: Fetching,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = FakeQueue(0, 10)
    queue.failures = [UnreachableError("h:1", "no answer", is_sent=True)]
    found, _ = fetch(queue, 0, 10)
    with caplog.at_level(logging.WARNING):
        assert offsets_of(list(found.pieces())) == list(range(10))
    assert "waiting: no answer" in caplog.text


def test_a_broker_that_stays_away_ends_the_task_in_time(fetch: Fetching) -> None:
    queue = FakeQueue(0, 10)
    queue.failures = [UnreachableError("h:1", "no answer", is_sent=True) for _ in range(50)]
    found, _ = fetch(queue, 0, 10)
    with pytest.raises(FetchError, match=r"given up after 300 ms \(pullTimeoutMs\): no answer"):
        list(found.pieces())


def test_a_refusal_is_told_at_once(fetch: Fetching) -> None:
    queue = FakeQueue(0, 10)
    queue.failures = [RefusedError("h:1", ResponseCode.NO_PERMISSION, "not you")]
    found, _ = fetch(queue, 0, 10)
    with pytest.raises(FetchError, match="not you"):
        list(found.pieces())
    assert queue.asked == [0]


def test_a_slave_that_is_behind_is_waited_for_and_no_loss(fetch: Fetching) -> None:
    queue = FakeQueue(0, 5)
    queue.is_master = False
    found, _ = fetch(queue, 0, 10)
    with pytest.raises(FetchError, match="nothing at 5 now, and 5 more are to be read"):
        list(found.pieces())


def test_a_topic_that_was_deleted_is_a_loss(fetch: Fetching) -> None:
    queue = FakeQueue(0, 10)
    queue.failures = [RefusedError("h:1", ResponseCode.TOPIC_NOT_EXIST, "no such topic")]
    found, _ = fetch(queue, 0, 10, failOnDataLoss="false")
    assert list(found.pieces()) == []
