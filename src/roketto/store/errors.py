"""What can go wrong in the store, as its callers see it.

Whoever answers a request turns these into a response code; the text is the reason that a user
reads, so it names the file, the value, the bound and the remedy.
"""

from pathlib import Path


class StoreError(Exception):
    """The base of all errors of the store."""


class StoreLockedError(StoreError):
    """Another process has this store open."""


class DiskFullError(StoreError):
    """There is no room for what should be written; none of it counts as written."""


class StoreReadOnlyError(StoreError):
    """The store takes no more messages: it was closed, or a write to disk has failed."""


class TableFullError(StoreError):
    """A table takes no more entries, or not one of that size; it is as it was before."""


class FileSizeError(StoreError):
    """A file does not have the length that the configuration asks for."""


class CorruptStoreError(StoreError):
    """Bytes that were written and synced are not what they were; ``path`` and ``offset`` say where.

    Never repaired by cutting: what lies behind them may be sound.
    """

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason
