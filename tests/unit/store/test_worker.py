"""Proves that jobs are done in order, one at a time, bounded, and that their errors are told."""

import threading
from concurrent.futures import Future
from functools import partial

import pytest

from roketto.store.worker import Worker

WAIT_S = 10.0


class Gate:
    """A job that begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go_on.wait(WAIT_S)
        return "gone on"


def busy(worker: Worker) -> tuple[Gate, Future[str]]:
    """A worker in the middle of a job."""
    gate = Gate()
    worker.start()
    job = worker.submit(gate)
    assert job is not None
    assert gate.begun.wait(WAIT_S)
    return gate, job


def test_jobs_are_done_in_order_and_urgent_ones_first() -> None:
    """All in one thread, which is not the caller's."""
    worker = Worker()
    gate, first = busy(worker)
    done: list[object] = []

    def note(name: str) -> None:
        done.append((name, threading.current_thread()))

    for name in ("a", "b"):
        worker.submit(partial(note, name))
    worker.submit(partial(note, "urgent"), is_urgent=True)
    assert not worker.wait_idle(0.0)
    assert not first.done()
    gate.go_on.set()
    assert worker.wait_idle(WAIT_S)
    assert first.result() == "gone on"
    assert done == [(name, worker._thread) for name in ("urgent", "a", "b")]
    assert worker.stop()


def test_too_many_jobs_are_refused_and_not_queued() -> None:
    """Whoever is refused tries again later."""
    worker = Worker(jobs_max=2)
    gate, _ = busy(worker)
    jobs = [worker.submit(lambda: None) for _ in range(4)]
    assert [job is not None for job in jobs] == [True, True, False, False]
    gate.go_on.set()
    assert worker.wait_idle(WAIT_S)
    assert worker.submit(lambda: None) is not None
    assert worker.stop()


def test_an_error_is_told_and_the_next_job_is_done() -> None:
    """Whatever it is: the thread goes on."""
    worker = Worker()
    worker.start()

    def fail() -> None:
        raise SystemExit("planted")

    job = worker.submit(fail)
    following = worker.submit(lambda: 7)
    assert job is not None
    assert following is not None
    with pytest.raises(SystemExit, match="planted"):
        job.result(WAIT_S)
    assert following.result(WAIT_S) == 7
    assert worker.stop()


def test_a_job_can_be_taken_back_until_it_begins() -> None:
    """Then it is never done."""
    worker = Worker()
    gate, first = busy(worker)
    done: list[int] = []
    second = worker.submit(lambda: done.append(2))
    assert second is not None
    assert not first.cancel()
    assert second.cancel()
    gate.go_on.set()
    assert worker.stop()
    assert done == []


def test_what_was_handed_in_is_done_before_the_end() -> None:
    """After it nothing is taken."""
    worker = Worker()
    gate, _ = busy(worker)
    done: list[int] = []
    for number in range(3):
        worker.submit(partial(done.append, number))
    gate.go_on.set()
    assert worker.stop()
    assert done == [0, 1, 2]
    assert not worker._thread.is_alive()
    with pytest.raises(AssertionError, match="takes no jobs"):
        worker.submit(lambda: None)


def test_a_job_that_does_not_end_is_not_waited_for() -> None:
    """What waits behind it is dropped, and the caller knows."""
    worker = Worker()
    gate, _ = busy(worker)
    behind = worker.submit(lambda: None)
    assert behind is not None
    assert not worker.stop(0.01)
    gate.go_on.set()
    worker._thread.join(WAIT_S)
    assert not worker._thread.is_alive()
    assert not behind.done()
