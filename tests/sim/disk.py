"""A disk in memory that can lose power: what was not synced may be kept, dropped or garbled.

What POSIX promises, and no more: the data and length of a file are durable once that file was
synced; a name that was added, replaced or removed is durable once its directory was synced. After
a sync has failed the system counts the data as written, so that the next sync succeeds without it.
"""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from roketto.store.disk import Disk, Found, Usage

SECTOR_BYTES: Final = 512
_BLOCK_BYTES: Final = 128 * SECTOR_BYTES
_FIRST_MS: Final = 1 << 45
"""When the first file is written, by this disk's clock: no file is old unless a test says so."""


class PowerLoss(BaseException):
    """The machine went off; nothing of ours runs any more, so nothing may catch it."""


class Short(NamedTuple):
    """A fault of a write: it takes only the first ``size`` bytes."""

    size: int


class Call(NamedTuple):
    """One system call."""

    name: str
    path: Path
    offset: int = 0
    size: int = 0


@dataclass(slots=True)
class Loss:
    """What a crash did to the unsynced state: the proof that it did anything."""

    sectors_dropped: int = 0
    sectors_garbled: int = 0
    bytes_dropped: int = 0
    lengths_dropped: int = 0
    names_dropped: int = 0

    @property
    def total(self) -> int:
        """Things that are not as they were."""
        return (
            self.sectors_dropped + self.sectors_garbled + self.lengths_dropped + self.names_dropped
        )


@dataclass(slots=True, eq=False)
class _File:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    modified_ms: int = 0
    forgotten: dict[int, bytes] = field(default_factory=dict)
    """Sectors that a sync failed to write; until they are written again, no sync will write them.
    A write through a mapping shows only if it changes something."""

    def sync(self) -> None:
        if not self.forgotten:
            self.durable = bytes(self.content)
            return
        written = bytearray(self.content)
        for start, lost in list(self.forgotten.items()):
            end = start + SECTOR_BYTES
            if self.content[start:end] == lost:
                written[start:end] = self.durable[start:end].ljust(len(lost), b"\0")
            else:
                del self.forgotten[start]
        self.durable = bytes(written)

    def fail_sync(self) -> None:
        for start in changed_sectors(self.durable, self.content):
            self.forgotten[start] = bytes(self.content[start : start + SECTOR_BYTES])

    def grow(self, size: int) -> None:
        if size > len(self.content):
            self.content.extend(bytes(size - len(self.content)))


@dataclass(slots=True, eq=False)
class _Directory:
    entries: "dict[str, _File | _Directory]" = field(default_factory=dict)
    unsynced: "dict[str, list[_File | _Directory | None]]" = field(default_factory=dict)
    """What each changed name has stood for since the last sync: first durable, last current."""

    def put(self, name: str, node: "_File | _Directory | None") -> None:
        self.unsynced.setdefault(name, [self.entries.get(name)]).append(node)
        if node is None:
            del self.entries[name]
        else:
            self.entries[name] = node


@dataclass(slots=True)
class _Open:
    path: Path
    file: _File
    writable: bool


