"""A stop is over in time, also where listeners neither end nor let themselves be cancelled."""

import asyncio

import pytest

from roketto.client import consumption
from roketto.client.consumption import end_calls


async def test_a_listener_that_cannot_be_ended_holds_up_no_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that end in time are waited for, idle ones are not."""
    monkeypatch.setattr(consumption, "_CANCELLED_S", 0.01)
    released = asyncio.Event()
    ended: list[str] = []

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async def short() -> None:
        await asyncio.sleep(0.005)
        ended.append("short")

    tasks = [asyncio.create_task(some) for some in (stubborn(), short(), asyncio.sleep(60))]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end_calls("g", tasks[2:], tasks[:2], 0.02)
    assert ended == ["short"]
    assert tasks[2].cancelled()
    assert not tasks[0].done()
    assert "1 listeners of group g take longer than the 0.02 s of a stop" in caplog.text
    assert "do not end when they are cancelled" in caplog.text
    released.set()
    await tasks[0]
