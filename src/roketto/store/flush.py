"""Group commit: one thread syncs the log, many writers learn how far it is safe.

The writer appends and goes on; this thread sleeps until there is a reason to sync:

* somebody waits (SYNC_FLUSH): at once. All that was appended while a sync ran is covered by the
  next one, so a hundred waiting writers cost two syncs and not a hundred;
* nobody waits (ASYNC_FLUSH): every ``interval_ms`` if ``pages_least`` pages are dirty, and at least
  every ``thorough_interval_ms`` whatever there is.

The thread touches nothing of the store but its FlushTarget, and tells of progress through
callbacks that it calls itself; whoever lives on an event loop hands them over to it. A sync that
has failed is never tried again: the kernel may have dropped the pages, and a second one that
succeeds would prove nothing.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from roketto.clock import monotonic_s

PAGE_BYTES: Final = 4_096
"""Java counts dirty pages of this size, whatever the system's are."""

_STOP_TIMEOUT_S: Final = 30.0
"""The last sync of a stopping store; a disk that takes longer is reported, not waited for."""


class FlushTarget(Protocol):
    """What is synced: the commit log, as far as this thread may know it."""

    @property
    def written(self) -> int:
        """The log offset up to which records have been appended."""

    def sync(self, start: int, end: int) -> None:
        """Return when the log from ``start`` to ``end`` is on the disk; OSError if it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushSettings:
    """Java's names and defaults for asynchronous flushing."""

    interval_ms: int = 500
    """flushIntervalCommitLog"""
    pages_least: int = 4
    """flushCommitLogLeastPages"""
    thorough_interval_ms: int = 10_000
    """flushCommitLogThoroughInterval"""


class Flusher:
    """The flushing thread of one store.

    flusher = Flusher(log, flushed=0, settings=FlushSettings(), on_flushed=..., on_failure=...)
    flusher.start()
    flusher.request()         # somebody waits: sync as soon as possible
    flusher.flushed           # everything below is on the disk
    flusher.stop()            # one last sync
    """

    def __init__(
        self,
        target: FlushTarget,
        flushed: int,
        settings: FlushSettings,
        on_flushed: Callable[[int], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._target = target
        self._settings = settings
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._is_requested = False
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="roketto-flush", daemon=True)
        self._thorough_s = monotonic_s()
        self.flushed = flushed
        self.failure: OSError | None = None
        self.syncs = 0
        """How many syncs have succeeded."""

    def start(self) -> None:
        self._thread.start()

    def request(self) -> None:
        """Sync what has been appended by now without waiting for the interval."""
        if self._is_requested:  # and not begun: it takes that back before it looks how far to sync
            return
        with self._changed:
            self._is_requested = True
            self._changed.notify()

    def fail(self, error: OSError) -> None:
        """Let a sync of something else that has failed be as final as one of the log."""
        with self._changed:
            if self.failure is not None:
                return  # the first reason is the one that was told
            self.failure = error
            self._changed.notify()
        self._on_failure(error)

    def stop(self) -> bool:
        """Sync once more and end the thread; False if that took too long."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(_STOP_TIMEOUT_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self.failure is None:
            with self._changed:
                if not self._is_requested and not self._is_stopping:
                    self._changed.wait(self._settings.interval_ms / 1000)
                is_wanted = self._is_requested or self._is_stopping
                is_last = self._is_stopping
                self._is_requested = False
            self._flush(is_wanted=is_wanted)
            if is_last:
                return

    def _flush(self, *, is_wanted: bool) -> None:
        start, end = self.flushed, self._target.written
        if self.failure is not None or start == end or not (is_wanted or self._is_due(start, end)):
            return
        try:
            self._target.sync(start, end)
        except OSError as error:
            self.fail(error)
            return
        self._thorough_s = monotonic_s()
        self.syncs += 1
        self.flushed = end
        self._on_flushed(end)

    def _is_due(self, start: int, end: int) -> bool:
        """Whether enough is dirty, or anything for long enough."""
        pages = end // PAGE_BYTES - start // PAGE_BYTES
        waited_ms = (monotonic_s() - self._thorough_s) * 1000
        return pages >= self._settings.pages_least or (
            waited_ms >= self._settings.thorough_interval_ms
        )
