"""Where the nanoseconds of an append go, by step; together they are what the rate of appends says.

The whole is the same rate that the section ``append`` measures. Each step is then done again by
itself, on the same messages: ``CommitLog.write`` alone, ``ConsumeQueue.append`` alone, and so on. A
few dozen calls are made at a time, by a loop in C, between two looks at the clock; what they are
given is made before, with the clock stopped, as in the whole. New files are made before the clock
runs, and there are enough messages that the first touch of their pages hardly counts: a new index
of 20 MB of slots costs more than all the rest if only a few thousand messages share that.

Where the modules are compiled, tag and keys are found together: the look at the properties counts
for the tag, and the index is what it costs beyond that.

What remains is told apart, too: the dispatcher's own calls are those of a dispatch without its
steps. The appender's are those of an append to a store at rest without all steps, and with them
what the steps take from each other in the processor's caches. What goes on beside, the flushing
thread and its syncs, is the rate without the append to a store at rest and without the ticks. No
profiler is involved, which would charge every call the same and so blame the small ones.
"""

import gc
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC
from functools import partial
from itertools import count, starmap
from pathlib import Path
from typing import Any, Final, NamedTuple

from report import Report, medians
from roketto.clock import wall_ms
from roketto.compiled import is_compiled
from roketto.protocol.record import Record
from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.dispatch import Dispatcher, StoredBatch
from roketto.store.files import Files
from roketto.store.flush import FlushSettings
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.record_check import BLANK_BYTES
from roketto.store.segments import Segments
from roketto.store.store import BatchResult, PutResult, Store
from store_load import (
    CHUNK,
    KINDS,
    QUEUES_PER_TOPIC,
    Kind,
    append_rate,
    make_records,
    prepare,
    received,
)
from store_process import Host, StoreProcess, open_store
from store_sizes import Sizes, scratch

WHOLE: Final = "the whole append"
FOUND: Final = "its queue found"
LOG: Final = "record encoded into the log"
UNIT: Final = "unit of the queue"
TAG: Final = "hash of the tag"
INDEX: Final = "index, two keys"
DISPATCHER: Final = "the dispatcher's own calls"
RESULT: Final = "what is handed on and returned"
APPENDER: Final = "the appender's own calls and checks"
TICKS: Final = "ticks"
BESIDE: Final = "what goes on beside it"

_STEPS: Final = (FOUND, LOG, UNIT, TAG, INDEX, RESULT)
_DISPATCH: Final = "a dispatch"
_AT_REST: Final = "an append to a store at rest"
_HOUR_MS: Final = 3_600_000

Arguments = tuple[Any, ...]


def measure_steps(report: Report, sizes: Sizes) -> None:
    report.begin("steps", "where the time of an append goes, 8 queues")
    for kind in KINDS:
        with scratch() as folder, StoreProcess(folder, sizes.settings, sizes.second_s) as process:
            costs = process.call(step_costs, kind, Amounts.of(sizes))
        for step, cost in costs.items():
            report.add(f"{kind.name}: {step}", cost, "ns per message")


class Amounts(NamedTuple):
    """How much is measured; plain values, for they go to the process of the store."""

    messages: int
    """Different ones for the whole."""
    whole_s: float
    step_messages: int
    """Different ones for a step..."""
    passes: int
    """...and how often each of them is used in a round."""
    rounds: int

    @classmethod
    def of(cls, sizes: Sizes) -> "Amounts":
        whole_s = sizes.round_s / 2
        return cls(
            sizes.messages, whole_s, sizes.step_messages, sizes.step_passes, sizes.step_rounds
        )


