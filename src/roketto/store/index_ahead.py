"""The next file of the index, made by the worker before the owner needs it.

Its space is reserved and synced, 420 MB at Java's sizes: that long nobody could append. Until it is
used it is called ``next``. A broker of Java's takes every number in the directory for a file of its
index, and a blank one, as the newest, would hide all others from its queries. What is no number it
leaves alone. After a crash it is removed: nobody has put anything into it.
"""

from concurrent.futures import Future, wait
from pathlib import Path
from typing import Final

from roketto.store.errors import DiskFullError, StoreError
from roketto.store.files import Files, MappedFile
from roketto.store.worker import Worker

NEXT_NAME: Final = "next"

_WAIT_S: Final = 5.0
"""How long filing waits for a file that is being made, as an append does for a segment."""


class IndexAhead:
    """At most one file that is made ahead. The owner calls everything; the worker makes the file.

    ahead.prepare(worker, after="20261117103000000")    # now and then, once it is time
    mapped = ahead.take(path, after="20261117103000000")    # None: make it yourself
    ahead.close()                                       # what was made in vain is removed

    ``after`` is the name of the newest file, by which attempts are told apart.
    """

    def __init__(self, files: Files, directory: Path, size: int) -> None:
        self._files = files
        self._path = directory / NEXT_NAME
        self._size = size
        self._made: MappedFile | None = None
        self._making: Future[MappedFile] | None = None
        self._in_vain_after = ""

    def remove_left_over(self) -> None:
        """Remove what a process that was killed has made ahead."""
        self._files.remove(self._path)

    def prepare(self, worker: Worker, after: str) -> None:
        """Let the worker make the file, unless it is there or was tried in vain.

        If the disk has no room, it is tried again when the file is needed: whoever needs it hears
        why.
        """
        if self._making is not None:
            if self._making.done():
                self._look(after)
        elif self._made is None and after != self._in_vain_after:
            self._making = worker.submit(self._make, is_urgent=True)

    def _make(self) -> MappedFile:
        return self._files.create_mapped(self._path, self._size)

    def _look(self, after: str) -> None:
        """Take what the worker has made, or has failed to make."""
        job, self._making = self._making, None
        assert job is not None
        try:
            self._made = job.result()
        except (OSError, StoreError):
            self._in_vain_after = after

    def take(self, path: Path, after: str) -> MappedFile | None:
        """The file, called ``path`` from now on; None if there is none.

        The name is durable after a sync of the directory. DiskFullError if it is still being made
        after some seconds; the next one who asks does not wait.
        """
        job = self._making
        if job is not None and job.cancel():  # it has not begun
            self._making = job = None
        if job is not None:
            # It is being made: a second one would be in its way.
            if wait([job], _WAIT_S if after != self._in_vain_after else 0.0).not_done:
                self._in_vain_after = after
                raise DiskFullError(
                    f"{path} of {self._size} bytes is not there after {_WAIT_S:.0f} s:"
                    " look at the disk"
                )
            self._look(after)
        made = self._made
        if made is not None:
            self._files.rename_mapped(made, path)
            self._made = None
        return made

    def close(self) -> None:
        """Remove a file that was made and never used. Whoever makes one in a thread has ended."""
        if self._making is not None and self._making.done():
            self._look("")
        self._making = None
        if self._made is not None:
            self._made.close()
            self._files.remove(self._path)
            self._made = None
        self._in_vain_after = ""
