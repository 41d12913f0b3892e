"""The index of a store as it lies on the disk, read and never written.

How many slots and entries a file has is written nowhere: only their sum is known, from its length.
The newest entry tells them apart, for the header says where its message lies and how many entries
there are, and its slot must lead back to it.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from roketto.store.errors import StoreError
from roketto.store.files import Files, MappedFile
from roketto.store.indexfile import ENTRIES, SLOTS, IndexFile, file_bytes

HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
ENTRY_BYTES: Final = 20

_NAME_DIGITS: Final = 17
_SLOT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">iqii")
_LONG: Final = struct.Struct(">q")
_CHUNK_BYTES: Final = 1 << 20
_CHAIN_MAX: Final = 64
_ENTRIES_PER_SLOT: Final = 4
"""Java's ratio, which people who make the files smaller tend to keep."""


class Layout(NamedTuple):
    """How many slots and entries the files of an index have."""

    slots: int
    entries: int

    @property
    def file_bytes(self) -> int:
        return file_bytes(self.slots, self.entries)

    @property
    def entries_at(self) -> int:
        return HEADER_BYTES + self.slots * SLOT_BYTES


class Entry(NamedTuple):
    """One entry of a file."""

    number: int
    key_hash: int
    log_offset: int
    seconds: int
    previous: int


class OpenIndexFile:
    """One mapped file and the layout that it has."""

    def __init__(self, mapped: MappedFile, layout: Layout) -> None:
        self.path = mapped.path
        self.layout = layout
        self.header = IndexFile(mapped, layout.slots, layout.entries)
        self.count = min(max(self.header.count, 1), layout.entries)
        """The number of the next entry when the file was opened."""
        self._entries_at = layout.entries_at
        self._view = mapped.view
        self._mapped = mapped

    def entry_at(self, number: int) -> int:
        """The byte at which an entry lies."""
        return self._entries_at + number * ENTRY_BYTES

    def entry(self, number: int) -> Entry:
        at = self._entries_at + number * ENTRY_BYTES
        return Entry(number, *_ENTRY.unpack_from(self._view, at))

    def slots(self) -> Iterator[tuple[int, int]]:
        """Each slot that leads somewhere, and the number of the entry."""
        for at in range(HEADER_BYTES, self.layout.entries_at, _CHUNK_BYTES):
            chunk = bytes(self._view[at : min(at + _CHUNK_BYTES, self.layout.entries_at)])
            first = (at - HEADER_BYTES) // SLOT_BYTES
            if any(chunk):
                for slot, (number,) in enumerate(_SLOT.iter_unpack(chunk), first):
                    if number:
                        yield slot, number

    def chain(self, key_hash: int) -> Iterator[Entry]:
        """The entries of the slot that a hash leads to, newest first."""
        at = HEADER_BYTES + key_hash % self.layout.slots * SLOT_BYTES
        (number,) = _SLOT.unpack_from(self._view, at)
        above = self.layout.entries  # a broker that runs may have added to it since
        while 0 < number < above:  # ever lower numbers, or it is damage and might not end
            entry = self.entry(number)
            yield entry
            above, number = number, entry.previous

    def previous_of(self, number: int) -> tuple[int, int]:
        """The slot that an entry belongs to, and the entry before it there."""
        key_hash, _, _, previous = _ENTRY.unpack_from(self._view, self.entry_at(number))
        return key_hash % self.layout.slots, previous

    def close(self) -> None:
        self._mapped.close()


class IndexTable:
    """The files of an index, oldest first."""

    def __init__(
        self, files: Files, directory: Path, slots: int | None = None, entries: int | None = None
    ) -> None:
        """``slots`` and ``entries`` as the broker was told; found out if they are not given."""
        self._files = files
        self.directory = directory
        names = [name for name in files.names(directory)
                 if len(name) == _NAME_DIGITS and name.isdecimal()]  # fmt: skip
        self.paths = [directory / name for name in names]
        self.layout = self._layout(slots, entries)
        """None if there is no file, or none that tells its layout."""

    def _layout(self, slots: int | None, entries: int | None) -> Layout | None:
        if slots and entries:
            return Layout(slots, entries)
        for path in reversed(self.paths):
            found = self._find_layout(path)
            if found is not None:
                return found
        for path in self.paths:
            size = self._files.size(path) or 0
            for guess in _guesses(size):
                return guess
        return None

    def _find_layout(self, path: Path) -> Layout | None:
        size = self._files.size(path)
        if not size or size < HEADER_BYTES:
            return None
        mapped = self._files.open_mapped(path, size, writable=False)
        try:
            return find_layout(mapped.view)
        finally:
            mapped.close()

    def open(self, path: Path) -> OpenIndexFile:
        """Map one file; FileSizeError if it is not as long as the layout says."""
        if self.layout is None:
            raise StoreError(
                f"how many slots and entries the files in {self.directory} have cannot be told;"
                " give --index-slots and --index-entries"
            )
        mapped = self._files.open_mapped(path, self.layout.file_bytes, writable=False)
        return OpenIndexFile(mapped, self.layout)

    def query(self, key_hash: int) -> Iterator[int]:
        """Log offsets under this hash, newest first; messages with other keys may be among them."""
        for path in reversed(self.paths):
            file = self.open(path)
            try:
                for entry in file.chain(key_hash):
                    if entry.key_hash == key_hash:
                        yield entry.log_offset
            finally:
                file.close()