def step_costs(host: Host, kind: Kind, amounts: Amounts) -> dict[str, float]:
    """Nanoseconds per message of the whole and of every step, medians of several rounds."""
    open_store(host)
    prepare(host, kind, QUEUES_PER_TOPIC, amounts.messages)
    ticks: list[float] = []
    steps = _Steps(host, kind, amounts)
    gc.collect()
    gc.freeze()  # a broker has no such heap of messages
    measured: list[tuple[str, Callable[[], float]]] = [
        (WHOLE, partial(_whole, host, kind, amounts.whole_s, ticks)),
        (FOUND, steps.found),
        (LOG, steps.log),
        (UNIT, steps.unit),
        (TAG, steps.tag),
        (INDEX, steps.index),
        (_DISPATCH, steps.dispatch),
        (RESULT, steps.result),
        (_AT_REST, steps.at_rest),
    ]
    found = medians(amounts.rounds, measured)
    return _add_up(found, sorted(ticks)[len(ticks) // 2])


def _add_up(found: dict[str, float], ticks_ns: float) -> dict[str, float]:
    """The whole, and the parts that make it up."""
    costs = {step: found[step] for step in (WHOLE, *_STEPS)}
    costs[DISPATCHER] = found[_DISPATCH] - found[UNIT] - found[TAG] - found[INDEX]
    costs[APPENDER] = found[_AT_REST] - sum(found[step] for step in _STEPS) - costs[DISPATCHER]
    costs[TICKS] = ticks_ns
    costs[BESIDE] = found[WHOLE] - found[_AT_REST] - ticks_ns
    return costs


def _whole(host: Host, kind: Kind, seconds: float, ticks: list[float]) -> float:
    """Nanoseconds per message by the rate of appends; those of its ticks are kept, too."""
    before_s = host.turns_s
    rate = append_rate(host, kind, seconds)
    ticks.append((host.turns_s - before_s) / (rate * seconds) * 1e9)
    return 1e9 / rate


class _Placed(NamedTuple):
    """A message, or a batch of them, as it lies in a log."""

    record: Record
    log_offset: int
    sizes: list[int]
    properties: Any
    """One property string, or what a batch has of them."""
    store_time_ms: int


class _Steps:
    """The steps, each as nanoseconds per message. Everything is made anew for each of them."""

    def __init__(self, host: Host, kind: Kind, amounts: Amounts) -> None:
        self._root = host.root / "steps"
        self._settings = host.settings
        self._is_batch = kind.batch > 1
        self._passes = amounts.passes
        self._tag_ns = 0.0
        self._numbers = count(amounts.step_messages)
        placed = self._place(make_records(kind, QUEUES_PER_TOPIC, amounts.step_messages))
        self._count = sum(len(one.sizes) for one in placed) * amounts.passes
        self._pass_bytes = placed[-1].log_offset + sum(placed[-1].sizes)
        step = CHUNK // kind.batch
        self._chunks = [placed[at : at + step] for at in range(0, len(placed), step)]

    def _place(self, records: list[Record]) -> list[_Placed]:
        """Write the messages to a log, to know how long they are and what is handed on of them."""
        log, close = self._new_log()
        placed = []
        for record in records:
            if self._is_batch:
                batch = log.append_batch(record, 0)
                placed.append(
                    _Placed(record, batch.log_offset, batch.sizes, batch.properties, wall_ms())
                )
            else:
                where = log.append(record, 0)
                raw = record.properties_raw
                placed.append(_Placed(record, where.log_offset, [where.size], raw, wall_ms()))
        close()
        return placed

    # --- the steps ----------------------------------------------------------------------------

    def found(self) -> float:
        queues = self._new_queues()
        return self._ns(
            queues.get,
            ([(one.record.topic, one.record.queue_id) for one in chunk]
             for _, chunk in self._all_chunks()),
        )  # fmt: skip

    def log(self) -> float:
        log, close = self._new_log()
        write: Callable[..., object] = log.append_batch if self._is_batch else log.write
        write(received(self._chunks[0][0].record, self._numbers), 0)  # makes the first segment
        try:
            return self._ns(
                write,
                (
                    [(received(one.record, self._numbers), 0) for one in chunk]
                    for _, chunk in self._all_chunks()
                ),
            )
        finally:
            close()

    def unit(self) -> float:
        queues = self._new_queues()
        append = ConsumeQueue.append_run if self._is_batch else ConsumeQueue.append
        return self._ns(append, self._units(queues))

    def _units(self, queues: Queues) -> Iterator[list[Arguments]]:
        for start, chunk in self._all_chunks():
            units: list[Arguments] = []
            for one, queue, queue_offset in _enter(queues, chunk):
                place = start + one.log_offset
                if self._is_batch:
                    units.append((queue, place, one.sizes, [1] * len(one.sizes), queue_offset))
                else:
                    units.append((queue, place, one.sizes[0], 1, queue_offset))
            yield units

    def tag(self) -> float:
        dispatcher = Dispatcher(self._new_queues(), None)
        self._tag_ns = self._ns(
            dispatcher.tags_code,
            ([(raw,) for one in chunk for raw in self._raws(one)]
             for _, chunk in self._all_chunks()),
        )  # fmt: skip
        return self._tag_ns

    def _raws(self, one: _Placed) -> Iterable[bytes]:
        if not self._is_batch:
            return [one.properties]
        each: list[bytes] = one.properties.each
        return each

    def index(self) -> float:
        self._folder()
        index = self._new_index()
        try:
            add: Callable[..., object] = index.add_run if self._is_batch else index.add
            spent_ns = self._ns(add, self._keys()) + self._ns(index.flush, [[()]])
            # Compiled code finds tag and keys with one look, which the step before has told of.
            return spent_ns - self._tag_ns if is_compiled() else spent_ns
        finally:
            index.close()

    def _keys(self) -> Iterator[list[Arguments]]:
        for start, chunk in self._all_chunks():
            yield [
                (one.record.topic, one.properties, start + one.log_offset,
                 *([one.sizes] if self._is_batch else []), one.store_time_ms)
                for one in chunk
            ]  # fmt: skip

    def dispatch(self) -> float:
        queues, index = self._new_queues(), self._new_index()
        dispatcher = Dispatcher(queues, index)
        work: Callable[..., object] = (
            dispatcher.dispatch_batch if self._is_batch else dispatcher.dispatch_one
        )
        try:
            return self._ns(work, self._dispatched(queues)) + self._ns(index.flush, [[()]])
        finally:
            index.close()

    def _dispatched(self, queues: Queues) -> Iterator[list[Arguments]]:
        for start, chunk in self._all_chunks():
            found: list[Arguments] = []
            for one, queue, queue_offset in _enter(queues, chunk):
                record = one.record
                head = (queue, record.topic, record.queue_id, queue_offset, start + one.log_offset)
                if self._is_batch:
                    found.append((*head, one.sizes, one.store_time_ms, one.properties))
                else:
                    found.append(
                        (*head, one.sizes[0], record.sys_flag, one.store_time_ms, one.properties)
                    )
            yield found

    def result(self) -> float:
        if self._is_batch:
            return self._ns(StoredBatch, self._results(is_handed_on=True)) + self._ns(
                BatchResult, self._results(is_handed_on=False)
            )
        made = partial(tuple.__new__, PutResult)
        chunks = self._results(is_handed_on=False)
        return self._ns(made, ([(fields,) for fields in chunk] for chunk in chunks))

    def _results(self, *, is_handed_on: bool) -> Iterator[list[Arguments]]:
        for start, chunk in self._all_chunks():
            results: list[Arguments] = []
            for one in chunk:
                record, place = one.record, start + one.log_offset
                sizes = one.sizes if self._is_batch else one.sizes[0]
                if is_handed_on:
                    head = (record.topic, record.queue_id, 0, place)
                    results.append((*head, sizes, one.store_time_ms, one.properties))
                else:
                    results.append((0, place, sizes, one.store_time_ms, record.store_host))
            yield results

    def at_rest(self) -> float:
        """Appends to a store that neither ticks nor syncs its log."""
        settings = replace(self._settings, flush=FlushSettings(interval_ms=_HOUR_MS))
        store = Store(self._folder(), settings)
        store.open(1)
        try:
            append: Callable[..., object] = store.append_batch if self._is_batch else store.append
            append(received(self._chunks[0][0].record, self._numbers))
            store.tick()  # makes the first file of the index
            return self._ns(
                append,
                (
                    [(received(one.record, self._numbers),) for one in chunk]
                    for _, chunk in self._all_chunks()
                ),
            )
        finally:
            store.close()

    # --- what they work on --------------------------------------------------------------------

    def _all_chunks(self) -> Iterator[tuple[int, list[_Placed]]]:
        """Each chunk so many times, with where in the log that pass begins."""
        for number in range(self._passes):
            for chunk in self._chunks:
                yield number * self._pass_bytes, chunk

    def _ns(self, work: Callable[..., object], chunks: Iterable[list[Arguments]]) -> float:
        """Nanoseconds per message that ``work`` takes; its arguments are made off the clock."""
        drain: Callable[[Iterable[object]], object] = partial(deque, maxlen=0)
        spent_s = 0.0
        for arguments in chunks:
            started_s = time.perf_counter()
            drain(starmap(work, arguments))
            spent_s += time.perf_counter() - started_s
        return spent_s / self._count * 1e9

    def _folder(self) -> Path:
        """A new one; what the step before has left goes."""
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir(parents=True)
        return self._root

    def _new_log(self) -> tuple[CommitLog, Callable[[], None]]:
        settings = self._settings
        segments = Segments(
            Files(), self._folder() / "commitlog", settings.segment_bytes, BLANK_BYTES
        )
        segments.load()
        log = CommitLog(segments, wall_ms, settings.memory_bytes, append_crc=settings.append_crc)
        return log, segments.close

    def _new_queues(self) -> Queues:
        """The queues of all messages, none of which has any."""
        queues = Queues(Files(), self._folder() / "consumequeue", self._settings.queue_file_bytes)
        for chunk in self._chunks:
            for one in chunk:
                queues.get_or_create(one.record.topic, one.record.queue_id)
        return queues

    def _new_index(self) -> Index:
        """One whose first file is there, beside what else the step has."""
        settings = self._settings
        index = Index(
            Files(), self._root / "index", wall_ms, UTC,
            settings.index_slots, settings.index_entries,
        )  # fmt: skip
        index.put("TopicTest", "first", None, 0, 1)
        index.flush()
        return index


def _enter(queues: Queues, chunk: list[_Placed]) -> Iterator[tuple[_Placed, ConsumeQueue, int]]:
    """Each message with its queue and the offset that it will have there."""
    taken: dict[tuple[str, int], int] = {}
    for one in chunk:
        name = (one.record.topic, one.record.queue_id)
        queue = queues.get_or_create(*name)
        queue_offset = taken.get(name, queue.queue_offset_max)
        taken[name] = queue_offset + len(one.sizes)
        yield one, queue, queue_offset
