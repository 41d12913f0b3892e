"""The file-system seam: every byte the store reads from or writes to a disk passes through here.

Three kinds of access:

* mapped files, at full length from the start, for the commit log and the index;
* reads and writes at an offset, through a bounded number of open descriptors, for consume queues;
* small files replaced as a whole, atomically, with the previous content kept beside them.

A full disk is a DiskFullError; whatever else the system refuses is its OSError. Tests give Files
another Disk, one that loses, tears or refuses any write.
"""

import errno
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from roketto.store.disk import Disk, Usage
from roketto.store.errors import DiskFullError, FileSizeError, StoreLockedError
from roketto.store.mappedfile import MappedFile

__all__ = ["BACKUP_SUFFIX", "FileLock", "Files", "MappedFile", "Usage"]

DESCRIPTORS_MAX: Final = 512
"""Descriptors kept open for reads and writes at an offset; the least recently used is closed."""

SMALL_BYTES_MAX: Final = 256 * 1024 * 1024
"""What is read as a whole: 100,000 topics, or a million consume offsets, take some 30 MB."""

BACKUP_SUFFIX: Final = ".bak"
"""Where the previous content of a small file is kept, by its name; as Java calls it."""

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_NOT_WRITABLE: Final = (errno.EACCES, errno.EROFS)


class FileLock:
    """An exclusive lock that ends with the process at the latest.

    The system drops it as soon as this process closes any descriptor of the file: read it never.
    """

    __slots__ = ("_descriptor", "_disk", "path")

    def __init__(self, disk: Disk, path: Path, descriptor: int) -> None:
        self.path = path
        self._disk = disk
        self._descriptor = descriptor

    def release(self) -> None:
        self._disk.unlock(self.path, self._descriptor)


