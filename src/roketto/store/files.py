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
from roketto.store.worker import Worker

__all__ = ["BACKUP_SUFFIX", "FileLock", "Files", "MappedFile", "Usage"]

DESCRIPTORS_MAX: Final = 512
"""Descriptors kept open for reads and writes at an offset; the least recently used is closed."""

SMALL_BYTES_MAX: Final = 256 * 1024 * 1024
"""What is read as a whole: 100,000 topics, or a million consume offsets, take some 30 MB."""

BACKUP_SUFFIX: Final = ".bak"
"""Where the previous content of a small file is kept, by its name; as Java calls it."""

_LOCK_TEXT: Final = b"LOCK"
"""Every start of a Java broker writes ``lock`` there."""
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""What file systems without hard links answer."""
_NOT_WRITABLE: Final = (errno.EACCES, errno.EROFS)


class FileLock:
    """An exclusive lock that ends with the process at the latest.

    The system drops it as soon as this process closes any descriptor of the file: read it never.
    """

    __slots__ = ("_disk", "descriptor", "is_ours", "path")

    def __init__(self, disk: Disk, path: Path, descriptor: int) -> None:
        self.path = path
        self.is_ours = disk.read(descriptor, len(_LOCK_TEXT), 0) == _LOCK_TEXT
        """Whether one of ours was the last to use the store: Java's write another text."""
        self.descriptor = descriptor
        self._disk = disk

    def release(self) -> None:
        self._disk.unlock(self.path, self.descriptor)


