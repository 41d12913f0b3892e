"""When the loop stays awake for the next read, and that it goes to sleep all the same."""

import asyncio
import os
from collections import deque
from collections.abc import Callable

import pytest

from roketto.remoting import vigil as vigil_module
from roketto.remoting.vigil import Vigil, Writer, make_vigil

SPIN_S = 100e-6


class TurningLoop:
    """Turns when told; its clock goes on by 10 us with every turn."""

    def __init__(self) -> None:
        self.now_s = 1.0
        self.soon: deque[Callable[[], None]] = deque()
        self.turns = 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def clock(self) -> float:
        return self.now_s

    @property
    def is_awake(self) -> bool:
        return bool(self.soon)

    def turn(self) -> None:
        self.now_s += 10e-6
        self.turns += 1
        self.soon.popleft()()

    def sleep_well(self) -> int:
        """Turn until the loop may sleep; how many turns that took, no more than 1,000."""
        before = self.turns
        while self.is_awake:
            self.turn()
            assert self.turns - before < 1_000, "the loop never sleeps"
        return self.turns - before


@pytest.fixture
def loop() -> TurningLoop:
    return TurningLoop()


@pytest.fixture
def vigil(loop: TurningLoop) -> Vigil:
    return Vigil(loop.call_soon, SPIN_S, loop.clock)


def read_after(loop: TurningLoop, vigil: Vigil, gap_s: float) -> None:
    loop.now_s += gap_s
    vigil.note_read()


def test_a_single_read_lets_the_loop_sleep(loop: TurningLoop, vigil: Vigil) -> None:
    vigil.note_read()
    assert not loop.is_awake


def test_reads_far_apart_never_keep_the_loop_awake(loop: TurningLoop, vigil: Vigil) -> None:
    for _ in range(100):
        read_after(loop, vigil, 4 * SPIN_S)
        assert not loop.is_awake


def test_two_reads_close_together_keep_the_loop_awake(loop: TurningLoop, vigil: Vigil) -> None:
    vigil.note_read()
    read_after(loop, vigil, SPIN_S)
    assert loop.is_awake


def test_the_loop_sleeps_once_the_time_is_over(loop: TurningLoop, vigil: Vigil) -> None:
    vigil.note_read()
    read_after(loop, vigil, SPIN_S)
    turns = loop.sleep_well()
    assert 10 <= turns <= 12, "100 us at 10 us a turn"


def test_each_read_meanwhile_prolongs_the_watch(loop: TurningLoop, vigil: Vigil) -> None:
    vigil.note_read()
    read_after(loop, vigil, SPIN_S)
    for _ in range(50):
        for _ in range(8):
            loop.turn()
        vigil.note_read()
    assert loop.is_awake
    assert loop.sleep_well() <= 12


def test_watching_in_vain_is_tried_ever_more_rarely(loop: TurningLoop, vigil: Vigil) -> None:
    """10,000 reads, each just too late to be waited for, cost few watches."""
    watches = 0
    for _ in range(10_000):
        read_after(loop, vigil, 2 * SPIN_S)
        if loop.is_awake:
            watches += 1
            loop.sleep_well()
    assert 10 <= watches <= 20


def test_a_watch_that_was_worth_it_clears_the_record(loop: TurningLoop, vigil: Vigil) -> None:
    for _ in range(10):  # in vain
        while not loop.is_awake:
            read_after(loop, vigil, SPIN_S)
        loop.sleep_well()
    while not loop.is_awake:
        read_after(loop, vigil, SPIN_S)
    vigil.note_read()  # in time
    loop.sleep_well()
    for _ in range(3):
        read_after(loop, vigil, SPIN_S)
    assert loop.is_awake, "two reads left out, not two thousand"


class Counting(Writer):
    """Counts how often it was told to write."""

    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def crowd(loop: TurningLoop, vigil: Vigil, reads: int) -> None:
    """A turn of the loop with so many reads, the watch included that it takes to see them."""
    vigil.note_read()
    read_after(loop, vigil, SPIN_S)
    for _ in range(reads):
        vigil.note_read()
    loop.turn()


@pytest.mark.parametrize(("reads", "is_held"), [(1, False), (3, False), (4, True), (64, True)])
def test_answers_wait_for_each_other_where_many_read(
    loop: TurningLoop, vigil: Vigil, reads: int, *, is_held: bool
) -> None:
    """One that asks alone is answered at once."""
    crowd(loop, vigil, reads)
    assert vigil.hold(Counting()) is is_held


def test_nothing_is_held_by_a_loop_that_may_sleep(loop: TurningLoop, vigil: Vigil) -> None:
    """Nobody would see the turn end."""
    assert not vigil.hold(Counting())
    crowd(loop, vigil, 64)
    loop.turn()  # nobody has read
    assert not vigil.hold(Counting())
    loop.sleep_well()
    assert not vigil.hold(Counting())


def test_answers_that_are_held_leave_with_their_turn(loop: TurningLoop, vigil: Vigil) -> None:
    crowd(loop, vigil, 5)
    writers = [Counting() for _ in range(15)]
    assert all(vigil.hold(writer) for writer in writers)
    assert not any(writer.flushes for writer in writers)
    loop.turn()
    assert [writer.flushes for writer in writers] == [1] * 15


def test_no_more_than_a_few_are_held(loop: TurningLoop, vigil: Vigil) -> None:
    crowd(loop, vigil, 64)
    writers = [Counting() for _ in range(40)]
    for writer in writers:
        vigil.hold(writer)
    assert [writer.flushes for writer in writers] == [1] * 32 + [0] * 8
    loop.turn()
    assert [writer.flushes for writer in writers] == [1] * 40


def test_whoever_writes_says_how() -> None:
    with pytest.raises(NotImplementedError):
        Writer().flush()


async def test_there_is_no_vigil_without_a_second_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(vigil_module, "_processors", lambda: 1)
    assert make_vigil(loop, SPIN_S) is None
    monkeypatch.setattr(vigil_module, "_processors", lambda: 2)
    assert make_vigil(loop, SPIN_S) is not None
    assert make_vigil(loop, 0) is None


def test_processors_are_those_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert vigil_module._processors() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert vigil_module._processors() == 4
