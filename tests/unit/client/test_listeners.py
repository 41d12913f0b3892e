"""Listeners are called in the loop or in threads, and nothing that they do hurts who calls them."""

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial

import pytest

from roketto.client.listeners import (
    ConsumeContext,
    Consumed,
    ConsumeResult,
    Listener,
    ListenerCalls,
    NotBegunError,
    Verdict,
)
from roketto.client.received import ReceivedMessage
from unit.client.push_parts import message, name

Messages = list[ReceivedMessage]


def calls(listener: Listener, **options: float) -> ListenerCalls:
    return ListenerCalls("g", listener, threads_max=2, timeout_s=options.get("timeout_s", 60.0))


async def run(listener: Listener, **options: float) -> Consumed:
    made = calls(listener, **options)
    try:
        return await made.run([message(0)], ConsumeContext(name()))
    finally:
        made.close()


async def coroutine(messages: Messages, context: ConsumeContext) -> ConsumeResult:
    await asyncio.sleep(0)
    return ConsumeResult.SUCCESS


class CallableObject:
    async def __call__(self, messages: Messages, context: ConsumeContext) -> ConsumeResult:
        return await coroutine(messages, context)


@pytest.mark.parametrize(
    ("listener", "is_in_loop"),
    [
        (coroutine, True),
        (partial(coroutine), True),
        (CallableObject(), True),
        (lambda messages, context: ConsumeResult.SUCCESS, False),
        (lambda messages, context: coroutine(messages, context), False),
    ],
)
async def test_all_kinds_of_functions_may_listen(listener: Listener, is_in_loop: bool) -> None:
    """A plain function runs in a thread; what it returns to be awaited is awaited in the loop."""
    made = calls(listener)
    assert (made._threads is None) is is_in_loop
    consumed = await made.run([message(0)], ConsumeContext(name()))
    made.close()
    assert (consumed.result, consumed.verdict) == (ConsumeResult.SUCCESS, Verdict.SUCCESS)


def raising(error: BaseException) -> Listener:
    def listen(messages: Messages, context: ConsumeContext) -> ConsumeResult:
        raise error

    return listen


def raising_coroutine(error: BaseException) -> Listener:
    async def listen(messages: Messages, context: ConsumeContext) -> ConsumeResult:
        raise error

    return listen


@pytest.mark.parametrize("kind", [raising, raising_coroutine])
@pytest.mark.parametrize(
    "error", [ValueError("x"), asyncio.CancelledError(), SystemExit(1)], ids=repr
)
async def test_whatever_is_raised_means_again(
    kind: Callable[[BaseException], Listener],
    error: BaseException,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also a cancellation that is the listener's own affair; all of it is logged with its cause."""
    consumed = await run(kind(error))
    assert consumed.result is None
    assert type(consumed.error) is type(error)
    assert consumed.verdict is Verdict.EXCEPTION
    (record,) = caplog.records
    assert record.exc_info is not None


@pytest.mark.parametrize("answer", [None, True, "SUCCESS"])
async def test_what_is_no_result_means_again(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says what to return."""
    consumed = await run(lambda messages, context: answer)  # type: ignore[arg-type,return-value]
    assert (consumed.result, consumed.verdict) == (None, Verdict.RETURNNULL)
    assert f"has returned {answer!r}" in caplog.text
    assert "return ConsumeResult.SUCCESS" in caplog.text


async def test_the_cancellation_of_the_caller_goes_through() -> None:
    began = asyncio.Event()

    async def listen(messages: Messages, context: ConsumeContext) -> ConsumeResult:
        began.set()
        await asyncio.sleep(60)
        return ConsumeResult.SUCCESS

    task = asyncio.create_task(run(listen))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(NotBegunError):
        await run(raising_coroutine(NotBegunError()))


async def test_a_thread_that_does_not_end_holds_up_nobody() -> None:
    """Closing waits for threads only if all of them are idle."""
    began, end = threading.Event(), threading.Event()

    def listen(messages: Messages, context: ConsumeContext) -> ConsumeResult:
        began.set()
        end.wait(10)
        return ConsumeResult.SUCCESS

    made = calls(listen)
    task = asyncio.create_task(made.run([message(0)], ConsumeContext(name())))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    made.close()
    end.set()
    assert made._threads is not None
    made._threads.shutdown(wait=True)


async def test_hooks_see_every_call_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, Verdict]] = []

    class Hook:
        def before(self, consumed: Consumed) -> None:
            consumed.props["seen"] = len(consumed.messages)
            raise RuntimeError("a bad hook")

        def after(self, consumed: Consumed) -> None:
            seen.append((str(consumed.props["seen"]), consumed.verdict))

    async def later(messages: Messages, context: ConsumeContext) -> ConsumeResult:
        return ConsumeResult.SUSPEND

    made = ListenerCalls("g", later, threads_max=1, timeout_s=60, hooks=[Hook()])
    with caplog.at_level(logging.ERROR):
        await made.run([message(0), message(1)], ConsumeContext(name()))
    assert seen == [("2", Verdict.FAILED)]
    assert "a bad hook" in caplog.text
    assert (await run(coroutine, timeout_s=0.0)).verdict is Verdict.TIME_OUT
