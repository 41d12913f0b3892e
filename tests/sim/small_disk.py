"""A disk in memory that is full when a test says so: as a whole, or for some calls only.

    disk = SmallDisk(total_bytes=8 << 20)
    disk.taken_bytes = disk.usage(ROOT).free            # somebody else has taken the rest
    disk.refuses = lambda call: call.name == "write"    # or there is no room for just this
    assert disk.hits                                    # it was asked for room, and had none

Room is counted in pages, as a file system does: a hole takes none, and a file that was removed
gives its pages back.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from roketto.store.disk import Usage
from sim.disk import Call, CrashDisk

PAGE_BYTES: Final = 4_096

TAKING: Final = frozenset({"create", "make_directory", "reserve", "write"})
"""The calls that may need room; "create" is an "open" that makes a file."""


class SmallDisk(CrashDisk):
    """See the module. ``hits`` are the calls that found no room."""

    def __init__(self, total_bytes: int = 1 << 40) -> None:
        super().__init__()
        self.total_bytes = total_bytes
        self.taken_bytes = 0
        """What others have put on the disk."""
        self.refuses: Callable[[Call], bool] = lambda call: False
        """Whether there is no room for a call of TAKING, whatever is free."""
        self._pages: dict[Path, set[int]] = {}

    def usage(self, path: Path) -> Usage:
        used_bytes = self.taken_bytes + sum(map(len, self._pages.values())) * PAGE_BYTES
        return Usage(self.total_bytes, max(0, self.total_bytes - used_bytes))

    def open(self, path: Path | str, flags: int) -> int:
        if flags & os.O_CREAT and self._node(Path(path)) is None:
            self._take(Call("create", Path(path)))
        if flags & os.O_TRUNC:
            self._pages.pop(Path(path), None)
        return super().open(path, flags)

    def make_directory(self, path: Path | str) -> None:
        self._take(Call("make_directory", Path(path)))
        super().make_directory(path)

    def reserve(self, descriptor: int, size: int) -> None:
        self._take(Call("reserve", self._opened(descriptor).path, 0, size))
        super().reserve(descriptor, size)

    def write(self, descriptor: int, data: memoryview, offset: int) -> int:
        self._take(Call("write", self._opened(descriptor).path, offset, len(data)))
        return super().write(descriptor, data, offset)

    def remove_file(self, path: Path | str) -> None:
        super().remove_file(path)
        self._pages.pop(Path(path), None)

    def rename(self, path: Path, target: Path) -> None:
        super().rename(path, target)
        self._pages[target] = self._pages.pop(path, set())

    def _take(self, call: Call) -> None:
        """Count the pages of a call, or say that there is no room for them."""
        assert call.name in TAKING, call
        pages = set(range(call.offset // PAGE_BYTES, -(-(call.offset + call.size) // PAGE_BYTES)))
        new = pages - self._pages.get(call.path, set()) if call.size else set()
        is_full = len(new) * PAGE_BYTES > self.usage(call.path).free
        if is_full or self.refuses(call):
            self.hits.append(call)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))
        self._pages.setdefault(call.path, set()).update(new)
