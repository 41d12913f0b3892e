"""The offset to commit never passes a message that is not consumed, in whatever order they are."""

import random

import pytest

from roketto.client import process_queue
from roketto.client.process_queue import NOTHING, ProcessQueue
from roketto.client.received import ReceivedMessage
from roketto.protocol.record import Record


def message(offset: int, size: int = 10, max_offset: int = 0) -> ReceivedMessage:
    return ReceivedMessage(Record("T", b"x" * size, queue_offset=offset), "b", None, max_offset)


def messages(*offsets: int) -> list[ReceivedMessage]:
    return [message(offset) for offset in offsets]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that a queue sees; set its only item."""
    now = [1_000.0]
    monkeypatch.setattr(process_queue, "monotonic_s", lambda: now[0])
    return now


def test_the_first_one_left_holds_the_commit_offset() -> None:
    """Those behind it may be done; at the end it is one behind the last."""
    queue = ProcessQueue()
    queue.put(messages(5, 6, 8))
    assert (queue.count, queue.body_bytes, queue.span) == (3, 30, 3)
    assert queue.remove(messages(6)) == 5
    assert queue.remove(messages(5)) == 8
    assert (queue.count, queue.body_bytes, queue.span) == (1, 10, 0)
    assert queue.remove(messages(8)) == 9
    assert queue.remove(messages(8)) == NOTHING
    assert (queue.count, queue.body_bytes, queue.first) == (0, 0, None)


def test_the_span_counts_what_was_consumed_behind_the_first() -> None:
    """A new start would begin with the first: all behind it would come again."""
    queue = ProcessQueue()
    queue.put(messages(5, 6, 7))
    queue.remove(messages(6, 7))
    assert (queue.count, queue.span) == (1, 2)
    queue.put(messages(8, 9))
    queue.remove(messages(8, 9))
    assert (queue.count, queue.span) == (1, 4)
    assert queue.remove(messages(5)) == 10
    assert queue.span == 0
    queue.put(messages(3))  # the loop has gone back
    assert queue.span == 0


def test_what_is_pulled_twice_counts_once() -> None:
    """Also if it is older than what is here, or was consumed meanwhile."""
    queue = ProcessQueue()
    queue.put(messages(5, 6, 7))
    queue.put(messages(6, 7, 8))
    assert (queue.count, queue.body_bytes) == (4, 40)
    assert queue.remove(messages(6)) == 5
    queue.put(messages(3, 6))
    assert queue.first_offset == 3
    assert queue.remove(messages(3, 5)) == 6
    assert (queue.count, queue.last_offset) == (3, 8)


def test_any_order_commits_what_a_sorted_map_would() -> None:
    """Ten thousand random steps against the obvious way to do it."""
    drawn = random.Random(7)
    queue = ProcessQueue()
    held: set[int] = set()
    taken: set[int] = set()
    next_offset, last = 0, 0
    for _ in range(10_000):
        step = drawn.random()
        if step < 0.2 and len(held) < 200:
            batch = list(
                range(next_offset, next_offset + drawn.randrange(1, 33), drawn.choice((1, 3)))
            )
            next_offset = last = batch[-1] + 1
            last -= 1
            held.update(batch)
            queue.put(messages(*batch))
        elif step < 0.8:
            done = drawn.sample(sorted(held), min(len(held), drawn.randrange(4)))
            expected = NOTHING if not held else min(held - set(done), default=last + 1)
            held.difference_update(done)
            assert queue.remove(messages(*done)) == expected
        elif step < 0.9:
            batch = sorted(held)[: drawn.randrange(5)]
            assert [one.queue_offset for one in queue.take(len(batch))] == batch
            held.difference_update(batch)
            taken.update(batch)
        elif step < 0.95:
            assert queue.commit() == max(taken, default=NOTHING - 1) + 1
            taken.clear()
        else:
            queue.rollback()
            held |= taken
            taken.clear()
        assert queue.count == len(held) + len(taken)
        assert queue.body_bytes == 10 * queue.count
        assert queue.first_offset == min(held, default=None)
        assert queue.span == (last - min(held) if held else 0)


def test_what_was_taken_comes_again_until_it_is_committed() -> None:
    """Orderly: some go back, all go back, or all are done; before that the count stays."""
    queue = ProcessQueue()
    queue.put(messages(1, 2, 3))
    first, second = queue.take(2)
    assert first not in queue
    queue.put_back([second])
    assert second in queue
    assert [one.queue_offset for one in queue.take(5)] == [2, 3]
    assert queue.take(5) == []
    queue.rollback()
    assert [one.queue_offset for one in queue.take(2)] == [1, 2]
    assert queue.count == 3
    assert queue.commit() == 3
    assert queue.commit() == NOTHING
    assert (queue.count, queue.body_bytes, queue.first_offset) == (1, 10, 3)


def test_nothing_is_left_of_a_queue_that_is_cleared() -> None:
    """As after a reset, when it begins elsewhere."""
    queue = ProcessQueue()
    queue.put(messages(7, 8, 9))
    queue.begin(queue.take(1))
    queue.clear()
    assert (queue.count, queue.body_bytes, queue.has_messages) == (0, 0, False)
    assert (queue.commit(), queue.first_begun_s) == (NOTHING, None)
    queue.put(messages(2))
    assert queue.remove(messages(2)) == 3


def test_a_message_that_takes_too_long_can_be_seen(clock: list[float]) -> None:
    """When the first was begun, not when it came."""
    queue = ProcessQueue()
    queue.put(messages(1, 2))
    assert [queue.first_begun_s] == [None]
    clock[0] = 1_010.0
    queue.begin(messages(1))
    clock[0] = 1_020.0
    queue.begin(messages(2))
    assert queue.first_begun_s == 1_010.0
    queue.remove(messages(1))
    assert (queue.first_begun_s, queue.last_consume_s) == (1_020.0, 1_020.0)
    queue.begin(messages(2), 1_015.0)  # by whoever knows it better
    assert queue.first_begun_s == 1_015.0
    queue.begin(messages(1))  # late: it is gone
    queue.remove(messages(1, 2))
    queue.put(messages(1))
    assert [queue.first_begun_s] == [None]


def test_locks_and_pulls_grow_old(clock: list[float]) -> None:
    """A lock counts for half a minute, a queue nobody pulls is given up after two."""
    queue = ProcessQueue()
    clock[0] += 20
    queue.lock()
    clock[0] += 30
    assert queue.is_locked
    assert not queue.is_lock_expired
    clock[0] += 0.1
    assert queue.is_lock_expired
    queue.unlock()
    assert not queue.is_locked
    queue.last_pull_s = clock[0]
    clock[0] += 120
    assert not queue.is_pull_expired
    clock[0] += 0.1
    assert queue.is_pull_expired


def test_an_operator_sees_what_is_here(clock: list[float]) -> None:
    """As mqadmin shows it, with times of the wall."""
    queue = ProcessQueue()
    queue.put([message(4, 1024 * 1024), message(5, 1024 * 1024, max_offset=25), message(9)])
    assert queue.behind == 0
    queue.put([message(10, max_offset=25)])
    assert queue.behind == 15
    queue.take(1)
    queue.lock()
    queue.last_pull_s = clock[0] - 60
    info = queue.describe(4)
    assert (info.cached_msg_count, info.cached_msg_min_offset, info.cached_msg_max_offset) == (
        3,
        5,
        10,
    )
    assert (info.transaction_msg_count, info.transaction_msg_min_offset) == (1, 4)
    assert (info.commit_offset, info.cached_msg_size_mib, info.locked) == (4, 2, True)
    assert info.last_lock_timestamp - info.last_pull_timestamp == pytest.approx(60_000, abs=50)
