"""Totals of yesterday and today begin at midnight, wherever the broker is."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from roketto.broker.mornings import Mornings

BERLIN = ZoneInfo("Europe/Berlin")


def at_ms(text: str, zone: ZoneInfo = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def totals(mornings: Mornings) -> tuple[int, int, int, int]:
    return (
        mornings.put_yesterday, mornings.put_today, mornings.get_yesterday, mornings.get_today,
    )  # fmt: skip


def test_before_the_first_midnight_everything_is_of_today() -> None:
    mornings = Mornings(at_ms("2026-05-04T10:00"), BERLIN)
    mornings.look(at_ms("2026-05-04T23:59:59.999"), 10, 7)
    assert totals(mornings) == (0, 0, 0, 0)


def test_each_midnight_moves_the_totals_by_a_day() -> None:
    mornings = Mornings(at_ms("2026-05-04T10:00"), BERLIN)
    mornings.look(at_ms("2026-05-05T00:00:00"), 10, 7)
    assert totals(mornings) == (0, 10, 0, 7)
    mornings.look(at_ms("2026-05-05T00:00:01"), 11, 8)
    mornings.look(at_ms("2026-05-05T23:59:59"), 29, 19)
    assert totals(mornings) == (0, 10, 0, 7)
    mornings.look(at_ms("2026-05-06T00:00:00.500"), 30, 20)
    assert totals(mornings) == (10, 30, 7, 20)
    mornings.look(at_ms("2026-05-07T00:00:00"), 30, 20)
    assert totals(mornings) == (30, 30, 20, 20)


def test_days_of_23_and_25_hours_end_at_midnight() -> None:
    mornings = Mornings(at_ms("2026-03-28T12:00"), BERLIN)
    for number, day in enumerate(("2026-03-29", "2026-03-30"), start=1):
        mornings.look(at_ms(f"{day}T00:00") - 1, 0, 0)
        assert mornings.put_today == number - 1
        mornings.look(at_ms(f"{day}T00:00"), number, 0)
        assert mornings.put_today == number
    mornings = Mornings(at_ms("2026-10-24T12:00"), BERLIN)
    for number, day in enumerate(("2026-10-25", "2026-10-26"), start=1):
        mornings.look(at_ms(f"{day}T00:00") - 1, 0, 0)
        assert mornings.put_today == number - 1
        mornings.look(at_ms(f"{day}T00:00"), number, 0)
        assert mornings.put_today == number


def test_a_clock_that_is_set_back_repeats_no_midnight() -> None:
    mornings = Mornings(at_ms("2026-05-04T23:00"), BERLIN)
    mornings.look(at_ms("2026-05-05T00:00"), 10, 0)
    mornings.look(at_ms("2026-05-04T23:59"), 11, 0)
    mornings.look(at_ms("2026-05-05T00:01"), 12, 0)
    assert mornings.put_today == 10


def test_the_zone_is_that_of_the_machine_if_none_is_given() -> None:
    now_ms = int(datetime(2026, 5, 4, 10, tzinfo=UTC).timestamp() * 1000)
    mornings = Mornings(now_ms)
    mornings.look(now_ms + 86_400_000, 5, 0)
    assert mornings.put_today == 5
