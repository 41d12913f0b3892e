"""An operator is shown where threads and tasks are, and not without bounds."""

import asyncio
import threading

import pytest

from roketto.client import stacks as module
from roketto.client.stacks import stacks


async def wait_in_a_task(event: asyncio.Event) -> None:
    await event.wait()


async def test_threads_and_tasks_are_shown_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event, release = asyncio.Event(), threading.Event()
    task = asyncio.create_task(wait_in_a_task(event))
    thread = threading.Thread(target=release.wait, name="a-listener")
    thread.start()
    try:
        await asyncio.sleep(0)
        text = stacks()
        monkeypatch.setattr(module, "_CHARS_MAX", 50)
        short = stacks()
    finally:
        release.set()
        thread.join()
        event.set()
        await task
    assert "Thread a-listener:" in text
    assert "wait_in_a_task" in text
    assert "test_threads_and_tasks_are_shown" in text
    assert len(short) == 50
