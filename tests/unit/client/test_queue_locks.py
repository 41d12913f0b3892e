"""Locks are asked for broker by broker, and a queue that another member holds is lost."""

import asyncio
import logging

import pytest

from roketto.client import queue_locks
from roketto.client.owned_queue import OwnedQueue
from roketto.client.queue_locks import QueueLocks
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.locks import LockBatchRequestBody
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode
from unit.client.core_rig import GROUP, MASTER, TOPIC, route_data
from unit.client.push_parts import PushRig, name, until

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
OTHER = "10.0.0.9:10911"


def made(rig: PushRig) -> tuple[QueueLocks, list[OwnedQueue]]:
    lost: list[OwnedQueue] = []
    locks = QueueLocks(rig.parts.client, GROUP)
    locks.on_lost = lost.append
    return locks, lost


async def test_one_request_to_each_broker_asks_for_all_its_queues() -> None:
    rig = PushRig(in_order=True)
    rig.rig.routes[TOPIC] = route_data({"broker-a": {0: MASTER}, "broker-b": {0: OTHER}})
    locks, lost = made(rig)
    names = [name(0), name(1), MessageQueue("broker-b", 0, TOPIC)]
    queues = [OwnedQueue(one) for one in names]
    rig.broker.held_by_others = {name(1)}
    assert await locks.lock(queues) == [queues[0], queues[2]]
    assert [queue.is_locked for queue in queues] == [True, False, True]
    sent = {
        address: decode_body(LockBatchRequestBody, command.body)
        for address, command in rig.rig.pool.sent
        if command.code == LOCK
    }
    assert sent[MASTER].mq_set == names[:2]
    assert sent[OTHER].mq_set == names[2:]
    assert sent[MASTER].client_id == rig.parts.client.id
    assert lost == []  # it was never had


async def test_a_queue_is_lost_when_another_member_has_its_lock() -> None:
    """But not when its broker only does not answer; that is said once."""
    rig = PushRig(in_order=True)
    locks, lost = made(rig)
    queue = OwnedQueue(name())
    await locks.lock([queue])
    rig.broker.is_down = True
    assert await locks.lock([queue]) == []
    assert queue.is_locked
    rig.broker.is_down = False
    rig.broker.held_by_others = {name()}
    assert await locks.lock([queue]) == []
    assert (queue.is_locked, lost) == (False, [queue])
    await locks.lock([queue])
    assert lost == [queue]


async def test_a_broker_that_does_not_answer_is_complained_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = PushRig(in_order=True)
    await rig.know_routes()
    locks, _ = made(rig)
    rig.broker.is_down = True
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await locks.lock([OwnedQueue(name())])
    assert caplog.text.count("cannot lock its queues on broker-a") == 1


async def test_locks_are_given_back_even_if_nobody_takes_them() -> None:
    rig = PushRig(in_order=True)
    locks, _ = made(rig)
    queues = [OwnedQueue(name(0)), OwnedQueue(name(1))]
    await locks.lock(queues)
    await locks.unlock(queues[:1])
    rig.broker.is_down = True
    await locks.unlock(queues[1:])
    assert not any(queue.is_locked for queue in queues)
    assert rig.codes() == [LOCK, UNLOCK, UNLOCK]


async def test_locks_are_renewed_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of queues that are being given up are not."""
    monkeypatch.setattr(queue_locks, "_FIRST_S", 0.001)
    monkeypatch.setattr(queue_locks, "_INTERVAL_S", 0.001)
    rig = PushRig(in_order=True)
    locks, _ = made(rig)
    queues = [OwnedQueue(name(0)), OwnedQueue(name(1))]
    queues[1].drop()
    task = asyncio.create_task(locks.renew(lambda: queues))
    await until(lambda: rig.codes().count(LOCK) >= 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [queue.messages.is_locked for queue in queues] == [True, False]
