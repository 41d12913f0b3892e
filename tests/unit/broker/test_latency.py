"""Latencies fall into Java's ranges, and percentiles are read from the period before."""

import pytest

from roketto.broker.latency import RANGE_NAMES, Latency


@pytest.mark.parametrize(
    ("taken_ms", "name"),
    [(-1, "[<=0ms]"), (0, "[<=0ms]"), (1, "[0~10ms]"), (9, "[0~10ms]"), (10, "[10~50ms]"),
     (99, "[50~100ms]"), (199, "[100~200ms]"), (200, "[200~500ms]"), (999, "[500ms~1s]"),
     (1_000, "[1~2s]"), (2_999, "[2~3s]"), (3_000, "[3~4s]"), (4_999, "[4~5s]"),
     (5_000, "[5~10s]"), (10_000, "[10s~]"), (10**9, "[10s~]")],
)  # fmt: skip
def test_a_time_falls_into_its_range(taken_ms: int, name: str) -> None:
    latency = Latency()
    latency.note(taken_ms)
    assert latency.ranges[RANGE_NAMES.index(name)] == 1
    assert sum(latency.ranges) == 1


def test_what_is_shown_is_the_period_before() -> None:
    latency = Latency()
    latency.note(5)
    assert sum(latency.ranges_before) == 0
    latency.turn(0)
    assert sum(latency.ranges_before) == 1
    assert sum(latency.ranges) == 0
    assert latency.max_ms == 5


def test_percentiles_lie_within_their_range() -> None:
    latency = Latency()
    for taken_ms in range(1, 101):
        latency.note(taken_ms)
    latency.turn(0)
    assert latency.percentile_ms(0.5) == 50
    assert latency.percentile_ms(0.99) == 99
    assert latency.percentile_ms(0.1) == 10


def test_no_puts_take_no_time() -> None:
    assert Latency().percentile_ms(0.99) == 0


def test_beyond_ten_seconds_nothing_finer_is_known() -> None:
    latency = Latency()
    latency.note(60_000)
    latency.note(60_000)
    latency.turn(0)
    assert latency.percentile_ms(0.999) == 10_000
    assert latency.max_ms == 60_000


def test_puts_that_nobody_has_noted_took_no_time() -> None:
    """There are so many of them that they are only counted, elsewhere."""
    latency = Latency()
    latency.note(5)
    latency.turn(100)
    assert latency.ranges_before[:2] == [99, 1]
    assert latency.percentile_ms(0.5) <= 1
    latency.note(7)
    latency.turn(103)
    assert latency.ranges_before[:2] == [2, 1]
    latency.turn(103)
    assert sum(latency.ranges_before) == 0