class CrashDisk(Disk):
    """See the module. ``calls`` are all calls so far; faults are for one of them by its number."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.hits: list[Call] = []
        """The calls that a fault has hit."""
        self.usage_now = Usage(1 << 40, 1 << 39)
        self.loss = Loss()
        """What the crash that led to this disk has discarded."""
        self._faults: dict[int, BaseException | Short] = {}
        self._off = False
        self._root = _Directory()
        self._open: dict[int, _Open] = {}
        self._next_descriptor = 1_000_000
        self._locks: set[Path] = set()
        self._now_ms = _FIRST_MS

    # --- faults -------------------------------------------------------------------------------

    def fail_call(self, number: int, fault: BaseException | Short) -> None:
        """Make call ``number`` raise, or write too little; the next one is len(calls) + 1."""
        assert number > len(self.calls), f"call {number} is past, there were {len(self.calls)}"
        self._faults[number] = fault

    def _called(self, name: str, path: Path, offset: int = 0, size: int = 0) -> int | None:
        """Log a call and raise its fault; the size that a short write is to take, if any."""
        if self._off:
            raise PowerLoss
        call = Call(name, path, offset, size)
        self.calls.append(call)
        fault = self._faults.pop(len(self.calls), None)
        if fault is None or (isinstance(fault, Short) and name != "write"):
            return None
        self.hits.append(call)
        if isinstance(fault, Short):
            return fault.size
        self._off = isinstance(fault, PowerLoss)
        raise fault

    def crash(self, seed: int, *, keep: float = 0.5, garble: float = 0.0) -> "CrashDisk":
        """The disk as it could be found after power loss now; this one stays as it is.

        Each unsynced sector, length and name is kept with probability ``keep``; a sector that is
        not is garbled with probability ``garble``, in the bytes that were not synced.
        """
        return _Crash(Random(seed), keep, garble).disk(self._root)

    # --- open files ---------------------------------------------------------------------------

    @property
    def descriptors_open(self) -> int:
        return len(self._open)

    def open(self, path: Path | str, flags: int) -> int:
        path = _path(path)
        self._called("open", path)
        writable = flags & (os.O_RDWR | os.O_WRONLY) != 0
        directory = self._directory(path.parent)
        node = directory.entries.get(path.name)
        if node is not None and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            node = _File(modified_ms=self._tick())
            directory.put(path.name, node)
        if flags & os.O_TRUNC:
            node.content = bytearray()
        self._next_descriptor += 1
        self._open[self._next_descriptor] = _Open(path, node, writable)
        return self._next_descriptor

    def close(self, descriptor: int) -> None:
        del self._open[descriptor]

    def length(self, descriptor: int) -> int:
        opened = self._opened(descriptor)
        self._called("length", opened.path)
        return len(opened.file.content)

    def set_length(self, descriptor: int, size: int) -> None:
        opened = self._opened(descriptor)
        self._called("set_length", opened.path, 0, size)
        del opened.file.content[size:]
        opened.file.grow(size)

    def reserve(self, descriptor: int, size: int) -> None:
        opened = self._opened(descriptor)
        self._called("reserve", opened.path, 0, size)
        opened.file.grow(size)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        opened = self._opened(descriptor)
        self._called("read", opened.path, offset, size)
        return bytes(opened.file.content[offset : offset + size])

    def write(self, descriptor: int, data: memoryview, offset: int) -> int:
        opened = self._opened(descriptor)
        short = self._called("write", opened.path, offset, len(data))
        if not opened.writable:
            raise _error(errno.EBADF, opened.path)
        taken = bytes(data[:short])
        opened.file.grow(offset + len(taken))
        opened.file.content[offset : offset + len(taken)] = taken
        first = offset - offset % SECTOR_BYTES
        for start in range(first, offset + len(taken), SECTOR_BYTES):
            opened.file.forgotten.pop(start, None)
        opened.file.modified_ms = self._tick()
        return len(taken)

    def map(self, descriptor: int, size: int, *, writable: bool) -> memoryview:
        opened = self._opened(descriptor)
        self._called("map", opened.path, 0, size)
        assert size == len(opened.file.content), "touching memory past the end would be a signal"
        view = memoryview(opened.file.content)
        return view if writable else view.toreadonly()

    def data_spans(self, descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
        """The sectors that are not all zeros: holes where they are, and no kindness beyond."""
        opened = self._opened(descriptor)
        self._called("data_spans", opened.path, start, end - start)
        sectors = changed_sectors(b"", opened.file.content)
        spans = [(max(at, start), min(at + SECTOR_BYTES, end)) for at in sectors]
        return [(begin, stop) for begin, stop in spans if begin < stop]

    def expect(self, descriptor: int, start: int, end: int) -> None:
        """All of it is in memory."""

    def detach(self, view: memoryview, start: int, end: int) -> None:
        """There is but one memory."""

    def sync(self, descriptor: int) -> None:
        self._sync("sync", descriptor)

    def sync_mapped(self, descriptor: int, view: memoryview) -> None:
        self._sync("sync_mapped", descriptor)

    def _sync(self, name: str, descriptor: int) -> None:
        opened = self._opened(descriptor)
        try:
            self._called(name, opened.path, 0, len(opened.file.content))
        except OSError:
            opened.file.fail_sync()
            raise
        opened.file.sync()

    # --- names --------------------------------------------------------------------------------

    def open_directory(self, directory: Path | str) -> int:
        directory = _path(directory)
        self._called("open_directory", directory)
        self._directory(directory)
        self._next_descriptor += 1
        self._open[self._next_descriptor] = _Open(directory, _File(), writable=False)
        return self._next_descriptor

    def sync_file_system(self, descriptor: int) -> bool:
        try:
            self._called("sync_file_system", self._opened(descriptor).path)
        except OSError:
            self._each_file(self._root, _File.fail_sync)
            raise
        self._each_file(self._root, _File.sync)
        return True

    def _each_file(self, directory: _Directory, do: Callable[[_File], None]) -> None:
        """Every file below, and if it is synced every name."""
        for node in directory.entries.values():
            if isinstance(node, _Directory):
                self._each_file(node, do)
            else:
                do(node)
        if do is _File.sync:
            directory.unsynced.clear()

    def find(self, path: Path | str) -> Found | None:
        path = _path(path)
        self._called("find", path)
        node = self._node(path)
        if isinstance(node, _File):
            return Found(len(node.content), node.modified_ms)
        return None if node is None else Found(0, 0)

    def entries(self, directory: Path | str) -> list[tuple[str, bool]]:
        directory = _path(directory)
        self._called("entries", directory)
        found = self._directory(directory).entries
        return [(name, isinstance(node, _Directory)) for name, node in found.items()]

    def make_directory(self, path: Path | str) -> None:
        path = _path(path)
        self._called("make_directory", path)
        directory = self._directory(path.parent)
        if path.name in directory.entries:
            raise _error(errno.EEXIST, path)
        directory.put(path.name, _Directory())

    def remove_file(self, path: Path | str) -> None:
        path = _path(path)
        self._called("remove_file", path)
        node = self._node(path)
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        if node is not None:
            self._directory(path.parent).put(path.name, None)

    def remove_tree(self, directory: Path) -> None:
        self._called("remove_tree", directory)
        self._remove_entries(self._directory(directory))
        self._directory(directory.parent).put(directory.name, None)

    def _remove_entries(self, directory: _Directory) -> None:
        for name, node in list(directory.entries.items()):
            if isinstance(node, _Directory):
                self._remove_entries(node)
            directory.put(name, None)

    def link(self, path: Path, also: Path) -> None:
        self._called("link", path)
        node = self._node(path)
        directory = self._directory(also.parent)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, _Directory):
            raise _error(errno.EPERM, path)
        if also.name in directory.entries:
            raise _error(errno.EEXIST, also)
        directory.put(also.name, node)

    def rename(self, path: Path, target: Path) -> None:
        self._called("rename", path)
        node = self._node(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        directory = self._directory(target.parent)
        if isinstance(directory.entries.get(target.name), _Directory):
            raise _error(errno.EISDIR, target)
        directory.put(target.name, node)
        self._directory(path.parent).put(path.name, None)

    def sync_names(self, directory: Path | str) -> None:
        directory = _path(directory)
        self._called("sync_names", directory)
        self._directory(directory).unsynced.clear()

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """Say when a file was last written to."""
        node = self._node(path)
        assert isinstance(node, _File), f"there is no file {path}"
        node.modified_ms = modified_ms

    def usage(self, path: Path) -> Usage:
        return self.usage_now

    def lock(self, path: Path) -> int | None:
        if path in self._locks:
            return None
        descriptor = self.open(path, os.O_RDWR | os.O_CREAT)
        self._locks.add(path)
        return descriptor

    def unlock(self, path: Path, descriptor: int) -> None:
        self._locks.discard(path)
        self.close(descriptor)

    # --- lookups ------------------------------------------------------------------------------

    def _node(self, path: Path) -> _File | _Directory | None:
        node: _File | _Directory | None = self._root
        for part in path.parts[1:]:
            if isinstance(node, _File):
                raise _error(errno.ENOTDIR, path)
            if node is None:
                return None
            node = node.entries.get(part)
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._node(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, _File):
            raise _error(errno.ENOTDIR, path)
        return node

    def _opened(self, descriptor: int) -> _Open:
        opened = self._open.get(descriptor)
        if opened is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return opened

    def _tick(self) -> int:
        self._now_ms += 1
        return self._now_ms


class _Crash:
    """Decides for everything unsynced, in an order that depends on the disk's content only."""

    def __init__(self, random: Random, keep: float, garble: float) -> None:
        self._random = random
        self._keep = keep
        self._garble = garble
        self._disk = CrashDisk()
        self._seen: dict[_File | _Directory, _File | _Directory] = {}

    def disk(self, root: _Directory) -> CrashDisk:
        self._disk._root = self._found_directory(root)
        return self._disk

    def _kept(self) -> bool:
        return self._random.random() < self._keep

    def _found_directory(self, directory: _Directory) -> _Directory:
        found = _Directory()
        for name in sorted({*directory.entries, *directory.unsynced}):
            history = directory.unsynced.get(name) or [directory.entries[name]]
            node = history[-1]
            if len(history) > 1 and not self._kept():
                node = self._random.choice(history[:-1])
                self._disk.loss.names_dropped += node is not history[-1]
            if node is not None:
                found.entries[name] = self._found(node)
        return found

    def _found(self, node: _File | _Directory) -> _File | _Directory:
        found = self._seen.get(node)  # one file may have several names
        if found is None:
            if isinstance(node, _File):
                found = self._found_file(node)
            else:
                found = self._found_directory(node)
            self._seen[node] = found
        return found

    def _found_file(self, file: _File) -> _File:
        length = len(file.content)
        if length != len(file.durable) and not self._kept():
            length = len(file.durable)
            self._disk.loss.lengths_dropped += 1
        found = bytearray(file.content[:length].ljust(length, b"\0"))
        for start in changed_sectors(file.durable, file.content):
            if start >= length or not self._kept():
                self._spoil(found, file, start)
        return _File(found, bytes(found), file.modified_ms)

    def _spoil(self, found: bytearray, file: _File, start: int) -> None:
        """Drop or garble a sector as far as the file goes; synced bytes in it stay."""
        old, new = _sector(file.durable, start), _sector(file.content, start)
        changed = [n for n in range(SECTOR_BYTES) if old[n] != new[n]]
        size = max(0, min(SECTOR_BYTES, len(found) - start))
        if size and self._random.random() < self._garble:
            self._disk.loss.sectors_garbled += 1
            for n in changed:
                if n < size:
                    found[start + n] = self._random.randrange(256)
        else:
            self._disk.loss.sectors_dropped += 1
            self._disk.loss.bytes_dropped += len(changed)
            found[start : start + size] = old[:size]


def changed_sectors(old: bytes, new: bytes | bytearray) -> Iterator[int]:
    """Where the sectors start in which two contents differ; past its end a file is zeros."""
    size = max(len(old), len(new))
    for block in range(0, size, _BLOCK_BYTES):
        if old[block : block + _BLOCK_BYTES] == new[block : block + _BLOCK_BYTES]:
            continue
        for start in range(block, min(block + _BLOCK_BYTES, size), SECTOR_BYTES):
            if _sector(old, start) != _sector(new, start):
                yield start


def _sector(content: bytes | bytearray, start: int) -> bytes:
    return bytes(content[start : start + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")


def _path(path: Path | str) -> Path:
    return _parsed(path) if isinstance(path, str) else path


@lru_cache(1_024)
def _parsed(path: str) -> Path:
    """Lives name the same files over and over; to parse a name takes longer than to find it."""
    return Path(path)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
