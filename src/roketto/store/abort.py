"""The abort mark: a file that is there while a broker runs, and left behind when it crashes."""

from pathlib import Path

from roketto.store.files import Files

__all__ = ["AbortMark"]


class AbortMark:
    """``<root>/abort``. Found before ``set``, it says that the last stop was not a clean one."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path

    @property
    def is_set(self) -> bool:
        return self._files.size(self._path) is not None

    def set(self, process_id: int) -> None:
        """Leave the mark, durably, before the first byte of the store is changed."""
        self._files.replace(self._path, str(process_id).encode())

    def clear(self) -> None:
        """Take it away, durably, after everything else is on the disk."""
        self._files.remove(self._path)
        self._files.sync_directory(self._path.parent)
