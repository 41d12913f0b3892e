"""The log of a store as it lies on the disk, read and never written: its files and their records.

Reading goes on behind damage. Where bytes are no record, the next one is searched for: a record
says of itself where it lies, so that a body which holds another log is not taken for one.
"""

import mmap
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from roketto.protocol.errors import RecordError
from roketto.protocol.record import Record, decode_record
from roketto.protocol.record_layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, peek_store_time_ms
from roketto.store.errors import StoreError
from roketto.store.files import Files, MappedFile
from roketto.store.record_check import check_record
from roketto.store.record_repair import repair_record
from roketto.store.segment import Segment, parse_segment_name, segment_name
from roketto.store.segments import OutsideLogError
from roketto.storetool.findings import Findings

MAPS_MAX: Final = 8
"""Segments mapped at a time: a scan needs one, a merge of queues a few neighbours."""

_MAGICS: Final = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_CHUNK_BYTES: Final = 1 << 20
_MEMORY_BYTES: Final = 16 << 20
"""What a walk along the log keeps of it in memory."""
_ZEROS: Final = bytes(_CHUNK_BYTES)
_MENDABLE: Final = (
    "its flags say IPv6 of hosts that are IPv4; the next start after a crash mends it"
)


class Log:
    """The segments of one directory, of whatever size they are."""

    def __init__(self, files: Files, directory: Path) -> None:
        self.directory = directory
        self._files = files
        self._maps: OrderedDict[Path, MappedFile] = OrderedDict()
        self.segments: list[Segment] = []
        self.strangers: list[Path] = []
        """Files whose names are no offsets: a broker would not start with them."""
        self.empty: list[Path] = []
        """Files without content; a last one is what a crash leaves of a creation."""
        sizes: Counter[int] = Counter()
        for name in files.names(directory):
            path = directory / name
            try:
                start = parse_segment_name(path)
            except StoreError:
                self.strangers.append(path)
                continue
            size = files.size(path)
            if size:
                sizes[size] += 1
                self.segments.append(Segment(path, start, size))
            else:
                self.empty.append(path)
        self.segment_bytes = max(sizes, key=lambda size: (sizes[size], size), default=0)

    @property
    def min_offset(self) -> int:
        return self.segments[0].start if self.segments else 0

    @property
    def max_offset(self) -> int:
        """Where the last file ends; the records may end before it."""
        return self.segments[-1].end if self.segments else 0

    def check_files(self, findings: Findings) -> None:
        """Say which names, lengths and neighbours keep a broker from opening this."""
        for path in self.strangers:
            findings.damage("file", path, 0, "this name is no offset of 20 digits; move it away")
        for segment in self.segments:
            size = segment.end - segment.start
            if size != self.segment_bytes:
                findings.damage(
                    "file", segment.path, size,
                    f"the file has {size} bytes, the others {self.segment_bytes}",
                )  # fmt: skip
        for left, right in zip(self.segments, self.segments[1:], strict=False):
            following = left.start + self.segment_bytes
            if right.start != following:
                findings.damage(
                    "file", left.path, left.end - left.start,
                    f"{segment_name(following)} should follow, the next file is {right.path.name}",
                )  # fmt: skip
        for path in self.empty:
            if self.segments and path < self.segments[-1].path:
                findings.damage("file", path, 0, "the file is empty, and others follow")
            else:
                findings.note("file", path, 0, "the file is empty; the next start removes it")

    def view(self, segment: Segment) -> memoryview:
        """The whole content of a segment; FileNotFoundError if it was deleted meanwhile."""
        mapped = self._maps.get(segment.path)
        if mapped is None:
            size = segment.end - segment.start
            mapped = self._files.open_mapped(segment.path, size, writable=False)
            self._maps[segment.path] = mapped
            if len(self._maps) > MAPS_MAX:
                self._maps.popitem(last=False)[1].close()
        self._maps.move_to_end(segment.path)
        return mapped.view[:]

    def let_go(self, segment: Segment, begin: int, end: int) -> None:
        """Take bytes of a segment out of this process's memory; the system's cache keeps them."""
        mapped = self._maps.get(segment.path)
        mapping = mapped.view.obj if mapped is not None else None
        if isinstance(mapping, mmap.mmap) and hasattr(mapping, "madvise"):
            start = begin - begin % mmap.PAGESIZE
            mapping.madvise(mmap.MADV_DONTNEED, start, end - start)

    def close(self) -> None:
        while self._maps:
            self._maps.popitem()[1].close()

    def find(self, log_offset: int) -> Segment | None:
        """The segment that a byte lies in, None outside the log."""
        for segment in reversed(self.segments):
            if segment.start <= log_offset:
                return segment if log_offset < segment.end else None
        return None

    def place(self, log_offset: int) -> tuple[Path, int]:
        """The file and the byte in it, of the last file for what lies behind the end."""
        segment = self.find(log_offset) or (self.segments[-1] if self.segments else None)
        if segment is None:
            return self.directory, log_offset
        return segment.path, log_offset - segment.start

    def record_at(self, log_offset: int, *, read_body: bool = True) -> Record:
        """The record that begins there; OutsideLogError or RecordError if none does."""
        segment = self.find(log_offset)
        if segment is None:
            raise OutsideLogError(
                f"log offset {log_offset} is outside {self.directory}, which holds"
                f" {self.min_offset} to {self.max_offset}"
            )
        view = self.view(segment)
        at = log_offset - segment.start
        if not check_record(view, at, log_offset, check_body_crc=False):
            raise RecordError(f"no record at log offset {log_offset}: the file ends there")
        return decode_record(view, at, read_body)

    def first_time_ms(self, segment: Segment) -> int | None:
        """When the first record of a segment was stored, None if it begins with none."""
        view = self.view(segment)
        try:
            if not check_record(view, 0, segment.start, check_body_crc=False):
                return None
            return peek_store_time_ms(view)
        except RecordError:
            return None

    def start_before(self, time_ms: int) -> int:
        """The start of the last segment whose first record is not newer, or of the first.

        Where recovery begins after a crash, if the time is the checkpoint's.
        """
        for segment in reversed(self.segments[1:]):
            first_ms = self.first_time_ms(segment)
            if first_ms is not None and first_ms <= time_ms:
                return segment.start
        return self.min_offset


