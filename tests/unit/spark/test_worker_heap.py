"""A worker's imports are put aside once, and a program's memory is left alone."""

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from roketto.spark import worker_heap
from roketto.spark.worker_heap import settle_worker


@pytest.fixture(autouse=True)
def unsettled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in which no task has ended yet; what a test freezes is thawed."""
    monkeypatch.setattr(worker_heap._Process, "is_settled", False)
    yield
    gc.unfreeze()


def test_outside_of_a_task_nothing_is_frozen() -> None:
    settle_worker()
    assert gc.get_freeze_count() == 0


def test_only_the_first_task_of_a_worker_freezes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    settle_worker()
    assert gc.get_freeze_count() > 1_000
    gc.unfreeze()
    settle_worker()
    assert gc.get_freeze_count() == 0


def test_garbage_of_the_first_task_is_collected_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Garbage:
        gone = 0

        def __del__(self) -> None:
            Garbage.gone += 1

    ring = Garbage()
    ring.itself = ring  # type: ignore[attr-defined]
    del ring
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    settle_worker()
    assert Garbage.gone == 1
