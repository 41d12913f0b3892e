"""Proves that the gate closes and opens when it should, and says why."""

from pathlib import Path

from roketto.store.diskgate import DiskGate

PATH = Path("/store/commitlog")


def measured(*percents: int, warning: int = 90, reopen: int = 85) -> list[bool]:
    """Whether the gate is open after each of these looks at the disk."""
    gate = DiskGate()
    found = []
    for percent in percents:
        gate.measure(PATH, percent, warning_percent=warning, reopen_percent=reopen)
        found.append(gate.reason is None)
    return found


def test_it_closes_above_the_warning_ratio_and_opens_at_the_lower_one() -> None:
    """In between it stays as it is, so that it does not flap with every file that is removed."""
    assert measured(0, 86, 90, 91, 100, 90, 86, 85, 90) == [
        True, True, True, False, False, False, False, True, True,
    ]  # fmt: skip


def test_ratios_the_wrong_way_round_have_no_span_between_them() -> None:
    """Java's rule: above the one it closes, and not above the other it opens."""
    assert measured(40, 41, 60, 40, 60, warning=40, reopen=85) == [True, False, False, True, False]


def test_the_reason_names_path_value_bound_and_remedy() -> None:
    """And the value is that of the last look."""
    gate = DiskGate()
    for percent in (95, 87):
        gate.measure(PATH, percent, warning_percent=90, reopen_percent=85)
        assert gate.reason is not None
        assert gate.reason.startswith(
            f"the disk of /store/commitlog is {percent} % full, 90 % is the bound"
            " (diskSpaceWarningLevelRatio); messages are taken again at 85 %"
        )
        assert gate.reason.endswith("delete data or lower fileReservedTime")


def test_want_of_room_closes_it_until_the_next_try() -> None:
    """Whoever finds no room then closes it again."""
    gate = DiskGate()
    gate.hold("no room for a file")
    assert gate.reason == "no room for a file"
    gate.measure(PATH, 50, warning_percent=90, reopen_percent=85)
    assert gate.reason == "no room for a file"
    gate.retry()
    assert gate.reason is None


def test_each_of_the_two_reasons_is_taken_back_by_itself() -> None:
    """A try does not open what the ratio has closed, and the other way round."""
    gate = DiskGate()
    gate.measure(PATH, 91, warning_percent=90, reopen_percent=85)
    gate.hold("no room for a file")
    assert gate.reason is not None
    assert "91 % full" in gate.reason
    gate.retry()
    assert gate.reason is not None
    gate.hold("no room for a file")
    gate.measure(PATH, 10, warning_percent=90, reopen_percent=85)
    assert gate.reason == "no room for a file"
