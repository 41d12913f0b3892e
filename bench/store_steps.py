"""Where the nanoseconds of an append go, by step.

Each step is done again by itself, on the messages and the places in the log of the same run:
``CommitLog.write`` alone, ``ConsumeQueue.append`` alone, and so on; the loop around them runs in C
and costs next to nothing. The rest is what remains of the whole: the calls in between and the
checks. No profiler is involved, which would charge every call the same and so blame the small ones.
"""

import gc
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC
from functools import partial
from itertools import chain, starmap
from pathlib import Path

from report import Report, medians
from roketto.clock import wall_ms
from roketto.protocol.record import Record
from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.dispatch import Dispatcher, Stored, StoredBatch
from roketto.store.files import Files
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.record_check import BLANK_BYTES
from roketto.store.segments import Segments
from roketto.store.store import BatchResult, PutResult, Store
from store_load import QUEUES_PER_TOPIC, SMALL, SMALL_BATCHES, Kind, make_records
from store_process import Host, StoreProcess
from store_sizes import Sizes, scratch

WHOLE = "the whole append"
LOG = "record encoded into the log"
UNIT = "unit of the queue"
TAG = "hash of the tag"
INDEX = "index, two keys"
RESULT = "what is handed on and returned"
REST = "the rest"


def measure_steps(report: Report, sizes: Sizes) -> None:
    report.begin("steps", "where the time of an append goes, 8 queues")
    for kind in (SMALL, SMALL_BATCHES):
        with scratch() as folder, StoreProcess(folder, sizes.settings) as process:
            costs = process.call(step_costs, kind, sizes.step_messages, sizes.step_rounds)
        for step, cost in costs.items():
            report.add(f"{kind.name}: {step}", cost, "ns per message")


def step_costs(host: Host, kind: Kind, messages: int, rounds: int) -> dict[str, float]:
    """Nanoseconds per message of every step, the median of several rounds."""
    records = make_records(kind, QUEUES_PER_TOPIC, messages)
    inputs = _Inputs(host, kind, records)
    gc.collect()
    gc.freeze()  # a broker has no such heap of messages
    measured: list[tuple[str, Callable[[], float]]] = [
        (WHOLE, inputs.whole),
        (LOG, inputs.log),
        (UNIT, inputs.unit),
        (TAG, inputs.tag),
        (INDEX, inputs.index),
        (RESULT, inputs.result),
    ]
    costs = {
        step: seconds / len(inputs.stored) * 1e9
        for step, seconds in medians(rounds, measured).items()
    }
    steps = sum(cost for step, cost in costs.items() if step != WHOLE)
    return costs | {REST: costs[WHOLE] - steps}


