"""The system calls of the store as one object, for which a test can put a simulated disk.

What differs between platforms is decided here. Linux syncs data without the file's times, and with
it what was written through a mapping; macOS has neither that call nor one that reserves space, and
its ``fsync`` leaves the data in the drive's cache.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)  # macOS
_NO_HOLES: Final = (errno.EINVAL, errno.EOPNOTSUPP)
"""What file systems say that do not know where their files have holes."""

_SYNCFS_TELLS_SINCE: Final = (5, 8)
"""The first Linux whose syncfs returns an error if data could not be written."""


def find_syncfs(platform: str, release: str) -> Callable[[int], int] | None:
    """Linux's call that syncs a whole file system; None where it is missing or keeps errors back.

    >>> find_syncfs("linux", "5.4.0-generic") is find_syncfs("darwin", "23.1.0") is None
    True
    """
    parts = release.split(".")[:2]
    if platform != "linux" or not all(part.isdecimal() for part in parts):
        return None
    if tuple(map(int, parts)) < _SYNCFS_TELLS_SINCE:
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


_DETACHED_BYTES: Final = 1 << 20
"""As much at once as other threads can wait for."""

_SYNCFS: Final = find_syncfs(sys.platform, os.uname().release)


class Found(NamedTuple):
    """What is known of a name without opening it."""

    size: int
    modified_ms: int


class Usage(NamedTuple):
    """How full a file system is, in bytes, leaving out what only root may use."""

    total: int
    free: int

    @property
    def used_percent(self) -> int:
        """Rounded up, as Java does; 0 for a virtual one that does not say how large it is."""
        return -(-(self.total - self.free) * 100 // self.total) if self.total else 0


class Disk:
    """The real disk. Every method may be called from any thread."""

    _locked: ClassVar[set[Path]] = set()

    # --- open files ---------------------------------------------------------------------------

    def open(self, path: Path | str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def length(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def set_length(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def reserve(self, descriptor: int, size: int) -> None:
        """Fill the holes of the first ``size`` bytes, where the system can; the content stays."""
        if not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        return os.pread(descriptor, size, offset)

    def write(self, descriptor: int, data: memoryview, offset: int) -> int:
        return os.pwrite(descriptor, data, offset)

    def map(self, descriptor: int, size: int, *, writable: bool) -> memoryview:
        """The content as memory; unmapped with the last view of it."""
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        return memoryview(mmap.mmap(descriptor, size, access=access))

    def data_spans(self, descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
        """The parts between two offsets that may hold something; all others are zeros for sure.

        What was reserved and never written is not read for this, nor is a hole.
        """
        spans: list[tuple[int, int]] = []
        while start < end:
            try:
                start = os.lseek(descriptor, start, os.SEEK_DATA)
                stop = os.lseek(descriptor, start, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                    break
                if error.errno not in _NO_HOLES:
                    raise
                stop = end
            if start < end:
                spans.append((start, min(stop, end)))
            start = stop
        return spans

    def expect(self, descriptor: int, start: int, end: int) -> None:
        """Begin to read what somebody is going to look at, all of it and soon, and do not wait.

        Through a map, the system reads some pages around each that is touched.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_WILLNEED)

    def sync(self, descriptor: int) -> None:
        """Return when what was written to the file, and its length, are on the disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        elif _FULL_SYNC is not None:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        else:
            os.fsync(descriptor)

    def sync_mapped(self, descriptor: int, view: memoryview) -> None:
        """Return when what was written through ``view``, which ``map`` gave, is on the disk."""
        if not hasattr(os, "fdatasync"):
            mapping = view.obj
            assert isinstance(mapping, mmap.mmap)
            mapping.flush()
        self.sync(descriptor)

    def detach(self, view: memoryview, start: int, end: int) -> None:
        """Let the system know at once of all pages of a map that were written to.

        A sync takes the right to write to them from the process one by one, and interrupts who is
        writing for each. Of those that are not mapped there is nothing to take; who looks at them
        again gets them back from the system's memory, some at a time. Where the system refuses,
        as for memory that somebody has locked, a sync only takes longer.
        """
        mapping = view.obj
        if sys.platform != "linux" or not isinstance(mapping, mmap.mmap):
            return
        for at in range(start - start % mmap.PAGESIZE, end, _DETACHED_BYTES):
            with suppress(OSError):
                mapping.madvise(mmap.MADV_DONTNEED, at, min(_DETACHED_BYTES, end - at))

    def sync_file_system(self, descriptor: int) -> bool:
        """Return when all files and names of a file system are on the disk; False if nobody can.

        Of writes that failed it tells those since the descriptor was opened.
        """
        if _SYNCFS is None:
            return False
        if _SYNCFS(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return True

    # --- names --------------------------------------------------------------------------------

    def find(self, path: Path | str) -> Found | None:
        """What ``path`` leads to, None if there is nothing."""
        try:
            found = os.stat(path)  # noqa: PTH116 - a third of the time of Path.stat
        except FileNotFoundError:
            return None
        return Found(found.st_size, found.st_mtime_ns // 1_000_000)

    def entries(self, directory: Path | str) -> list[tuple[str, bool]]:
        """Each file and directory in a directory, and whether it is a directory."""
        with os.scandir(directory) as found:
            return [(e.name, is_dir) for e in found if (is_dir := e.is_dir()) or e.is_file()]

    def make_directory(self, path: Path | str) -> None:
        os.mkdir(path)  # noqa: PTH102 - of queues there are many, and strings are faster

    def remove_file(self, path: Path | str) -> None:
        """Remove a file; harmless if it is not there."""
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - as above

    def remove_tree(self, directory: Path) -> None:
        shutil.rmtree(directory)

    def link(self, path: Path, also: Path) -> None:
        os.link(path, also)

    def rename(self, path: Path, target: Path) -> None:
        path.replace(target)

    def open_directory(self, directory: Path | str) -> int:
        """A descriptor that stands for a directory, or for the file system that it is on."""
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def sync_names(self, directory: Path | str) -> None:
        """Return when names that were added, replaced or removed are on the disk as they are."""
        descriptor = self.open_directory(directory)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def usage(self, path: Path) -> Usage:
        found = os.statvfs(path)
        total = found.f_blocks - found.f_bfree + found.f_bavail
        return Usage(total * found.f_frsize, found.f_bavail * found.f_frsize)

    # --- locks --------------------------------------------------------------------------------

    def lock(self, path: Path) -> int | None:
        """Open a file and lock its first byte, as Java does; None if somebody else has it.

        The system does not keep a process from taking its own lock twice, and would drop the lock
        as soon as the second descriptor is closed. So this process keeps a list, and looks first.
        """
        path = path.resolve()
        if path in self._locked:
            return None
        descriptor = self.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            return None
        self._locked.add(path)
        return descriptor

    def unlock(self, path: Path, descriptor: int) -> None:
        self._locked.discard(path.resolve())
        os.close(descriptor)
