"""Delay levels are read as Java reads them."""

import pytest

from roketto.store.delay_levels import DelayLevels


def test_levels_above_the_last_are_the_last_and_unknown_ones_wait_a_second() -> None:
    """Java's defaults, and what it does with levels that it has not."""
    levels = DelayLevels()
    assert [levels.delay_ms(n) for n in (1, 2, 5, 18, 99, 0, -1)] == [
        1_000, 5_000, 60_000, 7_200_000, 7_200_000, 1_000, 1_000,
    ]  # fmt: skip
    assert levels.count == 18
    assert DelayLevels("1d").delay_ms(1) == 86_400_000
    assert DelayLevels("").delay_ms(1) == 1_000


def test_a_level_that_is_no_time_is_named() -> None:
    """The word that is wrong is in the error."""
    with pytest.raises(ValueError, match="'5x'"):
        DelayLevels("1s 5x")
