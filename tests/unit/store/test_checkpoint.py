"""The checkpoint is Java's file, survives a crash as a whole, and never believes garbage."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.store.checkpoint import (
    CHECKPOINT_BYTES,
    NO_FILES,
    Checkpoint,
    IndexMark,
    Marks,
    load_checkpoint,
    save_checkpoint,
)
from roketto.store.files import Files
from sim.files import CrashFiles, PowerLoss

GOLDEN = Path(__file__).parents[2] / "golden" / "store"
NOW_MS = 1_800_000_000_000
PATH = Path("/checkpoint")
JAVAS_FIELDS = tuple(Checkpoint.__slots__)[:6]

timestamps = st.integers(0, NOW_MS)
offsets = st.integers(0, 2**63 - 1)
checkpoints = st.builds(Checkpoint, timestamps, timestamps, timestamps, offsets, offsets, offsets)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.9.7", Checkpoint(1794801783803, 1794801783803)),
        ("5.5.0", Checkpoint(1794801733361, 1794801733361, logics_physical_offset=31508)),
    ],
)
def test_a_checkpoint_of_java_is_read_and_written_byte_for_byte(
    version: str, expected: Checkpoint, tmp_path: Path
) -> None:
    """Both versions stopped in order after some messages, with an index that was not full."""
    golden = GOLDEN / version / "checkpoint"
    checkpoint = load_checkpoint(Files(), golden, NOW_MS)
    assert checkpoint == expected
    save_checkpoint(Files(), tmp_path / "checkpoint", checkpoint)
    assert (tmp_path / "checkpoint").read_bytes() == golden.read_bytes()


@given(checkpoints)
def test_what_was_saved_is_what_is_loaded(checkpoint: Checkpoint) -> None:
    """Every field has its place, and the file a page."""
    files = CrashFiles()
    save_checkpoint(files, PATH, checkpoint)
    assert files.size(PATH) == CHECKPOINT_BYTES
    assert load_checkpoint(files, PATH, NOW_MS) == checkpoint


def test_a_missing_checkpoint_counts_as_zero(tmp_path: Path) -> None:
    """A store without one is scanned from its beginning."""
    assert load_checkpoint(Files(), tmp_path / "checkpoint", NOW_MS) == Checkpoint()


@given(checkpoints, st.integers(0, 48))
def test_a_short_checkpoint_has_its_whole_fields(checkpoint: Checkpoint, size: int) -> None:
    """4.9's three fields are three; half a number is none."""
    files = CrashFiles()
    save_checkpoint(files, PATH, checkpoint)
    text = files.read(PATH)
    assert text is not None
    files.replace(PATH, text[:size])
    found = load_checkpoint(files, PATH, NOW_MS)
    fields = [getattr(found, name) for name in JAVAS_FIELDS]
    expected = [getattr(checkpoint, name) for name in JAVAS_FIELDS]
    assert fields == expected[: size // 8] + [0] * (6 - size // 8)


@given(st.binary(max_size=CHECKPOINT_BYTES))
def test_garbage_never_gives_a_time_to_come_or_a_negative_value(text: bytes) -> None:
    """A timestamp of the future would make recovery skip what it has to look at."""
    files = CrashFiles()
    files.replace(PATH, text)
    found = load_checkpoint(files, PATH, NOW_MS)
    assert min(getattr(found, name) for name in JAVAS_FIELDS) >= 0
    latest = NOW_MS + 24 * 3600 * 1000
    assert max(found.physic_timestamp, found.logics_timestamp, found.index_timestamp) <= latest


def test_a_clock_that_was_set_back_for_a_day_costs_nothing() -> None:
    """Up to a day ahead is a clock's mistake; a millisecond more is garbage."""
    files = CrashFiles()
    day_ms = 24 * 3600 * 1000
    files.replace(PATH, struct.pack(">3q", NOW_MS + day_ms, NOW_MS + day_ms + 1, -1))
    assert load_checkpoint(files, PATH, NOW_MS) == Checkpoint(physic_timestamp=NOW_MS + day_ms)


def test_the_least_timestamp_is_three_seconds_before_log_and_queues() -> None:
    """Java's rule, never below zero; the index may hold it back further."""
    checkpoint = Checkpoint(10_000, 9_000, 7_000)
    assert checkpoint.min_timestamp == 6_000
    assert checkpoint.min_timestamp_index == 6_000
    assert Checkpoint(10_000, 9_000, 5_000).min_timestamp_index == 5_000
    assert Checkpoint(2_000, 9_000).min_timestamp == 0


def test_power_loss_during_a_save_leaves_the_old_or_the_new_checkpoint() -> None:
    """At every call of a save, with every unsynced sector kept, dropped or garbled."""
    old, new = Checkpoint(1, 2, 3, 4, 5, 6), Checkpoint(7, 8, 9, 10, 11, 12)
    seen = set()
    lost = 0
    for number in range(1, 30):
        files = CrashFiles()
        save_checkpoint(files, PATH, old)
        files.fail_call(len(files.calls) + number, PowerLoss())
        try:
            save_checkpoint(files, PATH, new)
        except PowerLoss:
            pass
        else:
            break
        for seed in range(10):
            after = files.crash(seed, garble=0.5)
            lost += after.loss.total
            seen.add(load_checkpoint(after, PATH, NOW_MS).physic_timestamp)
    assert seen == {1, 7}
    assert lost > 0


MARKS = Marks(900, 800, 4, 56, 100, IndexMark("20261116093000123", bytes(range(40)), 3))
NO_INDEX = Marks(900, 800, 4, 56, is_clean=True)
NO_KEYS = Marks(0, 0, 0, 0, 0, NO_FILES)


@pytest.mark.parametrize("marks", [MARKS, NO_INDEX, NO_KEYS])
def test_the_marks_survive_and_java_does_not_see_them(tmp_path: Path, marks: Marks) -> None:
    """Behind what Java reads and writes, with all that may be missing of them."""
    path = tmp_path / "checkpoint"
    checkpoint = Checkpoint(7, 8, 9, 10, 11, 12, marks=marks)
    save_checkpoint(Files(), path, checkpoint)
    assert load_checkpoint(Files(), path, 1_000) == checkpoint
    content = path.read_bytes()
    assert len(content) == CHECKPOINT_BYTES
    assert content[48:64] == bytes(16)


def test_every_flipped_bit_of_the_marks_is_noticed(tmp_path: Path) -> None:
    """A checkpoint that was torn must not send recovery behind what it has to read."""
    path = tmp_path / "checkpoint"
    save_checkpoint(Files(), path, Checkpoint(7, 8, 9, marks=MARKS))
    content = path.read_bytes()
    for bit in range(64 * 8, 228 * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert load_checkpoint(Files(), path, 1_000).marks is None, bit
    for size in range(228):
        path.write_bytes(content[:size])
        assert load_checkpoint(Files(), path, 1_000).marks is None, size


@pytest.mark.parametrize("field", range(6))
def test_marks_do_not_count_once_java_has_changed_a_field(tmp_path: Path, field: int) -> None:
    """A Java broker leaves our bytes as they are, and they are no longer true then."""
    path = tmp_path / "checkpoint"
    save_checkpoint(Files(), path, Checkpoint(7, 8, 9, 10, 11, 12, marks=MARKS))
    content = bytearray(path.read_bytes())
    content[field * 8 + 7] += 1
    path.write_bytes(content)
    assert load_checkpoint(Files(), path, 1_000).marks is None
    content[field * 8 + 7] -= 1
    content[64:72] = b"ROKETTO9"
    content[224:228] = zlib.crc32(content[64:224]).to_bytes(4)
    path.write_bytes(content)
    assert load_checkpoint(Files(), path, 1_000).marks is None
