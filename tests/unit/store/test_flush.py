"""Group commit: many waiters share a sync, quiet logs wait their time, failures are final."""

import threading
from collections.abc import Iterator

import pytest

from roketto.store.flush import PAGE_BYTES, Flusher, FlushSettings

WAIT_S = 10.0


class Log:
    """A target whose syncs the test lets through one by one."""

    def __init__(self) -> None:
        self.written = 0
        self.synced: list[tuple[int, int]] = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.error: OSError | None = None

    def sync(self, start: int, end: int) -> None:
        self.started.release()
        assert self.gate.acquire(timeout=WAIT_S)
        if self.error is not None:
            raise self.error
        self.synced.append((start, end))


class Watcher:
    """Collects what the flusher tells."""

    def __init__(self) -> None:
        self.flushed: list[int] = []
        self.failures: list[OSError] = []
        self.told = threading.Semaphore(0)

    def on_flushed(self, offset: int) -> None:
        self.flushed.append(offset)
        self.told.release()

    def on_failure(self, error: OSError) -> None:
        self.failures.append(error)
        self.told.release()

    def wait(self) -> None:
        assert self.told.acquire(timeout=WAIT_S), "the flusher did nothing"


NEVER = FlushSettings(interval_ms=3_600_000, thorough_interval_ms=3_600_000)


class Rig:
    """A running flusher with its log and its watcher."""

    def __init__(self, settings: FlushSettings) -> None:
        self.log = Log()
        self.watcher = Watcher()
        self.flusher = Flusher(
            self.log, 0, settings, self.watcher.on_flushed, self.watcher.on_failure
        )
        self.flusher.start()

    def stop(self) -> bool:
        for _ in range(10):
            self.log.gate.release()
        return self.flusher.stop()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig(NEVER)
    yield rig
    rig.stop()


def test_what_is_appended_during_a_sync_is_covered_by_the_next(rig: Rig) -> None:
    """Three requests that come while one sync runs cost one more sync, not three."""
    rig.log.written = 100
    rig.flusher.request()
    assert rig.log.started.acquire(timeout=WAIT_S)
    for written in (200, 300, 400):
        rig.log.written = written
        rig.flusher.request()
    rig.log.gate.release()
    rig.watcher.wait()
    rig.log.gate.release()
    rig.watcher.wait()
    assert rig.log.synced == [(0, 100), (100, 400)]
    assert rig.watcher.flushed == [100, 400]
    assert (rig.flusher.flushed, rig.flusher.syncs) == (400, 2)


def test_the_watermark_moves_only_after_the_sync_has_returned(rig: Rig) -> None:
    """Nothing is called safe while the disk is still at work."""
    rig.log.written = 100
    rig.flusher.request()
    assert rig.log.started.acquire(timeout=WAIT_S)
    assert rig.flusher.flushed == 0
    assert rig.watcher.flushed == []
    rig.log.gate.release()
    rig.watcher.wait()
    assert rig.flusher.flushed == 100


def test_a_request_with_nothing_to_sync_syncs_nothing(rig: Rig) -> None:
    """A waiter whose message was covered by an earlier sync costs none."""
    rig.flusher.request()
    assert rig.stop()
    assert rig.log.synced == []


def test_stopping_syncs_what_is_left(rig: Rig) -> None:
    """A clean stop leaves nothing in the page cache only."""
    rig.log.written = 77
    assert rig.stop()
    assert rig.log.synced == [(0, 77)]


def test_a_failed_sync_is_final(rig: Rig) -> None:
    """It is told once, the watermark stays, and no later sync can make up for it."""
    rig.log.error = OSError(5, "Input/output error")
    rig.log.written = 100
    rig.flusher.request()
    rig.log.gate.release()
    rig.watcher.wait()
    rig.log.error = None
    rig.log.written = 200
    rig.flusher.request()
    assert rig.stop()
    assert [error.errno for error in rig.watcher.failures] == [5]
    assert rig.flusher.failure is rig.watcher.failures[0]
    assert rig.log.synced == []
    assert rig.flusher.flushed == 0


def test_a_failure_of_somebody_else_is_as_final(rig: Rig) -> None:
    """The queues of the same disk could not be synced; the first reason stays, and is told once."""
    first, second = OSError(5, "first"), OSError(5, "second")
    rig.flusher.fail(first)
    rig.flusher.fail(second)
    rig.log.written = 100
    rig.flusher.request()
    assert rig.stop()
    assert rig.watcher.failures == [first]
    assert rig.flusher.failure is first
    assert rig.log.synced == []


def test_enough_dirty_pages_are_synced_at_the_interval() -> None:
    """Nobody asked; four pages are reason enough, three are not."""
    settings = FlushSettings(interval_ms=1, pages_least=4, thorough_interval_ms=3_600_000)
    rig = Rig(settings)
    try:
        rig.log.written = 4 * PAGE_BYTES - 1
        assert not rig.log.started.acquire(timeout=0.05)
        rig.log.written = 4 * PAGE_BYTES
        rig.log.gate.release()
        rig.watcher.wait()
        assert rig.log.synced == [(0, 4 * PAGE_BYTES)]
    finally:
        rig.stop()


def test_anything_dirty_is_synced_at_the_thorough_interval() -> None:
    """One byte does not wait for three pages more for ever."""
    rig = Rig(FlushSettings(interval_ms=1, pages_least=4, thorough_interval_ms=20))
    try:
        rig.log.written = 1
        rig.log.gate.release()
        rig.watcher.wait()
        assert rig.log.synced == [(0, 1)]
    finally:
        rig.stop()


def test_a_disk_that_does_not_answer_does_not_hold_up_the_stop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """stop() says that the last sync did not end."""
    monkeypatch.setattr("roketto.store.flush._STOP_TIMEOUT_S", 0.05)
    rig.log.written = 1
    assert not rig.flusher.stop()
    rig.log.gate.release()
    rig.watcher.wait()
