"""Proves that a test that would wait for ever fails, and says where it has waited."""

import asyncio
import subprocess
import time
import traceback

import pytest

from patience import LateError, bounded, in_time, is_late


async def test_a_test_that_waits_for_ever_fails_where_it_waits() -> None:
    cleaned = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(number)

    with pytest.raises(TimeoutError) as failed:
        await bounded(wait, 0.01)(7)
    assert cleaned == [7]
    cause = failed.value.__cause__
    assert cause is not None
    assert "wait" in [frame.name for frame in traceback.extract_tb(cause.__traceback__)]


async def test_what_ends_in_time_ends_as_it_would() -> None:
    async def fail(why: str) -> None:
        raise ValueError(why)

    with pytest.raises(ValueError, match="its own"):
        await bounded(fail, 60)("its own")


async def test_this_test_is_bounded(request: pytest.FixtureRequest) -> None:
    assert request.function.__wrapped__.__name__ == "test_this_test_is_bounded"


def test_what_has_a_deadline_is_in_time_until_then() -> None:
    in_time(time.monotonic() + 60, "it was")
    with pytest.raises(LateError, match="three of four"):
        in_time(time.monotonic(), "three of four")


@pytest.mark.parametrize(
    ("error", "late"),
    [
        (LateError("three of four"), True),
        (TimeoutError(), True),
        (subprocess.TimeoutExpired("roketto", 5), True),
        (pytest.fail.Exception("Timeout (>300.0s) from pytest-timeout."), True),
        (pytest.fail.Exception("DID NOT RAISE <class 'ValueError'>"), False),
        (AssertionError("a message is lost"), False),
        (ConnectionError("refused"), False),
    ],
)
def test_what_is_wrong_is_not_late(error: BaseException, late: bool) -> None:
    assert is_late(error) is late
