"""Queue locks: one client of a group at a time, for a minute, and never more than fit."""

import pytest

from roketto.broker import locks as locks_module
from roketto.broker.locks import LOCK_S, QueueLocks
from roketto.protocol.bodies.route import MessageQueue
from unit.broker.peers import Now

Q0 = MessageQueue("a", 0, "T")
Q1 = MessageQueue("a", 1, "T")


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def locks(now: Now) -> QueueLocks:
    return QueueLocks(now)


def test_a_client_holds_what_it_locked(locks: QueueLocks) -> None:
    """A second client of the group gets what is left."""
    assert locks.lock("G", "c1", [Q0]) == {Q0}
    assert locks.lock("G", "c2", [Q0, Q1]) == {Q1}


def test_groups_do_not_lock_each_other_out(locks: QueueLocks) -> None:
    """Each group has all queues for itself."""
    assert locks.lock("G", "c1", [Q0]) == {Q0}
    assert locks.lock("H", "c2", [Q0]) == {Q0}


def test_a_lock_that_is_not_renewed_is_taken_over(locks: QueueLocks, now: Now) -> None:
    """Just within the minute it holds; after it, the next client has it."""
    locks.lock("G", "c1", [Q0])
    now.now_s += LOCK_S
    assert locks.lock("G", "c2", [Q0]) == set()
    now.now_s += 0.001
    assert locks.lock("G", "c2", [Q0]) == {Q0}
    assert locks.lock("G", "c1", [Q0]) == set()


def test_renewing_a_lock_keeps_it_for_another_minute(locks: QueueLocks, now: Now) -> None:
    """Clients renew every 20 s."""
    locks.lock("G", "c1", [Q0])
    now.now_s += 50
    assert locks.lock("G", "c1", [Q0]) == {Q0}
    now.now_s += 50
    assert locks.lock("G", "c2", [Q0]) == set()


def test_only_the_holder_gives_a_lock_back(locks: QueueLocks) -> None:
    """Somebody else's unlock changes nothing, nor does one of a group that has no locks."""
    locks.lock("G", "c1", [Q0, Q1])
    locks.unlock("G", "c2", [Q0])
    locks.unlock("H", "c1", [Q0])
    assert locks.lock("G", "c2", [Q0]) == set()
    locks.unlock("G", "c1", [Q0])
    assert locks.lock("G", "c2", [Q0, Q1]) == {Q0}


def test_a_group_is_locked_while_one_of_its_locks_lives(locks: QueueLocks, now: Now) -> None:
    """An ended lock is as good as none."""
    assert not locks.is_group_locked("G")
    locks.lock("G", "c1", [Q0])
    assert locks.is_group_locked("G")
    now.now_s += LOCK_S + 1
    assert not locks.is_group_locked("G")


def test_nothing_is_kept_of_groups_without_locks(locks: QueueLocks) -> None:
    """Asking for no queues, or giving all back, leaves nothing behind."""
    locks.lock("G", "c1", [])
    locks.lock("H", "c1", [Q0])
    locks.unlock("H", "c1", [Q0])
    assert len(locks) == 0
    assert locks._locks == {}


def test_no_more_locks_than_the_bound(
    locks: QueueLocks, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is not locked; when locks have ended there is room again."""
    monkeypatch.setattr(locks_module, "LOCKS_MAX", 2)
    queues = [MessageQueue("a", number, "T") for number in range(3)]
    assert locks.lock("G", "c1", queues) == set(queues[:2])
    assert locks.lock("H", "c1", queues) == set()
    assert locks.lock("G", "c1", queues[:1]) == {queues[0]}
    now.now_s += LOCK_S + 1
    assert locks.lock("H", "c1", queues) == set(queues[:2])
    assert len(locks) == 2


def test_a_full_table_is_searched_once_a_second(
    locks: QueueLocks, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two searches a request is refused without looking at every lock."""
    monkeypatch.setattr(locks_module, "LOCKS_MAX", 1)
    locks.lock("G", "c1", [Q0])
    now.now_s += LOCK_S - 0.5
    assert locks.lock("H", "c2", [Q1]) == set()
    now.now_s += 0.9
    assert locks.lock("H", "c2", [Q1]) == set()
    now.now_s += 0.2
    assert locks.lock("H", "c2", [Q1]) == {Q1}
