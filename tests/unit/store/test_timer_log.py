"""The timer log has Java's units and file ends, and says of damage that it is damaged."""

import struct
from pathlib import Path

import pytest

from roketto.store.errors import DiskFullError
from roketto.store.files import Files
from roketto.store.timer_log import DELETE, NO_UNIT, PLAIN, ROLL, UNIT_BYTES, TimerLog, TimerUnit
from sim.files import CrashFiles

FILE_BYTES = 5 * UNIT_BYTES
"""Room for four units: a fifth would leave no room for the end of the file."""
PER_FILE = 4
BLANK = b"\0\0\0\x34" + bytes(8) + bytes.fromhex("cbd43194")


def unit(number: int, previous: int = NO_UNIT) -> TimerUnit:
    return TimerUnit(previous, PLAIN, 1_000_000, number * 1000, number * 100, 100, -7)


def position(number: int) -> int:
    return number // PER_FILE * FILE_BYTES + number % PER_FILE * UNIT_BYTES


def open_log(root: Path, files: Files | None = None) -> TimerLog:
    log = TimerLog(files or Files(), root / "timerlog", FILE_BYTES)
    assert log.load()
    return log


def fill(log: TimerLog, start: int, stop: int) -> None:
    for number in range(start, stop):
        assert log.append(unit(number)) == position(number)


def flush(log: TimerLog) -> None:
    log.write_to(log.end)
    log.sync()
    log.note_synced()


def written(root: Path, count: int) -> TimerLog:
    log = open_log(root)
    log.end_at(0)
    fill(log, 0, count)
    flush(log)
    return log


def test_a_unit_is_that_of_java(tmp_path: Path) -> None:
    """52 bytes, big-endian; a file ends with what is left of it and a magic."""
    log = open_log(tmp_path)
    log.append(TimerUnit(NO_UNIT, PLAIN | ROLL | DELETE, 1_700_000_000_000, 5_000, 77, 99, -3))
    fill(log, 1, 5)
    flush(log)
    raw = (tmp_path / "timerlog" / "00000000000000000000").read_bytes()
    assert raw[:UNIT_BYTES] == struct.pack(
        ">iqiqiqiiq", 52, -1, 7, 1_700_000_000_000, 5_000, 77, 99, -3, 0
    )
    assert raw[4 * UNIT_BYTES :] == BLANK + bytes(UNIT_BYTES - len(BLANK))
    assert (tmp_path / "timerlog" / f"{FILE_BYTES:020d}").stat().st_size == FILE_BYTES


def test_units_are_read_before_and_after_they_are_written(tmp_path: Path) -> None:
    """From memory, from the file, and from what was read with a neighbour."""
    log = open_log(tmp_path)
    fill(log, 0, 6)
    assert log.unwritten_bytes == log.end
    assert [log.unit(position(n)) for n in range(6)] == [unit(n) for n in range(6)]
    log.write_to(position(2))
    assert [log.unit(position(n)) for n in (5, 1, 0, 1, 2)] == [unit(n) for n in (5, 1, 0, 1, 2)]
    flush(log)
    assert log.unwritten_bytes == 0
    assert [log.unit(position(n)) for n in range(6)] == [unit(n) for n in range(6)]
    assert unit(3).slot_ms == 1_003_000


def test_there_is_no_unit_outside_the_log(tmp_path: Path) -> None:
    log = written(tmp_path, 3)
    assert log.unit(-UNIT_BYTES) is None
    assert log.unit(position(3)) is None
    assert log.last_before(0) is None


def test_the_last_unit_before_a_place_is_found_across_files(tmp_path: Path) -> None:
    """At the end of a file the unit before it is in front of the blank."""
    log = written(tmp_path, 6)
    assert log.last_before(position(2)) == unit(1)
    assert log.last_before(FILE_BYTES) == unit(3)


