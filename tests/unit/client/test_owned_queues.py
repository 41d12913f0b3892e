"""Queues are taken and given up with everything that is known of them, and never by halves."""

import logging

import pytest

from roketto.client import owned_queues, process_queue
from roketto.client.owned_queue import OwnedQueue
from roketto.client.owned_queues import OwnedQueues
from roketto.client.queue_locks import QueueLocks
from roketto.protocol.codes import RequestCode
from unit.client.core_rig import GROUP, TOPIC
from unit.client.push_parts import PushRig, name, until

UPDATE, LOCK = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.LOCK_BATCH_MQ
UNLOCK = RequestCode.UNLOCK_BATCH_MQ


class Table:
    """Queues whose loops only note that they run."""

    def __init__(self, *, in_order: bool = False) -> None:
        self.rig = PushRig(in_order=in_order)
        self.started: list[tuple[int, bool]] = []
        self.locks = QueueLocks(self.rig.parts.client, GROUP)
        self.queues = OwnedQueues(self.rig.parts, self.locks, self.loop)

    async def loop(self, queue: OwnedQueue, is_shared: bool) -> None:
        self.started.append((queue.name.queue_id, is_shared))
        while not queue.is_dropped:
            await queue.wait_for_room(1)

    async def share(self, *queue_ids: int, is_whole: bool = True) -> bool:
        names = [name(queue_id) for queue_id in queue_ids]
        return await self.queues.share(TOPIC, names, is_whole=is_whole)

    def get(self, queue_id: int = 0) -> OwnedQueue:
        return next(queue for queue in self.queues if queue.name.queue_id == queue_id)

    def told(self) -> dict[int, int]:
        """The offsets that the broker was told last."""
        return {
            int(fields["queueId"]): int(fields["commitOffset"])
            for _, fields in self.rig.rig.sent(UPDATE)
        }

    async def end(self) -> None:
        await self.queues.stop_pulling()
        assert not self.queues._loops


async def test_a_share_takes_what_is_new_and_gives_up_what_is_not_in_it() -> None:
    """With the offset of what is given up kept, and a stale one of what is taken forgotten."""
    table = Table()
    table.rig.store.update(name(1), 99, increase_only=True)
    assert await table.share(0, 1)
    assert table.rig.store.memory(name(1)) is None
    kept, lost = table.get(0), table.get(1)
    table.rig.store.update(name(1), 7, increase_only=True)
    assert await table.share(0, 2, is_whole=False)
    assert not await table.share(0, 2, is_whole=False)
    await until(lambda: len(table.started) == 3)
    assert table.started == [(0, False), (1, False), (2, True)]
    assert (lost.is_dropped, table.get(0)) == (True, kept)
    assert table.told() == {1: 7}
    assert table.queues.names(TOPIC) == [name(0), name(2)]
    assert await table.queues.keep_topics(["another"])
    assert len(table.queues) == 0
    await table.end()


async def test_a_queue_that_nobody_pulls_is_taken_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = Table()
    await table.share(0, 1)
    old = table.get(0)
    old.messages.last_pull_s -= process_queue.PULL_IDLE_S_MAX + 1
    with caplog.at_level(logging.ERROR):
        assert await table.share(0, 1)
    assert old.is_dropped
    assert table.get(0) is not old
    assert "queue 0 of Orders on broker-a" in caplog.text
    assert "was not pulled for more than 120 s" in caplog.text
    await table.end()


async def test_in_order_a_queue_is_taken_with_its_lock_only() -> None:
    table = Table(in_order=True)
    table.rig.broker.held_by_others = {name(1)}
    assert await table.share(0, 1)
    assert table.queues.names() == [name(0)]
    table.rig.broker.held_by_others = set()
    assert await table.share(0, 1)
    assert table.queues.names() == [name(0), name(1)]
    await table.end()


@pytest.mark.parametrize("in_order", [True, False])
async def test_in_order_locks_of_a_broker_that_may_be_gone_are_doubtful(in_order: bool) -> None:
    """Those of others are not; without locks there is nothing to doubt."""
    table = Table(in_order=in_order)
    await table.share(0)
    for broker_name, is_doubtful in (("another", False), (name().broker_name, in_order)):
        table.queues.doubt(broker_name)
        assert table.get().is_doubtful == is_doubtful
    await table.end()


async def test_in_order_a_queue_is_given_up_when_its_listener_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What that commits is kept, too; then the lock is given back, and never before."""
    monkeypatch.setattr(owned_queues, "_IDLE_WAIT_S", 0.01)
    table = Table(in_order=True)
    await table.share(0)
    queue = table.get(0)
    table.rig.store.update(name(0), 3, increase_only=True)
    async with queue.consuming:
        assert not await table.share()
        assert (queue.is_dropped, queue.messages.unlock_tries) == (True, 1)
        assert UNLOCK not in table.rig.codes()
        assert not await table.share(0)  # it is not had anew before it is gone
        table.rig.store.update(name(0), 4, increase_only=True)
    assert await table.share()
    assert table.rig.codes()[-2:] == [UPDATE, UNLOCK]
    assert table.told() == {0: 4}
    assert len(table.queues) == 0
    await table.end()


async def test_a_lock_that_its_broker_has_given_away_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owned_queues, "_IDLE_WAIT_S", 0.01)
    table = Table(in_order=True)
    await table.share(0)
    queue = table.get(0)
    async with queue.consuming:
        queue.messages.locked_s -= 61
        assert await table.share()
    await table.end()


async def test_a_moved_queue_is_void_and_its_new_offset_is_kept() -> None:
    """Nothing that is still said of it counts; a queue that is not here is left alone."""
    table = Table()
    await table.share(0, 1)
    queue = table.get(0)
    table.rig.store.update(name(0), 70, increase_only=True)
    await table.queues.reset({name(0): 20, name(9): 1})
    table.rig.store.update(name(0), 71, increase_only=True)
    assert (queue.is_void, queue.is_dropped) == (True, True)
    assert table.told() == {0: 20}
    assert table.queues.names() == [name(1)]
    await table.queues.move(name(0), 30)
    assert table.told() == {0: 20}
    await table.end()


async def test_a_queue_lost_to_another_member_leaves_no_offset_behind() -> None:
    """The other one has begun where the group was: ours may be older."""
    table = Table(in_order=True)
    await table.share(0)
    table.rig.store.update(name(0), 7, increase_only=True)
    table.locks.on_lost = table.queues.lose
    table.rig.broker.held_by_others = {name(0)}
    await table.locks.lock(table.queues)
    await table.queues.persist()
    assert await table.share()
    assert table.told() == {}
    await table.end()


async def test_at_the_end_offsets_are_kept_and_locks_given_back() -> None:
    table = Table(in_order=True)
    await table.share(0, 1)
    table.rig.store.update(name(0), 7, increase_only=True)
    await table.queues.stop_pulling()
    await table.queues.give_up()
    assert table.rig.codes() == [LOCK, UPDATE, UNLOCK]
    assert len(table.queues) == 0