class Files:
    """The files of a store.

    The methods that use kept descriptors (``read_at``, ``write_at``, ``remove``, ``remove_tree``,
    ``close``) belong to one thread; all others may run in any.
    """

    def __init__(self, descriptors_max: int = DESCRIPTORS_MAX, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()
        self._descriptors_max = descriptors_max
        self._descriptors: OrderedDict[Path, int] = OrderedDict()

    # --- names --------------------------------------------------------------------------------

    def make_directory(self, path: Path) -> None:
        """Make a directory with its parents, all of them durable; harmless if it is there."""
        if self._disk.find(path) is not None:
            return
        self.make_directory(path.parent)
        with self._room_for(path, 0), suppress(FileExistsError):  # another thread was faster
            self._disk.make_directory(path)
        self.sync_directory(path.parent)

    def names(self, directory: Path) -> list[str]:
        """The plain files of a directory, sorted; none if it does not exist."""
        return self._entries(directory, directories=False)

    def directories(self, directory: Path) -> list[str]:
        """The directories in a directory, sorted; none if it does not exist."""
        return self._entries(directory, directories=True)

    def _entries(self, directory: Path, *, directories: bool) -> list[str]:
        try:
            entries = self._disk.entries(directory)
        except FileNotFoundError:
            return []
        return sorted(name for name, is_directory in entries if is_directory == directories)

    def sync_directory(self, directory: Path) -> None:
        """Make names that were added, replaced or removed durable."""
        self._disk.sync_names(directory)

    def remove(self, path: Path) -> None:
        """Remove a file; harmless if it is not there. Durable after ``sync_directory``."""
        self._forget(path)
        self._disk.remove_file(path)

    def remove_tree(self, directory: Path) -> None:
        """Remove a directory and all that is in it; harmless if it is not there."""
        for path in [path for path in self._descriptors if path.is_relative_to(directory)]:
            self._forget(path)
        if self._disk.find(directory) is not None:
            self._disk.remove_tree(directory)

    def size(self, path: Path) -> int | None:
        """The length of a file, None if it is not there."""
        found = self._disk.find(path)
        return None if found is None else found.size

    def modified_ms(self, path: Path) -> int:
        """When a file was last written to; FileNotFoundError if it is not there."""
        found = self._disk.find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return found.modified_ms

    def usage(self, path: Path) -> Usage:
        """How full the file system of a path is."""
        return self._disk.usage(path)

    def lock(self, path: Path) -> FileLock:
        """Take the lock that Java takes, too; StoreLockedError if another broker has it."""
        descriptor = self._disk.lock(path)
        if descriptor is None:
            raise StoreLockedError(
                f"{path} is locked: another broker has this store open; stop it first"
            )
        lock = FileLock(self._disk, path, descriptor)
        try:
            with self._room_for(path, 4):
                self._write_all(descriptor, 0, b"lock")
        except BaseException:
            lock.release()
            raise
        return lock

    # --- mapped files -------------------------------------------------------------------------

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        """Make a file of ``size`` zero bytes, durable and with its space reserved, and map it.

        A hole in a mapped file would be a signal, not an error, when the disk is full.
        """
        with self._new_file(path, size) as descriptor:
            self._disk.reserve(descriptor, size)
            self._disk.sync(descriptor)
            self.sync_directory(path.parent)
            return MappedFile(self._disk, path, descriptor, size, writable=True)

    def open_mapped(self, path: Path, size: int, *, writable: bool = True) -> MappedFile:
        """Map an existing file, which must have this length; reserve what Java left as holes."""
        descriptor = self._disk.open(path, os.O_RDWR if writable else os.O_RDONLY)
        try:
            found = self._disk.length(descriptor)
            if found != size:
                raise FileSizeError(
                    f"{path} has {found} bytes, the configuration says {size}; "
                    "configure the size that the store was made with"
                )
            if writable:
                with self._room_for(path, size):
                    self._disk.reserve(descriptor, size)
            return MappedFile(self._disk, path, descriptor, size, writable=writable)
        except BaseException:
            self._disk.close(descriptor)
            raise

    @contextmanager
    def _new_file(self, path: Path, size: int) -> Iterator[int]:
        """A new file of zeros, gone again if what is done with it fails.

        Its length is set in one step before anything else: a crash leaves it empty or whole, and
        an empty one is what Java removes, too.
        """
        with self._room_for(path, size):
            descriptor = self._disk.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                self._disk.set_length(descriptor, size)
                yield descriptor
            except BaseException:
                self._disk.close(descriptor)
                self._disk.remove_file(path)
                raise

    # --- reads and writes at an offset --------------------------------------------------------

    def create_sparse(self, path: Path, size: int) -> None:
        """Make a file of full length without reserving its space; durable after both syncs."""
        with self._new_file(path, size) as descriptor:
            pass
        self._disk.close(descriptor)

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; fewer at the end of the file."""
        return self._disk.read(self._descriptor(path), size, offset)

    def write_at(self, path: Path, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of ``data``; after a DiskFullError a part of it may have been written."""
        descriptor = self._descriptor(path)
        try:
            self._write_all(descriptor, offset, data)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._no_room(path, len(data)) from error
            raise

    def sync(self, path: Path) -> None:
        """Return when everything written to ``path`` with ``write_at`` is on the disk.

        Through a descriptor of its own: the kept one may be closed, and its number given to
        another file, while this waits in a thread.
        """
        descriptor = self._disk.open(path, os.O_RDWR)
        try:
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def close(self) -> None:
        """Close the descriptors that were kept open."""
        for path in tuple(self._descriptors):
            self._forget(path)

    def _descriptor(self, path: Path) -> int:
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            self._descriptors.move_to_end(path)
            return descriptor
        if len(self._descriptors) >= self._descriptors_max:
            self._disk.close(self._descriptors.popitem(last=False)[1])
        try:
            descriptor = self._disk.open(path, os.O_RDWR)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            descriptor = self._disk.open(path, os.O_RDONLY)  # somebody looks at a foreign store
        self._descriptors[path] = descriptor
        return descriptor

    def _forget(self, path: Path) -> None:
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            self._disk.close(descriptor)

    def _write_all(
        self, descriptor: int, offset: int, data: bytes | bytearray | memoryview
    ) -> None:
        view = memoryview(data)
        while view:
            written = self._disk.write(descriptor, view, offset)
            offset += written
            view = view[written:]

    # --- small files --------------------------------------------------------------------------

    def read(self, path: Path) -> bytes | None:
        """The content of a small file, None if it is not there."""
        try:
            descriptor = self._disk.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            size = self._disk.length(descriptor)
            if size > SMALL_BYTES_MAX:
                raise FileSizeError(
                    f"{path} has {size} bytes, at most {SMALL_BYTES_MAX} are read; is it this file?"
                )
            return self._disk.read(descriptor, size, 0)
        finally:
            self._disk.close(descriptor)

    def replace(self, path: Path, data: bytes, *, keep_previous: bool = False) -> None:
        """Put ``data`` in place of a file's content; a crash leaves the one or the other whole.

        The previous content stays as ``<name>.bak`` if asked for.
        """
        self._forget(path)
        temporary = path.with_name(f"{path.name}.tmp")
        with self._room_for(path, len(data)):
            try:
                self._write_small(temporary, data)
                if keep_previous and self._disk.find(path) is not None:
                    self._keep(path)
                self._disk.rename(temporary, path)
            except OSError:
                self._disk.remove_file(temporary)
                raise
        self.sync_directory(path.parent)

    def _write_small(self, path: Path, data: bytes) -> None:
        descriptor = self._disk.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._write_all(descriptor, 0, data)
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def _keep(self, path: Path) -> None:
        """Give the content a second name, so that it has its first one until it is replaced."""
        backup = path.with_name(path.name + BACKUP_SUFFIX)
        self._forget(backup)
        self._disk.remove_file(backup)
        self._disk.link(path, backup)

    # --- a full disk --------------------------------------------------------------------------

    @contextmanager
    def _room_for(self, path: Path, size: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._no_room(path, size) from error
            raise

    def _no_room(self, path: Path, size: int) -> DiskFullError:
        usage = self.usage(path.parent)
        return DiskFullError(
            f"no room for {size} bytes of {path}: {usage.free} of {usage.total} bytes are free; "
            "delete data or lower fileReservedTime"
        )
