"""One preallocated file of a run, named by the offset of its first byte.

::

    00000000001073741824        20 decimal digits: this file begins at offset 1073741824
"""

import re
from pathlib import Path
from typing import Final

from roketto.store.errors import StoreError
from roketto.store.files import Files, MappedFile

NAME_DIGITS: Final = 20
"""Enough for any signed 64-bit offset, and names sort as their numbers do."""

_NAME: Final = re.compile(f"[0-9]{{{NAME_DIGITS}}}")


class Segment:
    """One file of a run. Bytes ``start`` to ``end`` of the run lie in it; it is mapped or not.

    Only ``mapped`` ever changes, and only its run changes it.
    """

    __slots__ = ("end", "mapped", "path", "start")

    def __init__(self, path: Path, start: int, size: int, mapped: MappedFile | None = None) -> None:
        self.path: Path = path
        self.start: int = start
        self.end: int = start + size
        self.mapped: MappedFile | None = mapped

    def map(self, files: Files, *, writable: bool) -> memoryview:
        """The content, mapped now if it is not; a writable map serves readers, too."""
        mapped = self.mapped
        if mapped is not None:
            if not (writable and mapped.view.readonly):
                return mapped.view
            self.unmap()
        mapped = files.open_mapped(self.path, self.end - self.start, writable=writable)
        self.mapped = mapped
        return mapped.view

    def unmap(self) -> None:
        """Give the map back; views that readers hold stay good until they let go of them."""
        if self.mapped is not None:
            self.mapped.close()
            self.mapped = None

    def __repr__(self) -> str:
        return f"<Segment {self.path} to {self.end}>"


def segment_name(start: int) -> str:
    """The name of the file that begins at ``start``."""
    return f"{start:0{NAME_DIGITS}d}"


def parse_segment_name(path: Path) -> int:
    """Where the file at ``path`` begins; StoreError if its name is not that of a segment."""
    if not _NAME.fullmatch(path.name):
        raise StoreError(
            f"{path} does not belong here: files of this directory are named by an offset of"
            f" {NAME_DIGITS} digits; move it elsewhere"
        )
    return int(path.name)


def create_segment(files: Files, directory: Path, start: int, size: int) -> Segment:
    """Make the file that begins at ``start``: zeros, its space reserved, mapped for writing."""
    path = directory / segment_name(start)
    return Segment(path, start, size, files.create_mapped(path, size))