class Place(NamedTuple):
    """Where a scan has found a record; ``trouble`` says what is wrong with its body."""

    segment: Segment
    log_offset: int
    view: memoryview
    at: int
    """Where it begins in the view."""
    size: int
    trouble: str | None

    @property
    def file_offset(self) -> int:
        return self.log_offset - self.segment.start


class _Break(NamedTuple):
    """Where the records of a segment end without the blank that ends a segment."""

    segment: Segment
    at: int
    why: str


class LogWalk:
    """The records of a log in order, from ``start`` on. Iterate once, then look at the rest.

    walk = LogWalk(log, findings)
    for place in walk: ...
    walk.end, walk.torn_bytes
    """

    def __init__(
        self, log: Log, findings: Findings, start: int | None = None, *, check_crc: bool = True
    ) -> None:
        self._log = log
        self._findings = findings
        self._start = log.min_offset if start is None else start
        self._check_crc = check_crc
        self._breaks: list[_Break] = []
        self.end = self._start
        """Where the last record ends, and the next one would begin."""
        self.torn_bytes = 0
        """How much that is not zero lies behind it."""
        self.torn_why = ""

    def __iter__(self) -> Iterator[Place]:
        for segment in self._log.segments:
            if segment.end <= self._start:
                continue
            try:
                view = self._log.view(segment)
            except FileNotFoundError:
                self._findings.note("file", segment.path, 0, "deleted meanwhile by its broker")
                continue
            yield from self._segment(segment, view, max(0, self._start - segment.start))
        if self._breaks:
            self._measure_rest()

    def _segment(self, segment: Segment, view: memoryview, at: int) -> Iterator[Place]:
        kept_from = at
        while True:
            if at - kept_from >= _MEMORY_BYTES:
                self._log.let_go(segment, kept_from, at)
                kept_from = at
            size, trouble = self._look(segment, view, at)
            if size is None and (mended := repair_record(view, at, segment.start + at)):
                self._tell_breaks()
                yield Place(
                    segment, segment.start + at, memoryview(mended), 0, len(mended), _MENDABLE
                )
                at += len(mended)
                self.end = segment.start + at
                continue
            if size is None:
                assert trouble is not None
                found = find_record(view, at + 1, segment.start)
                if found is None:
                    self._breaks.append(_Break(segment, at, trouble))
                    return
                self._damaged(_Break(segment, at, trouble), found)
                at = found
                continue
            self._tell_breaks()
            if not size:
                self.end = segment.end
                self._log.let_go(segment, kept_from, len(view))
                return
            yield Place(segment, segment.start + at, view, at, size, trouble)
            at += size
            self.end = segment.start + at

    def _look(self, segment: Segment, view: memoryview, at: int) -> tuple[int | None, str | None]:
        """The size of the record there, 0 for a blank, None for neither; and what is wrong."""
        log_offset = segment.start + at
        try:
            return check_record(view, at, log_offset, check_body_crc=self._check_crc), None
        except RecordError as error:
            trouble = str(error)
        try:  # its lengths may agree, and only the body be damaged
            return check_record(view, at, log_offset, check_body_crc=False), trouble
        except RecordError:
            return None, trouble

    def _tell_breaks(self) -> None:
        """A record has come after them: they were not the end of the log."""
        for broken in self._breaks:
            self._damaged(broken, broken.segment.end - broken.segment.start)
        self._breaks.clear()

    def _damaged(self, broken: _Break, found: int) -> None:
        self._findings.damage(
            "record", broken.segment.path, broken.at,
            f"{broken.why}; {found - broken.at} bytes up to the next record cannot be read",
        )  # fmt: skip

    def _measure_rest(self) -> None:
        first = self._breaks[0]
        self.end = first.segment.start + first.at
        self.torn_why = first.why
        for broken in reversed(self._breaks):
            last = last_nonzero(self._log.view(broken.segment), broken.at)
            if last >= 0:
                self.torn_bytes = broken.segment.start + last + 1 - self.end
                return