class _Inputs:
    """The messages, and what is known of them once they are in a log."""

    def __init__(self, host: Host, kind: Kind, records: list[Record]) -> None:
        self._root = host.root
        self._settings = host.settings
        self._is_batch = kind.batch > 1
        self._records = records
        self._numbered: list[tuple[Record, int]] = []
        next_offsets: dict[int, int] = {}
        for record in records:
            queue_offset = next_offsets.get(record.queue_id, 0)
            next_offsets[record.queue_id] = queue_offset + kind.batch
            self._numbered.append((record, queue_offset))
        log, close = self._new_log(self._folder())
        self._batches: list[StoredBatch] = []
        self.stored: list[Stored] = []
        for record, queue_offset in self._numbered:
            if self._is_batch:
                self._place_batch(log, record, queue_offset)
            else:
                where = log.append(record, queue_offset)
                self._add(record, queue_offset, where.log_offset, where.size, record.properties_raw)
        close()

    def _place_batch(self, log: CommitLog, batch: Record, queue_offset: int) -> None:
        where = log.append_batch(batch, queue_offset)
        self._batches.append(
            StoredBatch(
                batch.topic, batch.queue_id, queue_offset, where.log_offset, where.sizes,
                where.store_time_ms, where.properties,
            )
        )  # fmt: skip
        log_offset = where.log_offset
        for number, (size, text) in enumerate(zip(where.sizes, where.properties, strict=True)):
            self._add(batch, queue_offset + number, log_offset, size, text)
            log_offset += size

    def _add(
        self, record: Record, queue_offset: int, log_offset: int, size: int, text: bytes
    ) -> None:
        self.stored.append(
            Stored(
                record.topic, record.queue_id, queue_offset, log_offset, size, record.sys_flag,
                wall_ms(), text,
            )
        )  # fmt: skip

    # --- the steps, each in seconds -----------------------------------------------------------

    def whole(self) -> float:
        store = Store(self._folder(), self._settings)
        store.open(1)
        try:
            append = store.append_batch if self._is_batch else store.append
            append(self._records[0])
            return _seconds(map(append, self._records))
        finally:
            store.close()

    def log(self) -> float:
        log, close = self._new_log(self._folder())
        append: Callable[[Record, int], object] = log.append_batch if self._is_batch else log.write
        append(*self._numbered[0])
        try:
            return _seconds(starmap(append, self._numbered))
        finally:
            close()

    def unit(self) -> float:
        queues = Queues(Files(), self._folder() / "consumequeue", self._settings.queue_file_bytes)
        stored: list[Stored] | list[StoredBatch] = self._batches or self.stored
        names = [(one.topic, one.queue_id) for one in stored]
        for name in names:
            queues.get_or_create(*name)
        found_s = _seconds(starmap(queues.get_or_create, names))
        if self._is_batch:
            runs = [
                (queues.get_or_create(batch.topic, batch.queue_id), batch.log_offset, batch.sizes,
                 [1] * len(batch.sizes), batch.queue_offset)
                for batch in self._batches
            ]  # fmt: skip
            return found_s + _seconds(starmap(ConsumeQueue.append_run, runs))
        units = [
            (queues.get_or_create(one.topic, one.queue_id), one.log_offset, one.size, 1,
             one.queue_offset)
            for one in self.stored
        ]  # fmt: skip
        return found_s + _seconds(starmap(ConsumeQueue.append, units))

    def tag(self) -> float:
        dispatcher = Dispatcher(Queues(Files(), self._folder()), None)
        properties = [stored.properties_raw for stored in self.stored]
        return _seconds(map(dispatcher.tags_code, properties))

    def index(self) -> float:
        settings = self._settings
        index = Index(
            Files(), self._folder() / "index", wall_ms, UTC,
            settings.index_slots, settings.index_entries,
        )  # fmt: skip
        index.put("TopicTest", "first", None, 0, 1)
        index.flush()
        messages = [
            (stored.topic, stored.properties_raw, stored.log_offset, stored.store_time_ms)
            for stored in self.stored
        ]
        runs = [
            (batch.topic, batch.properties, batch.log_offset, batch.sizes, batch.store_time_ms)
            for batch in self._batches
        ]
        try:
            adds = starmap(index.add_run, runs) if runs else starmap(index.add, messages)
            return _seconds(chain(adds, starmap(index.flush, [()])))
        finally:
            index.close()

    def result(self) -> float:
        host = self._records[0].store_host
        if self._is_batch:
            found = [
                (one.queue_offset, one.log_offset, one.sizes, one.store_time_ms, host)
                for one in self._batches
            ]
            return _seconds(starmap(StoredBatch, self._batches)) + _seconds(
                starmap(BatchResult, found)
            )
        results = [
            (PutResult, (one.queue_offset, one.log_offset, one.size, one.store_time_ms, host))
            for one in self.stored
        ]
        return _seconds(starmap(tuple.__new__, results))

    # --- what they work on --------------------------------------------------------------------

    def _folder(self) -> Path:
        """A new one; what the step before has left goes."""
        folder = self._root / "step"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _new_log(self, folder: Path) -> tuple[CommitLog, Callable[[], None]]:
        segments = Segments(
            Files(), folder / "commitlog", self._settings.segment_bytes, BLANK_BYTES
        )
        segments.load()
        settings = self._settings
        log = CommitLog(segments, wall_ms, settings.memory_bytes, append_crc=settings.append_crc)
        return log, segments.close


def _seconds(work: Iterable[object]) -> float:
    """How long it takes to go through ``work``, which happens as it is asked for."""
    drain: Callable[[Iterable[object]], object] = partial(deque, maxlen=0)
    started_s = time.perf_counter()
    drain(work)
    return time.perf_counter() - started_s
