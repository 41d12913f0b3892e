"""One mapped file: its content as memory, and the moment when that is on the disk."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from roketto.store.disk import Disk

__all__ = ["MappedFile"]

_PIECE_BYTES: Final = 1 << 20
_DETACHED_LEAST_BYTES: Final = 1 << 16
"""For a few pages it is not worth a call."""


class MappedFile:
    """One file mapped as a whole; ``view`` is its content, shared with every other reader of it."""

    __slots__ = ("_descriptor", "_disk", "_is_closing", "_lock", "_users", "path", "size", "view")

    def __init__(
        self, disk: Disk, path: Path, descriptor: int, size: int, *, writable: bool
    ) -> None:
        self.path = path
        self.size = size
        self.view = disk.map(descriptor, size, writable=writable)
        self._disk = disk
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._users = 0
        self._is_closing = False

    def data_spans(self, start: int) -> list[tuple[int, int]]:
        """The parts from ``start`` on that may hold something; all others are zeros for sure."""
        return self._disk.data_spans(self._descriptor, start, self.size)

    def expect(self, start: int, end: int) -> None:
        """Let the system have in memory what is going to be looked at or written to."""
        if self._enter():
            try:
                self._disk.expect(self._descriptor, start, end)
            finally:
                self._leave()

    def write_again(self, start: int, end: int) -> None:
        """Write what is there once more, so that the next sync brings all of it to the disk.

        A sync that failed may have left bytes in memory that the system takes for written.
        """
        while start < end:
            piece = bytes(self.view[start : min(end, start + _PIECE_BYTES)])
            start += self._disk.write(self._descriptor, memoryview(piece), start)

    def sync(self, start: int = 0, end: int = 0) -> None:
        """Return when everything written so far is on the disk; other threads run meanwhile.

        Between ``start`` and ``end`` nearly all of it was written, and little will be again.

        Once it has failed the content of the disk is unknown, and a second try proves nothing:
        the system may have forgotten what it could not write. A file that was closed needs no
        sync: it is only closed when it was synced, or to be removed.
        """
        if self._enter():
            try:
                if end - start >= _DETACHED_LEAST_BYTES:
                    self._disk.detach(self.view, start, end)
                self._disk.sync_mapped(self._descriptor, self.view)
            finally:
                self._leave()

    def _enter(self) -> bool:
        """Keep the file open for a call of this thread; False if it is closed."""
        with self._lock:
            if self._is_closing:
                return False
            self._users += 1
            return True

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            self._release_if_unused()

    def close(self) -> None:
        """Give the file back; slices that readers still hold keep the memory until they go.

        If another thread uses it, that gives it back. Closing it again does nothing.
        """
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
            self._release_if_unused()

    def _release_if_unused(self) -> None:
        if self._users or not self._is_closing:
            return
        with suppress(BufferError):  # not a slice but e.g. an array over the view itself
            self.view.release()
        self._disk.close(self._descriptor)