class Files:
    """The files of a store.

    The methods that use kept descriptors (``create_sparse``, ``read_at``, ``write_at``, ``remove``,
    ``remove_tree``, ``close``) belong to one thread; all others may run in any.
    """

    def __init__(self, descriptors_max: int = DESCRIPTORS_MAX, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()
        self._descriptors_max = descriptors_max
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._file_systems: dict[Path, int] = {}

    def make_worker(self) -> Worker:
        """The thread for what blocks; where the disk is simulated, so is the thread."""
        return Worker()

    # --- names --------------------------------------------------------------------------------

    def make_directory(self, path: Path) -> None:
        """Make a directory with its parents, all of them durable; harmless if it is there."""
        if self._disk.find(path) is not None:
            return
        self.make_directory(path.parent)
        with self._room_for(path, 0), suppress(FileExistsError):  # another thread was faster
            self._disk.make_directory(path)
        self.sync_directory(path.parent)

    def add_directory(self, path: str) -> None:
        """Make a directory with its parents; durable after a sync of each directory it is in."""
        with self._room_for(path, 0), suppress(FileExistsError):
            try:
                self._disk.make_directory(path)
            except FileNotFoundError:
                self.add_directory(os.path.dirname(path))  # noqa: PTH120 - a string stays one
                self._disk.make_directory(path)

    def names(self, directory: Path | str) -> list[str]:
        """The plain files of a directory, sorted; none if it does not exist."""
        return self._entries(directory, directories=False)

    def directories(self, directory: Path | str) -> list[str]:
        """The directories in a directory, sorted; none if it does not exist."""
        return self._entries(directory, directories=True)

    def _entries(self, directory: Path | str, *, directories: bool) -> list[str]:
        try:
            entries = self._disk.entries(directory)
        except FileNotFoundError:
            return []
        return sorted(name for name, is_directory in entries if is_directory == directories)

    def sync_directory(self, directory: Path | str) -> None:
        """Make names that were added, replaced or removed durable."""
        self._disk.sync_names(directory)

    def watch_file_system(self, directory: Path) -> None:
        """Let ``sync_file_system`` tell of every write that fails from now on.

        The system tells of such failures those who had something open by then.
        """
        if directory not in self._file_systems:
            with suppress(FileNotFoundError):
                self._file_systems[directory] = self._disk.open_directory(directory)

    def sync_file_system(self, directory: Path) -> bool:
        """Make all files and names below a directory durable, and whatever else is on its disk.

        One call for what else takes thousands; False where the system cannot do this.
        """
        self.watch_file_system(directory)
        return self._disk.sync_file_system(self._file_systems[directory])

    def remove(self, path: Path | str) -> None:
        """Remove a file; harmless if it is not there. Durable after ``sync_directory``."""
        self._forget(path)
        self._disk.remove_file(path)

    def unlink(self, path: Path) -> None:
        """Remove a mapped file for good; harmless if it is not there. May block for long."""
        self._disk.remove_file(path)
        self.sync_directory(path.parent)

    def remove_tree(self, directory: Path) -> None:
        """Remove a directory and all that is in it; harmless if it is not there."""
        inside = f"{directory}{os.sep}"
        for path in [path for path in self._descriptors if path.startswith(inside)]:
            self._forget(path)
        if self._disk.find(directory) is not None:
            self._disk.remove_tree(directory)

    def size(self, path: Path | str) -> int | None:
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
        try:
            return FileLock(self._disk, path, descriptor)
        except BaseException:
            self._disk.unlock(path, descriptor)
            raise

    def claim(self, lock: FileLock) -> None:
        """Say in the lock's file, durably, that the store is as one of ours has left it."""
        if not lock.is_ours:
            with self._room_for(lock.path, len(_LOCK_TEXT)):
                self._write_all(lock.descriptor, 0, _LOCK_TEXT)
                self._disk.sync(lock.descriptor)
            self.sync_directory(lock.path.parent)
            lock.is_ours = True

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

    def rename_mapped(self, mapped: MappedFile, path: Path) -> None:
        """Give a mapped file another name in its directory; durable after ``sync_directory``."""
        with self._room_for(path, 0):
            self._disk.rename(mapped.path, path)
        mapped.path = path

    def expect(self, path: Path) -> None:
        """Let the system read a file ahead that is going to be mapped and looked at as a whole.

        Its holes are left out. Harmless if it is not there.
        """
        try:
            descriptor = self._disk.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            for start, end in self._disk.data_spans(descriptor, 0, self._disk.length(descriptor)):
                self._disk.expect(descriptor, start, end)
        finally:
            self._disk.close(descriptor)

    @contextmanager
    def _new_file(self, path: Path | str, size: int) -> Iterator[int]:
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

    def create_sparse(self, path: Path | str, size: int) -> None:
        """Make a file of full length without reserving its space; durable after both syncs."""
        with self._new_file(path, size) as descriptor:
            pass
        self._keep_open(os.fspath(path), descriptor)

    def length(self, path: Path | str) -> int:
        """The length of a file that is going to be read; FileNotFoundError if it is not there."""
        return self._disk.length(self._descriptor(path))

    def data_spans(self, path: Path | str, start: int, end: int) -> list[tuple[int, int]]:
        """The parts between two offsets that may hold something; all others are zeros for sure."""
        return self._disk.data_spans(self._descriptor(path), start, end)

    def read_at(self, path: Path | str, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; fewer at the end of the file."""
        return self._disk.read(self._descriptor(path), size, offset)

    def write_at(self, path: Path | str, offset: int, data: bytes | bytearray | memoryview) -> bool:
        """Write all of ``data``; after a DiskFullError a part of it may have been written.

        Whether the file had to be opened: so it is where more files are in use than are kept open.
        It is closed again then: thousands are written in turn, and each would only put out one that
        will be written or read sooner.
        """
        name = os.fspath(path)
        if name in self._descriptors or len(self._descriptors) < self._descriptors_max:
            was_open = name in self._descriptors
            self._write_to(self._descriptor(name), path, offset, data)
            return not was_open
        descriptor = self._disk.open(path, os.O_RDWR)
        try:
            self._write_to(descriptor, path, offset, data)
        finally:
            self._disk.close(descriptor)
        return True

    def _write_to(
        self, descriptor: int, path: Path | str, offset: int, data: bytes | bytearray | memoryview
    ) -> None:
        try:
            self._write_all(descriptor, offset, data)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._no_room(path, len(data)) from error
            raise

    def sync(self, path: Path | str) -> None:
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
        while self._file_systems:
            self._disk.close(self._file_systems.popitem()[1])

    def _descriptor(self, path: Path | str) -> int:
        name = os.fspath(path)
        descriptor = self._descriptors.get(name)
        if descriptor is not None:
            self._descriptors.move_to_end(name)
            return descriptor
        try:
            descriptor = self._disk.open(path, os.O_RDWR)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            descriptor = self._disk.open(path, os.O_RDONLY)  # somebody looks at a foreign store
        self._keep_open(name, descriptor)
        return descriptor

    def _keep_open(self, name: str, descriptor: int) -> None:
        if len(self._descriptors) >= self._descriptors_max:
            self._disk.close(self._descriptors.popitem(last=False)[1])
        self._descriptors[name] = descriptor

    def _forget(self, path: Path | str) -> None:
        descriptor = self._descriptors.pop(os.fspath(path), None)
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
        """Give the content a second name, so that it has its first one until it is replaced.

        The backup before it goes when this one is there: at no moment there is but one copy.
        """
        backup = path.with_name(path.name + BACKUP_SUFFIX)
        self._forget(backup)
        fresh = backup.with_name(f"{backup.name}.tmp")
        self._disk.remove_file(fresh)
        try:
            try:
                self._disk.link(path, fresh)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self._write_small(fresh, self.read(path) or b"")
            self._disk.rename(fresh, backup)
        except OSError:
            self._disk.remove_file(fresh)
            raise

    # --- a full disk --------------------------------------------------------------------------

    @contextmanager
    def _room_for(self, path: Path | str, size: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._no_room(path, size) from error
            raise

    def _no_room(self, path: Path | str, size: int) -> DiskFullError:
        usage = self.usage(Path(path).parent)
        return DiskFullError(
            f"no room for {size} bytes of {path}: {usage.free} of {usage.total} bytes are free; "
            "delete data or lower fileReservedTime"
        )
