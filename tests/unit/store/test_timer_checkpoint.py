"""The checkpoint of timers is Java's file, tells who has written it, and never believes garbage."""

import struct
from pathlib import Path

import pytest

from roketto.store.files import Files
from roketto.store.timer_checkpoint import (
    CHECKPOINT_BYTES,
    TimerCheckpoint,
    encode_timer_checkpoint,
    load_timers,
    save_timers,
)

FIELDS = (1_700_000_000_000, 520, 10, 10, 0, 1_700_000_000_123, 77)
OURS = TimerCheckpoint(
    *FIELDS, precision_ms=1000, pending=3, coarse_before=9, coarse_ms=900, skip_before=5, skip_ms=8
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timercheck"


def test_what_was_saved_is_what_is_loaded(path: Path) -> None:
    """In a page, Java's fields first."""
    save_timers(Files(), path, OURS)
    raw = path.read_bytes()
    assert len(raw) == CHECKPOINT_BYTES
    assert raw[:56] == struct.pack(">7q", *FIELDS) == encode_timer_checkpoint(OURS)
    assert load_timers(Files(), path) == OURS
    assert OURS.is_ours


def test_what_java_has_written_since_is_seen(path: Path) -> None:
    """It changes its own fields and leaves ours, which do not fit then."""
    save_timers(Files(), path, OURS)
    raw = bytearray(path.read_bytes())
    struct.pack_into(">q", raw, 48, 78)
    path.write_bytes(raw)
    found = load_timers(Files(), path)
    assert found == TimerCheckpoint(*FIELDS[:6], 78)
    assert not found.is_ours


@pytest.mark.parametrize("at", [64, 100, 130, 176])
def test_damaged_marks_are_none(path: Path, at: int) -> None:
    """Java's fields still count."""
    save_timers(Files(), path, OURS)
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)
    assert load_timers(Files(), path) == TimerCheckpoint(*FIELDS)


def test_a_checkpoint_of_java_is_read(path: Path) -> None:
    """Without ours, and of 5.0 without the version."""
    path.write_bytes(struct.pack(">7q", *FIELDS).ljust(CHECKPOINT_BYTES, b"\0"))
    assert load_timers(Files(), path) == TimerCheckpoint(*FIELDS)


@pytest.mark.parametrize(
    "raw", [b"", bytes(55), struct.pack(">7q", -1, 0, 0, 0, 0, 0, 0),
            struct.pack(">7q", 0, -1, 0, 0, 0, 0, 0), struct.pack(">7q", 0, 0, -1, 0, 0, 0, 0)]
)  # fmt: skip
def test_what_cannot_be_true_is_no_checkpoint(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    assert load_timers(Files(), path) is None


def test_a_missing_file_is_no_checkpoint(path: Path) -> None:
    assert load_timers(Files(), path) is None
