"""Open after a clean stop or a crash; the only code that cuts anything off a store.

One algorithm, whatever happened before. The log is the truth: queues and index are brought up with
it from a place up to which they are sure to be whole, and what they have beyond its end is taken
back. The checkpoint's marks say where that is. Where there are none, because a broker of Java's
was the last to write or the checkpoint is damaged, it is Java's rule: after a clean stop where the
queues end, after a crash the last file that begins before the checkpoint's time.

Reading ends at the first bytes that are no sound record. What follows is cut off if it can only be
the torn end of what nobody was told to be safe. If the checkpoint knows of a longer log that was
on the disk, or the last stop was clean, then something that was safe is damaged: that is an
error which names the place, and nothing is cut.
"""

from typing import Final, NamedTuple

from roketto.protocol.errors import RecordError
from roketto.protocol.record_layout import MAGIC_V1, MAGIC_V2, peek_store_time_ms
from roketto.store.catchup import CatchUp, Progress, Scan
from roketto.store.checkpoint import Checkpoint, Marks
from roketto.store.dispatch import Dispatcher
from roketto.store.errors import CorruptStoreError
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.record_check import BLANK, BLANK_BYTES, RECORD_BYTES_MIN, check_record
from roketto.store.record_repair import repair_record
from roketto.store.segment import Segment, segment_name
from roketto.store.segments import Segments

__all__ = ["Progress", "Recovered", "Recovery", "log_goes_on"]

_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


