"""Slow and failing brokers are left alone for as long as Java's table says, and come back."""

import pytest

from roketto.client.faults import Detector, Faults, unavailable_ms


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("latency_ms", "away_ms"),
    [
        (0, 0), (549, 0), (550, 2_000), (1_799, 2_000), (1_800, 5_000), (3_000, 6_000),
        (5_000, 10_000), (14_999, 10_000), (15_000, 30_000), (99_999, 30_000),
    ],
)  # fmt: skip
def test_the_table_says_how_long(latency_ms: int, away_ms: int) -> None:
    assert unavailable_ms(latency_ms) == away_ms


def test_a_slow_broker_is_unavailable_for_a_while_and_reachable() -> None:
    clock = Clock()
    faults = Faults(clock=clock)
    assert faults.is_available("a")
    faults.note("a", 600)
    assert (faults.is_available("a"), faults.is_reachable("a")) == (False, True)
    clock.now_s += 2.0
    assert faults.is_available("a")


def test_time_away_is_extended_and_never_shortened() -> None:
    """A quick answer in between does not bring a broker back."""
    clock = Clock()
    faults = Faults(clock=clock)
    faults.note("a", 5, is_isolated=True)
    faults.note("a", 600)
    faults.note("a", 5)
    clock.now_s += 9.9
    assert not faults.is_available("a")
    clock.now_s += 0.1
    assert faults.is_available("a")


async def test_the_detector_asks_those_that_failed_and_forgets_those_that_are_gone() -> None:
    clock = Clock()
    faults = Faults(detect_interval_ms=2_000, clock=clock)
    asked: list[str] = []
    answers: dict[str, bool | None] = {"a": False, "b": None}

    async def ask(name: str) -> bool | None:
        asked.append(name)
        return answers[name]

    detector = Detector(faults, ask)
    for name in ("a", "b"):
        faults.note(name, 5, is_isolated=True, is_reachable=False)
    await detector.look()
    await detector.look()  # too early for another question
    assert asked == ["a", "b"]
    assert (faults.is_reachable("a"), faults.is_reachable("b")) == (False, True)
    clock.now_s += 2.0
    answers["a"] = True
    await detector.look()
    assert asked == ["a", "b", "a"]
    assert (faults.is_reachable("a"), faults.is_available("a")) == (True, False)


def test_a_send_that_succeeds_makes_a_broker_reachable() -> None:
    faults = Faults()
    faults.note("a", 5, is_isolated=True, is_reachable=False)
    faults.note("a", 5)
    assert faults.is_reachable("a")


async def test_a_detector_that_was_started_is_gone_after_its_stop() -> None:
    async def ask(name: str) -> bool | None:
        raise AssertionError(f"nobody has failed, and {name} is asked")

    detector = Detector(Faults(), ask)
    await detector.stop()  # never started
    detector.start()
    await detector.stop()
    assert detector._task is not None
    assert detector._task.cancelled()
