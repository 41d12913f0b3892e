"""A queue knows whether it is surely one's own, and wakes its loop when there is room."""

import asyncio

from roketto.client.owned_queue import OwnedQueue, Turns, by_broker
from roketto.client.process_queue import LOCK_S_MAX
from roketto.protocol.bodies.route import MessageQueue
from unit.client.push_parts import filled, name


def test_a_lock_counts_while_it_is_fresh_and_its_broker_answers() -> None:
    queue = OwnedQueue(name())
    assert not queue.is_locked
    queue.lock()
    assert queue.is_locked
    queue.is_doubtful = True
    assert not queue.is_locked
    queue.lock()
    queue.messages.locked_s -= LOCK_S_MAX + 1
    assert not queue.is_locked


def test_a_void_queue_forgets_what_it_has() -> None:
    (lost, _), (void, _) = filled(1, 2), filled(1, 2)
    lost.drop()
    void.drop(is_void=True)
    assert (lost.is_dropped, lost.is_void, lost.messages.count) == (True, False, 2)
    assert (void.is_dropped, void.is_void, void.messages.count) == (True, True, 0)


async def test_a_loop_that_waits_for_room_is_woken_by_a_drop() -> None:
    queue = OwnedQueue(name())
    asyncio.get_running_loop().call_later(0.005, queue.drop)
    async with asyncio.timeout(5):
        await queue.wait_for_room(60)
        await queue.wait_for_room(0.001)


async def test_only_so_many_turns_are_given() -> None:
    turns = Turns(1)
    await turns.acquire()
    waiting = asyncio.create_task(turns.acquire())
    await asyncio.sleep(0.001)
    assert not waiting.done()
    turns.release(is_used=False)
    await waiting


def test_queues_are_found_by_their_brokers() -> None:
    queues = [
        OwnedQueue(name(0)),
        OwnedQueue(MessageQueue("broker-b", 0, "T")),
        OwnedQueue(name(1)),
    ]
    assert by_broker(queues) == {"broker-a": [queues[0], queues[2]], "broker-b": [queues[1]]}
