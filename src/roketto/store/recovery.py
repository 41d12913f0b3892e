"""Open after a clean stop or a crash; the only code that cuts anything off a store.

One algorithm, two starting points. The log is the truth: queues and index are brought up with it,
and what they have beyond its end is taken back. After a clean stop everything was on the disk, so
the log is read from where the queues end. After a crash it is read from the last file that begins
before the checkpoint's time, because queues and index are sure to be whole only up to there, and
what they have beyond is not even looked at.

Reading ends at the first bytes that are no sound record. What follows is cut off if it can only be
the torn end of what nobody was told to be safe. If the checkpoint knows of later messages that
were on the disk, or the last stop was clean, then something that was safe is damaged: that is an
error which names the place, and nothing is cut.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from roketto.protocol.errors import RecordError
from roketto.protocol.record_layout import peek_store_time_ms
from roketto.store.checkpoint import Checkpoint
from roketto.store.dispatch import Dispatcher, read_stored
from roketto.store.errors import CorruptStoreError
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.record_check import check_record
from roketto.store.segment import Segment
from roketto.store.segments import Segments

Progress = Callable[[int, int], None]
"""Called now and then with how many bytes of how many have been read."""

_PROGRESS_BYTES: Final = 64 * 1024 * 1024
_ZEROS: Final = bytes(1 << 16)


class Recovered(NamedTuple):
    """What opening a store has found and done."""

    end: int
    """Where the log ends."""
    store_time_ms: int
    """When its last record was stored, 0 without one."""
    read_from: int
    """From where on the log was read."""
    records: int
    """How many records were read."""
    cut_bytes: int
    """How much was cut off behind the end; 0 if there was nothing but zeros."""


class _Scan:
    """The way along the log: where it is, and what it has seen."""

    __slots__ = ("at", "records", "store_time_ms", "trouble")

    def __init__(self, at: int, store_time_ms: int) -> None:
        self.at = at
        self.records = 0
        self.store_time_ms = store_time_ms
        self.trouble: str | None = None


class Recovery:
    """Brings the parts of one store in line with each other.

    recovered = Recovery(segments, queues, index, dispatcher).run(checkpoint, is_clean=False)

    ``segments``, ``queues`` and ``index`` have been loaded; nothing else uses them yet.
    """

    def __init__(
        self,
        segments: Segments,
        queues: Queues,
        index: Index | None,
        dispatcher: Dispatcher,
        progress: Progress | None = None,
        *,
        check_crc_property: bool = False,
    ) -> None:
        """``check_crc_property`` is for stores whose every record was written with it: it covers
        all of a record, where the other checksum covers the body."""
        self._segments = segments
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._progress = progress
        self._check_crc_property = check_crc_property

    def run(
        self, checkpoint: Checkpoint, *, is_clean: bool, is_index_damaged: bool = False
    ) -> Recovered:
        """Recover, or raise CorruptStoreError and cut nothing."""
        segments = self._segments
        if not len(segments):
            self._queues.clear()
            if self._index is not None:
                self._index.clear()
            return Recovered(segments.written, 0, segments.written, 0, 0)
        wanted = self._choose_start(checkpoint, is_clean, is_index_damaged)
        start = self._align(wanted)
        if not is_clean or start != wanted:
            # Units and keys from here on were never synced for sure, or are damaged: a sector that
            # a power loss has garbled may look like one. The log gives all of them back.
            self._take_back(start)
        scan = self._scan(start)
        cut_bytes = self._check_end(scan, checkpoint, is_clean)
        self._finish(scan.at, start if not is_clean else scan.at, cut_bytes)
        return Recovered(scan.at, scan.store_time_ms, start, scan.records, cut_bytes)

    def rebuild(self) -> Recovered:
        """Make queues and index anew from the whole log, which is known to be sound."""
        start = self._segments.min_offset
        self._take_back(start)
        scan = self._scan(start)
        self._finish(scan.at, scan.at, 0)
        return Recovered(scan.at, scan.store_time_ms, start, scan.records, 0)

    # --- where to start ---------------------------------------------------------------------------

    def _choose_start(self, checkpoint: Checkpoint, is_clean: bool, is_index_damaged: bool) -> int:
        """Where the first record begins that somebody may lack."""
        least = self._segments.min_offset
        starts = [
            self._queues.log_offset_max() if is_clean else self._start_before(checkpoint),
        ]
        rebuild_from = self._queues.rebuild_from()
        if rebuild_from is not None:
            starts.append(rebuild_from)
        index = self._index
        if index is not None and (is_index_damaged or not index.file_names):
            starts.append(index.log_offset_max)
        return max(least, min(starts))

    def _align(self, start: int) -> int:
        """The same, if it is sure that a record begins or the log ends there; else before it.

        It may come from a unit that is damaged. The beginning of a segment is always right.
        """
        if start >= self._segments[-1].end:
            return self._segments[-1].start
        if self._record_size(start) is not None or self._ends_a_record(start):
            return start
        return self._segments.find(start).start

    def _record_size(self, log_offset: int) -> int | None:
        """The size of the sound record there, None if there is none."""
        segment = self._segments.find(log_offset)
        view = self._segments.view(segment)
        try:
            return check_record(view, log_offset - segment.start, log_offset)
        except RecordError:
            return None

    def _ends_a_record(self, log_offset: int) -> bool:
        """Whether the newest unit of all queues names a sound record that ends there."""
        queues = [queue for _, _, queue in self._queues]
        newest = max(queues, key=lambda queue: queue.log_offset_max, default=None)
        unit = newest.unit(newest.queue_offset_max - 1) if newest is not None else None
        if unit is None or unit.log_offset + unit.size != log_offset:
            return False
        return self._record_size(unit.log_offset) == unit.size

    def _start_before(self, checkpoint: Checkpoint) -> int:
        """The start of the last segment that begins before the checkpoint, or of the first."""
        for number in range(len(self._segments) - 1, 0, -1):
            segment = self._segments[number]
            view = self._segments.view(segment)
            try:
                if check_record(view, 0, segment.start) and (
                    peek_store_time_ms(view) <= checkpoint.min_timestamp
                ):
                    return segment.start
            except RecordError:
                continue
        return self._segments.min_offset

    # --- reading ----------------------------------------------------------------------------------

    def _scan(self, start: int) -> _Scan:
        """Read and dispatch sound records until there are no more."""
        scan = _Scan(start, 0)
        end = self._segments[-1].end
        reported = start
        while scan.at < end and scan.trouble is None:
            segment = self._segments.find(scan.at)
            view = self._segments.view(segment)
            self._scan_segment(scan, segment, view)
            if self._progress is not None and scan.at - reported >= _PROGRESS_BYTES:
                reported = scan.at
                self._progress(scan.at - start, end - start)
        return scan

    def _scan_segment(self, scan: _Scan, segment: Segment, view: memoryview) -> None:
        while True:  # each segment ends with a blank, or the log ends in it
            at = scan.at - segment.start
            try:
                size = check_record(view, at, scan.at, check_crc_property=self._check_crc_property)
            except RecordError as error:
                scan.trouble = str(error)
                return
            if size == 0:
                scan.at = segment.end
                return
            stored = read_stored(view, at)
            self._dispatcher.dispatch(stored)
            scan.store_time_ms = stored.store_time_ms
            scan.records += 1
            scan.at += size

    # --- the end ----------------------------------------------------------------------------------

    def _check_end(self, scan: _Scan, checkpoint: Checkpoint, is_clean: bool) -> int:
        """Return how much is behind the end, or raise if it should have been sound."""
        if scan.trouble is None:
            return 0
        segment = self._segments.find(scan.at)
        behind = self._bytes_behind(scan.at, segment)
        if behind and is_clean:
            raise self._corrupt(scan, segment, "the last stop was clean, so all of it was safe")
        known_ms = checkpoint.physic_timestamp
        if not is_clean and scan.store_time_ms < known_ms:
            raise self._corrupt(
                scan,
                segment,
                f"the checkpoint knows of messages stored at {known_ms} that were safe, and the"
                f" last readable one was stored at {scan.store_time_ms}",
            )
        return behind

    def _bytes_behind(self, offset: int, segment: Segment) -> int:
        """How many bytes from ``offset`` to the last one that is not zero, in all segments."""
        number = len(self._segments) - 1
        while self._segments[number] is not segment:
            later = self._segments[number]
            found = _last_nonzero(self._segments.view(later), 0)
            if found >= 0:
                return later.start + found + 1 - offset
            number -= 1
        found = _last_nonzero(self._segments.view(segment), offset - segment.start)
        return segment.start + found + 1 - offset if found >= 0 else 0

    def _corrupt(self, scan: _Scan, segment: Segment, why: str) -> CorruptStoreError:
        return CorruptStoreError(
            segment.path,
            scan.at - segment.start,
            f"{scan.trouble}; {why}. Nothing was cut: put the file back from a replica or a backup",
        )

    def _finish(self, end: int, flushed: int, cut_bytes: int) -> None:
        """Take back what leads beyond the end, the log last: a crash here only repeats this."""
        self._take_back(end)
        self._queues.flush()
        self._queues.sync()
        if self._index is not None:
            self._index.sync()
        segments = self._segments
        if cut_bytes or end <= segments[-1].start:
            segments.truncate(end)
        segments.set_positions(end, min(flushed, end))

    def _take_back(self, log_offset: int) -> None:
        """Let queues and index lead to nothing at or behind ``log_offset``."""
        self._queues.truncate(log_offset)
        if self._index is not None:
            self._index.truncate(log_offset)


def _last_nonzero(view: memoryview, begin: int) -> int:
    """The place of the last byte that is not zero, -1 if there is none from ``begin`` on."""
    end = len(view)
    while end > begin:
        start = max(begin, end - len(_ZEROS))
        if view[start:end] != _ZEROS[: end - start]:
            piece = bytes(view[start:end])
            return start + len(piece.rstrip(b"\0")) - 1
        end = start
    return -1
