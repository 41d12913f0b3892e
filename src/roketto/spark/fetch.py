"""The messages of a range as raw records, asked for ahead of whoever decodes them.

From Roketto's brokers one bulk read after the other, each asked for while the one before it is
decoded, and the first of the next queue while the last of this one is. Other brokers, and filters
by SQL92, are pulled from: some spans of the range at the same time, as a pull gives only 32
messages. What comes is in the order of the queue either way.

A broker that does not answer is asked again, with a line in the log, as long as ``pullTimeoutMs``
says. What the queue has no more is data loss (loss.py), never a silent gap.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, cast

from roketto.client.errors import (
    BrokerNotFoundError,
    ClientError,
    NoNameServerError,
    RefusedError,
    TopicNotFoundError,
    UnreachableError,
)
from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.record_layout import peek_queue_offset
from roketto.spark.answers import Answer, Asking, Outcome
from roketto.spark.cluster import Cluster
from roketto.spark.loss import report_loss
from roketto.spark.planner import QueueRange
from roketto.spark.pulled_records import cut_behind
from roketto.spark.source_options import SourceOptions

__all__ = ["FetchError", "Piece", "RangeFetch"]

log = logging.getLogger(__name__)

SPAN_ROWS: Final = 2_048
SPANS_AT_ONCE: Final = 4
SPAN_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of what is pulled: spans that are asked for at the same time, and when one of them ends early."""
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0
_LOG_EVERY_S: Final = 10.0
_TAIL_S: Final = 10.0
"""How long a queue may be shorter than it was said to be: a broker may be about to catch up."""
_GRACE_S: Final = 60.0
_WAITED_FOR: Final = (BrokerNotFoundError, NoNameServerError, TopicNotFoundError, UnreachableError)
_NO_TOPIC: Final = ResponseCode.TOPIC_NOT_EXIST
_BUSY: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


class FetchError(Exception):
    """A range could not be read: its broker did not answer in time, or refuses."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records one behind the other, and where to go on."""

    data: bytes
    next_offset: int
    offset_delta: int = 0
    """To be added to the offsets in the records: of queues of static topics."""


