"""Spark: our source, sink and scan of the store against Spark's own connector and Kafka."""

import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from report import Report
from roketto.compiled import is_compiled
from spark_kafka import KAFKA_HEAP_MB, KAFKA_VERSION, SPARK_VERSION
from spark_process import CORES
from spark_rig import Rig
from spark_rounds import Turn, add_rates, median_ms, steady_rate, take_turns
from spark_sides import KAFKA, ROKETTO, Job, RowsMissingError, Side
from spark_sizes import (
    BODY_BYTES,
    COPIED,
    FEW_ROWS,
    FROM,
    ONE_QUEUE,
    QUICK,
    READ,
    SUNK,
    TOPICS,
    Sizes,
)  # fmt: skip

SOURCE_RATIO_LEAST: Final = 1.0
TWO_COLUMNS_RATIO_LEAST: Final = 1.5
STREAM_RATIO_LEAST: Final = 1.0
SINK_RATIO_LEAST: Final = 1.0
COPY_RATIO_LEAST: Final = 1.5
FLOOR_MS_MOST: Final = 350.0

FLOOR_BATCH_ROWS: Final = 10

_STREAM_TIMEOUT_S: Final = 300
_ONCE: Final = "transactional"
_AT_LEAST_ONCE: Final = "at-least-once"
_NOWHERE: Final[Job] = {"format": "noop", "options": {}}


def measure_source(report: Report, rig: Rig) -> None:
    """A whole topic, read and thrown away."""
    rows = rig.sizes.read_rows
    report.begin("source", f"source: a topic of {rows:,} rows of {BODY_BYTES} B, to noop")
    sides = (rig.kafka, rig.ours)
    for name, least, jobs in (
        ("source, all columns", SOURCE_RATIO_LEAST, [side.source(READ) for side in sides]),
        ("source, offset and body", TWO_COLUMNS_RATIO_LEAST,
         [side.two_columns(READ) for side in sides]),
    ):  # fmt: skip
        turns = []
        for side, job in zip(sides, jobs, strict=True):
            with rig.alone(side):
                side.check_read(job, rows, BODY_BYTES)
            turns.append(Turn(side.name, side, partial(read_rate, side, job, rows)))
        add_rates(report, name, take_turns(rig, turns), {ROKETTO: least})


def measure_scan(report: Report, rig: Rig) -> None:
    """The same topic from the files of the broker, and from Parquet."""
    ours, rows = rig.ours, rig.sizes.read_rows
    report.begin("scan", "scan of the store, and Parquet of the same rows as the anchor, to noop")
    anchor: Job = {"format": "parquet", "options": {}, "path": str(rig.folder / "anchor")}
    with rig.alone(ours):
        ours.spark.do("write", **{"from": ours.source(READ)}, mode="overwrite", **anchor)
    two = {"schema": "queueOffset bigint, body binary"}
    for name, job in (
        ("scan of the store, all columns", ours.scan(READ)),
        ("scan of the store, offset and body", {**ours.scan(READ), **two}),
        ("Parquet, all columns", anchor),
        ("Parquet, offset and body", {**anchor, "select": ["queueOffset", "body"]}),
    ):
        with rig.alone(ours):
            ours.check_read(job, rows, BODY_BYTES)
        turn = Turn(ROKETTO, ours, partial(read_rate, ours, job, rows))
        add_rates(report, name, take_turns(rig, [turn]), {})


def measure_stream(report: Report, rig: Rig) -> None:
    """A topic as a stream that is thrown away, with large batches and with small ones."""
    sizes = rig.sizes
    report.begin("stream", "stream of a topic to noop; the first batch is left out")
    for topic, rows, batch_rows in (
        (READ, sizes.read_rows, sizes.batch_rows),
        (FROM, sizes.rows, sizes.small_batch_rows),
    ):
        turns = [
            Turn(side.name, side,
                 partial(stream_rate, rig, side, side.source(topic), batch_rows, rows, _NOWHERE))
            for side in (rig.kafka, rig.ours)
        ]  # fmt: skip
        name = f"stream, {batch_rows:,} rows a batch"
        add_rates(report, name, take_turns(rig, turns), {ROKETTO: STREAM_RATIO_LEAST})


def measure_sink(report: Report, rig: Rig) -> None:
    """Rows of Parquet into a topic."""
    rows = rig.sizes.rows
    report.begin("sink", f"batch sink: {rows:,} rows of Parquet into a topic")
    turns = [Turn(side.name, side, partial(sink_rate, rig, side)) for side in (rig.kafka, rig.ours)]
    add_rates(report, "batch sink", take_turns(rig, turns), {ROKETTO: SINK_RATIO_LEAST})


