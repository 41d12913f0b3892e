"""The wheel has Java's slots, takes room for those that are used, and keeps changes together."""

import struct
from pathlib import Path

import pytest

from roketto.store.files import Files
from roketto.store.timer_wheel import EMPTY, SLOT_BYTES, SLOTS, Slot, TimerWheel

SMALL = 20


def open_wheel(root: Path, slots: int = SMALL, precision_ms: int = 1000) -> TimerWheel:
    wheel = TimerWheel(Files(), root / "timerwheel", precision_ms, slots)
    assert wheel.open()
    return wheel


def flush(wheel: TimerWheel) -> None:
    wheel.freeze()
    wheel.write_frozen()


def test_a_slot_is_that_of_java(tmp_path: Path) -> None:
    """32 bytes, big-endian, in the place of its ticks; the file has its full length, and holes."""
    wheel = open_wheel(tmp_path, SLOTS)
    time_ms = 1_700_000_123_000
    wheel.put(time_ms, 52, 104, 3, 9)
    flush(wheel)
    path = tmp_path / "timerwheel"
    assert path.stat().st_size == 1_209_600 * 32
    assert path.stat().st_blocks * 512 < 65_536
    with path.open("rb") as file:
        file.seek(1_700_000_123 % 1_209_600 * SLOT_BYTES)
        assert file.read(SLOT_BYTES) == struct.pack(">qqqii", 1_700_000_123, 52, 104, 3, 9)


def test_a_slot_is_read_in_memory_and_on_the_disk(tmp_path: Path) -> None:
    """Any time of its tick leads to it, the same place at another time does not."""
    wheel = open_wheel(tmp_path)
    slot = Slot(105, 1, 2, 3)
    wheel.put(105_000, 1, 2, 3)
    assert wheel.slot(105_999) == slot
    wheel.freeze()
    assert wheel.slot(105_000) == slot
    assert wheel.changed_slots == 1
    wheel.write_frozen()
    assert wheel.changed_slots == 0
    assert wheel.slot(105_000) == slot
    assert open_wheel(tmp_path).slot(105_000) == slot
    assert wheel.slot(106_000) == wheel.slot(125_000) == wheel.slot(85_000) == EMPTY
    wheel.put(125_000, 7, 8, 9)
    assert wheel.slot(105_000) == EMPTY


def test_later_changes_do_not_come_to_the_disk_with_earlier_ones(tmp_path: Path) -> None:
    """What was taken stays what it was."""
    wheel = open_wheel(tmp_path)
    wheel.put(1_000, 1, 1, 1)
    wheel.freeze()
    wheel.put(1_000, 1, 2, 2)
    assert wheel.slot(1_000).messages == 2
    wheel.write_frozen()
    assert open_wheel(tmp_path).slot(1_000).messages == 1
    flush(wheel)
    assert open_wheel(tmp_path).slot(1_000).messages == 2


def test_the_next_used_slot_is_found(tmp_path: Path) -> None:
    """In the file, among changes, over the end of the wheel, and not beyond the given time."""
    wheel = open_wheel(tmp_path)
    wheel.put(103_000, 1, 1, 1)
    flush(wheel)
    wheel.put(105_000, 1, 1, 1)
    wheel.freeze()
    wheel.put(107_000, 1, 1, 1)
    assert wheel.next_used(100_000, 119_000) == 103_000
    assert wheel.next_used(104_000, 119_000) == 105_000
    assert wheel.next_used(106_000, 119_000) == 107_000
    assert wheel.next_used(108_000, 119_000) == 119_000
    assert wheel.next_used(106_000, 107_000) == 107_000
    assert wheel.next_used(107_000, 107_000) == 107_000
    assert wheel.next_used(110_000, 200_000) == 120_000  # there the wheel begins anew
    wheel.put(123_000, 1, 1, 1)  # in the place of 103,000
    assert wheel.next_used(103_000, 104_000) == 104_000


