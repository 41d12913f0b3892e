"""Queues that are given up keep what was handled, and lose nothing else on the way."""

import asyncio
from collections.abc import Collection

import pytest

from roketto.client.errors import ClientError
from roketto.client.lite_assignment import LiteAssignment, NotAssignedError
from roketto.client.lite_limits import LiteLimits
from roketto.client.lite_stock import Stock
from roketto.client.message import MessageQueue
from roketto.client.offset_store import Offsets
from roketto.client.pulling import Pulled, PullStatus
from roketto.client.received import ReceivedMessage
from roketto.protocol.record import Record


class Stored(Offsets):
    """A store whose lasting part is a table; ``gate`` holds back what is persisted."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[MessageQueue, int] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self) -> None:
        pass

    async def read(self, queue: MessageQueue, *, memory_first: bool = True) -> int | None:
        return self.kept.get(queue)

    async def persist(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, ClientError]:
        await self.gate.wait()
        self.kept |= self._chosen(queues)
        return {}


def queue(number: int, topic: str = "T") -> MessageQueue:
    return MessageQueue("broker-a", number, topic)


class Made:
    """An assignment whose queues have five messages each."""

    def __init__(self, *, is_auto_commit: bool) -> None:
        self.store = Stored()
        self.stock = Stock(LiteLimits())
        self.assignment = LiteAssignment(
            self.stock, self.store, self.start_offset, self.pull, is_auto_commit=is_auto_commit
        )
        self.assignment.start()

    async def start_offset(self, name: MessageQueue) -> int:
        return await self.store.read(name) or 0

    async def pull(self, name: MessageQueue, offset: int, broker_id: int) -> Pulled:
        if offset >= 5:
            await asyncio.Event().wait()
        messages = [
            ReceivedMessage(Record(name.topic, b"x", queue_id=name.queue_id, queue_offset=at), "b")
            for at in range(offset, 5)
        ]
        return Pulled(PullStatus.FOUND, 5, 0, 5, messages)

    async def take(self, count: int) -> list[tuple[int, int]]:
        """After an earlier take was handled; the numbers of queues and the offsets."""
        self.stock.settle()
        while self.stock.count < count:
            self.stock.arrived.clear()
            await self.stock.arrived.wait()
        return [(message.queue_id, message.queue_offset) for message in self.stock.take(count)]


@pytest.mark.parametrize(("is_auto_commit", "kept"), [(True, {queue(0): 2}), (False, {})])
async def test_a_queue_that_is_lost_keeps_what_was_handled(
    is_auto_commit: bool, kept: dict[MessageQueue, int]
) -> None:
    """Not what was handed out last, and nothing at all where the caller commits."""
    made = Made(is_auto_commit=is_auto_commit)
    assert made.assignment.change([queue(0)])
    await made.take(2)
    await made.take(2)
    assert made.assignment.change([queue(1)], "T")
    await made.assignment.release()
    assert made.store.kept == kept
    assert made.store.memory(queue(0)) is None
    assert await made.take(1) == [(1, 0)]
    await made.assignment.close()


@pytest.mark.parametrize("by_offset", [True, False])
async def test_a_commit_is_not_undone_when_the_queue_is_lost(by_offset: bool) -> None:
    """Also where earlier polls are committed by themselves: whoever says more has handled more."""
    made = Made(is_auto_commit=True)
    made.assignment.change([queue(0)])
    await made.take(2)
    if by_offset:
        made.assignment.commit({queue(0): 1})
    else:
        made.assignment.commit_handed([queue(0)])
    await made.assignment.close()
    assert made.store.kept == {queue(0): 1 if by_offset else 2}


async def test_other_topics_are_left_alone() -> None:
    """A share is that of one topic; the same share again is no news."""
    made = Made(is_auto_commit=True)
    made.assignment.change([queue(0)], "T")
    made.assignment.change([queue(0, "U")], "U")
    assert not made.assignment.change([queue(0)], "T")
    assert set(made.assignment.names) == {queue(0), queue(0, "U")}
    made.assignment.change((), "T")
    assert set(made.assignment.names) == {queue(0, "U")}
    with pytest.raises(NotAssignedError, match="queue 0 of T on broker-a is not assigned"):
        made.assignment.owned(queue(0))
    await made.assignment.close()


async def test_a_release_that_is_cancelled_is_done_later() -> None:
    """The stop of a consumer may come at any time."""
    made = Made(is_auto_commit=True)
    made.assignment.change([queue(0)])
    await made.take(3)
    made.stock.settle()
    made.store.gate.clear()
    made.assignment.change(())
    releasing = asyncio.create_task(made.assignment.release())
    await asyncio.sleep(0.001)
    releasing.cancel()
    await asyncio.gather(releasing, return_exceptions=True)
    made.store.gate.set()
    await made.assignment.close()
    assert made.store.kept == {queue(0): 3}


async def test_a_queue_that_is_back_at_once_keeps_its_memory() -> None:
    """It was given up and got again before its offset was kept."""
    made = Made(is_auto_commit=True)
    made.assignment.change([queue(0)])
    await made.take(3)
    made.stock.settle()
    made.assignment.change(())
    made.assignment.change([queue(0)])
    await made.assignment.release()
    assert made.store.memory(queue(0)) == 3
    await made.assignment.close()


async def test_commits_of_queues_that_are_others_are_passed_over() -> None:
    """They could set back who has the queue now."""
    made = Made(is_auto_commit=False)
    made.assignment.change([queue(0), queue(1)])
    await made.take(10)
    made.assignment.commit({queue(0): 2, queue(7): 9})
    made.assignment.commit_handed([queue(1), queue(7)])
    assert made.store.offsets() == {queue(0): 2, queue(1): 5}
    await made.assignment.reset({queue(1): 3, queue(7): 1})
    assert made.store.kept == {queue(1): 3}
    assert await made.take(2) == [(1, 3), (1, 4)]
    await made.assignment.close()
