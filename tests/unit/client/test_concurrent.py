"""Consumption in any order commits up to the first message that is not consumed, and no further."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roketto.client import concurrent
from roketto.client.concurrent import ConcurrentConsumption
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.owned_queue import OwnedQueue, Turns
from roketto.client.received import ReceivedMessage
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.codes import RequestCode, ResponseCode
from unit.client.push_parts import LATER, SUCCESS, PushRig, filled, name, until

GIVE_BACK = RequestCode.CONSUMER_SEND_MSG_BACK


class Script:
    """A listener that answers each message as it is told, when it is told."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.answers: dict[int, asyncio.Future[ConsumeResult | None]] = {}
        self.contexts: list[ConsumeContext] = []

    async def __call__(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult | None:
        first = messages[0].queue_offset
        self.calls.append([message.queue_offset for message in messages])
        self.contexts.append(context)
        self.answers[first] = asyncio.get_running_loop().create_future()
        return await self.answers[first]

    def answer(self, offset: int, result: ConsumeResult | None = SUCCESS) -> None:
        self.answers[offset].set_result(result)


@asynccontextmanager
async def consuming(rig: PushRig, *queues: OwnedQueue) -> AsyncIterator[ConcurrentConsumption]:
    await rig.know_routes()
    consumption = ConcurrentConsumption(rig.parts, lambda: queues)
    consumption.start()
    yield consumption
    await consumption.stop()


async def test_the_first_message_under_way_holds_back_the_offset() -> None:
    """Others behind it may be done; at most so many are begun as is allowed."""
    script = Script()
    rig = PushRig(script, concurrency=3)
    queue, messages = filled(10, 11, 12, 13)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.calls) == 3)
        assert script.calls == [[10], [11], [12]]
        script.answer(11)
        script.answer(12)
        await until(lambda: queue.messages.count == 2)
        assert rig.store.memory(name()) == 10
        script.answer(10)
        await until(lambda: rig.store.memory(name()) == 13)
        script.answer(13)
        await until(lambda: rig.store.memory(name()) == 14)
    assert rig.codes() == []


async def test_failed_messages_are_given_back_and_then_count_as_done() -> None:
    """With the level that the listener wishes; those up to its ack index are consumed."""
    script = Script()
    rig = PushRig(script, batch_max=3, reconsume_max=5)
    queue, messages = filled(0, 1, 2)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: bool(script.answers))
        script.contexts[0].ack_index = 0
        script.contexts[0].delay_level = 7
        script.answer(0)
        await until(lambda: rig.store.memory(name()) == 3)
    given_back = [fields for _, fields in rig.rig.sent(GIVE_BACK)]
    assert [fields["offset"] for fields in given_back] == ["1001", "1002"]
    assert {fields["delayLevel"] for fields in given_back} == {"7"}
    assert {fields["maxReconsumeTimes"] for fields in given_back} == {"5"}
    assert queue.messages.count == 0


@pytest.fixture
def quick_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrent, "AGAIN_S", 0.01)


@pytest.mark.usefixtures("quick_again")
async def test_what_nobody_takes_back_is_consumed_here_again() -> None:
    """First the broker is asked, then any that takes it as a new message, then nobody is left."""
    script = Script()
    rig = PushRig(script)
    rig.broker.refuses = {
        GIVE_BACK: ResponseCode.SYSTEM_ERROR, RequestCode.SEND_MESSAGE_V2: ResponseCode.SYSTEM_BUSY
    }  # fmt: skip
    queue, messages = filled(5)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.calls) == 1)
        script.answer(5, None)
        await until(lambda: len(script.calls) == 2)
        assert rig.codes() == [GIVE_BACK, *[RequestCode.SEND_MESSAGE_V2] * 2]
        assert rig.store.memory(name()) == 5
        assert messages[0].reconsume_times == 1
        script.answer(5)
        await until(lambda: rig.store.memory(name()) == 6)


async def test_results_for_a_lost_queue_do_not_count() -> None:
    """Neither what is consumed nor what is not; and what was not begun is not begun."""
    script = Script()
    rig = PushRig(script, concurrency=2)
    queue, messages = filled(0, 1, 2)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.calls) == 2)
        queue.drop()
        script.answer(0)
        script.answer(1, LATER)
        other, more = filled(7, queue_id=1)
        consumption.submit(other, more)
        await until(lambda: len(script.calls) == 3)
        script.answer(7)
        await until(lambda: rig.store.memory(name(1)) == 8)
    assert script.calls == [[0], [1], [7]]
    assert rig.store.memory(name(0)) is None
    assert rig.codes() == []


async def test_batches_of_lost_queues_do_not_pile_up() -> None:
    rig = PushRig(concurrency=1)
    consumption = ConcurrentConsumption(rig.parts, list)
    for _ in range(5):
        queue, messages = filled(*range(1_000))
        consumption.submit(queue, messages)
        queue.drop()
    assert len(consumption._pending) <= 2_048


async def test_members_that_get_everything_give_nothing_back() -> None:
    script = Script()
    rig = PushRig(script, model=MessageModel.BROADCASTING)
    queue, messages = filled(0)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: bool(script.answers))
        script.answer(0, LATER)
        await until(lambda: rig.store.memory(name()) == 1)
    assert rig.codes() == []


async def test_a_listener_that_takes_too_long_loses_its_message() -> None:
    """It is given back once, and what the listener says at last changes nothing."""
    script = Script()
    rig = PushRig(script, consume_timeout_s=0.02)
    queue, messages = filled(0, 1)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.calls) == 2)
        script.answer(1)
        await until(lambda: rig.store.memory(name()) == 2)
        script.answer(0, LATER)
    ((_, fields),) = rig.rig.sent(GIVE_BACK)
    assert (fields["offset"], fields["delayLevel"]) == ("1000", "3")


async def test_a_stop_waits_for_listeners_and_begins_nothing_more() -> None:
    """What takes longer is cancelled, and stays uncommitted."""
    script = Script()
    rig = PushRig(script, concurrency=2, stop_timeout_s=0.05)
    queue, messages = filled(0, 1, 2)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.calls) == 2)
        asyncio.get_running_loop().call_later(0.01, script.answer, 0)
    assert script.calls == [[0], [1]]
    assert script.answers[1].cancelled()
    assert rig.store.memory(name()) == 1


async def test_a_listener_may_stop_its_own_consumer() -> None:
    stopped = asyncio.Event()

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        await consumption.stop()
        stopped.set()
        return SUCCESS

    rig = PushRig(listen, stop_timeout_s=60)
    queue, messages = filled(0)
    consumption = ConcurrentConsumption(rig.parts, lambda: [queue])
    consumption.start()
    consumption.submit(queue, messages)
    async with asyncio.timeout(5):
        await stopped.wait()
    await until(lambda: rig.store.memory(name()) == 1)


async def test_messages_are_asked_for_one_by_one_where_slots_are_scarce() -> None:
    """As by those who iterate over a consumer: nothing is begun before somebody wants it."""
    script = Script()
    turns = Turns(2)
    rig = PushRig(script, concurrency=5, slots=turns)
    queue, messages = filled(0, 1, 2)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.calls) == 2)
        script.answer(0)
        await until(lambda: len(script.calls) == 3)
        script.answer(1)
        script.answer(2)
        await until(lambda: rig.store.memory(name()) == 3)
    assert script.calls == [[0], [1], [2]]