def test_a_look_is_bounded(tmp_path: Path) -> None:
    """So many empty slots take several turns."""
    wheel = open_wheel(tmp_path, 100_000, 1)
    wheel.put(209_999, 1, 1, 1)
    assert wheel.next_used(200_000, 250_000) == 204_096
    assert wheel.next_used(208_192, 250_000) == 209_999


def test_all_messages_are_counted(tmp_path: Path) -> None:
    """From a time on, as the file has them; it may be large."""
    wheel = open_wheel(tmp_path, 100_000, 1)
    assert wheel.count_from(200_000) == 0
    for time_ms in (200_000, 200_010, 205_000, 299_999):
        wheel.put(time_ms, 1, 1, 2)
    flush(wheel)
    assert wheel.count_from(200_000) == 8
    assert wheel.count_from(200_011) == 4


def test_a_wheel_of_another_size_is_damage(tmp_path: Path) -> None:
    """It is made anew; an empty file is what a crash leaves of a new one."""
    path = tmp_path / "timerwheel"
    path.touch()
    wheel = open_wheel(tmp_path)
    wheel.put(1_000, 1, 1, 1)
    flush(wheel)
    other = TimerWheel(Files(), path, 1000, SMALL + 1)
    assert not other.open()
    wheel.put(2_000, 1, 1, 1)
    wheel.clear()
    assert wheel.slot(1_000) == wheel.slot(2_000) == EMPTY
    assert path.stat().st_size == SMALL * SLOT_BYTES


def test_changes_that_are_near_to_each_other_are_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies between them stays what it was; those far apart do not fill what is between."""
    wheel = open_wheel(tmp_path, 10_000)
    between = Slot(1_050, 5, 6, 7, 8)
    wheel.put(1_050_000, *between[1:])
    flush(wheel)
    ticks = [1_000, 1_001, 1_100, 1_228, 1_357, 9_999]
    for tick in ticks:
        wheel.put(tick * 1000, tick, tick, 1)
    writes: list[tuple[int, int]] = []
    write_at = Files.write_at

    def note(files: Files, path: Path, at: int, data: bytes) -> None:
        writes.append((at // SLOT_BYTES, len(data) // SLOT_BYTES))
        write_at(files, path, at, data)

    monkeypatch.setattr(Files, "write_at", note)
    flush(wheel)
    assert writes == [(1_000, 229), (1_357, 1), (9_999, 1)]
    again = open_wheel(tmp_path, 10_000)
    assert again.slot(1_050_000) == between
    assert [again.slot(tick * 1000).last for tick in ticks] == ticks


def test_a_write_has_a_bound(tmp_path: Path) -> None:
    """However many slots have changed in a row."""
    wheel = open_wheel(tmp_path, 10_000)
    for tick in range(9_000):
        wheel.put(tick * 1000, tick, tick, 1)
    flush(wheel)
    again = open_wheel(tmp_path, 10_000)
    assert all(again.slot(tick * 1000).last == tick for tick in range(9_000))


def test_a_slot_is_changed_from_what_it_was(tmp_path: Path) -> None:
    """Of another time in its place nothing is left; what was taken for the disk is not changed."""
    wheel = open_wheel(tmp_path)
    wheel.put(1_000, 1, 2, 3, 4)
    flush(wheel)
    wheel.change(1_000).last = 9
    assert wheel.slot(1_000) == Slot(1, 1, 9, 3, 4)
    wheel.freeze()
    wheel.change(1_000).last = 10
    wheel.write_frozen()
    assert open_wheel(tmp_path).slot(1_000).last == 9
    assert wheel.change(1_000).last == 10
    assert wheel.change(21_000).last == EMPTY.last
    assert wheel.slot(1_000) == EMPTY


def test_pages_that_were_read_are_few(tmp_path: Path) -> None:
    """Beyond a bound all are forgotten, and read again."""
    wheel = open_wheel(tmp_path, 140_000)  # of 1,094 pages
    wheel.put(500_000, 1, 1, 1)
    flush(wheel)
    for tick in range(128, 140_000, 128):
        assert wheel.slot(tick * 1000) == EMPTY
        assert len(wheel._pages) <= 1_024
    assert wheel.slot(500_000).messages == 1
