"""Whoever knows what became of a transaction is asked in the loop or in a thread, and believed."""

import asyncio
import math
import threading
from collections.abc import Iterator

import pytest

from roketto.client.local_transaction import (
    LocalCalls,
    Outcomes,
    TransactionState,
    prepared,
)
from roketto.client.message import Message
from roketto.client.received import ReceivedMessage
from roketto.protocol.record import Record

HALF = prepared(Message("T", b"x", keys=(key for key in ("a", "b"))), "ID")
RECEIVED = ReceivedMessage(Record("T", b"x"), "broker-a")


@pytest.fixture
def calls() -> Iterator[LocalCalls]:
    made = LocalCalls("test", 2)
    yield made
    made.close()


def test_a_prepared_message_keeps_keys_that_are_given_once() -> None:
    assert (HALF.message_id, HALF.topic, HALF.keys) == ("ID", "T", ("a", "b"))


async def test_coroutines_run_in_the_loop_and_functions_in_threads(calls: LocalCalls) -> None:
    seen: list[tuple[object, object, bool]] = []

    async def in_loop(message: object, arg: object) -> TransactionState:
        seen.append((message, arg, threading.current_thread() is threading.main_thread()))
        return TransactionState.COMMIT

    def in_thread(message: object, arg: object) -> TransactionState:
        seen.append((message, arg, threading.current_thread() is threading.main_thread()))
        return TransactionState.ROLLBACK

    assert (await calls.execute(in_loop, HALF, 1)).state is TransactionState.COMMIT
    assert (await calls.execute(in_thread, HALF, 2)).state is TransactionState.ROLLBACK
    later = lambda message: in_loop(message, 3)  # noqa: E731 (a function that gives a coroutine)
    assert (await calls.check(later, RECEIVED)).state is TransactionState.COMMIT
    assert seen == [(HALF, 1, True), (HALF, 2, False), (RECEIVED, 3, True)]


async def test_who_raises_or_says_something_else_does_not_know(calls: LocalCalls) -> None:
    def fails(message: object) -> TransactionState:
        raise LookupError("no row " + "x" * 2_000)

    def nothing(message: object) -> None: ...

    async def gave_up(message: object) -> TransactionState:
        raise asyncio.CancelledError  # of something that it has awaited

    told = await calls.check(fails, RECEIVED)
    remark = told.remark("checkLocalTransactionState Exception")
    assert told.state is TransactionState.UNKNOWN
    assert remark is not None
    assert remark.startswith("checkLocalTransactionState Exception: LookupError: no row x")
    assert len(remark) == 1_024
    told = await calls.check(nothing, RECEIVED)
    assert (told.state, told.remark("why")) == (TransactionState.UNKNOWN, None)
    told = await calls.check(gave_up, RECEIVED)
    assert told.state is TransactionState.UNKNOWN
    told = await calls.check(lambda message: True, RECEIVED)  # type: ignore[arg-type, return-value]
    assert "has returned True; it takes a TransactionState" in str(told.error)


@pytest.mark.parametrize("is_failing", [False, True])
async def test_a_thread_comes_to_its_end_whoever_is_cancelled(
    calls: LocalCalls, is_failing: bool
) -> None:
    """A local transaction that goes on is not one that failed: its outcome is awaited."""
    begun, goes_on = threading.Event(), threading.Event()

    def execute(message: object, arg: object) -> TransactionState:
        begun.set()
        assert goes_on.wait(10)
        if is_failing:
            raise LookupError
        return TransactionState.COMMIT

    task = asyncio.create_task(calls.execute(execute, HALF, None))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.005)
    assert not task.done()
    goes_on.set()
    told = await task
    assert told.cancelled is not None
    expected = TransactionState.UNKNOWN if is_failing else TransactionState.COMMIT
    assert told.state is expected


async def test_what_has_not_begun_and_what_only_looks_is_cancelled(calls: LocalCalls) -> None:
    begun, goes_on = threading.Semaphore(0), threading.Event()

    def look(message: object) -> TransactionState:
        begun.release()
        assert goes_on.wait(10)
        return TransactionState.COMMIT

    looking = [asyncio.create_task(calls.check(look, RECEIVED)) for _ in range(2)]
    for _ in looking:
        await asyncio.to_thread(begun.acquire)
    executed: list[object] = []
    queued = asyncio.create_task(calls.execute(lambda *given: executed.append(given), HALF, None))
    await asyncio.sleep(0.005)
    for task in (queued, *looking):
        task.cancel()
    found = await asyncio.gather(queued, *looking, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in found)
    goes_on.set()
    assert (await calls.execute(lambda *given: None, HALF, None)).error is None
    assert executed == []


def test_outcomes_are_kept_up_to_their_bound() -> None:
    outcomes = Outcomes(count_max=2)
    outcomes.begin("1")
    assert outcomes.is_open("1")
    for number, state in enumerate(TransactionState, 1):
        outcomes.end(str(number), state)
    assert not outcomes.is_open("1")
    assert [_state(outcomes, number) for number in (1, 2, 3)] == [
        TransactionState.COMMIT, TransactionState.ROLLBACK, None,
    ]  # fmt: skip
    outcomes.end("4", TransactionState.COMMIT, is_told=False)
    assert [_state(outcomes, number) for number in (1, 2, 4)] == [
        None, TransactionState.ROLLBACK, TransactionState.COMMIT,
    ]  # fmt: skip


def test_outcomes_know_how_long_ago_they_were_told() -> None:
    outcomes = Outcomes()
    outcomes.end("told", TransactionState.COMMIT)
    outcomes.end("not told", TransactionState.COMMIT, is_told=False)
    told, not_told = outcomes.of("told"), outcomes.of("not told")
    assert told is not None
    assert not_told is not None
    assert 0 <= told.told_s_ago < 60
    assert not_told.told_s_ago == math.inf


def _state(outcomes: Outcomes, number: int) -> TransactionState | None:
    found = outcomes.of(str(number))
    return None if found is None else found.state
