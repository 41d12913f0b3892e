"""An ordered run of preallocated files in one directory, written at its end and read anywhere.

Two marks run along it: everything below ``written`` has been appended, everything below
``flushed`` is on the disk. One thread does everything here but for two things that block:
``prepare_next``, which touches nothing that changes, and ``sync``, which reads one snapshot of the
run. That is why the run is a tuple that is replaced, and why a segment which is not flushed stays
mapped: the flushing thread may be in it.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from roketto.store.errors import CorruptStoreError, FileSizeError, StoreError, StoreReadOnlyError
from roketto.store.files import Files
from roketto.store.segment import Segment, create_segment, parse_segment_name, segment_name

MAPS_MAX: Final = 64
"""Segments mapped at a time, the unflushed ones apart; the least recently used one is given up.

64 commit log files are 64 GiB of addresses and as many descriptors; readers of an older backlog
are few and read forwards."""

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
        """The segment that is being written, without its margin; empty if there is none yet."""
        self.room_start: int = 0
        """The offset at which ``room`` begins."""
        self.on_starved: Callable[[], None] | None = None
        """Called when the next segment is needed and none was adopted: a driver that is preparing
        one in a thread waits for it here and adopts it, else both would make the same file."""
        self._files: Files = files
        self._margin_bytes: int = margin_bytes
        self._maps_max: int = maps_max
        self._is_writable: bool = False
        self._run: tuple[Segment, ...] = ()
        self._active: Segment | None = None
        self._prepared: Segment | None = None
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
        if self._prepared is not None:
            self._remove(self._prepared)
            self._prepared = None
        for segment in self._run:
            segment.unmap()
        self._mapped.clear()
        self._run = ()
        self._is_writable = False

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
            _wipe(self._view(run[-1], writable=True), offset - run[-1].start)
            mapped = run[-1].mapped
            assert mapped is not None
            mapped.sync()
        self.set_positions(offset, min(self.flushed, offset))

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
        self.room = _NO_ROOM
        self.room_start = self.written

    def _enter(self, segment: Segment) -> None:
        view = self._view(segment, writable=True)
        self.room = view[: self.segment_bytes - self._margin_bytes]
        self.room_start = segment.start
        self._active = segment

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

    def prepare_next(self) -> Segment:
        """Make the segment after the last one, to be adopted. May run in another thread.

        The caller takes care that ``adopt`` and this method do not overlap, and sets
        ``on_starved`` if this runs in a thread.
        """
        return create_segment(self._files, self.directory, self._next_start(), self.segment_bytes)

    def adopt(self, prepared: Segment) -> None:
        """Take a prepared segment, to be used when the current one is full."""
        assert self._prepared is None, f"{self._prepared!r} waits already"
        assert prepared.start == self._next_start(), f"{prepared!r} does not follow"
        self._prepared = prepared

    @property
    def is_next_ready(self) -> bool:
        """Whether a prepared segment waits to be used."""
        return self._prepared is not None

    def _next_start(self) -> int:
        run = self._run
        return run[-1].end if run else self.written

    def _next(self) -> Segment:
        if self._prepared is None and self.on_starved is not None:
            self.on_starved()
        following = self._prepared or self.prepare_next()
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
                mapped.sync()

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

    def remove_first(self, count: int) -> None:
        """Remove the oldest ``count`` segments; the one in use stays."""
        self._check_writable()
        assert 0 <= count < max(1, len(self._run)), f"{count} of {len(self._run)} segments"
        for _ in range(count):
            segment = self._run[0]
            assert segment.end <= self.flushed, f"{segment!r} is not flushed"
            self._run = self._run[1:]
            self._remove(segment)

    def _remove(self, segment: Segment) -> None:
        segment.unmap()
        self._mapped.pop(segment.start, None)
        self._files.remove(segment.path)
        self._files.sync_directory(self.directory)


def _wipe(view: memoryview, at: int) -> None:
    """Make everything from ``at`` on zeros; what is zero already is only looked at."""
    while at < len(view):
        end = min(at + _WIPE_BYTES, len(view))
        zeros = _ZEROS[: end - at]
        if bytes(view[at:end]) != zeros:
            view[at:end] = zeros
        at = end