def measure_copy(report: Report, rig: Rig) -> None:
    """A stream from one topic to another; Kafka's sink has no other delivery than at-least-once."""
    rows, batch_rows = rig.sizes.rows, rig.sizes.copy_batch_rows
    title = (
        f"stream of {rows:,} rows from topic to topic, {batch_rows:,} a batch, the first left out"
    )
    report.begin("copy", title)
    ours = rig.ours
    turns = [
        Turn(KAFKA, rig.kafka, partial(copy_rate, rig, rig.kafka, "")),
        *(
            Turn(f"{ROKETTO}, {delivery}", ours, partial(copy_rate, rig, ours, delivery))
            for delivery in (_AT_LEAST_ONCE, _ONCE)
        ),
    ]
    promised = {turn.label: COPY_RATIO_LEAST for turn in turns}
    add_rates(report, "topic to topic", take_turns(rig, turns), promised)


def measure_floor(report: Report, rig: Rig) -> None:
    """What a batch takes that has next to nothing in it."""
    report.begin("floor", f"a batch of {FLOOR_BATCH_ROWS} rows to noop, median of its trigger")
    for topic in (ONE_QUEUE, FEW_ROWS):
        queues = TOPICS[topic]
        for side in (rig.kafka, rig.ours):
            with rig.alone(side):
                batches = run_stream(rig, side, side.source(topic), FLOOR_BATCH_ROWS, _NOWHERE)
            report.add(
                f"{side.name}: batch of {FLOOR_BATCH_ROWS} rows, {queues} queue(s)",
                median_ms(batches), "ms", most=FLOOR_MS_MOST if side is rig.ours else None,
            )  # fmt: skip


def read_rate(side: Side, job: Job, rows: int) -> float:
    seconds: float = side.spark.do("read", **job)
    return rows / seconds


def sink_rate(rig: Rig, side: Side) -> float:
    before = side.rows_of(SUNK)
    seconds = side.write(rig.rows, SUNK)
    side.check_rows(SUNK, before + rig.sizes.rows)
    return rig.sizes.rows / seconds


def stream_rate(rig: Rig, side: Side, source: Job, batch_rows: int, rows: int, sink: Job) -> float:
    batches = run_stream(rig, side, source, batch_rows, sink)
    found = sum(batch["rows"] for batch in batches)
    if found != rows:
        raise RowsMissingError(f"{side.name}: a stream had {found:,} rows instead of {rows:,}")
    return steady_rate(batches)


def copy_rate(rig: Rig, side: Side, delivery: str) -> float:
    before, rows = side.rows_of(COPIED), rig.sizes.rows
    rate = stream_rate(
        rig, side, side.bodies(FROM), rig.sizes.copy_batch_rows, rows, side.sink(COPIED, delivery)
    )
    side.check_rows(COPIED, before + rows)
    return rate


def run_stream(rig: Rig, side: Side, source: Job, batch_rows: int, sink: Job) -> list[Job]:
    options = {**source["options"], "maxOffsetsPerTrigger": str(batch_rows)}
    batches: list[Job] = side.spark.do(
        "stream", **{**source, "options": options}, to=sink, checkpoint=rig.checkpoint(),
        timeout_s=_STREAM_TIMEOUT_S,
    )  # fmt: skip
    return batches


SECTIONS: Final[dict[str, Callable[[Report, Rig], None]]] = {
    "source": measure_source,
    "scan": measure_scan,
    "stream": measure_stream,
    "copy": measure_copy,
    "sink": measure_sink,
    "floor": measure_floor,
}


def _end(number: int, frame: object) -> None:
    """Whoever ends the benchmark ends its brokers and sessions, too, also those held still."""
    sys.exit(128 + number)


def measure_spark(*, quick: bool, sections: Sequence[str] = ()) -> dict[str, object]:
    """Print what each section finds, and return all of it."""
    report = Report()
    sizes = QUICK if quick else Sizes()
    print(
        f"\nSpark: ours, compiled: {is_compiled()}, against the connector of Spark {SPARK_VERSION}"
        f" with Kafka {KAFKA_VERSION}, local[{CORES}]",
        flush=True,
    )
    signal.signal(signal.SIGTERM, _end)
    with Rig(sizes) as rig:
        for name in sections or SECTIONS:
            SECTIONS[name](report, rig)
        tokens_version = rig.tokens_version
    return {
        "peer_spark_version": SPARK_VERSION,
        "peer_tokens_version": tokens_version,
        "kafka_version": KAFKA_VERSION,
        "kafka_heap_mb": KAFKA_HEAP_MB,
        "compiled": is_compiled(),
        "cores": CORES,
        "rounds": sizes.rounds,
        "rows": sizes.rows,
        "figures": report.result,
    }
