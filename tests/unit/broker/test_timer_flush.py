"""The wheel comes to the disk after all that it rests on, and trouble with the disk is told."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roketto.broker import timer_flush as module
from roketto.store.commitlog import CommitLog
from roketto.store.errors import DiskFullError
from roketto.store.files import Files
from roketto.store.store import Store
from roketto.store.timer_checkpoint import load_timers
from roketto.store.timer_log import UNIT_BYTES
from unit.broker.send_rig import PLAIN, START_MS, SendRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    rig.timers.start()
    yield rig
    rig.close()


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How far the log is on the disk: what the test says."""
    offset = [0]
    monkeypatch.setattr(Store, "flushed", property(lambda _: offset[0]))
    return offset


def send(rig: SendRig) -> None:
    rig.send(properties=PLAIN | {"TIMER_DELAY_SEC": "5"})
    while rig.timers.step() == 0:
        pass


def saved(rig: SendRig) -> int:
    checkpoint = load_timers(Files(), rig.root / "config" / "timercheck")
    assert checkpoint is not None
    return checkpoint.queue_offset


def test_nothing_is_flushed_that_rests_on_what_the_disk_lacks(
    rig: SendRig, flushed: list[int]
) -> None:
    """What was taken once is flushed as it was, though more has come."""
    assert rig.timers.flush.flush()
    send(rig)
    end = rig.store.log.max_offset
    assert not rig.timers.flush.flush()
    send(rig)
    flushed[0] = end
    assert rig.timers.flush.flush()
    assert saved(rig) == 1
    assert not rig.timers.flush.flush()
    flushed[0] = rig.store.log.max_offset
    assert rig.timers.flush.flush()
    assert saved(rig) == 2


def test_a_quiet_wheel_is_saved_now_and_then(rig: SendRig, flushed: list[int]) -> None:
    """Its time goes on; nothing else does."""
    flushed[0] = 1 << 40
    rig.pass_ms(50_000)
    rig.timers.step()
    assert rig.timers.flush.flush()
    counter = rig.timer_store.saved.version_counter
    rig.pass_ms(10_000)
    rig.timers.step()
    assert rig.timers.flush.flush()
    assert rig.timer_store.saved.version_counter == counter + 1
    assert rig.timer_store.saved.read_ms == START_MS + 60_000


async def run_for(rig: SendRig, seconds: float) -> "asyncio.Task[None]":
    task = asyncio.create_task(rig.timers.flush.run())
    await asyncio.sleep(seconds)
    return task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (a thread and the disk are waited for)
            await asyncio.sleep(0.001)


async def stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_flushes_by_itself_when_the_log_is_there(
    rig: SendRig, flushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And files of the timer log go with their messages."""
    monkeypatch.setattr(module, "_CLEAN_S", 0.0)
    monkeypatch.setattr(module, "_SAFE_S", 0.001)
    rig.config.timer_flush_interval_ms = 1
    for _ in range(300):
        rig.send(properties=PLAIN | {"TIMER_DELAY_SEC": "5"})
    while rig.timers.step() == 0:
        pass
    task = await run_for(rig, 0.02)
    assert saved(rig) == 0
    flushed[0] = 1 << 40
    await until(lambda: saved(rig) == 300)
    assert rig.timer_store.log.first == 0
    monkeypatch.setattr(CommitLog, "min_offset", property(lambda _: 1 << 40))
    await until(lambda: rig.timer_store.log.first > 0)
    await stop(task)


async def test_a_full_disk_is_tried_again(
    rig: SendRig,
    flushed: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing of it is lost."""
    flushed[0] = 1 << 40
    rig.config.timer_flush_interval_ms = 1
    send(rig)
    write_to = rig.timer_store.log.write_to
    refusals = [DiskFullError("no room")]

    def write(position: int) -> None:
        if refusals:
            raise refusals.pop()
        write_to(position)

    monkeypatch.setattr(rig.timer_store.log, "write_to", write)
    task = await run_for(rig, 0)
    await until(lambda: saved(rig) == 1)
    assert "no room" in caplog.text
    await stop(task)


async def test_a_failed_write_is_the_last(
    rig: SendRig,
    flushed: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What a second one would prove nobody knows."""
    flushed[0] = 1 << 40
    rig.config.timer_flush_interval_ms = 1
    send(rig)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(rig.timer_store.log, "sync", fail)
        task = await run_for(rig, 0)
        await asyncio.wait_for(task, 10)
    assert "saved no more" in caplog.text
    rig.timers.close()
    assert saved(rig) == 0


def test_a_stop_without_a_disk_is_told(
    rig: SendRig,
    flushed: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next start makes up for it."""
    flushed[0] = 1 << 40
    send(rig)

    def fail(position: int) -> None:
        raise DiskFullError("no room")

    monkeypatch.setattr(rig.timer_store.log, "write_to", fail)
    rig.timers.close()
    assert "made up for at the start: no room" in caplog.text
    assert saved(rig) == 0


def test_a_log_that_is_not_on_the_disk_leaves_the_wheel_as_it_was(
    rig: SendRig, flushed: list[int]
) -> None:
    """The store could not be closed in order."""
    send(rig)
    rig.timers.close()
    assert saved(rig) == 0


async def test_what_fills_its_room_is_flushed_before_its_time(
    rig: SendRig, flushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is asked to be on the disk sooner, too, for the wheel rests on it."""
    asked: list[int] = []
    monkeypatch.setattr(Store, "request_flush", lambda _: asked.append(rig.store.log.max_offset))
    monkeypatch.setattr("roketto.store.timer_store.UNWRITTEN_BYTES_MAX", 4 * UNIT_BYTES)
    monkeypatch.setattr(module, "_SAFE_S", 0.001)
    rig.config.timer_flush_interval_ms = 3_600_000
    task = await run_for(rig, 0.02)
    send(rig)
    await asyncio.sleep(0.02)
    assert saved(rig) == 0
    for _ in range(3):
        send(rig)
    await until(lambda: rig.store.log.max_offset in asked)
    assert saved(rig) == 0, "the log is not on the disk"
    flushed[0] = 1 << 40
    await until(lambda: saved(rig) == 4)
    assert rig.timer_store.has_room
    await stop(task)
