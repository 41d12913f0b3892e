"""Consumption in order: a queue waits for its first message, and for its lock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roketto.client import orderly
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.orderly import OrderlyConsumption
from roketto.client.owned_queue import OwnedQueue
from roketto.client.queue_locks import QueueLocks
from roketto.client.received import ReceivedMessage
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.codes import RequestCode, ResponseCode
from unit.client.push_parts import LATER, SUCCESS, PushRig, filled, message, name, until

COMMIT, ROLLBACK = ConsumeResult.COMMIT, ConsumeResult.ROLLBACK
SEND = RequestCode.SEND_MESSAGE_V2


class Script:
    """A listener with its answers in a row; SUCCESS when they are used up."""

    def __init__(self, *answers: ConsumeResult | None, auto_commit: bool = True) -> None:
        self.answers = list(answers)
        self.heard: list[int] = []
        self.at_once = 0
        self.most_at_once = 0
        self._auto_commit = auto_commit

    async def __call__(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult | None:
        context.auto_commit = self._auto_commit
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.heard += [one.queue_offset for one in messages]
        await asyncio.sleep(0.001)
        self.at_once -= 1
        return self.answers.pop(0) if self.answers else SUCCESS


@asynccontextmanager
async def consuming(rig: PushRig, *queues: OwnedQueue) -> AsyncIterator[OrderlyConsumption]:
    await rig.know_routes()
    consumption = OrderlyConsumption(rig.parts, QueueLocks(rig.parts.client, rig.parts.group))
    consumption.start()
    for queue in queues:
        queue.lock()
    yield consumption
    await consumption.stop()


async def test_a_queue_is_consumed_one_by_one_and_queues_at_the_same_time() -> None:
    """Whatever is submitted while it is consumed follows; the last one commits."""
    script = Script()
    rig = PushRig(script, in_order=True)
    (a, first), (b, _) = filled(0, 1, 2), filled(5, 6, queue_id=1)
    async with consuming(rig, a, b) as consumption:
        consumption.submit(a, first)
        consumption.submit(b, [])
        a.messages.put([message(3)])
        consumption.submit(a, [])
        await until(lambda: rig.store.memory(name(0)) == 4 and rig.store.memory(name(1)) == 7)
        a.messages.put([message(4)])
        consumption.submit(a, [])
        await until(lambda: rig.store.memory(name(0)) == 5)
    assert [offset for offset in script.heard if offset < 5] == [0, 1, 2, 3, 4]
    assert script.most_at_once == 2


async def test_what_fails_is_tried_again_before_what_follows() -> None:
    """Counted by the message itself; LATER, nothing at all and an exception are the same."""
    script = Script(SUCCESS, LATER, None)
    rig = PushRig(script, in_order=True, suspend_ms=10)
    queue, messages = filled(0, 1, 2)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.heard) == 2)
        assert rig.store.memory(name()) == 1
        await until(lambda: rig.store.memory(name()) == 3)
    assert script.heard == [0, 1, 1, 1, 2]
    assert messages[1].reconsume_times == 2
    assert rig.codes() == []


async def test_what_fails_too_often_becomes_a_dead_letter() -> None:
    """Sent to the retry topic with more times than are allowed; if that fails, it stays."""
    script = Script(*[LATER] * 4)
    rig = PushRig(script, in_order=True, suspend_ms=10, reconsume_max=1)
    rig.broker.refuses = {SEND: ResponseCode.SYSTEM_BUSY}
    queue, messages = filled(0, 1)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(rig.rig.sent(SEND)) == 2)
        rig.broker.refuses = {}
        await until(lambda: rig.store.memory(name()) == 2)
    fields = rig.rig.sent(SEND)[-1][1]
    assert (fields["b"], fields["j"], fields["l"]) == (f"%RETRY%{rig.parts.group}", "3", "1")
    assert script.heard == [0, 0, 0, 1, 1]


async def test_of_a_batch_only_the_living_are_tried_again() -> None:
    """A dead letter among others is not sent twice; nothing is committed before all are done."""
    script = Script(LATER)
    rig = PushRig(script, in_order=True, suspend_ms=10, batch_max=8, reconsume_max=1)
    queue, messages = filled(0, 1, 2)
    messages[1].reconsume_times = 1
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: rig.store.memory(name()) == 3)
    assert script.heard == [0, 1, 2, 0, 2]
    assert len(rig.rig.sent(SEND)) == 1
    assert queue.messages.count == 0


async def test_without_auto_commit_the_listener_commits() -> None:
    """SUCCESS only goes on; ROLLBACK goes back to the last commit."""
    script = Script(SUCCESS, COMMIT, SUCCESS, ROLLBACK, SUCCESS, COMMIT, auto_commit=False)
    rig = PushRig(script, in_order=True, suspend_ms=10)
    queue, messages = filled(0, 1, 2, 3)
    offsets: list[int | None] = []
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: len(script.heard) == 4)
        offsets.append(rig.store.memory(name()))
        await until(lambda: rig.store.memory(name()) == 4)
    assert script.heard == [0, 1, 2, 3, 2, 3]
    assert offsets == [2]


async def test_nothing_is_consumed_without_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue whose broker was not reached is locked anew first; COMMIT is as good as SUCCESS."""
    monkeypatch.setattr(orderly, "_UNLOCKED_S", 0.01)
    script = Script(COMMIT)
    rig = PushRig(script, in_order=True)
    queue, messages = filled(0)
    async with consuming(rig, queue) as consumption:
        queue.is_doubtful = True
        rig.broker.is_down = True
        consumption.submit(queue, messages)
        await until(lambda: rig.codes().count(RequestCode.LOCK_BATCH_MQ) == 2)
        assert script.heard == []
        rig.broker.is_down = False
        await until(lambda: rig.store.memory(name()) == 1)
    assert not queue.is_doubtful


async def test_a_queue_that_was_given_up_commits_what_was_under_way() -> None:
    """Its lock is still held; but not if the group is elsewhere by then."""
    for is_void, committed in ((False, 1), (True, None)):
        script = Script()
        rig = PushRig(script, in_order=True)
        queue, messages = filled(0, 1)
        async with consuming(rig, queue) as consumption:
            consumption.submit(queue, messages)
            await until(lambda heard=script.heard: bool(heard))  # type: ignore[misc]
            queue.drop(is_void=is_void)
            await until(lambda lane=queue.consuming: not lane.locked())  # type: ignore[misc]
        assert rig.store.memory(name()) == committed
        assert script.heard == [0]


async def test_members_that_get_everything_need_no_lock() -> None:
    script = Script(LATER)
    rig = PushRig(
        script, in_order=True, model=MessageModel.BROADCASTING, suspend_ms=10, reconsume_max=0
    )
    queue, messages = filled(0, 1)
    async with consuming(rig) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: rig.store.memory(name()) == 2)
    assert script.heard == [0, 1]
    assert rig.codes() == []


async def test_a_stop_waits_for_the_message_under_way() -> None:
    script = Script()
    rig = PushRig(script, in_order=True)
    queue, messages = filled(0, 1, 2)
    async with consuming(rig, queue) as consumption:
        consumption.submit(queue, messages)
        await until(lambda: bool(script.heard))
    assert rig.store.memory(name()) == len(script.heard) < 3
