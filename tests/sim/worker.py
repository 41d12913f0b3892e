"""Workers without a thread, so that a simulated store does the same every time it runs.

InlineWorker does a job when it is handed in. SeededWorker lets some of them wait for a later
moment, as a thread would, but by a seed: a crash then comes before, between or in the jobs.
"""

from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import TypeVar

from roketto.store.worker import STOP_TIMEOUT_S, Worker, run_job
from sim.disk import PowerLoss

_T = TypeVar("_T")


class InlineWorker(Worker):
    """Does a job at once. A power loss inside ends whoever handed it in, too."""

    is_working = False

    def start(self) -> None:
        """There is no thread."""

    def submit(self, work: Callable[[], _T], *, is_urgent: bool = False) -> Future[_T] | None:
        future: Future[_T] = Future()
        self._do(lambda: run_job(future, work))
        if isinstance(future.exception(), PowerLoss):
            future.result()
        return future

    def _do(self, job: Callable[[], None]) -> None:
        self.is_working = True
        job()
        self.is_working = False

    def wait_idle(self, timeout_s: float) -> bool:
        return True

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        return True


class SeededWorker(InlineWorker):
    """Does a job at once or later: before the next one, or at ``catch_up``."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def submit(self, work: Callable[[], _T], *, is_urgent: bool = False) -> Future[_T] | None:
        self.catch_up()
        if self._random.random() < 0.5:
            return super().submit(work)
        future: Future[_T] = Future()
        self._jobs.append(lambda: run_job(future, work))
        return future

    def catch_up(self) -> None:
        """Do what waits."""
        while self._jobs:
            self._do(self._jobs.popleft())

    def wait_idle(self, timeout_s: float) -> bool:
        self.catch_up()
        return True

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        return self.wait_idle(timeout_s)
