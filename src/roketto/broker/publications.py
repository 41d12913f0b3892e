"""Publishing: the pieces of decided batches become messages that consumers get, each exactly once.

A publication is a task of its own: whoever asked for it may be gone before it ends, and whoever
asks once more waits for the same one. All of them together have one turn of some milliseconds in
each round of the loop, so that others are served, whatever there is to publish.

What a turn has stored is in memory as two numbers (``Sink.progress``), so that a publication that
was refused goes on where it stopped; after a kill the queues tell it (publication_scan.py).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from roketto.broker.config import BrokerConfig
from roketto.broker.piece_publisher import PiecePublisher, Steps
from roketto.broker.publication_scan import count_published, progress_of
from roketto.broker.sinks import Sink, Sinks
from roketto.broker.staged import digest_of
from roketto.broker.stats import Statistics
from roketto.broker.topics import Topics
from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.store.store import Store

__all__ = ["PUBLICATIONS_MAX", "Publications", "Published"]

log = logging.getLogger(__name__)

PUBLICATIONS_MAX: Final = 1_000
"""At a time: each holds its list of pieces."""
TURN_S: Final = 0.004
"""How long others wait at most, but for the slice that is being stored then."""
_PAUSE_S: Final = 0.005

T = TypeVar("T")


class Published(NamedTuple):
    """A batch that is published: how many messages, whether it was just now, and where they end."""

    messages: int
    is_new: bool
    end: int


class _Running(NamedTuple):
    batch_id: int
    digest: str
    task: "asyncio.Task[Published]"


class Publications:
    """Those of one broker.

    publications = Publications(store, topics, sinks, stats, config, store_host)
    published = await publications.publish("sink", 7, "query", [[log_offset, size]])
    await publications.close()                 # what is under way stops, and can be repeated
    """

    def __init__(
        self,
        store: Store,
        topics: Topics,
        sinks: Sinks,
        stats: Statistics,
        config: BrokerConfig,
        store_host: bytes,
        *,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self._store = store
        self._sinks = sinks
        self._pieces = PiecePublisher(store, topics, stats, config, store_host, now_s)
        self._now_s = now_s
        self._running: dict[str, _Running] = {}
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._running)

    async def close(self) -> None:
        """Stop all of them, each behind what it has stored."""
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- one publication --------------------------------------------------------------------------

    async def publish(
        self, sink_id: str, batch_id: int, query_id: str, pieces: list[list[int]]
    ) -> Published:
        """Publish what is left of a batch; returns when all of it is.

        RequestError or PutRefusedError if it may not go on; repeated, it goes on where it stopped.
        """
        sink = self._sinks.find(sink_id)
        if sink is not None:
            self._sinks.check_query(sink, query_id)
            if batch_id <= sink.published:
                return Published(0, False, sink.end)
        digest = digest_of(pieces)
        running = self._running.get(sink_id)
        if running is None or running.task.done():
            self._check_next(sink, batch_id, digest)
            running = self._start(sink_id, batch_id, query_id, pieces, digest)
            if sink is not None:
                sink.is_busy = True
        elif (running.batch_id, running.digest) != (batch_id, digest):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"sink {sink_id} publishes batch {running.batch_id} at this moment, and cannot"
                f" publish batch {batch_id}, or it with other pieces, meanwhile: wait for its end",
            )
        return await asyncio.shield(running.task)

    def _check_next(self, sink: Sink | None, batch_id: int, digest: str) -> None:
        if sink is None:
            return
        if batch_id > sink.decided and sink.is_unpublished:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"sink {sink.sink_id} has decided batch {sink.decided}, which is not published"
                f" here: send PUBLISH_STAGED for that one before {batch_id}",
            )
        if sink.begun <= sink.published:
            return
        if sink.begun != batch_id:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"sink {sink.sink_id} has begun to publish batch {sink.begun} and not ended it:"
                f" repeat PUBLISH_STAGED for that one before {batch_id}",
            )
        if sink.digest != digest:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"sink {sink.sink_id} has begun to publish batch {batch_id} with other pieces:"
                " repeat PUBLISH_STAGED with those that were decided (SINK_STATE tells them)",
            )

    def _start(
        self, sink_id: str, batch_id: int, query_id: str, pieces: list[list[int]], digest: str
    ) -> _Running:
        if len(self._running) >= PUBLICATIONS_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._running)} batches are being published, the bound; try again",
            )
        work = self._run(sink_id, batch_id, query_id, pieces, digest)
        running = _Running(batch_id, digest, asyncio.get_running_loop().create_task(work))
        self._running[sink_id] = running
        running.task.add_done_callback(lambda task: self._end(sink_id, batch_id, task))
        return running

    def _end(self, sink_id: str, batch_id: int, task: "asyncio.Task[Published]") -> None:
        if self._running[sink_id].task is not task:
            return  # another one has begun since it was done
        del self._running[sink_id]
        sink = self._sinks.find(sink_id)
        if sink is not None:
            sink.is_busy = False
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.warning("batch %d of sink %s is not published: %s", batch_id, sink_id, error)

    async def _run(
        self, sink_id: str, batch_id: int, query_id: str, pieces: list[list[int]], digest: str
    ) -> Published:
        counts, queues = await self._in_turns(self._pieces.look_at(sink_id, batch_id, pieces))
        sink = self._sinks.find(sink_id)
        if pieces and (sink is None or sink.begun != batch_id):
            sink = self._sinks.begin(sink_id, batch_id, query_id, digest)
            sink.is_busy = True
        if sink is not None and pieces:
            await self._resume(sink, pieces, counts, queues)
        messages = sum(counts)
        sink = self._sinks.note_published(sink_id, batch_id, query_id, messages)
        return Published(messages, True, sink.end)

    async def _resume(
        self,
        sink: Sink,
        pieces: list[list[int]],
        counts: Sequence[int],
        queues: set[tuple[str, int]],
    ) -> None:
        if sink.progress is None:
            ends = {log_offset + size for log_offset, size in pieces}
            counting = count_published(self._store, queues, ends, sink.begun_at)
            sink.progress = progress_of(pieces, counts, await self._in_turns(counting))
            log.info(
                "batch %d of sink %s goes on behind piece %d of %d and %d messages",
                sink.begun, sink.sink_id, sink.progress[0], len(pieces), sink.progress[1],
            )  # fmt: skip
        await self._in_turns(self._pieces.publish(sink, pieces))

    async def _in_turns(self, steps: Steps[T]) -> T:
        """Do work to its end, one turn in each round of the loop."""
        while True:
            async with self._turn:
                until_s = self._now_s() + TURN_S
                try:
                    has_to_wait = next(steps)
                    while not has_to_wait and self._now_s() < until_s:
                        has_to_wait = next(steps)
                except StopIteration as done:
                    result: T = done.value
                    return result
                if not has_to_wait:
                    await asyncio.sleep(0)  # the next turn is in the next round
            if has_to_wait:
                await asyncio.sleep(_PAUSE_S)