class Recovered(NamedTuple):
    """What opening a store has found and done."""

    end: int
    """Where the log ends."""
    store_time_ms: int
    """When its last record was stored, 0 if none was read."""
    read_from: int
    """From where on the log was read."""
    records: int
    """How many records were read."""
    cut_bytes: int
    """How much was cut off behind the end; 0 if there was nothing but zeros."""
    without_queue: int = 0
    """Records whose topic or queue id cannot name a queue: they stay in the log only."""
    misplaced: int = 0
    """Records whose number in their queue was taken, or not the next one."""
    restarted: int = 0
    """Queues that began again, because their topic was deleted and made anew."""
    repaired: int = 0
    """Records whose flags said that hosts are longer than they are."""


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
        crc_from: int | None = None,
    ) -> None:
        """``progress`` and ``crc_from`` are those of CatchUp."""
        self._segments = segments
        self._queues = queues
        self._index = index
        self._catch_up = CatchUp(segments, queues, dispatcher, progress, crc_from=crc_from)
        self._repaired = 0

    def run(
        self, checkpoint: Checkpoint, *, is_clean: bool, is_index_damaged: bool = False
    ) -> Recovered:
        """Recover, or raise CorruptStoreError and cut nothing."""
        segments = self._segments
        if not len(segments):
            return self._start_empty(checkpoint.marks)
        wanted, is_damaged = self._choose_start(checkpoint, is_clean, is_index_damaged)
        start = self._align(wanted, checkpoint.marks)
        if not is_clean or is_damaged or start != wanted:
            # Units and keys from here on were never synced for sure, or are damaged: a sector that
            # a power loss has garbled may look like one. The log gives all of them back.
            self._take_back(start)
        scan = self._scan(start)
        cut_bytes = self._check_end(scan, checkpoint, is_clean)
        self._finish(scan.at, start if not is_clean else scan.at, cut_bytes)
        return self._result(scan, cut_bytes)

    def rebuild(self) -> Recovered:
        """Make queues and index anew from the whole log, which is known to be sound."""
        start = self._segments.min_offset
        self._take_back(start)
        scan = self._scan(start)
        self._finish(scan.at, scan.at, 0)
        return self._result(scan, 0)

    def _result(self, scan: Scan, cut_bytes: int) -> Recovered:
        return Recovered(
            scan.at, scan.store_time_ms, scan.start, scan.records, cut_bytes,
            scan.without_queue, scan.misplaced, scan.restarted, self._repaired,
        )  # fmt: skip

    def _start_empty(self, marks: Marks | None) -> Recovered:
        """Without a log there are no queues; but one that was safe must not be gone."""
        segments = self._segments
        if marks is not None and marks.flushed > 0:
            raise self._missing(marks.flushed)
        self._queues.clear()
        if self._index is not None:
            self._index.clear()
        return Recovered(segments.written, 0, segments.written, 0, 0)

    # --- where to start ---------------------------------------------------------------------------

    def _choose_start(
        self, checkpoint: Checkpoint, is_clean: bool, is_index_damaged: bool
    ) -> tuple[int, bool]:
        """Where the first record begins that somebody may lack; whether there was damage."""
        least = self._segments.min_offset
        marks = checkpoint.marks
        starts = []
        if marks is not None:
            base = min(marks.derived, marks.flushed)
            if self._queues.count() != (marks.queues, marks.units):
                starts.append(least)
        elif is_clean:
            base = self._queues.log_offset_max()
        else:
            base = self._start_before(checkpoint)
        rebuild_from = self._queues.rebuild_from()
        if rebuild_from is not None:
            starts.append(rebuild_from)
        index = self._index
        if index is not None and (is_index_damaged or (marks is None and not index.file_names)):
            starts.append(index.log_offset_max)
        return max(least, min([base, *starts])), bool(starts)

    def _align(self, start: int, marks: Marks | None) -> int:
        """The same, if it is sure that a record begins or the log ends there; else before it.

        It may come from a unit that is damaged. The beginning of a segment is always right.
        """
        last = self._segments[-1]
        if start >= last.end:
            return start if start == last.end and self._leads_to(last, start) else last.start
        segment = self._segments.find(start)
        is_end = self._is_blank_space(segment, start) and (
            marks is not None or self._ends_a_record(start)
        )
        if is_end or self._is_sound(segment, start) or self._leads_to(segment, start):
            return start
        return segment.start

    def _is_blank_space(self, segment: Segment, log_offset: int) -> bool:
        at = log_offset - segment.start
        return not any(self._segments.view(segment)[at : at + BLANK_BYTES])

    def _ends_a_record(self, log_offset: int) -> bool:
        """Whether the newest unit of all queues names a sound record that ends there."""
        queues = [queue for _, _, queue in self._queues]
        newest = max(queues, key=lambda queue: queue.log_offset_max, default=None)
        unit = newest.unit(newest.queue_offset_max - 1) if newest is not None else None
        if unit is None or unit.log_offset + unit.size != log_offset:
            return False
        segment = self._segments.find(unit.log_offset)
        return self._is_sound(segment, unit.log_offset)

    def _is_sound(self, segment: Segment, log_offset: int) -> bool:
        return _is_sound(self._segments.view(segment), log_offset - segment.start, log_offset)

    def _leads_to(self, segment: Segment, log_offset: int) -> bool:
        """Whether the records of a segment, as long as they say, lead to a place in it."""
        view = self._segments.view(segment)
        target = log_offset - segment.start
        last = len(view) - BLANK_BYTES
        at = 0
        while at < target and at <= last:
            size, magic = BLANK.unpack_from(view, at)
            if magic not in _MAGICS or size < RECORD_BYTES_MIN:
                return target == len(view) and _is_sound(view, at, segment.start + at)
            at += size
        return at == target

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

    def _scan(self, start: int) -> Scan:
        """Read and dispatch sound records until there are no more."""
        scan = Scan(start)
        end = self._segments[-1].end
        self._catch_up.run(scan, end)
        while scan.trouble is not None and self._repair(scan):
            self._catch_up.run(scan, end)
        return scan

    def _repair(self, scan: Scan) -> bool:
        """Mend the record at which reading has stopped, if that is all that is wrong with it."""
        segment = self._segments.find(scan.at)
        at = scan.at - segment.start
        mended = repair_record(self._segments.view(segment), at, scan.at)
        if mended is None:
            return False
        self._segments.patch(scan.at, mended)
        self._repaired += 1
        return True

    # --- the end ----------------------------------------------------------------------------------

    def _check_end(self, scan: Scan, checkpoint: Checkpoint, is_clean: bool) -> int:
        """Return how much is behind the end, or raise if it should have been sound."""
        flushed = checkpoint.marks.flushed if checkpoint.marks is not None else 0
        if scan.trouble is None:
            if scan.at < flushed:
                raise self._missing(flushed)
            return 0
        segment = self._segments.find(scan.at)
        behind = self._bytes_behind(scan.at, segment)
        if scan.at < flushed:
            why = f"the log was on the disk up to {flushed}, so this was safe"
            raise self._corrupt(scan, segment, why)
        if behind and is_clean:
            raise self._corrupt(scan, segment, "the last stop was clean, so all of it was safe")
        known_ms = checkpoint.physic_timestamp
        if checkpoint.marks is None and not is_clean and scan.store_time_ms < known_ms:
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
            end = self._segments.content_end(later, later.start)
            if end > later.start:
                return end - offset
            number -= 1
        return self._segments.content_end(segment, offset) - offset

    def _corrupt(self, scan: Scan, segment: Segment, why: str) -> CorruptStoreError:
        return CorruptStoreError(
            segment.path,
            scan.at - segment.start,
            f"{scan.trouble}; {why}. Nothing was cut: put the file back from a replica or a backup",
        )

    def _missing(self, flushed: int) -> CorruptStoreError:
        segments = self._segments
        start = segments[-1].end if len(segments) else segments.written
        return CorruptStoreError(
            segments.directory / segment_name(start),
            0,
            f"this file is missing: the log was on the disk up to {flushed}; put it back, or remove"
            " the file checkpoint as well if these messages are to be given up",
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
        flushed = min(flushed, end)
        segments.set_positions(end, flushed)
        # Whoever reads from now on may see all of it, so all of it must be safe.
        segments.write_again(flushed, end)
        segments.sync(flushed, end)
        segments.mark_flushed(end)

    def _take_back(self, log_offset: int) -> None:
        """Let queues and index lead to nothing at or behind ``log_offset``."""
        self._queues.truncate(log_offset)
        if self._index is not None:
            self._index.truncate(log_offset)


def log_goes_on(segments: Segments, log_offset: int) -> bool:
    """Whether a record, or the blank at the end of a segment, begins at a place."""
    if not len(segments) or not segments.min_offset <= log_offset < segments[-1].end:
        return False
    segment = segments.find(log_offset)
    return _is_sound(segments.view(segment), log_offset - segment.start, log_offset)


def _is_sound(view: memoryview, at: int, log_offset: int) -> bool:
    try:
        check_record(view, at, log_offset)
    except RecordError:
        return False
    return True
