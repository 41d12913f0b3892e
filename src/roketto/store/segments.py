"""An ordered run of preallocated files in one directory, written at its end and read anywhere.

Two marks run along it: everything below ``written`` has been appended, everything below
``flushed`` is on the disk. One thread does everything here but for two things that block: making
the next segment ahead, which touches nothing that changes, and ``sync``, which reads one snapshot
of the run. That is why the run is a tuple that is replaced, and why a segment which is not flushed
stays mapped: the flushing thread may be in it.
"""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from roketto.store.errors import CorruptStoreError, FileSizeError, StoreError, StoreReadOnlyError
from roketto.store.files import Files
from roketto.store.segment import Segment, create_segment, parse_segment_name, segment_name
from roketto.store.worker import Worker

MAPS_MAX: Final = 64
"""Segments mapped at a time, the unflushed ones apart; the least recently used one is given up.

64 commit log files are 64 GiB of addresses and as many descriptors; readers of an older backlog
are few and read forwards."""

_PREPARE_WAIT_S: Final = 5.0
"""How long an append waits for a segment that is being made: as long as Java does."""

STEP_BYTES: Final = 4 << 20
AHEAD_BYTES: Final = 16 << 20
"""What is written next: pages are asked for in such steps, and so far beyond. At 300 MB a second
that is a twentieth of one, in which a thread can be late."""

_WIPE_BYTES: Final = 1 << 20
_ZEROS: Final = bytes(_WIPE_BYTES)
_NO_ROOM: Final = memoryview(b"")


class OutsideLogError(StoreError):
    """Bytes that were asked for are not there: removed, not yet written, or not in one segment."""


