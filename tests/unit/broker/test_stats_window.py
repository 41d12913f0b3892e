"""Windows give the rates that Java's StatsItem gives, and forget what is silent."""

import random

from roketto.broker.stats_window import (
    DAY,
    HOUR,
    MINUTE,
    STEP_METERS_MAX,
    Meter,
    Windows,
)


class JavaItem:
    """StatsItem for one window: a list of looks with their times, the first one step early."""

    def __init__(self, step_s: float, looks_max: int) -> None:
        self.step_s = step_s
        self.looks_max = looks_max
        self.looks: list[tuple[float, int]] = []

    def look(self, now_s: float, value: int) -> None:
        if not self.looks:
            self.looks.append((now_s - self.step_s, 0))
        self.looks.append((now_s, value))
        del self.looks[: -self.looks_max]

    def tps(self) -> float:
        (first_s, first), (last_s, last) = self.looks[0], self.looks[-1]
        return (last - first) / (last_s - first_s)


def used(windows: Windows, meter: Meter, count: int, size: int = 0) -> None:
    if not meter.is_awake:
        windows.wake(meter)
    meter.times += 1
    meter.count += count
    meter.size += size


def tick(windows: Windows, now_s: float) -> None:
    windows.tick(now_s)
    while windows.step():
        pass


def run(windows: Windows, begin_s: int, end_s: int) -> None:
    for now_s in range(begin_s, end_s + 1):
        tick(windows, now_s)


def test_a_meter_that_was_never_used_has_no_rate() -> None:
    windows = Windows(0)
    run(windows, 1, 100)
    assert windows.figures(Meter(), MINUTE) == (0, 0.0, 0.0, 0)


def test_a_new_meter_is_taken_to_be_one_step_old() -> None:
    windows, meter = Windows(0), Meter()
    run(windows, 1, 995)
    used(windows, meter, 50)
    run(windows, 996, 1_000)
    assert windows.figures(meter, MINUTE) == (50, 5.0, 50.0, 1)


def test_sum_rate_and_average_cover_the_last_minute() -> None:
    windows, meter = Windows(0), Meter()
    for now_s in range(1, 121):
        used(windows, meter, 2, 30)
        tick(windows, now_s)
    assert windows.figures(meter, MINUTE) == (120, 2.0, 2.0, 60)
    assert windows.byte_figures(meter, MINUTE) == (1_800, 30.0, 30.0, 60)


def test_hours_and_days_are_looked_at_in_their_own_steps() -> None:
    windows, meter = Windows(0), Meter()
    for now_s in range(10, 26 * 3_600 + 1, 10):
        used(windows, meter, 20)
        tick(windows, now_s)
    assert windows.figures(meter, HOUR) == (7_200, 2.0, 20.0, 360)
    assert windows.figures(meter, DAY) == (172_800, 2.0, 20.0, 8_640)


def test_rates_are_those_of_java_whatever_the_load() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    windows, meter, java = Windows(0), Meter(), JavaItem(10.0, 7)
    is_used, pause_until = False, 0
    for now_s in range(1, 3_000):
        if now_s >= pause_until and chance.random() < 0.3:
            used(windows, meter, chance.randrange(1, 9))
            is_used = True
        if chance.random() < 0.01:
            pause_until = now_s + chance.randrange(200)
        tick(windows, now_s)
        if now_s % 10 == 0 and is_used:
            java.look(now_s, meter.count)
            assert windows.figures(meter, MINUTE).tps == java.tps()


def test_a_silent_meter_is_left_alone_until_it_is_used_again() -> None:
    windows, meter = Windows(0), Meter()
    used(windows, meter, 7)
    run(windows, 1, 80)
    assert not meter.is_awake
    assert not meter.looks[MINUTE]
    assert windows.figures(meter, MINUTE).sum == 0
    used(windows, meter, 6)
    run(windows, 81, 90)
    assert windows.figures(meter, MINUTE) == (6, 0.1, 6.0, 1)