def test_a_log_is_loaded_and_scanned(tmp_path: Path) -> None:
    """To the first unit that was never written, over the end of a file."""
    written(tmp_path, 6)
    log = open_log(tmp_path)
    assert (log.first, log.end) == (0, 2 * FILE_BYTES)
    assert list(log.scan(position(1))) == [(position(n), unit(n)) for n in range(1, 6)]
    assert list(log.scan(2 * FILE_BYTES)) == []


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    written(tmp_path, 6)
    log = open_log(tmp_path)
    log.end_at(position(6))
    fill(log, 6, 9)
    flush(log)
    again = open_log(tmp_path)
    assert len(list(again.scan(0))) == 9


@pytest.mark.parametrize("keep", [0, 1, 3, 4, 5])
def test_what_lies_behind_the_end_is_erased(tmp_path: Path, keep: int) -> None:
    """Java would take it for units: nothing of it is left, in this file or the next."""
    written(tmp_path, 9)
    log = open_log(tmp_path)
    log.end_at(position(keep), 0)
    log.erase_rest()
    again = open_log(tmp_path)
    assert [found for _, found in again.scan(0)] == [unit(n) for n in range(keep)]
    again.end_at(position(keep))
    fill(again, keep, 9)
    flush(again)
    assert len(list(open_log(tmp_path).scan(0))) == 9


def test_nothing_is_erased_where_nothing_is(tmp_path: Path) -> None:
    """A file that was just made, and a log without any."""
    log = open_log(tmp_path)
    log.erase_rest()
    assert log.end == 0
    fill(log, 0, 4)
    flush(log)
    log.erase_rest()
    assert log.unit(position(3)) == unit(3)


@pytest.mark.parametrize(
    "bad",
    [
        {"size": 51}, {"previous": 52}, {"previous": -2}, {"magic": 16}, {"magic": -1},
        {"log_offset": -1}, {"record_bytes": 0}, {"base_ms": 0},
    ],
)  # fmt: skip
def test_bytes_that_are_no_unit_end_a_scan(tmp_path: Path, bad: dict[str, int]) -> None:
    """Whatever of it cannot be true."""
    written(tmp_path, 3)
    fields = {
        "size": 52, "previous": 0, "magic": 1, "base_ms": 1, "delay_ms": 0, "log_offset": 0,
        "record_bytes": 1, "hash": 0, "reserved": 0,
    }  # fmt: skip
    path = tmp_path / "timerlog" / f"{0:020d}"
    raw = bytearray(path.read_bytes())
    struct.pack_into(">iqiqiqiiq", raw, UNIT_BYTES, *(fields | bad).values())
    path.write_bytes(raw)
    log = open_log(tmp_path)
    assert [found for _, found in log.scan(0)] == [unit(0)]
    log.end_at(position(3))
    assert log.unit(position(1)) is None


def test_a_file_that_ends_in_the_middle_of_nothing_ends_a_scan(tmp_path: Path) -> None:
    """Where the blank should be there is something else."""
    written(tmp_path, 5)
    path = tmp_path / "timerlog" / f"{0:020d}"
    raw = bytearray(path.read_bytes())
    raw[4 * UNIT_BYTES + 15] ^= 1
    path.write_bytes(raw)
    assert len(list(open_log(tmp_path).scan(0))) == 4


def test_a_file_may_end_with_less_than_a_unit(tmp_path: Path) -> None:
    """Its last bytes are its end, or damage."""
    log = TimerLog(Files(), tmp_path, 4 * UNIT_BYTES + 20)
    assert log.load()
    for number in range(5):
        log.append(unit(number))
    flush(log)
    again = TimerLog(Files(), tmp_path, 4 * UNIT_BYTES + 20)
    assert again.load()
    assert len(list(again.scan(0))) == 5
    path = tmp_path / f"{0:020d}"
    path.write_bytes(path.read_bytes()[: 4 * UNIT_BYTES] + bytes(20))
    assert len(list(again.scan(0))) == 4