class Segments:
    """The files of one directory as one row of bytes.

    segments = Segments(files, directory, segment_bytes=1 << 30)
    segments.load()
    segments.set_positions(written, flushed)     # recovery says where the content ends
    segments.roll()                              # room for the first, or the next, bytes
    segments.room[at:at + n] = data; segments.written += n

    ``margin_bytes`` at the end of each segment are kept out of ``room``: the owner needs them to
    mark that end.

    Whoever writes to a page first waits until the system has filled it with zeros, which takes
    longer than to write to it. With ``look_ahead`` a thread has these pages made before; ``room``
    then ends earlier, and whoever comes to its end asks to ``widen`` it.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        segment_bytes: int,
        margin_bytes: int = 0,
        maps_max: int = MAPS_MAX,
    ) -> None:
        assert 0 <= margin_bytes < segment_bytes
        assert maps_max > 0
        self.directory: Path = directory
        self.segment_bytes: int = segment_bytes
        self.written: int = 0
        """Everything below has been appended."""
        self.flushed: int = 0
        """Everything below is on the disk."""
        self.room: memoryview = _NO_ROOM
        """The segment that is being written, without its margin, or the first part of that; empty
        if there is none yet."""
        self.room_start: int = 0
        """The offset at which ``room`` begins."""
        self._whole: memoryview = _NO_ROOM
        self._ahead: Worker | None = None
        self._step_bytes: int = STEP_BYTES
        self._ahead_bytes: int = AHEAD_BYTES
        self._expected: int = 0
        self._files: Files = files
        self._margin_bytes: int = margin_bytes
        self._maps_max: int = maps_max
        self._is_writable: bool = False
        self._run: tuple[Segment, ...] = ()
        self._active: Segment | None = None
        self._prepared: Segment | None = None
        self._preparing: Future[Segment] | None = None
        self._prepared_in_vain = -1
        self._mapped: OrderedDict[int, Segment] = OrderedDict()

    # --- loading and closing ------------------------------------------------------------------

    def load(self, *, writable: bool = True) -> None:
        """Find the files; both marks are at their end until recovery has looked into them.

        Nothing is mapped yet. A last file without content is what a crash leaves of a creation.
        """
        if writable:
            self._files.make_directory(self.directory)
        paths = [self.directory / name for name in self._files.names(self.directory)]
        run = [Segment(path, parse_segment_name(path), self.segment_bytes) for path in paths]
        if run and self._files.size(run[-1].path) == 0:
            empty = run.pop()
            if writable:
                self._remove(empty)
        for segment in run:
            self._check_size(segment)
        for left, right in pairwise(run):
            self._check_neighbours(left, right)
        self._is_writable = writable
        self._run = tuple(run)
        self.written = self.flushed = run[-1].end if run else 0
        self._leave_room()

    def close(self) -> None:
        """Give everything back; a segment that was prepared and never used is removed.

        Whoever syncs or prepares in a thread has ended it before.
        """
        self._leave_room()
        if self._preparing is not None and self._preparing.done():
            self._take_prepared()
        self._preparing = None
        if self._prepared is not None:
            self._remove(self._prepared)
            self._prepared = None
        for segment in self._run:
            segment.unmap()
        self._mapped.clear()
        self._run = ()
        self._is_writable = False
        self._ahead = None
        self._expected = 0

    def _check_size(self, segment: Segment) -> None:
        size = self._files.size(segment.path)
        if size != self.segment_bytes:
            raise FileSizeError(
                f"{segment.path} has {size} bytes, but the configured size of these files is"
                f" {self.segment_bytes}: configure the size that the store was written with, or"
                " move the file away if it is a broken copy"
            )
        if segment.start % self.segment_bytes:
            raise FileSizeError(
                f"{segment.path} does not begin at a multiple of the configured file size"
                f" {self.segment_bytes}: configure the size that the store was written with"
            )

    def _check_neighbours(self, left: Segment, right: Segment) -> None:
        if left.end != right.start:
            raise CorruptStoreError(
                left.path,
                self.segment_bytes,
                f"{segment_name(left.end)} should follow, but the next file is {right.path};"
                " put the missing files back, or move those on one side of the gap away",
            )

    # --- positions ----------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """The first offset that is there; that of the next append if nothing is."""
        return self._run[0].start if self._run else self.written

    def __len__(self) -> int:
        return len(self._run)

    def __getitem__(self, index: int) -> Segment:
        return self._run[index]

    def mark_flushed(self, flushed: int) -> None:
        """Everything below ``flushed`` is on the disk now; the mark never goes back."""
        assert flushed <= self.written, f"flushed {flushed} beyond written {self.written}"
        self.flushed = max(self.flushed, flushed)

    def set_positions(self, written: int, flushed: int) -> None:
        """Say where the content ends, in the last segment or right behind it. For recovery."""
        first_unwritten = self._run[-1].start if self._run else written
        assert flushed <= written, f"flushed {flushed} beyond written {written}"
        assert first_unwritten <= written <= first_unwritten + self.segment_bytes
        self._leave_room()
        self.written = written
        self.flushed = flushed
        for segment in self._run:
            if segment.end > flushed and segment.start < written:
                self._view(segment)  # so that sync finds it mapped
        if self._run and self._is_writable and written < self._run[-1].end:
            self._enter(self._run[-1])

    def truncate(self, offset: int) -> None:
        """Drop everything from ``offset`` on, durably. For recovery, which alone may do this.

        The rest of the segment is wiped: records that a crash left behind the cut are whole, and
        would be found again once new ones of the same size lie before them.
        """
        self._check_writable()
        assert self._prepared is None, "recovery comes before anything is prepared"
        assert self.min_offset <= offset <= self.written
        self._leave_room()
        run = list(self._run)
        while run and run[-1].start > offset:
            # The last one first, each for good: a crash must not leave a gap.
            self._remove(run.pop())
        self._run = tuple(run)
        if run and offset < run[-1].end:
            view = self._view(run[-1], writable=True)
            mapped = run[-1].mapped
            assert mapped is not None
            for begin, end in mapped.data_spans(offset - run[-1].start):
                _wipe(view[begin:end])
            mapped.sync()
        self.set_positions(offset, min(self.flushed, offset))

    def patch(self, offset: int, data: bytes) -> None:
        """Write over bytes in one segment, durably. For recovery, which alone may do this."""
        self._check_writable()
        segment = self.find(offset)
        at = offset - segment.start
        self._view(segment, writable=True)[at : at + len(data)] = data
        assert segment.mapped is not None
        segment.mapped.sync()

    def write_again(self, start: int, end: int) -> None:
        """Write bytes ``start`` to ``end`` once more as they are. For recovery.

        A process before this one may have failed to sync them; then the next sync would succeed
        without them.
        """
        for segment in self._run:
            begin, stop = max(start, segment.start), min(end, segment.end)
            if begin < stop:
                self._view(segment, writable=True)
                assert segment.mapped is not None
                segment.mapped.write_again(begin - segment.start, stop - segment.start)

    def expect(self, segment: Segment, start: int, end: int) -> None:
        """Let the system read bytes ``start`` to ``end``, which lie in one segment, ahead."""
        self._view(segment)
        assert segment.mapped is not None
        segment.mapped.expect(start - segment.start, min(end, segment.end) - segment.start)

    def content_end(self, segment: Segment, offset: int) -> int:
        """Where the last byte ends that is not zero, ``offset`` if all are from there on."""
        view = self._view(segment)
        assert segment.mapped is not None
        for begin, end in reversed(segment.mapped.data_spans(offset - segment.start)):
            segment.mapped.expect(begin, end)
            content_bytes = _content_bytes(view[begin:end])
            if content_bytes:
                return segment.start + begin + content_bytes
        return offset

    def start_at(self, offset: int) -> None:
        """Let an empty run begin at ``offset``, as that of a slave whose master has cleaned up."""
        if self._run or offset < 0 or offset % self.segment_bytes:
            raise StoreError(
                f"{self.directory} cannot begin at {offset}: it has {len(self._run)} files of"
                f" {self.segment_bytes} bytes, and only an empty one can, at a multiple of that"
            )
        self.written = self.flushed = offset

    def _leave_room(self) -> None:
        self._active = None
        self.room = self._whole = _NO_ROOM
        self.room_start = self.written

    def _enter(self, segment: Segment) -> None:
        view = self._view(segment, writable=True)
        self.room = self._whole = view[: self.segment_bytes - self._margin_bytes]
        self.room_start = segment.start
        self._active = segment
        if self._ahead is not None:
            self._show(self.written - segment.start)

    # --- looking ahead ------------------------------------------------------------------------

    def look_ahead(
        self, worker: Worker, step_bytes: int = STEP_BYTES, ahead_bytes: int = AHEAD_BYTES
    ) -> None:
        """Let the worker have pages made that will be written to; it ends before this is closed."""
        self._ahead = worker
        self._step_bytes = step_bytes
        self._ahead_bytes = ahead_bytes
        if self._active is not None:
            self._show(self.written - self.room_start)

    def widen(self, size: int) -> bool:
        """Let there be ``room`` for so many bytes; False if the segment has not so many left."""
        end = self.written - self.room_start + size
        if end > len(self._whole):
            return False
        if end > len(self.room):
            self._show(end)
        return True

    def _show(self, end: int) -> None:
        """Let ``room`` reach beyond ``end``, and ask for the pages that follow."""
        end += self._step_bytes - end % self._step_bytes
        self.room = self._whole[:end]
        active = self._active
        assert active is not None
        assert self._ahead is not None
        mapped = active.mapped
        assert mapped is not None
        begin = max(self._expected, self.written) - active.start
        stop = min(end + self._ahead_bytes, self.segment_bytes)
        if begin < stop:
            self._expected = active.start + stop
            self._ahead.submit(lambda: mapped.expect(begin, stop))

    # --- writing ------------------------------------------------------------------------------

    def roll(self, ending: bytes = b"") -> None:
        """End the current segment with ``ending`` where it was written to, and begin the next.

        The next one is made first: if the disk has no room for it, nothing has changed.
        """
        self._check_writable()
        following = self._next()
        if self._run and self.written < self._run[-1].end:
            last = self._run[-1]
            at = self.written - last.start
            assert at + len(ending) <= self.segment_bytes
            self._view(last)[at : at + len(ending)] = ending
        self._run = (*self._run, following)  # before ``written``: a sync looks at that first
        self.written = following.start
        self._enter(following)

    def append_bytes(self, data: bytes | memoryview) -> None:
        """Append bytes as they are, over the ends of segments, margins included."""
        self._check_writable()
        rest = memoryview(data)
        while rest:
            if not self._run or self.written == self._run[-1].end:
                self.roll()
            last = self._run[-1]
            at = self.written - last.start
            chunk = rest[: self.segment_bytes - at]
            self._view(last, writable=True)[at : at + len(chunk)] = chunk
            self.written += len(chunk)
            rest = rest[len(chunk) :]

    def prepare_ahead(self, worker: Worker) -> None:
        """Let the worker make the next segment once half of the last one is used.

        The owner calls this now and then. If the disk has no room, it is tried again when the
        segment is needed: whoever appends then hears why.
        """
        if self._preparing is not None:
            if self._preparing.done():
                self._take_prepared()
            return
        if self._prepared is not None or not self._run or not self._is_writable:
            return
        start = self._next_start()
        if self.written + self.segment_bytes // 2 >= start != self._prepared_in_vain:
            self._preparing = worker.submit(lambda: self._create(start), is_urgent=True)

    def _create(self, start: int) -> Segment:
        return create_segment(self._files, self.directory, start, self.segment_bytes)

    def _take_prepared(self) -> None:
        """Take what the worker has made, or has failed to make."""
        job, self._preparing = self._preparing, None
        assert job is not None
        try:
            self._prepared = job.result()
        except (OSError, StoreError):
            self._prepared_in_vain = self._next_start()

    def _next_start(self) -> int:
        run = self._run
        return run[-1].end if run else self.written

    def _next(self) -> Segment:
        job = self._preparing
        if job is not None and job.cancel():  # it has not begun
            self._preparing = job = None
        if job is not None:
            # It is being made: a second attempt would be in its way.
            wait_s = _PREPARE_WAIT_S if self._prepared_in_vain != self._next_start() else 0.0
            if wait([job], wait_s).not_done:
                self._prepared_in_vain = self._next_start()  # wait no more for this one
                raise StoreError(
                    f"{self.directory / segment_name(self._next_start())} of {self.segment_bytes}"
                    f" bytes is not there after {_PREPARE_WAIT_S:.0f} s: look at the disk"
                )
            self._take_prepared()
        following = self._prepared or self._create(self._next_start())
        self._prepared = None
        return following

    def _check_writable(self) -> None:
        if not self._is_writable:
            raise StoreReadOnlyError(f"{self.directory} is closed or open for reading only")

    def sync(self, start: int, end: int) -> None:
        """Return when bytes ``start`` to ``end`` are on the disk. May run in another thread.

        ``start`` is not below ``flushed``, and one sync runs at a time.
        """
        for segment in self._run:
            if segment.end > start and segment.start < end:
                mapped = segment.mapped
                assert mapped is not None, f"{segment!r} is not flushed and not mapped"
                first = max(start, segment.start) - segment.start
                mapped.sync(first, min(end, segment.end) - segment.start)

    # --- reading ------------------------------------------------------------------------------

    def find(self, offset: int) -> Segment:
        """The segment that byte ``offset`` lies in."""
        run = self._run
        if run and offset >= run[0].start:
            index = (offset - run[0].start) // self.segment_bytes
            if index < len(run):
                return run[index]
        raise self.outside(offset, 1)

    def view(self, segment: Segment) -> memoryview:
        """The whole content of a segment, mapped on demand; good even when the map is given up."""
        return self._view(segment)[:]

    def read(self, offset: int, size: int) -> memoryview:
        """``size`` bytes at ``offset``, not copied; they must have been written, in one segment."""
        if size < 0 or offset + size > self.written:
            raise self.outside(offset, size)
        segment = self.find(offset)
        at = offset - segment.start
        if at + size > self.segment_bytes:
            raise self.outside(offset, size)
        return self._view(segment)[at : at + size]

    def outside(self, offset: int, size: int) -> OutsideLogError:
        """The error that says so."""
        return OutsideLogError(
            f"{size} bytes at {offset} of {self.directory} cannot be read: it holds"
            f" {self.min_offset} to {self.written} in files of {self.segment_bytes}"
        )

    def _view(self, segment: Segment, *, writable: bool = False) -> memoryview:
        mapped = segment.mapped
        if mapped is not None and segment is self._active:
            return mapped.view  # the one in use: never given up, so its turn need not be noted
        view = segment.map(self._files, writable=writable)
        self._mapped[segment.start] = segment
        self._mapped.move_to_end(segment.start)
        if len(self._mapped) > self._maps_max:
            self._unmap_oldest(len(self._mapped) - self._maps_max)
        return view

    def _unmap_oldest(self, count: int) -> None:
        """Unmap up to ``count`` flushed segments, but not the one in use or the one just asked for.

        Never one with unflushed bytes: the system tells of a failed write only those who had the
        file open when it happened.
        """
        *others, _ = self._mapped.values()
        spare = [it for it in others if it.end <= self.flushed and it is not self._active]
        for segment in spare[:count]:
            segment.unmap()
            del self._mapped[segment.start]

    # --- removing -----------------------------------------------------------------------------

    def remove_first(self, count: int, unlink: Callable[[Path], None] | None = None) -> None:
        """Remove the oldest ``count`` segments; the one in use stays.

        They are forgotten at once; views that readers hold stay good. ``unlink``, if given, takes
        over removing the files: in this order, each for good, or a crash leaves a gap.
        """
        self._check_writable()
        assert 0 <= count < max(1, len(self._run)), f"{count} of {len(self._run)} segments"
        for _ in range(count):
            segment = self._run[0]
            assert segment.end <= self.flushed, f"{segment!r} is not flushed"
            self._run = self._run[1:]
            self._forget(segment)
            (unlink or self._files.unlink)(segment.path)

    def _remove(self, segment: Segment) -> None:
        self._forget(segment)
        self._files.unlink(segment.path)

    def _forget(self, segment: Segment) -> None:
        segment.unmap()
        self._mapped.pop(segment.start, None)


def _wipe(view: memoryview) -> None:
    """Make everything zeros; what is zero already is only looked at."""
    for start in range(0, len(view), _WIPE_BYTES):
        part = view[start : start + _WIPE_BYTES]
        if _has_content(part):
            part[:] = _ZEROS[: len(part)]


def _content_bytes(view: memoryview) -> int:
    """How many bytes there are up to the last one that is not zero."""
    end = len(view)
    while end > 0:
        start = max(0, end - _WIPE_BYTES)
        if _has_content(view[start:end]):
            return start + len(bytes(view[start:end]).rstrip(b"\0"))
        end = start
    return 0


def _has_content(view: memoryview) -> bool:
    """Whether it is not all zeros; views are compared byte by byte, which takes ten times as long.

    There may be a gigabyte of it: a file that was copied has no holes any more.
    """
    return bool(np.frombuffer(view, np.uint8).any())
