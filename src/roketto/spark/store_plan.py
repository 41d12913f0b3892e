"""What the tasks of a store scan read: found on the driver, once for each DataFrame."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import InputPartition

from roketto.protocol.names import is_lmq, is_system_topic
from roketto.spark.loss import report_loss
from roketto.spark.store_files import (
    LogFiles,
    MappedFiles,
    QueueFiles,
    QueueTail,
    RunFile,
    StoreFilesError,
    find_first,
)
from roketto.spark.store_options import EARLIEST, LATEST, PARTITION_ROWS, StoreOptions
from roketto.spark.store_tail import filed_until, find_tails

__all__ = ["LogPartition", "QueuePiece", "QueuesPartition", "StoreFolder", "pack", "plan_scan"]

_CUTS_MAX: Final = 100_000
"""Queues times files of the log; with more of them queues are not cut at the ends of files."""
_PARTITIONS_MAX: Final = 10_000
_TOPICS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class QueuePiece:
    """Offsets of one queue, from ``begin`` up to and without ``end``."""

    topic: str
    queue_id: int
    begin: int
    end: int
    tail: QueueTail | None = None
    """Units of these offsets that are not in files yet."""

    def part(self, begin: int, end: int) -> "QueuePiece":
        """Some of the offsets."""
        tail = None if self.tail is None else self.tail.part(begin, end)
        return QueuePiece(self.topic, self.queue_id, begin, end, tail)

    def __str__(self) -> str:
        return f"queue {self.queue_id} of topic {self.topic}, offsets {self.begin} to {self.end}"


class QueuesPartition(InputPartition):
    """What one task reads of queues."""

    def __init__(self, pieces: tuple[QueuePiece, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class LogPartition(InputPartition):
    """What one task reads of the log: a part of one file."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__((begin, end))
        self.begin = begin
        self.end = end


class StoreFolder:
    """A store's directory: its log and its queues.

    folder = StoreFolder(options)
    for topic, queue in folder.queues(folder.chosen_topics()): ...
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._maps = MappedFiles()
        self._queues_path = Path(options.store_path) / "consumequeue"
        log_path = Path(options.commit_log_path)
        if not log_path.is_dir():
            raise StoreFilesError(
                f"{log_path} is not there: storePath must name a directory with commitlog in it,"
                " on the driver and on all executors; if the log is elsewhere, give commitLogPath"
            )
        self.log = LogFiles(log_path, self._maps)
        self._tails: dict[tuple[str, int], QueueTail] = {}

    def find_tails(self) -> None:
        """Look for what a broker of ours has not written to the files of queues yet."""
        self._tails = find_tails(Path(self._options.store_path), self.log)

    def chosen_topics(self) -> list[str]:
        """The topics that are asked for; StoreFilesError for one that is not there."""
        there = self._topics()
        wanted = self._options.topics
        if not wanted:
            return [name for name in there if not is_system_topic(name) and not is_lmq(name)]
        for name in wanted:
            if is_lmq(name):
                raise StoreFilesError(
                    f"{name} is a light queue, which holds places of messages of other topics;"
                    " read these topics"
                )
            if name not in there:
                raise StoreFilesError(self._unknown_topic(name, there))
        return list(wanted)

    def queue(self, topic: str, queue_id: int, tail: QueueTail | None = None) -> QueueFiles:
        """The files of one queue."""
        return QueueFiles(self._queues_path / topic / str(queue_id), self._maps, tail)

    def queues(self, topics: Iterable[str]) -> Iterator[tuple[str, QueueFiles]]:
        """All queues of some topics, or those that are asked for."""
        ids = self._options.queue_ids
        for topic in topics:
            found = {queue_id for name, queue_id in self._tails if name == topic}
            path = self._queues_path / topic
            for one in path.iterdir() if path.is_dir() else ():
                if one.name.isascii() and one.name.isdecimal() and one.is_dir():
                    found.add(int(one.name))
            missing = sorted((ids or found) - found)
            if missing and self._options.topics:
                raise StoreFilesError(
                    f"topic {topic} has no queue {missing[0]} in {self._queues_path}; it has"
                    f" {', '.join(map(str, sorted(found)))}"
                )
            for queue_id in sorted(found if ids is None else found & ids):
                yield topic, self.queue(topic, queue_id, self._tails.get((topic, queue_id)))

    def _topics(self) -> list[str]:
        there = set()
        if self._queues_path.is_dir():
            there = {one.name for one in self._queues_path.iterdir() if one.is_dir()}
        elif not self._is_young:
            raise StoreFilesError(
                f"{self._queues_path} is not there; a copy without queues can be read with"
                " source=commitlog"
            )
        return sorted(there.union(topic for topic, _ in self._tails))

    @property
    def _is_young(self) -> bool:
        """Whether a broker of ours has not written any unit to a file yet."""
        filed = filed_until(Path(self._options.store_path))
        return filed is not None and filed <= self.log.begin

    def _unknown_topic(self, name: str, there: list[str]) -> str:
        near = difflib.get_close_matches(name, there, n=1)
        hint = f"did you mean {near[0]}?" if near else (
            f"there are {', '.join(there[:_TOPICS_SHOWN]) or 'none'}"
        )  # fmt: skip
        return f"topic {name[:64]!r} has no queue in {self._queues_path}; {hint}"


def plan_scan(options: StoreOptions) -> list[InputPartition]:
    """The partitions of a scan of what is there now."""
    folder = StoreFolder(options)
    if options.source == "commitlog":
        return list(_plan_log(options, folder.log))
    folder.find_tails()
    return list(_plan_queues(options, folder))


def pack(pieces: Iterable[QueuePiece], rows_max: int) -> Iterator[QueuesPartition]:
    """Pieces in their order as partitions with so many rows each, but for the last one."""
    some: list[QueuePiece] = []
    room = rows_max
    for piece in pieces:
        begin = piece.begin
        while begin < piece.end:
            end = min(piece.end, begin + room)
            some.append(piece.part(begin, end))
            room -= end - begin
            begin = end
            if not room:
                yield QueuesPartition(tuple(some))
                some, room = [], rows_max
    if some:
        yield QueuesPartition(tuple(some))


def _plan_queues(options: StoreOptions, folder: StoreFolder) -> Iterator[QueuesPartition]:
    """Rows in the order of the log's files, so that each task reads few of these."""
    queues = list(folder.queues(folder.chosen_topics()))
    files = folder.log.files if len(queues) * len(folder.log.files) <= _CUTS_MAX else []
    placed: list[tuple[int, QueuePiece]] = []
    for topic, queue in queues:
        begin, end = _find_range(options, folder.log, topic, queue)
        placed += _cut(topic, queue, begin, end, files)
    placed.sort(key=lambda one: (one[0], one[1].topic, one[1].queue_id, one[1].begin))
    total = sum(piece.end - piece.begin for _, piece in placed)
    return pack((piece for _, piece in placed), _partition_rows(options, total))


