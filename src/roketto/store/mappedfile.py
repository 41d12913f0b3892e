"""One mapped file: its content as memory, and the moment when that is on the disk."""

from contextlib import suppress
from pathlib import Path

from roketto.store.disk import Disk

__all__ = ["MappedFile"]


class MappedFile:
    """One file mapped as a whole; ``view`` is its content, shared with every other reader of it."""

    __slots__ = ("_descriptor", "_disk", "path", "size", "view")

    def __init__(
        self, disk: Disk, path: Path, descriptor: int, size: int, *, writable: bool
    ) -> None:
        self.path = path
        self.size = size
        self.view = disk.map(descriptor, size, writable=writable)
        self._disk = disk
        self._descriptor = descriptor

    def sync(self) -> None:
        """Return when everything written so far is on the disk; other threads run meanwhile.

        Once it has failed the content of the disk is unknown, and a second try proves nothing:
        the system may have forgotten what it could not write.
        """
        self._disk.sync_mapped(self._descriptor, self.view)

    def close(self) -> None:
        """Give the file back; slices that readers still hold keep the memory until they go.

        Not while another thread syncs it. Closing it again does nothing.
        """
        if self._descriptor < 0:
            return
        with suppress(BufferError):  # not a slice but e.g. an array over the view itself
            self.view.release()
        self._disk.close(self._descriptor)
        self._descriptor = -1
