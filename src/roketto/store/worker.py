"""One thread for what blocks: it does one job after the other, and its owner looks at the results.

A store has one owning thread, which must not wait for a disk. What waits (making the next segment,
syncing queues, replacing the checkpoint, removing files) is handed over as a job; its future is
looked at when the owner comes by again. A job touches nothing that the owner changes.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from roketto.clock import monotonic_s

JOBS_MAX: Final = 64
"""Jobs that wait at most. The store has two under way at a time, retention as many as it likes."""

STOP_TIMEOUT_S: Final = 30.0
"""For what is under way when a store stops; a disk that takes longer is not waited for."""

_T = TypeVar("_T")


class Worker:
    """The thread of one store for jobs.

    worker = Worker()
    worker.start()
    job = worker.submit(lambda: files.sync(path))    # None: too many wait, try again later
    job.done(), job.result()                         # the error, if there was one
    job.cancel()                                     # True: it had not begun, and never will
    worker.stop()
    """

    def __init__(self, jobs_max: int = JOBS_MAX) -> None:
        self._jobs_max = jobs_max
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._is_busy = False
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="roketto-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Callable[[], _T], *, is_urgent: bool = False) -> Future[_T] | None:
        """Do this later, before the others if it is urgent. None if too many jobs wait."""
        future: Future[_T] = Future()
        with self._changed:
            assert not self._is_stopping, "a worker that was stopped takes no jobs"
            if len(self._jobs) >= self._jobs_max:
                return None
            enter = self._jobs.appendleft if is_urgent else self._jobs.append
            enter(lambda: run_job(future, work))
            self._changed.notify_all()
        return future

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do; False if that takes too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._jobs or self._is_busy), timeout_s)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Do what is left and end; False if that takes too long, and then the rest is not done."""
        until_s = monotonic_s() + timeout_s
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        is_done = self.wait_idle(timeout_s)
        if not is_done:
            with self._changed:
                self._jobs.clear()
        self._thread.join(max(0.0, until_s - monotonic_s()))
        return is_done and not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._jobs or self._is_stopping)
                if not self._jobs:
                    return
                job = self._jobs.popleft()
                self._is_busy = True
            job()


def run_job(future: Future[Any], work: Callable[[], Any]) -> None:
    """Do a job, unless it was cancelled, and let its future know how it went."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
        future.set_exception(error)
    else:
        future.set_result(result)
