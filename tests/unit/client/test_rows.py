"""Rows of quick calls save ways into threads, and no slow call among them holds the others up."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from roketto.client.concurrent import ConcurrentConsumption
from roketto.client.listeners import Answer, ConsumeContext, ConsumeResult
from roketto.client.received import ReceivedMessage
from roketto.protocol.codes import RequestCode
from unit.client.push_parts import LATER, SUCCESS, PushRig, filled, name, until

COUNT = 500


async def consume(rig: PushRig, count: int = COUNT) -> None:
    """Have so many messages of a queue consumed, and see that all of them count."""
    await rig.know_routes()
    queue, messages = filled(*range(count))
    consumption = ConcurrentConsumption(rig.parts, lambda: [queue])
    consumption.start()
    consumption.submit(queue, messages)
    await until(lambda: rig.store.memory(name()) == count)
    await consumption.stop()
    rig.parts.calls.close()
    assert queue.messages.count == 0


def counting_ways(rig: PushRig) -> list[str]:
    """The threads that calls were made in, one for each way there."""
    ways: list[str] = []
    calls = rig.parts.calls
    begin_in_thread: Callable[..., asyncio.Future[Any]] = calls.begin_in_thread

    def noted(function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        def work() -> Any:
            ways.append(threading.current_thread().name)
            return function(*args)

        return begin_in_thread(work)

    calls.begin_in_thread = noted  # type: ignore[method-assign, assignment]  # whoever calls it is told
    return ways


async def test_quick_functions_share_their_ways_into_threads() -> None:
    called: list[int] = []

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        called.extend(message.queue_offset for message in messages)
        return SUCCESS

    rig = PushRig(listen)
    ways = counting_ways(rig)
    await consume(rig)
    assert sorted(called) == list(range(COUNT))
    assert 0 < len(ways) <= COUNT // 2
    assert all(way.startswith("consume-") for way in ways)


async def test_a_function_that_blocks_leaves_the_others_to_more_threads() -> None:
    """Its message holds back the offset, and nothing else."""
    gate, others = threading.Event(), threading.Semaphore(0)

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        if messages[0].queue_offset == 3:
            assert gate.wait(10)
        else:
            others.release()
        return SUCCESS

    rig = PushRig(listen, concurrency=2)
    consuming = asyncio.create_task(consume(rig))
    for _ in range(COUNT - 1):
        assert await asyncio.to_thread(others.acquire, timeout=10)
    assert rig.store.memory(name()) in (None, *range(4))
    gate.set()
    await consuming


async def test_what_was_called_before_a_function_that_blocks_counts_at_once() -> None:
    """Though it was called in the same row, and in the same thread."""
    gate = threading.Event()

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        offset = messages[0].queue_offset
        assert offset != 3 or gate.wait(10)
        return LATER if offset == 1 else SUCCESS

    rig = PushRig(listen, concurrency=1)
    consuming = asyncio.create_task(consume(rig, 6))
    await until(lambda: rig.store.memory(name()) == 3)
    assert len(rig.codes()) == 1  # and what it wants again is given back
    gate.set()
    await consuming


async def test_a_function_that_takes_too_long_loses_its_message() -> None:
    """That one alone: what was called before and behind it in its thread is consumed."""
    gate = threading.Event()

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        assert messages[0].queue_offset != 3 or gate.wait(10)
        return SUCCESS

    rig = PushRig(listen, concurrency=2, consume_timeout_s=0.05, stop_timeout_s=0.05)
    await consume(rig, 6)
    ((_, fields),) = rig.rig.sent(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert fields["offset"] == "1003"
    gate.set()


async def test_as_many_functions_block_at_a_time_as_may() -> None:
    meeting = threading.Barrier(4)

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        meeting.wait(10)
        return SUCCESS

    await consume(PushRig(listen, concurrency=4), 8)


async def test_a_function_may_hand_out_a_coroutine() -> None:
    """It is awaited in the loop, once."""
    loop = asyncio.get_running_loop()
    calls = 0

    async def answer() -> ConsumeResult:
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(0)
        return SUCCESS

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> Awaitable[Answer]:
        nonlocal calls
        calls += 1
        return answer()

    await consume(PushRig(listen), 20)
    assert calls == 20


async def test_a_coroutine_that_waits_lets_others_begin() -> None:
    """All of them wait for the last one, so they are begun before any has ended."""
    begun: list[int] = []
    is_last = asyncio.Event()

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        begun.append(messages[0].queue_offset)
        if len(begun) == 10:
            is_last.set()
        async with asyncio.timeout(5):  # which needs the task that it runs in
            await is_last.wait()
        return SUCCESS

    await consume(PushRig(listen, concurrency=10), 10)
    assert begun == list(range(10))


async def test_what_fails_in_a_row_comes_again_and_the_rest_counts() -> None:
    tries: dict[int, int] = {}

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        offset = messages[0].queue_offset
        tries[offset] = tries.get(offset, 0) + 1
        if offset == 5:
            raise ValueError("not this one")
        if offset == 6:
            raise asyncio.CancelledError  # of something that it has awaited
        return LATER if offset == 7 else SUCCESS

    rig = PushRig(listen)
    await consume(rig, 20)
    assert tries == dict.fromkeys(range(20), 1)
    assert len(rig.codes()) == 3


async def test_a_cancelled_coroutine_sees_where_it_was_cancelled() -> None:
    seen: list[str] = []

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return SUCCESS

    rig = PushRig(listen, stop_timeout_s=0.01)
    queue, messages = filled(0)
    consumption = ConcurrentConsumption(rig.parts, lambda: [queue])
    consumption.start()
    consumption.submit(queue, messages)
    await until(lambda: queue.messages.first_begun_s is not None)
    await consumption.stop()
    assert seen == ["cancelled"]
    assert rig.store.memory(name()) is None