class RangeFetch:
    """Reads one range; whoever decodes takes pieces from it.

    fetch = RangeFetch(cluster, options, queue_range)
    fetch.start()                       # ahead of pieces(), which does it otherwise
    for piece in fetch.pieces():
        decoder.decode(piece.data)
    fetch.stop()                        # where pieces() was never called
    """

    def __init__(
        self,
        cluster: Cluster,
        options: SourceOptions,
        queue_range: QueueRange,
        asking: Asking | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._range = queue_range
        self._asking = asking or Asking(
            cluster.client,
            cluster.named(queue_range.queue),
            options.pull_group,
            options.tag_expression,
            options.sql,
            options.pull_count,
        )
        self._first: Future[Piece | None] | None = None

    def start(self) -> None:
        """Ask for the first records; whoever takes the pieces later has less to wait for."""
        if self._first is None:
            self._first = self._cluster.begin(self._read_first())

    def stop(self) -> None:
        """What was asked for is not wanted any more."""
        if self._first is not None:
            self._first.cancel()

    async def _read_first(self) -> Piece | None:
        """The first records of a range that is read in bulk; None if it has to be pulled."""
        if not await self._wants_ranges():
            return None
        return await self._read_range(self._range.start, self._range.end)

    def pieces(self, on_last: Callable[[], None] | None = None) -> Iterator[Piece]:
        """The records of the range in order; FetchError, DataLossError.

        ``on_last`` is called when nothing more of it has to be asked for.
        """
        self.start()
        assert self._first is not None
        timeout_s = self._options.pull_timeout_ms / 1000 + _GRACE_S
        first = self._first.result(timeout_s)
        by_range = first is not None
        spans = deque() if by_range else deque(self._range.pieces(SPAN_ROWS))
        pending: deque[tuple[Future[Piece], int]] = deque()
        if by_range:
            pending.append((cast("Future[Piece]", self._first), self._range.end))
        try:
            while spans or pending:
                while spans and len(pending) < SPANS_AT_ONCE:
                    span = spans.popleft()
                    pending.append((self._begin(False, span.start, span.end), span.end))
                future, end = pending.popleft()
                piece = future.result(timeout_s)
                if piece.next_offset < end:
                    rest = self._begin(by_range, piece.next_offset, end)
                    pending.appendleft((rest, end))
                elif on_last is not None and not spans and not pending:
                    on_last()
                if piece.data:
                    yield piece
        finally:
            for future, _ in pending:
                future.cancel()

    def _begin(self, by_range: bool, at: int, end: int) -> "Future[Piece]":
        work = self._read_range(at, end) if by_range else self._pull_span(at, end)
        return self._cluster.begin(work)

    async def _wants_ranges(self) -> bool:
        outage = _Outage(self._range, self._options.pull_timeout_ms)
        while True:
            try:
                address, _ = await self._asking.address()
                if not self._asking.takes_ranges or self._asking.is_static:
                    return False
                return await self._cluster.knows_ranges(address)
            except ClientError as error:
                await outage.wait(error)

    async def _read_range(self, at: int, end: int) -> Piece:
        return await self._settled(lambda: self._asking.read_range(at, end), at, end)

    async def _pull_span(self, at: int, end: int) -> Piece:
        """Pull until the span is complete, or large enough to be handed on."""
        parts: list[bytes] = []
        size = delta = 0
        while at < end and size < SPAN_BYTES_MAX:
            piece = await self._pull(at, end)
            if parts and piece.offset_delta != delta:  # a queue has moved: another numbering
                break
            at, delta = piece.next_offset, piece.offset_delta
            if piece.data:
                parts.append(piece.data)
                size += len(piece.data)
        return Piece(parts[0] if len(parts) == 1 else b"".join(parts), at, delta)

    async def _pull(self, at: int, end: int) -> Piece:
        return await self._settled(lambda: self._asking.pull(at), at, end)

    async def _settled(self, ask: Callable[[], Awaitable[Answer]], at: int, end: int) -> Piece:
        """Ask until there is an answer that leads on."""
        outage = _Outage(self._range, self._options.pull_timeout_ms)
        while True:
            try:
                answer = await ask()
            except ClientError as error:
                if not isinstance(error, RefusedError) or error.code != _NO_TOPIC:
                    await outage.wait(error)
                    continue
                self._lose(at, end, str(error))
                return Piece(b"", end)
            piece = self._judge(answer, at, end)
            if piece is not None:
                return piece
            if answer.is_master and outage.lasts_s > _TAIL_S:
                self._lose(at, end, _extent(answer))
                return Piece(b"", end)
            await outage.pause(f"it has nothing at {at} now, and {end - at} more are to be read")

    def _judge(self, answer: Answer, at: int, end: int) -> Piece | None:
        """What to make of an answer; None if it is worth asking again."""
        after = min(answer.next_offset, end)
        if answer.outcome == Outcome.FOUND and answer.data:
            return self._found(answer, at, end)
        if answer.outcome == Outcome.NONE_WANTED and after > at:
            if not self._asking.is_filtered:
                self._lose(at, after, _extent(answer))
            return Piece(b"", after)
        if answer.outcome == Outcome.MOVED and (after > at or answer.is_master):
            after = after if after > at else end
            self._lose(at, after, _extent(answer))
            return Piece(b"", after)
        return None

    def _found(self, answer: Answer, at: int, end: int) -> Piece:
        first = peek_queue_offset(answer.data) + answer.offset_delta
        if first > at and not self._asking.is_filtered:
            self._lose(at, min(first, end), _extent(answer))
        if answer.next_offset <= at:
            raise FetchError(
                f"{self._range}: the broker answers with messages from {first} on and says to go on"
                f" at {answer.next_offset}, where they were asked for from {at} on"
            )
        data = answer.data
        if answer.next_offset > end:
            data = cut_behind(data, end - answer.offset_delta)
        return Piece(data, min(answer.next_offset, end), answer.offset_delta)

    def _lose(self, at: int, end: int, reason: str) -> None:
        """Offsets that should be there are not."""
        queue = self._range
        report_loss(
            self._options.fails_on_data_loss,
            f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}: offsets {at} to"
            f" {end} are gone, {reason}",
        )


def _extent(answer: Answer) -> str:
    return f"it has {answer.min_offset} to {answer.max_offset}"


class _Outage:
    """How long one request has had no answer that leads on, and when to give up."""

    def __init__(self, queue_range: QueueRange, timeout_ms: int) -> None:
        self._range = queue_range
        self._timeout_ms = timeout_ms
        self._began_s = monotonic_s()
        self._logged_s = -_LOG_EVERY_S
        self._pause_s = _PAUSE_FIRST_S

    @property
    def lasts_s(self) -> float:
        """Since when it lasts."""
        return monotonic_s() - self._began_s

    async def wait(self, error: ClientError) -> None:
        """Pause before the next attempt; FetchError if there is none, or nothing to wait for."""
        is_busy = isinstance(error, RefusedError) and error.code in _BUSY
        if not is_busy and not isinstance(error, _WAITED_FOR):
            raise FetchError(f"{self._range}: {error}") from error
        await self.pause(str(error))

    async def pause(self, reason: str) -> None:
        """Wait a moment, longer each time; FetchError after all of it."""
        if self.lasts_s > self._timeout_ms / 1000:
            raise FetchError(
                f"{self._range}: given up after {self._timeout_ms} ms (pullTimeoutMs): {reason}"
            )
        if self.lasts_s - self._logged_s > _LOG_EVERY_S:
            self._logged_s = self.lasts_s
            log.warning("%s: waiting: %s", self._range, reason)
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)