def find_record(view: memoryview, begin: int, segment_start: int) -> int | None:
    """Where the next record or blank begins in a segment, from ``begin`` on."""
    for chunk_at in range(begin, len(view), _CHUNK_BYTES):
        # Eight bytes more, so that none of size and magic is cut in two.
        chunk = bytes(view[chunk_at : chunk_at + _CHUNK_BYTES + 7])
        for at in sorted(_magics_in(chunk)):
            if _is_record(view, chunk_at + at - 4, segment_start, begin):
                return chunk_at + at - 4
    return None


def _magics_in(chunk: bytes) -> Iterator[int]:
    for magic in _MAGICS:
        at = chunk.find(magic)
        while at >= 0:
            yield at
            at = chunk.find(magic, at + 1)


def _is_record(view: memoryview, at: int, segment_start: int, begin: int) -> bool:
    if at < begin:
        return False
    try:
        check_record(view, at, segment_start + at, check_body_crc=False)
    except RecordError:
        return False
    return True


def last_nonzero(view: memoryview, begin: int) -> int:
    """The place of the last byte that is not zero, -1 if there is none from ``begin`` on."""
    end = len(view)
    while end > begin:
        start = max(begin, end - _CHUNK_BYTES)
        chunk = bytes(view[start:end])  # views are compared byte by byte, copies are not
        if chunk != _ZEROS[: end - start]:
            return start + len(chunk.rstrip(b"\0")) - 1
        end = start
    return -1
