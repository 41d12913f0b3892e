"""Proves that parked polls are woken by what they wait for, end in time, and stay bounded."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from roketto.broker.longpoll import PASSED_BY_MAX, LongPolls, Poll
from roketto.store.dispatch import Arrival, ArrivedBatch
from roketto.store.run_properties import RunProperties
from unit.broker.fake_connection import FakeConnection


class Waiter(Poll):
    """A poll that says what happened to it."""

    def __init__(
        self,
        connection: FakeConnection,
        deadline_s: float = 15.0,
        queue_offset: int = 0,
        code: int | None = None,
        queue_id: int = 0,
        waits_for_arrivals: bool = True,
    ) -> None:
        super().__init__(
            connection.as_connection, "T", queue_id, queue_offset, deadline_s, waits_for_arrivals
        )
        self.code = code
        self.resumed: list[bool] = []
        self.then: Callable[[], None] = lambda: None

    def wants(self, arrival: Arrival) -> bool:
        return self.code is None or arrival.tags_code == self.code

    def resume(self, is_late: bool) -> None:
        self.resumed.append(is_late)
        self.then()


class Rig:
    """A table whose loop turns when it is told to."""

    def __init__(self, polls_max: int = 100, polls_of_queue_max: int = 100) -> None:
        self.soon: list[Callable[[], None]] = []
        self.polls = LongPolls(
            polls_max=polls_max,
            polls_of_queue_max=polls_of_queue_max,
            call_soon=lambda call: self.soon.append(call),
        )
        self.connection = FakeConnection()

    def park(self, poll: Waiter) -> Waiter:
        assert self.polls.park(poll)
        return poll

    def turn(self) -> int:
        """Let the loop do what waits; how much that was."""
        soon, self.soon = self.soon, []
        for call in soon:
            call()
        return len(soon)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def arrival(queue_offset: int = 0, code: int = 0, queue_id: int = 0) -> Arrival:
    return Arrival("T", queue_id, queue_offset, code, 0, b"")


def test_an_arrival_wakes_all_who_wait_for_it_in_one_turn(rig: Rig) -> None:
    first, second = rig.park(Waiter(rig.connection)), rig.park(Waiter(FakeConnection()))
    other = rig.park(Waiter(rig.connection, queue_id=1))
    rig.polls.arrived(arrival())
    assert first.resumed == [], "the producer does not wait for consumers"
    assert rig.turn() == 1
    assert (first.resumed, second.resumed, other.resumed) == ([False], [False], [])
    assert len(rig.polls) == 1


def test_arrivals_of_one_turn_wake_a_poll_once(rig: Rig) -> None:
    poll = rig.park(Waiter(rig.connection))
    late = rig.park(Waiter(rig.connection, queue_offset=1))
    for offset in range(3):
        rig.polls.arrived(arrival(offset))
    assert rig.turn() == 1
    assert (poll.resumed, late.resumed) == ([False], [False])


def test_a_batch_wakes_as_its_messages_do(rig: Rig) -> None:
    """Each poll that wants any of them, and only once, also when no poll is left for the rest."""
    every = rig.park(Waiter(rig.connection))
    last = rig.park(Waiter(rig.connection, queue_offset=5, code=9))
    never = rig.park(Waiter(rig.connection, queue_offset=5, code=8))
    batch = ArrivedBatch([8, 7, 9, 9], RunProperties([b""] * 4))
    rig.polls.arrived(Arrival("T", 0, 4, 8, 0, b"", batch))
    assert rig.turn() == 1
    assert (every.resumed, last.resumed, never.resumed) == ([False], [False], [])
    rig.polls.arrived(Arrival("T", 0, 8, 8, 0, b"", batch))
    rig.turn()
    assert never.resumed == [False]


def test_an_arrival_where_nobody_waits_does_nothing(rig: Rig) -> None:
    rig.park(Waiter(rig.connection, queue_id=1))
    rig.polls.arrived(arrival())
    assert rig.turn() == 0


def test_what_is_not_wanted_or_before_the_offset_wakes_nobody(rig: Rig) -> None:
    poll = rig.park(Waiter(rig.connection, queue_offset=5, code=7))
    rig.polls.arrived(arrival(4, code=7))
    rig.polls.arrived(arrival(5, code=8))
    assert rig.turn() == 0
    rig.polls.arrived(arrival(6, code=7))
    rig.turn()
    assert poll.resumed == [False]


def test_many_unwanted_messages_wake_a_poll_that_can_go_on_behind_them(rig: Rig) -> None:
    poll = rig.park(Waiter(rig.connection, queue_offset=5, code=7))
    rig.polls.arrived(arrival(4 + PASSED_BY_MAX, code=8))
    assert rig.turn() == 0
    rig.polls.arrived(arrival(5 + PASSED_BY_MAX, code=8))
    rig.turn()
    assert poll.resumed == [False]


def test_a_poll_whose_time_is_up_is_resumed_late_and_never_early(rig: Rig) -> None:
    poll = rig.park(Waiter(rig.connection, deadline_s=15.05))
    longer = rig.park(Waiter(rig.connection, deadline_s=20.0))
    rig.polls.expire(15.04)
    assert poll.resumed == []
    rig.polls.expire(15.1)
    assert (poll.resumed, longer.resumed) == ([True], [])
    rig.polls.expire(1_000.0)
    assert (poll.resumed, longer.resumed) == ([True], [True])
    assert len(rig.polls) == 0


def test_a_poll_without_arrivals_is_resumed_at_its_deadline_only(rig: Rig) -> None:
    poll = rig.park(Waiter(rig.connection, deadline_s=1.0, waits_for_arrivals=False))
    rig.polls.arrived(arrival())
    assert rig.turn() == 0
    assert rig.polls.waiting_on("T", 0) == 0
    rig.polls.expire(1.1)
    assert poll.resumed == [True]


def test_a_resumed_poll_may_be_parked_again(rig: Rig) -> None:
    poll = rig.park(Waiter(rig.connection))

    def park_again() -> None:
        rig.park(poll)

    poll.then = park_again
    rig.polls.arrived(arrival(0))
    rig.turn()
    rig.polls.arrived(arrival(1))
    rig.turn()
    assert poll.resumed == [False, False]
    assert rig.polls.waiting_on("T", 0) == len(rig.polls) == 1


def test_a_client_that_goes_takes_its_polls_along(rig: Rig) -> None:
    gone = [rig.park(Waiter(rig.connection, queue_id=queue)) for queue in range(3)]
    kept = rig.park(Waiter(FakeConnection()))
    rig.connection.end()
    assert len(rig.polls) == 1
    rig.polls.arrived(arrival())
    rig.polls.expire(1_000.0)
    rig.turn()
    assert kept.resumed == [False]
    assert all(poll.resumed == [] for poll in gone)
    assert not rig.polls.park(Waiter(rig.connection)), "it would never be told"


def test_a_client_is_watched_once_however_often_it_polls(rig: Rig) -> None:
    for offset in range(10):
        rig.park(Waiter(rig.connection, queue_offset=offset))
        rig.polls.arrived(arrival(offset))
        rig.turn()
    assert len(rig.connection.close_callbacks) == 1


def test_a_poll_that_was_woken_before_its_client_went_is_resumed(rig: Rig) -> None:
    poll = rig.park(Waiter(rig.connection))
    rig.polls.arrived(arrival())
    rig.connection.end()
    rig.turn()
    assert poll.resumed == [False]


def test_a_full_table_takes_no_more_until_somebody_leaves() -> None:
    rig = Rig(polls_max=2)
    first = rig.park(Waiter(rig.connection))
    rig.park(Waiter(rig.connection, queue_id=1))
    assert not rig.polls.park(Waiter(rig.connection, queue_id=2))
    rig.polls.arrived(arrival())
    rig.turn()
    assert first.resumed == [False]
    rig.park(Waiter(rig.connection, queue_id=2))


def test_a_queue_takes_only_so_many() -> None:
    rig = Rig(polls_of_queue_max=2)
    rig.park(Waiter(rig.connection))
    rig.park(Waiter(rig.connection))
    assert not rig.polls.park(Waiter(rig.connection))
    assert rig.polls.park(Waiter(rig.connection, queue_id=1))
    assert len(rig.polls) == 3


def test_all_can_be_woken_at_once(rig: Rig) -> None:
    rig.polls.wake_all()
    assert rig.turn() == 0
    polls = [rig.park(Waiter(rig.connection, queue_id=queue)) for queue in range(3)]
    rig.polls.wake_all()
    rig.turn()
    assert [poll.resumed for poll in polls] == [[False]] * 3


def test_those_of_one_queue_can_be_woken(rig: Rig) -> None:
    """And no others."""
    rig.polls.wake_queue("T", 1)
    assert rig.turn() == 0
    polls = [rig.park(Waiter(rig.connection, queue_id=queue)) for queue in (0, 1, 1)]
    rig.polls.wake_queue("T", 1)
    rig.turn()
    assert [poll.resumed for poll in polls] == [[], [False], [False]]


def test_the_end_answers_all_and_parks_no_more(rig: Rig) -> None:
    waiting, woken = rig.park(Waiter(rig.connection)), rig.park(Waiter(rig.connection, queue_id=1))
    rig.polls.arrived(arrival(queue_id=1))
    rig.polls.close()
    rig.turn()
    assert (waiting.resumed, woken.resumed) == ([True], [False])
    assert len(rig.polls) == 0
    assert not rig.polls.park(Waiter(FakeConnection()))


def test_one_that_fails_does_not_take_the_others_along(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    failing, good = rig.park(Waiter(rig.connection)), rig.park(Waiter(rig.connection))
    failing.then = fail
    rig.polls.arrived(arrival())
    with caplog.at_level(logging.ERROR):
        rig.turn()
    assert good.resumed == [False]
    assert "a parked request failed" in caplog.text


def test_a_poll_must_say_what_it_is() -> None:
    poll = Poll(FakeConnection().as_connection, "T", 0, 0, 1.0)
    with pytest.raises(NotImplementedError):
        poll.wants(arrival())
    with pytest.raises(NotImplementedError):
        poll.resume(is_late=True)


@pytest.mark.asyncio
async def test_the_running_loop_serves_in_the_turn_after_the_arrival() -> None:
    polls, poll = LongPolls(), Waiter(FakeConnection())
    polls.park(poll)
    polls.arrived(arrival())
    assert poll.resumed == []
    await asyncio.sleep(0)
    assert poll.resumed == [False]
