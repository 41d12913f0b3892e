"""Proves that an errand ends as it would, whether or not somebody waits for it."""

import asyncio
import gc
from typing import Any

import pytest

from roketto.errand import run_errand


async def work(until: asyncio.Event, ended: asyncio.Event, error: Exception | None = None) -> str:
    await until.wait()
    ended.set()
    if error is not None:
        raise error
    return "done"


async def test_who_waits_is_told_how_it_ends() -> None:
    until = asyncio.Event()
    until.set()
    assert await run_errand(work(until, asyncio.Event())) == "done"
    with pytest.raises(ValueError, match="wrong"):
        await run_errand(work(until, asyncio.Event(), ValueError("wrong")))


@pytest.mark.parametrize("error", [None, ValueError("wrong")])
async def test_it_ends_without_a_complaint_when_who_asked_has_gone(
    error: Exception | None,
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    until, ended = asyncio.Event(), asyncio.Event()
    asking = asyncio.create_task(run_errand(work(until, ended, error)))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    until.set()
    await ended.wait()
    await asyncio.sleep(0)
    gc.collect()
    assert not complaints


async def test_one_that_is_cancelled_itself_is_no_complaint() -> None:
    """As by the end of the loop."""
    ended = asyncio.Event()
    asking = asyncio.create_task(run_errand(work(asyncio.Event(), ended)))
    await asyncio.sleep(0)
    [errand] = asyncio.all_tasks() - {asking, asyncio.current_task()}
    errand.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not ended.is_set()