def test_a_day_of_silence_is_reported_once() -> None:
    windows, meter = Windows(0), Meter()
    used(windows, meter, 1)
    said = []
    for hour in range(1, 40):
        tick(windows, hour * 3_600)
        if windows.has_silent:
            windows.has_silent = False
            said.append(hour)
    assert said == [25]  # the use before the first look is a day behind it by then
    assert meter.is_silent


def test_a_deleted_meter_is_let_go() -> None:
    windows, meter = Windows(0), Meter()
    used(windows, meter, 1)
    meter.is_gone = True
    run(windows, 1, 10)
    assert len(meter.looks[MINUTE]) == 1


def test_a_late_look_counts_for_the_time_it_took() -> None:
    windows, meter = Windows(0), Meter()
    used(windows, meter, 100)
    tick(windows, 50)
    assert windows.figures(meter, MINUTE).tps == 2.0
    tick(windows, 50.1)
    assert windows.figures(meter, MINUTE).tps == 2.0


def test_a_second_of_jitter_skips_no_look() -> None:
    windows, meter = Windows(0), Meter()
    used(windows, meter, 10)
    tick(windows, 9.6)
    assert windows.figures(meter, MINUTE).sum == 10


def test_days_of_use_and_silence_are_those_of_java() -> None:
    """Each window, looked at as Java's scheduler does, over four days with nights."""
    windows, meter = Windows(0), Meter()
    java = [JavaItem(10.0, 7), JavaItem(600.0, 7), JavaItem(3_600.0, 25)]
    for now_s in range(10, 4 * 86_400 + 1, 10):
        if now_s == 10 or (now_s % 86_400 < 60_000 and now_s // 600 % 7):
            used(windows, meter, 1 + now_s // 10 % 5)
        tick(windows, now_s)
        for window, item in enumerate(java):
            if now_s % int(item.step_s) == 0:
                item.look(now_s, meter.count)
                assert windows.figures(meter, window).tps == item.tps(), (now_s, window)


def test_many_meters_are_looked_at_in_steps() -> None:
    """In one of them so many, and all have the figures of the same moment in the end."""
    windows, meters = Windows(0), [Meter() for _ in range(2 * STEP_METERS_MAX + 1)]
    for meter in meters:
        used(windows, meter, 3)
    windows.tick(10)
    seen = []
    has_more = True
    while has_more:
        has_more = windows.step()
        seen.append(sum(len(meter.looks[MINUTE]) == 2 for meter in meters))
    assert seen == [STEP_METERS_MAX, 2 * STEP_METERS_MAX, 2 * STEP_METERS_MAX + 1]
    assert {windows.figures(meter, MINUTE) for meter in meters} == {(3, 0.3, 3.0, 1)}


def test_a_look_that_is_not_done_yet_is_not_begun_again() -> None:
    """It would count as two: what is late is late, and no meter misses a look."""
    windows, meters = Windows(0), [Meter() for _ in range(STEP_METERS_MAX + 1)]
    for meter in meters:
        used(windows, meter, 20)
    windows.tick(10)
    assert windows.step()
    windows.tick(20)
    assert not windows.step()
    tick(windows, 21)
    assert {len(meter.looks[MINUTE]) for meter in meters} == {3}
    assert {windows.figures(meter, MINUTE).sum for meter in meters} == {20}


def test_a_meter_that_is_woken_between_two_steps_belongs_to_the_moment() -> None:
    windows, meters = Windows(0), [Meter() for _ in range(STEP_METERS_MAX + 1)]
    for meter in meters:
        used(windows, meter, 1)
    windows.tick(10)
    assert windows.step()
    late = Meter()
    used(windows, late, 50)
    assert not windows.step()
    tick(windows, 20)
    assert windows.figures(late, MINUTE) == (50, 5.0, 50.0, 1)
