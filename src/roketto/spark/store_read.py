"""What a task of a store scan does: look up units, map the log's files, decode what is wanted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roketto.protocol.errors import RecordError
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.spark.columns import Column
from roketto.spark.decoder import Decoder
from roketto.spark.loss import report_loss
from roketto.spark.record_table import RecordTable
from roketto.spark.spans import Longs, Mask, take_spans
from roketto.spark.store_files import QueueFiles, RunFile, Units, walk_log
from roketto.spark.store_options import StoreOptions
from roketto.spark.store_plan import LogPartition, QueuePiece, StoreFolder

__all__ = ["read_log", "read_queues"]

_UNITS_PER_LOOK: Final = 65_536
"""Many, because a tag may leave few of them; 1.3 MB."""
_EXT_ADDRESS_MAX: Final = -(2**31) - 1
"""Tags codes up to this are none, but tell where another file has them."""


def read_queues(
    options: StoreOptions, columns: Sequence[Column], pieces: Sequence[QueuePiece]
) -> Iterator[pa.RecordBatch]:
    """The messages of some pieces, one after the other."""
    folder = StoreFolder(options)
    for piece in pieces:
        decoder = Decoder(columns, options.broker_name, topic=piece.topic, tags=options.tags)
        yield from _PieceReader(options, folder, piece, decoder).batches()


@dataclass(frozen=True, slots=True)
class _PieceReader:
    """Reads one piece of one queue."""

    options: StoreOptions
    folder: StoreFolder
    piece: QueuePiece
    decoder: Decoder

    def batches(self) -> Iterator[pa.RecordBatch]:
        queue = self.folder.queue(self.piece.topic, self.piece.queue_id, self.piece.tail)
        at = self.piece.begin
        while at < self.piece.end:
            units = queue.units(at, min(at + _UNITS_PER_LOOK, self.piece.end))
            if not len(units):
                self._report(f"there are no units from offset {at} on any more")
                return
            offsets = np.arange(at, at + len(units))
            at += len(units)
            is_wanted = self._are_wanted(units)
            yield from self._read(queue, units[is_wanted], offsets[is_wanted])

    def _are_wanted(self, units: Units) -> Mask:
        """By the hash of the tag: no record of another tag is looked at."""
        codes = self.options.tag_codes
        if not codes or self.piece.topic == SCHEDULE_TOPIC:
            return np.ones(len(units), np.bool_)
        found = units["tags_code"].astype(np.int64)
        # Java compares the low 32 bits.
        is_wanted: Mask = np.isin(found.astype(np.int32), np.array(sorted(codes), np.int32))
        return is_wanted | (found <= _EXT_ADDRESS_MAX)

    def _read(self, queue: QueueFiles, units: Units, offsets: Longs) -> Iterator[pa.RecordBatch]:
        """The records of some units; these may be in several files of the log."""
        at = 0
        places = units["log_offset"].astype(np.int64)
        while at < len(units):
            file = self.folder.log.locate(int(places[at]))
            view = None if file is None else self.folder.log.view(file)
            if file is None or view is None:
                self._report(
                    f"the log has no file for the record of offset {offsets[at]}, at log offset"
                    f" {places[at]}"
                )
                at += 1
                continue
            is_outside = (places[at:] < file.begin) | (places[at:] >= file.end)
            end = at + int(np.argmax(is_outside)) if is_outside.any() else len(units)
            is_good = queue.are_stored(view, file, units[at:end], offsets[at:end])
            if not is_good.all():
                bad = offsets[at:end][~is_good]
                self._report(
                    f"{len(bad)} units from offset {bad[0]} on point to what is no record of this"
                    f" queue in {file.path}"
                )
            starts = places[at:end][is_good] - file.begin
            yield from _decode(self.decoder, view, starts, file, self.options.fails_on_loss)
            at = end

    def _report(self, what: str) -> None:
        report_loss(self.options.fails_on_loss, f"{self.piece}: {what}")


def read_log(
    options: StoreOptions, columns: Sequence[Column], part: LogPartition
) -> Iterator[pa.RecordBatch]:
    """The records of a part of one file of the log that are asked for, in their order."""
    folder = StoreFolder(options)
    file = folder.log.locate(part.begin)
    view = None if file is None else folder.log.view(file)
    if file is None or view is None:
        report_loss(options.fails_on_loss, f"the log has no file at {part.begin} any more")
        return
    decoder = Decoder(columns, options.broker_name, tags=options.tags)
    wanted = _wanted(options)
    at = part.begin - file.begin
    end = min(part.end - file.begin, len(view))
    while at < end:
        starts, at, goes_on = walk_log(view, at, end)
        yield from _decode(decoder, view, starts, file, options.fails_on_loss, wanted)
        if not goes_on:
            break
    if at < end and not folder.log.ends_properly(file, file.begin + at):
        report_loss(
            options.fails_on_loss,
            f"{file.path} has no record at byte {at}, where one should begin; the rest of the file"
            " cannot be read",
        )


def _wanted(options: StoreOptions) -> Callable[[RecordTable], Mask] | None:
    """Says which records have a topic, queue and time that are asked for; None if all do."""
    topics = pa.array([topic.encode() for topic in options.topics], pa.binary())
    queue_ids = options.queue_ids
    begin_ms, end_ms = options.starting_time_ms, options.ending_time_ms
    if not len(topics) and queue_ids is None and begin_ms is None and end_ms is None:
        return None

    def are_wanted(table: RecordTable) -> Mask:
        is_wanted = np.ones(len(table), np.bool_)
        if len(topics):
            found = take_spans(table.arrow, table.topic_begins, table.topic_ends, pa.binary())
            is_wanted &= pc.is_in(found, topics).to_numpy(zero_copy_only=False)
        if queue_ids is not None:
            is_wanted &= np.isin(table.fixed("queue_id"), sorted(queue_ids))
        if begin_ms is not None:
            is_wanted &= table.store_times_ms >= begin_ms
        if end_ms is not None:
            is_wanted &= table.store_times_ms < end_ms
        return is_wanted

    return are_wanted


def _decode(
    decoder: Decoder,
    view: memoryview,
    starts: Longs,
    file: RunFile,
    fails_on_loss: bool,
    wanted: Callable[[RecordTable], Mask] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of records; damaged ones are an error, or left out and told."""
    try:
        if not fails_on_loss:
            starts = _undamaged(view, starts, file)
        if wanted is not None:
            starts = starts[wanted(RecordTable(view, starts))]
        yield from decoder.batches(view, starts)
    except RecordError as error:
        report_loss(True, f"{file.path}: {error}")


def _undamaged(view: memoryview, starts: Longs, file: RunFile) -> Longs:
    try:
        RecordTable(view, starts)
    except RecordError:
        good: list[int] = []
        for start in starts.tolist():
            try:
                RecordTable(view, np.array([start]))
            except RecordError as error:
                report_loss(False, f"{file.path}: {error}")
            else:
                good.append(start)
        return np.array(good, np.int64)
    return starts
