"""Proves that a queue has Java's files, reads from memory and disk alike, and survives damage."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roketto.store.consumequeue import (
    FILE_BYTES,
    UNWRITTEN_MAX,
    Boundary,
    ConsumeQueue,
    QueueMismatchError,
)
from roketto.store.errors import CorruptStoreError, DiskFullError, FileSizeError
from roketto.store.files import Files
from roketto.store.ledger import Ledger
from roketto.store.unit import UNIT_BYTES, Unit, scan

GOLDEN: Any = json.loads(
    (Path(__file__).parents[2] / "golden/store/consumequeue-5.5.0.json").read_text("utf-8")
)
SMALL = 10 * UNIT_BYTES
SIZE = 100


class Opened:
    """A queue in a directory of its own, and the files it goes through."""

    def __init__(self, directory: Path, log_min_offset: int | None = None) -> None:
        self.files = Files()
        self.queue = ConsumeQueue(self.files, directory / "T" / "0", SMALL)
        if log_min_offset is not None:
            self.queue.recover(log_min_offset)

    def fill(self, start: int, stop: int) -> "Opened":
        for n in range(start, stop):
            self.queue.append(n * SIZE, SIZE, n % 3, n)
        return self

    def names(self) -> list[int]:
        return [int(name) // UNIT_BYTES for name in self.files.names(self.queue.directory)]

    def path(self, unit: int) -> Path:
        return self.queue.directory / f"{unit * UNIT_BYTES:020d}"

    def state(self) -> tuple[int, int, int]:
        queue = self.queue
        return queue.queue_offset_min, queue.queue_offset_max, queue.log_offset_max

    def offsets(self) -> list[int]:
        raw = self.queue.read(self.queue.queue_offset_min, 10**6)
        return [unit[0] // SIZE for unit in scan(raw, None)]


def flushed(directory: Path, start: int, stop: int) -> Opened:
    """A queue that is read from its files: of what it has just written, some would be in memory."""
    opened = Opened(directory).fill(start, stop)
    opened.queue.flush()
    opened.queue._ledger.recent.forget(opened.queue)
    return opened


# --- Java's bytes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: str(row["name"]))
def test_the_same_appends_give_javas_files_and_state(tmp_path: Path, row: Any) -> None:
    opened = Opened(tmp_path)
    for append in row["appends"]:
        opened.queue.append(*append)
    assert list(opened.state()) == row["state"]
    opened.queue.flush()
    paths = opened.queue.directory.iterdir()
    assert {path.name: path.read_bytes().hex() for path in paths} == row["files"]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: str(row["name"]))
def test_javas_files_open_expire_and_end_as_in_java(tmp_path: Path, row: Any) -> None:
    directory = tmp_path / "T" / "0"
    directory.mkdir(parents=True)
    for name, content in row["files"].items():
        (directory / name).write_bytes(bytes.fromhex(content))
    # Units that begin with a file can only follow on others, which have gone with the log.
    log_min_offset = row["appends"][0][0] if row["name"] == "atFileStart" else 0
    opened = Opened(tmp_path, log_min_offset=log_min_offset)
    assert list(opened.state()) == row["state"]
    assert opened.queue.rebuild_from is None
    for step in row["expired"]:
        opened.queue.delete_files_below(step["logMin"])
        assert list(opened.state()) == step["state"]
    opened.queue.truncate(row["truncated"]["at"])
    assert list(opened.state()) == row["truncated"]["state"]


# --- appending ------------------------------------------------------------------------------------


def test_units_are_read_from_memory_files_and_both(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 25).fill(25, 33)
    assert opened.queue.read(8, 20) == b"".join(
        struct.pack(">qiq", n * SIZE, SIZE, n % 3) for n in range(8, 28)
    )
    assert opened.offsets() == list(range(33))
    assert opened.queue.read(30, 100) == opened.queue.read(30, 3)
    assert opened.queue.read(33, 1) == opened.queue.read(-1, 5) == opened.queue.read(5, 0) == b""
    assert opened.queue.unit(26) == Unit(2600, SIZE, 2)
    assert opened.queue.unit(33) is None


def test_who_reads_on_is_given_what_was_read_in_advance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read of a file serves many of a queue, up to its end and the end of what is written."""
    opened = flushed(tmp_path, 0, 18).fill(18, 21)
    reads = []

    def read_at(path: str, offset: int, size: int) -> bytes:
        reads.append((offset // UNIT_BYTES, size // UNIT_BYTES))
        return Files.read_at(opened.files, path, offset, size)

    monkeypatch.setattr(opened.files, "read_at", read_at)
    units = [opened.queue.unit(n) for n in range(21)]
    assert units == [Unit(n * SIZE, SIZE, n % 3) for n in range(21)]
    assert reads == [(0, 10), (0, 8)]
    assert len(opened.queue.read(4, 12)) == 12 * UNIT_BYTES  # of two files, with nothing ahead
    assert reads[2:] == [(4, 6), (0, 6)]


def test_what_was_read_in_advance_is_gone_with_the_units(tmp_path: Path) -> None:
    """Others come in the place of those that are cut off."""
    opened = flushed(tmp_path, 0, 9)
    assert opened.queue.unit(2) == Unit(2 * SIZE, SIZE, 2)
    opened.queue.truncate(4 * SIZE)
    for n in range(4, 9):
        opened.queue.append(n * SIZE + 7, SIZE, 0, n)
    opened.queue.flush()
    assert opened.queue.unit(5) == Unit(5 * SIZE + 7, SIZE, 0)
    opened.queue.clear()
    assert opened.queue.unit(5) is None


def test_a_file_that_was_cut_gives_what_it_has(tmp_path: Path) -> None:
    """Reading in advance meets the damage first, and does not mind."""
    opened = flushed(tmp_path, 0, 9)
    with opened.path(0).open("r+b") as file:
        file.truncate(4 * UNIT_BYTES)
    assert opened.queue.unit(2) == Unit(2 * SIZE, SIZE, 2)
    assert opened.queue.unit(3) == Unit(3 * SIZE, SIZE, 0)
    with pytest.raises(CorruptStoreError, match="20 bytes more"):
        opened.queue.unit(4)


def test_repeats_are_ignored_by_log_offset(tmp_path: Path) -> None:
    queue = Opened(tmp_path).fill(0, 3).queue
    assert queue.append(2 * SIZE, SIZE, 9, 2) is False
    assert queue.append(0, SIZE, 9, 77) is False
    assert queue.append(3 * SIZE, SIZE, 9, 3) is True
    assert queue.queue_offset_max == 4


@pytest.mark.parametrize("queue_offset", [0, 2, 4, -1])
def test_an_offset_that_is_not_the_next_is_refused(tmp_path: Path, queue_offset: int) -> None:
    opened = Opened(tmp_path).fill(0, 3)
    with pytest.raises(
        QueueMismatchError, match=f"offset {queue_offset} .* continues at 3"
    ) as info:
        opened.queue.append(10**6, SIZE, 0, queue_offset)
    assert (info.value.queue_offset, info.value.queue_offset_max) == (queue_offset, 3)
    assert opened.state() == (0, 3, 300)


def test_an_empty_queue_does_not_start_below_zero(tmp_path: Path) -> None:
    with pytest.raises(QueueMismatchError):
        Opened(tmp_path).queue.append(0, SIZE, 0, -1)


def test_a_queue_that_starts_late_has_no_readable_filler(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 27, 32)
    assert opened.names() == [20, 30]
    assert opened.queue.unit(26) is None
    again = Opened(tmp_path, log_min_offset=0)
    assert again.state() == opened.state() == (27, 32, 3200)
    assert again.offsets() == list(range(27, 32))


def test_a_queue_enters_itself_as_dirty_once_it_has_units(tmp_path: Path) -> None:
    ledger = Ledger()
    queue = ConsumeQueue(Files(), tmp_path / "0", SMALL, ledger)
    queue.flush()
    assert not ledger.dirty
    assert not ledger.unsynced
    queue.append(0, SIZE, 0, 0)
    assert list(ledger.dirty) == [queue]
    queue.flush()
    queue.append(100, SIZE, 0, 1)
    queue.flush()
    assert ledger.unsynced == {queue: 0}


def test_a_run_of_units_is_the_same_as_one_by_one(tmp_path: Path) -> None:
    one_by_one, run = Opened(tmp_path / "a").fill(0, 45), Opened(tmp_path / "b")
    for start, stop in ((0, 3), (3, 4), (4, 45)):
        codes = [n % 3 for n in range(start, stop)]
        run.queue.append_run(start * SIZE, [SIZE] * (stop - start), codes, start)
    assert run.state() == one_by_one.state()
    assert run.queue.read(0, 100) == one_by_one.queue.read(0, 100)
    with pytest.raises(QueueMismatchError):
        run.queue.append_run(46 * SIZE, [SIZE], [0], 46)


def test_a_long_tail_of_runs_is_written_without_being_asked(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    count = UNWRITTEN_MAX + 1
    opened.queue.append_run(0, [SIZE] * count, [0] * count, 0)
    assert opened.queue in opened.queue._ledger.dirty
    assert not opened.names()
    opened.queue.append_run(count * SIZE, [SIZE], [0], count)
    assert len(opened.names()) == -(-count // 10)


def test_a_long_tail_is_written_without_being_asked(tmp_path: Path) -> None:
    queue = ConsumeQueue(Files(), tmp_path / "0")
    for n in range(3300):
        queue.append(n * SIZE, SIZE, 0, n)
    assert (tmp_path / "0" / ("0" * 20)).stat().st_size == FILE_BYTES
    assert scan(queue.read(3270, 20), None)[-1][0] == 3289 * SIZE


def test_units_that_could_not_be_written_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(tmp_path).fill(0, 25)
    write_at = Files.write_at
    failing = [True]

    def write(files: Files, path: str, offset: int, data: bytes) -> bool:
        if failing[0] and path == str(opened.path(10)):
            raise OSError("broken disk")
        return write_at(files, path, offset, data)

    monkeypatch.setattr(Files, "write_at", write)
    with pytest.raises(OSError, match="broken disk"):
        opened.queue.flush()
    assert opened.offsets() == list(range(25))
    failing[0] = False
    opened.queue.flush()
    assert Opened(tmp_path, 0).offsets() == list(range(25))


def test_a_start_that_could_not_be_written_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(tmp_path).fill(27, 29)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "write_at", lambda *_: (_ for _ in ()).throw(OSError("broken disk")))
        with pytest.raises(OSError, match="broken disk"):
            opened.queue.flush()
    assert opened.offsets() == [27, 28]
    opened.fill(29, 30).queue.flush()
    assert Opened(tmp_path, 0).offsets() == [27, 28, 29]


@pytest.mark.parametrize("error", [OSError("broken disk"), DiskFullError("no room")])
def test_a_disk_that_takes_nothing_does_not_lose_a_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The message is in the log by then: its unit stays in memory, whoever flushes hears of it."""
    refused = []

    def refuse(*_: object) -> None:
        refused.append(error)
        raise error

    queue = ConsumeQueue(Files(), tmp_path / "0")
    with monkeypatch.context() as patch:
        patch.setattr(Files, "write_at", refuse)
        for n in range(3300):
            assert queue.append(n * SIZE, SIZE, 0, n)
        with pytest.raises(type(error)):
            queue.flush()
    assert len(refused) > 1
    queue.flush()
    assert [unit[0] for unit in scan(queue.read(0, 3300), None)] == [n * SIZE for n in range(3300)]


# --- syncing --------------------------------------------------------------------------------------


def test_a_sync_covers_the_files_written_since_the_last(tmp_path: Path) -> None:
    """The ledger has the place from which on it is not synced; a new file needs its directory."""
    opened = Opened(tmp_path)
    ledger = opened.queue._ledger

    def take() -> tuple[list[int], bool]:
        position = ledger.unsynced.pop(opened.queue)
        paths, has_new = opened.queue.changed_files(position)
        return [int(Path(path).name) // UNIT_BYTES for path in paths], has_new

    opened.fill(0, 15).queue.flush()
    assert take() == ([0, 10], True)
    opened.fill(15, 18)
    assert not ledger.unsynced
    opened.queue.flush()
    assert take() == ([10], False)
    opened.fill(18, 19).queue.flush()
    opened.fill(19, 22).queue.flush()
    assert take() == ([10, 20], True)
    assert opened.queue.directories() == (str(tmp_path / "T" / "0"), str(tmp_path / "T"))


def test_the_first_file_of_a_queue_that_starts_late_is_a_new_one(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 27, 29)
    position = opened.queue._ledger.unsynced[opened.queue]
    assert opened.queue.changed_files(position) == ([str(opened.path(20))], True)


# --- time -----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=0, max_size=35),
    st.integers(-1, 13),
    st.integers(0, 30),
    st.integers(0, 5),
)
def test_offsets_by_time_are_those_of_a_linear_search(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], at: int, first: int, gone: int
) -> None:
    times.sort()
    opened = Opened(tmp_path_factory.mktemp("queue")).fill(first, first + len(times))
    opened.queue.correct_min((first + gone) * SIZE)
    low, high, _ = opened.state()

    def store_time_of(log_offset: int) -> int:
        return times[log_offset // SIZE - first]

    by_offset = {n: store_time_of(n * SIZE) for n in range(low, high)}
    lower = min((n for n, time in by_offset.items() if time >= at), default=high)
    upper = max((n for n, time in by_offset.items() if time <= at), default=low)
    assert opened.queue.offset_by_time(at, Boundary.LOWER, store_time_of) == lower
    assert opened.queue.offset_by_time(at, Boundary.UPPER, store_time_of) == upper


# --- retention ------------------------------------------------------------------------------------


def test_the_start_follows_the_log_over_files_and_memory(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 25).fill(25, 33)
    for log_min, expected in ((0, 0), (450, 5), (440, 5), (1500, 15), (2900, 29), (3300, 33)):
        opened.queue.correct_min(log_min)
        assert opened.state() == (expected, 33, 3300)
    opened.fill(33, 34)
    opened.queue.correct_min(3300)
    assert opened.offsets() == [33]


def test_files_below_the_log_go_but_never_the_last(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 40)
    assert opened.queue.delete_files_below(900) == 0
    assert opened.queue.delete_files_below(950) == 1
    assert opened.names() == [10, 20, 30]
    assert opened.queue.delete_files_below(10**6) == 2
    assert opened.names() == [30]
    assert opened.state() == (40, 40, 4000)
    assert opened.queue.changed_files(0) == ([str(opened.path(30))], True)
    again = Opened(tmp_path, log_min_offset=10**6)
    assert again.state() == (40, 40, 4000)
    assert again.queue.append(10**6, SIZE, 0, 40) is True


def test_a_cleared_queue_starts_anywhere(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 12)
    opened.queue.clear()
    assert opened.state() == (0, 0, -1)
    assert not opened.queue.directory.exists()
    assert opened.fill(55, 57).offsets() == [55, 56]


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 45, 50])
def test_a_queue_is_found_as_it_was_flushed(tmp_path: Path, count: int) -> None:
    flushed(tmp_path, 0, count)
    opened = Opened(tmp_path, log_min_offset=0)
    assert opened.state() == (0, count, count * SIZE or -1)
    assert opened.queue.rebuild_from is None
    assert opened.fill(count, count + 12).offsets() == list(range(count + 12))


@pytest.mark.parametrize("far", [6, 9, 250_000])
def test_what_a_crash_left_behind_the_synced_units_is_erased(tmp_path: Path, far: int) -> None:
    """Near the end or far from it, where the file is a hole in between; the rest stays."""
    queue = ConsumeQueue(Files(), tmp_path / "0")
    for n in range(8):
        queue.append(n * SIZE, SIZE, 0, n)
    queue.flush()
    path = tmp_path / "0" / ("0" * 20)
    with path.open("r+b") as file:
        file.seek(far * UNIT_BYTES)
        file.write(struct.pack(">qiq", 600, SIZE, 0))
    again = ConsumeQueue(Files(), tmp_path / "0")
    again.recover(0, log_synced=500)
    assert (again.queue_offset_max, again.log_offset_max) == (5, 500)
    again.truncate(500)
    assert path.read_bytes().rstrip(b"\0") == b"".join(
        struct.pack(">qiq", n * SIZE, SIZE, 0) for n in range(5)
    ).rstrip(b"\0")
    assert path.stat().st_size == FILE_BYTES
    assert again._ledger.unsynced == {again: 5 * UNIT_BYTES}


def test_a_unit_behind_the_end_of_a_short_queue_is_damage(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 3)
    content = bytearray(opened.path(0).read_bytes())
    content[100:120] = content[40:60]
    opened.path(0).write_bytes(content)
    assert Opened(tmp_path, log_min_offset=0).queue.rebuild_from == 0


def test_an_empty_last_file_is_no_damage(tmp_path: Path) -> None:
    flushed(tmp_path, 0, 20).path(20).touch()
    opened = Opened(tmp_path, log_min_offset=0)
    assert (opened.state(), opened.queue.rebuild_from) == ((0, 20, 2000), None)
    opened.fill(20, 25).queue.flush()
    assert Opened(tmp_path, 0).offsets() == list(range(25))


def test_a_last_file_without_units_keeps_its_place(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 21)
    opened.path(20).write_bytes(bytes(SMALL))
    for unit in (0, 10):
        opened.path(unit).unlink()
    again = Opened(tmp_path, log_min_offset=0)
    assert again.state() == (20, 20, -1)
    assert again.fill(33, 34).offsets() == [33]
    again.queue.flush()
    assert again.names() == [30]


def damage(opened: Opened, kind: str) -> None:
    middle, last = opened.path(20), opened.path(40)
    content = bytearray(middle.read_bytes())
    if kind == "short last file":
        last.write_bytes(last.read_bytes()[:50])
    elif kind == "short first file":
        opened.path(0).write_bytes(b"\1")
    elif kind == "missing middle file":
        middle.unlink()
    elif kind == "empty middle file":
        middle.write_bytes(b"")
    elif kind == "garbage":
        middle.write_bytes(b"\x81\x07garbage" * 100)
        middle.write_bytes(middle.read_bytes()[:SMALL])
    elif kind == "order":
        content[60:80] = content[40:60]
        middle.write_bytes(content)
    elif kind == "hole":
        content[60:80] = bytes(20)
        middle.write_bytes(content)
    elif kind == "zeros to the end":
        middle.write_bytes(content[:60] + bytes(SMALL - 60))
    elif kind == "all short":
        for unit in opened.names():
            opened.path(unit).write_bytes(b"\1" * 10)
    elif kind == "wrong start":
        opened.path(43).write_bytes(bytes(SMALL))


@pytest.mark.parametrize(
    "kind",
    [
        "short last file",
        "short first file",
        "missing middle file",
        "empty middle file",
        "garbage",
        "order",
        "hole",
        "zeros to the end",
        "all short",
        "wrong start",
    ],
)
@pytest.mark.parametrize("log_min", [0, 700, 2150])
def test_a_damaged_queue_is_rebuilt_byte_for_byte(tmp_path: Path, kind: str, log_min: int) -> None:
    sound = flushed(tmp_path / "sound", 0, 46)
    damage(flushed(tmp_path, 0, 46), kind)
    opened = Opened(tmp_path, log_min_offset=log_min)
    start = opened.queue.rebuild_from
    for n in range(46):  # what recovery does: dispatch the log from there on
        if start is not None and n * SIZE >= max(start, log_min):
            opened.queue.append(n * SIZE, SIZE, n % 3, n)
    opened.queue.truncate(46 * SIZE)
    opened.queue.flush()
    opened.queue.correct_min(log_min)
    readable = list(range(-(-log_min // SIZE), 46))
    assert opened.offsets() == readable
    assert opened.queue.rebuild_from is None
    again = Opened(tmp_path, log_min_offset=log_min)
    assert again.offsets() == readable
    assert again.queue.rebuild_from is None
    for unit in again.names():
        begin = max(unit, readable[0]) % 10 * UNIT_BYTES if unit <= readable[0] else 0
        assert again.path(unit).read_bytes()[begin:] == sound.path(unit).read_bytes()[begin:]


def test_files_that_came_back_after_their_deletion_do_no_harm(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 46)
    opened.path(10).unlink()
    again = Opened(tmp_path, log_min_offset=2000)
    assert (again.state(), again.queue.rebuild_from) == ((20, 46, 4600), None)
    again.queue.truncate(4600)
    assert again.names() == [20, 30, 40]


def test_a_file_longer_than_configured_is_refused(tmp_path: Path) -> None:
    flushed(tmp_path, 0, 5).path(0).write_bytes(bytes(SMALL + 20))
    with pytest.raises(FileSizeError, match=r"has 220 bytes, the configuration says 200"):
        Opened(tmp_path, log_min_offset=0)


def test_foreign_names_are_left_alone(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 5)
    foreign = opened.queue.directory / "notes.txt"
    foreign.touch()
    again = Opened(tmp_path, log_min_offset=0)
    again.queue.truncate(500)
    assert again.offsets() == list(range(5))
    assert foreign.exists()


def test_a_file_cut_while_it_is_open_is_named(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 15)
    opened.path(10).write_bytes(bytes(30))
    with pytest.raises(CorruptStoreError, match=r"at byte 30: .* 70 bytes more") as info:
        opened.queue.read(5, 10)
    assert info.value.path == opened.path(10)


# --- truncation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [0, 7])
@pytest.mark.parametrize("kept", [0, 1, 9, 10, 11, 25, 29, 30, 33, 40])
def test_truncation_leaves_what_fewer_appends_would_have_left(
    tmp_path: Path, kept: int, tail: int
) -> None:
    opened = flushed(tmp_path, 0, 33 - tail).fill(33 - tail, 33)
    opened.queue.truncate(kept * SIZE)
    kept = min(kept, 33)
    assert opened.state() == (0, kept, kept * SIZE or -1)
    opened.queue.flush()
    model = flushed(tmp_path / "model", 0, kept)
    assert opened.names() == model.names()
    for unit in model.names():
        assert opened.path(unit).read_bytes() == model.path(unit).read_bytes()
    assert opened.fill(kept, kept + 12).offsets() == list(range(kept + 12))


def test_truncation_erases_units_anywhere_behind_the_end(tmp_path: Path) -> None:
    queue = ConsumeQueue(Files(), tmp_path / "0")
    for n in range(10):
        queue.append(n * SIZE, SIZE, 0, n)
    queue.flush()
    path = tmp_path / "0" / ("0" * 20)
    with path.open("r+b") as file:
        file.seek(4_000_000)
        file.write(b"left by a torn write")
    queue.truncate(300)
    assert not any(path.read_bytes()[60:])


def test_truncation_to_the_filler_leaves_an_empty_queue_at_its_place(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 27, 32)
    opened.queue.truncate(0)
    assert opened.state() == (27, 27, -1)
    assert opened.fill(27, 29).offsets() == [27, 28]
    assert Opened(tmp_path, 0).state() == (27, 27, -1)


def test_truncation_below_what_has_expired_keeps_the_offset(tmp_path: Path) -> None:
    opened = flushed(tmp_path, 0, 15)
    opened.queue.correct_min(1200)
    opened.queue.truncate(1200)
    assert opened.state() == (12, 12, 1200)


# --- decoding -------------------------------------------------------------------------------------


# --- after a crash, with a mark -------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 10, 25, 45])
@pytest.mark.parametrize("synced", [0, 3, 10, 20, 24])
@pytest.mark.parametrize("garbage", [False, True])
def test_units_behind_the_synced_ones_do_not_count(
    tmp_path: Path, count: int, synced: int, garbage: bool
) -> None:
    """Whatever a crash has left of them, in the same file and in newer ones."""
    synced = min(synced, count)
    opened = flushed(tmp_path, 0, count)
    if garbage:
        for unit in range(synced, count):
            path = opened.path(unit - unit % 10)
            content = bytearray(path.read_bytes())
            at = unit % 10 * UNIT_BYTES
            content[at : at + UNIT_BYTES] = b"\xee" * UNIT_BYTES if unit % 2 else bytes(UNIT_BYTES)
            path.write_bytes(content)
    again = Opened(tmp_path)
    again.queue.recover(0, synced * SIZE)
    again.queue.truncate(synced * SIZE)
    assert again.queue.rebuild_from is None
    assert again.offsets() == list(range(synced))
    again.fill(synced, count)
    again.queue.flush()
    last = Opened(tmp_path, log_min_offset=0)
    assert last.offsets() == list(range(count))
    assert last.queue.rebuild_from is None


def test_a_queue_whose_first_file_is_gone_is_rebuilt(tmp_path: Path) -> None:
    """Units that begin with a file follow on others; the log still has their messages."""
    opened = flushed(tmp_path, 0, 25)
    opened.path(0).unlink()
    assert Opened(tmp_path, log_min_offset=0).queue.rebuild_from == 0
    assert Opened(tmp_path, log_min_offset=10 * SIZE).state() == (10, 25, 2500)


def test_units_that_are_written_again_are_synced_again(tmp_path: Path) -> None:
    """A cut that leads back before what waits for a sync makes more wait for it."""
    opened = flushed(tmp_path, 0, 25)
    ledger = opened.queue._ledger
    ledger.unsynced[opened.queue] = 20 * UNIT_BYTES
    opened.queue.truncate(0)
    opened.fill(0, 25)
    opened.queue.flush()
    assert ledger.unsynced[opened.queue] == 0