def test_files_that_are_not_whole_are_damage(tmp_path: Path) -> None:
    """A gap, another size, a name between; an empty last file is what a crash leaves."""
    written(tmp_path, 9)
    folder = tmp_path / "timerlog"
    (folder / f"{3 * FILE_BYTES:020d}").touch()
    (folder / "something else").touch()
    assert open_log(tmp_path).end == 3 * FILE_BYTES
    middle = folder / f"{FILE_BYTES:020d}"
    raw = middle.read_bytes()
    middle.write_bytes(raw[1:])
    assert not TimerLog(Files(), folder, FILE_BYTES).load()
    middle.unlink()
    log = TimerLog(Files(), folder, FILE_BYTES)
    assert not log.load()
    log.clear()
    assert (log.first, log.end) == (0, 0)
    assert sorted(path.name for path in folder.iterdir()) == ["something else"]


def test_a_place_is_one_of_the_log_or_is_not(tmp_path: Path) -> None:
    """A checkpoint may speak of files that are gone, or of another size."""
    written(tmp_path, 6)
    log = open_log(tmp_path)
    assert [log.holds(at) for at in (0, position(5), 2 * FILE_BYTES)] == [True] * 3
    assert [log.holds(at) for at in (-52, 51, 3 * FILE_BYTES)] == [False] * 3


def test_files_go_with_their_messages(tmp_path: Path) -> None:
    """As in Java the last unit of a file speaks for it; the one in use stays."""
    log = written(tmp_path, 13)
    assert log.remove_below(300, log.written) == 0
    assert log.remove_below(301, FILE_BYTES) == 1
    assert log.remove_below(10**9, 3 * FILE_BYTES) == 2
    assert log.first == 3 * FILE_BYTES
    assert log.unit(0) is None
    again = open_log(tmp_path)
    assert (again.first, list(again.scan(again.first))) == (
        3 * FILE_BYTES, [(3 * FILE_BYTES, unit(12))],
    )  # fmt: skip


def test_a_file_with_a_damaged_end_is_not_kept_for_ever(tmp_path: Path) -> None:
    written(tmp_path, 9)
    path = tmp_path / "timerlog" / f"{0:020d}"
    path.write_bytes(bytes(FILE_BYTES))
    log = open_log(tmp_path)
    log.end_at(position(9))
    assert log.remove_below(0, log.written) == 1


def test_a_full_disk_keeps_units_in_memory() -> None:
    """They are written later, each once."""
    files = CrashFiles()
    log = open_log(Path("/store"), files)
    fill(log, 0, 6)
    files.fail_call(len(files.calls) + 1, OSError(28, "No space left on device"))
    with pytest.raises(DiskFullError):
        log.write_to(log.end)
    assert log.unit(position(5)) == unit(5)
    flush(log)
    assert len(list(open_log(Path("/store"), files).scan(0))) == 6


@pytest.mark.parametrize("seed", range(10))
def test_what_was_synced_survives_a_power_loss(seed: int) -> None:
    """New files among it, with their names."""
    files = CrashFiles()
    log = open_log(Path("/store"), files)
    fill(log, 0, 6)
    flush(log)
    fill(log, 6, 20)
    log.write_to(log.end)
    left = TimerLog(files.crash(seed), Path("/store/timerlog"), FILE_BYTES)
    assert left.load()
    assert [found for _, found in left.scan(0)][:6] == [unit(n) for n in range(6)]


def test_what_a_process_before_this_one_has_written_is_synced(tmp_path: Path) -> None:
    """It was killed between both, so nobody knows that the disk has it."""
    files = CrashFiles()
    log = open_log(Path("/store"), files)
    fill(log, 0, 2)
    flush(log)
    fill(log, 2, 4)
    log.write_to(log.end)
    again = open_log(Path("/store"), files)
    again.end_at(position(4), position(2))
    again.sync()
    left = TimerLog(files.crash(1, keep=0), Path("/store/timerlog"), FILE_BYTES)
    assert left.load()
    assert len(list(left.scan(0))) == 4
