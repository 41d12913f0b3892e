"""Follow the log: read its records one after the other and dispatch those that somebody may lack.

The one loop for records that are in the log and not yet, or not for sure, in queues and index:
those that recovery finds when a store is opened, and those that a replica gets as bytes. Repeats do
no harm: queues and index know how far they are.
"""

from collections.abc import Callable
from typing import Final

from roketto.protocol.errors import IllegalNameError, RecordError
from roketto.store.consumequeue import QueueMismatchError
from roketto.store.dispatch import Dispatcher, Stored
from roketto.store.logscan import LogScan
from roketto.store.queues import Queues
from roketto.store.segment import Segment
from roketto.store.segments import Segments

Progress = Callable[[int, int], None]
"""Called now and then with how many bytes of how many have been read."""

_PROGRESS_BYTES: Final = 8 * 1024 * 1024
_PROGRESS_RECORDS: Final = 4_096
_AHEAD_BYTES: Final = 32 * 1024 * 1024
"""What the system reads ahead. There may be nothing of the log in memory when a store is opened."""


class Scan:
    """The way along the log: where it is, and what it has seen."""

    __slots__ = ("at", "misplaced", "records", "reported", "restarted", "start", "store_time_ms",
                 "trouble", "without_queue")  # fmt: skip

    def __init__(self, start: int) -> None:
        self.start: int = start
        self.at: int = start
        self.reported: int = start
        self.records: int = 0
        self.store_time_ms: int = 0
        self.without_queue: int = 0
        """Records whose topic or queue id cannot name a queue: they stay in the log only."""
        self.misplaced: int = 0
        """Records whose number in their queue was taken, or not the next one."""
        self.restarted: int = 0
        """Queues that began again, because their topic was deleted and made anew."""
        self.trouble: str | None = None
        """Why the bytes at ``at`` are no sound record, if that is why it has stopped."""


class CatchUp:
    """Brings the queues and the index of one store up with its log.

    scan = Scan(start)
    CatchUp(segments, queues, dispatcher).run(scan, end)
    scan.at == end or scan.trouble
    """

    __slots__ = ("_crc_from", "_dispatcher", "_log_scan", "_progress", "_queues", "_segments")

    def __init__(
        self,
        segments: Segments,
        queues: Queues,
        dispatcher: Dispatcher,
        progress: Progress | None = None,
        *,
        crc_from: int | None = None,
    ) -> None:
        """From ``crc_from`` on, all records have the CRC property: it covers all of a record, where
        the other checksum covers the body."""
        self._segments = segments
        self._queues = queues
        self._dispatcher = dispatcher
        self._progress = progress
        self._crc_from = crc_from
        self._log_scan = LogScan()

    def run(self, scan: Scan, end: int) -> None:
        """Dispatch the sound records before ``end``, where one ends; stop at what is none."""
        scan.trouble = None
        try:
            while scan.at < end:
                segment = self._segments.find(scan.at)
                self._follow(scan, segment, self._segments.view(segment), end)
        except RecordError as error:
            scan.trouble = str(error)

    def _follow(self, scan: Scan, segment: Segment, view: memoryview, end: int) -> None:
        """Go on to the end of a segment, where a blank is; RecordError where the log ends in it."""
        log_scan = self._log_scan
        dispatcher = self._dispatcher
        crc_from = segment.end if self._crc_from is None else self._crc_from
        base = segment.start
        expected = scan.at
        while scan.at < end:
            at = scan.at
            if expected < segment.end and at + _AHEAD_BYTES // 2 >= expected:
                self._segments.expect(segment, expected, expected + _AHEAD_BYTES)
                expected += _AHEAD_BYTES
            stored = log_scan.read(view, at - base, at, at >= crc_from)
            if stored is None:
                scan.at = segment.end
                self._queues.flush()  # else those of a long log would all be in memory
                self._report(scan, end)
                return
            try:
                if stored.queue_id < 0:
                    raise IllegalNameError(f"queue {stored.queue_id} of {stored.topic}")
                dispatcher.dispatch(stored)
            except IllegalNameError:
                scan.without_queue += 1
            except QueueMismatchError:
                self._dispatch_anyway(scan, stored)
            scan.store_time_ms = stored.store_time_ms
            scan.records += 1
            scan.at = at + stored.size
            if not scan.records % _PROGRESS_RECORDS:
                self._report(scan, end)

    def _report(self, scan: Scan, end: int) -> None:
        if self._progress is not None and scan.at - scan.reported >= _PROGRESS_BYTES:
            scan.reported = scan.at
            self._progress(scan.at - scan.start, end - scan.start)

    def _dispatch_anyway(self, scan: Scan, stored: Stored) -> None:
        """Find a place for a record whose number is not the next one of its queue.

        A queue that counts from 0 again belongs to a topic that was deleted and made anew: what it
        had before went with the old one. A number that was given already is a repeat to Java, and
        left out; after a gap it goes on without one.
        """
        queue = self._queues.get_or_create(stored.topic, stored.queue_id)
        if stored.queue_offset == 0:
            queue.clear()
            scan.restarted += 1
            self._dispatcher.dispatch(stored)
            return
        scan.misplaced += 1
        if stored.queue_offset > queue.queue_offset_max:
            self._dispatcher.dispatch(stored._replace(queue_offset=queue.queue_offset_max))