def find_layout(view: memoryview) -> Layout | None:
    """The layout of a file, from its newest entry; None if that is not where it should be."""
    (log_offset_end,) = _LONG.unpack_from(view, 24)
    (count,) = _SLOT.unpack_from(view, 36)
    newest = count - 1
    if newest < 1 or log_offset_end < 0:
        return None
    possible = None
    for layout in _candidates(view, newest, log_offset_end):
        found = _slot_of(view, layout, newest, log_offset_end)
        if found is None or not _begins_right(view, layout):
            continue
        number, previous = found
        if number == newest:
            return layout
        if number == previous:
            # A broker that runs has made the entry, and not yet the slot that leads to it. Of the
            # entries of one message, the last is the newest.
            possible = layout
    return possible


def _candidates(view: memoryview, newest: int, log_offset_end: int) -> Iterator[Layout]:
    """What is likely, and then whatever fits the places where the newest offset stands."""
    size = len(view)
    yield from _guesses(size)
    for chunk_at in range(HEADER_BYTES, size, _CHUNK_BYTES):
        chunk = bytes(view[chunk_at : chunk_at + _CHUNK_BYTES + 7])
        if log_offset_end:
            hashes_at = (at - 4 for at in _places(chunk, _LONG.pack(log_offset_end)))
        else:  # zeros are everywhere, but the file has one message, and little else than zeros
            hashes_at = (at for at in range(0, len(chunk) - 3, 4) if any(chunk[at : at + 4]))
        for at in hashes_at:
            layout = _layout_with(size, chunk_at + at - newest * ENTRY_BYTES)
            if layout is not None:
                yield layout


def _places(chunk: bytes, wanted: bytes) -> Iterator[int]:
    at = chunk.find(wanted)
    while at >= 0:
        yield at
        at = chunk.find(wanted, at + 1)


def _guesses(size: int) -> Iterator[Layout]:
    if size == file_bytes(SLOTS, ENTRIES):
        yield Layout(SLOTS, ENTRIES)
    slots, rest = divmod(size - HEADER_BYTES, SLOT_BYTES + _ENTRIES_PER_SLOT * ENTRY_BYTES)
    if not rest and slots > 0:
        yield Layout(slots, slots * _ENTRIES_PER_SLOT)


def _layout_with(size: int, entries_at: int) -> Layout | None:
    """The layout of a file whose entries begin there, None if nothing can begin there."""
    slots, rest = divmod(entries_at - HEADER_BYTES, SLOT_BYTES)
    entries, rest_behind = divmod(size - entries_at, ENTRY_BYTES)
    return Layout(slots, entries) if slots > 0 and not rest and not rest_behind else None


def _begins_right(view: memoryview, layout: Layout) -> bool:
    """Whether the entry that is never used is empty and the first one is that of the header."""
    at = layout.entries_at
    (log_offset_begin,) = _LONG.unpack_from(view, 16)
    key_hash, log_offset, _, previous = _ENTRY.unpack_from(view, at + ENTRY_BYTES)
    is_first = key_hash > 0 and log_offset == log_offset_begin and not previous
    return is_first and not any(view[at : at + ENTRY_BYTES])


def _slot_of(
    view: memoryview, layout: Layout, newest: int, log_offset: int
) -> tuple[int, int] | None:
    """Where the slot of the newest entry leads, and the entry before it; None if it is no entry."""
    at = layout.entries_at + newest * ENTRY_BYTES
    if newest >= layout.entries or at + ENTRY_BYTES > len(view):
        return None
    key_hash, found, _, previous = _ENTRY.unpack_from(view, at)
    if found != log_offset or key_hash <= 0 or not 0 <= previous < newest:
        return None
    (number,) = _SLOT.unpack_from(view, HEADER_BYTES + key_hash % layout.slots * SLOT_BYTES)
    for _ in range(_CHAIN_MAX):  # a header may be older than the entries
        if not newest < number < layout.entries:
            break
        (number,) = _SLOT.unpack_from(view, layout.entries_at + (number + 1) * ENTRY_BYTES - 4)
    return number, previous