def _partition_rows(options: StoreOptions, total: int) -> int:
    rows = options.partition_rows_max or max(PARTITION_ROWS, -(-total // _PARTITIONS_MAX))
    if options.partitions_min is not None:
        rows = min(rows, -(-total // options.partitions_min))
    return max(1, rows)


def _find_range(
    options: StoreOptions, log: LogFiles, topic: str, queue: QueueFiles
) -> tuple[int, int]:
    """The offsets of a queue that are asked for; both ends are inside of what there is."""
    oldest, newest = queue.bounds(log)
    begin = options.starting.of(topic, queue.queue_id)
    end = options.ending.of(topic, queue.queue_id)
    for name, offset in (("startingOffsets", begin), ("endingOffsets", end)):
        if offset >= 0 and not oldest <= offset <= newest:
            report_loss(
                options.fails_on_loss,
                f"{name}: queue {queue.queue_id} of topic {topic} has offsets {oldest} to {newest},"
                f" and {offset} is asked for",
            )
    if options.starting_time_ms is not None:
        begin = _find_time(log, queue, oldest, newest, options.starting_time_ms)
    if options.ending_time_ms is not None:
        end = _find_time(log, queue, oldest, newest, options.ending_time_ms)
    words = {EARLIEST: oldest, LATEST: newest}
    begin, end = words.get(begin, begin), words.get(end, end)
    begin = min(max(begin, oldest), newest)
    return begin, max(begin, min(end, newest))


def _find_time(log: LogFiles, queue: QueueFiles, begin: int, end: int, time_ms: int) -> int:
    """The first offset whose message was stored at a time or later."""

    def is_later(queue_offset: int) -> bool:
        stored_ms = log.store_time_ms(queue.log_offset(queue_offset))
        return stored_ms is not None and stored_ms >= time_ms

    return find_first(begin, end, is_later)


def _cut(
    topic: str, queue: QueueFiles, begin: int, end: int, files: list[RunFile]
) -> Iterator[tuple[int, QueuePiece]]:
    """A range in pieces that each have their records in one file, with where that begins."""
    if begin == end:
        return
    whole = QueuePiece(topic, queue.queue_id, begin, end, queue.tail)
    first, last = queue.log_offset(begin), queue.log_offset(end - 1)
    file_begin = max((file.begin for file in files if file.begin <= first), default=first)
    for file in files:
        if first < file.begin <= last:
            bound = file.begin
            stop = find_first(begin, end, lambda at: queue.log_offset(at) >= bound)  # noqa: B023
            if begin < stop:
                yield file_begin, whole.part(begin, stop)
            begin, file_begin = stop, bound
    yield file_begin, whole.part(begin, end)


def _plan_log(options: StoreOptions, log: LogFiles) -> Iterator[LogPartition]:
    """A partition for each file that has records of the time that is asked for.

    Times never go back in a log, so a file has none when the next one begins too early.
    """
    times = [log.store_time_ms(file.begin) for file in log.files]
    written = [
        (file, time) for file, time in zip(log.files, times, strict=True) if time is not None
    ]
    for index, (file, time_ms) in enumerate(written):
        is_last = index == len(written) - 1
        if options.ending_time_ms is not None and time_ms >= options.ending_time_ms:
            return
        next_ms = None if is_last else written[index + 1][1]
        if (
            options.starting_time_ms is not None
            and next_ms is not None
            and next_ms < options.starting_time_ms
        ):
            continue
        yield LogPartition(file.begin, log.find_end(file) if is_last else file.end)
