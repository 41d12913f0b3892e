"""Offsets in a file survive crashes and damage, and are those of Java's clients."""

import logging
import os
from contextlib import suppress
from pathlib import Path

import pytest

from roketto.client import offset_file
from roketto.client.offset_file import OffsetFileError, backup_of, read_offsets, write_offsets
from roketto.protocol.bodies.route import MessageQueue

GOLDEN = Path(__file__).parents[2] / "golden" / "client" / "offsets"
QUEUE = MessageQueue("broker-a", 0, "T")
OTHER = MessageQueue("b", 1, "T")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "10.0.0.1@DEFAULT" / "group" / "offsets.json"


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_what_java_has_written_is_read(version: str) -> None:
    """Pretty, with objects as keys, and numbers that no double holds."""
    assert read_offsets(GOLDEN / f"{version}.json") == {
        MessageQueue("broker-a", 0, "Orders"): 12,
        MessageQueue("broker-a", 1, "Orders"): 0,
        MessageQueue('bü "x"', 7, "ns%Orders"): 9_007_199_254_740_993,
    }


def test_what_is_written_has_the_form_of_java(path: Path) -> None:
    """And what was there before lies beside it."""
    write_offsets(path, {QUEUE: 12})
    text = '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:12}}'
    assert path.read_text() == text
    write_offsets(path, {QUEUE: 13, OTHER: 1})
    assert backup_of(path).read_text() == text
    assert read_offsets(path) == {QUEUE: 13, OTHER: 1}
    assert sorted(one.name for one in path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]


@pytest.mark.parametrize("damage", [b"", b'{"offsetTable":{{"brokerName":"b', b"\0" * 40, b"[1]"])
def test_a_damaged_file_gives_way_to_the_one_before(
    path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """And does not replace that one when it is written again."""
    write_offsets(path, {QUEUE: 12})
    write_offsets(path, {QUEUE: 13})
    path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert read_offsets(path) == {QUEUE: 12}
    assert (str(path) in caplog.text) == bool(damage)
    write_offsets(path, {QUEUE: 14})
    assert (read_offsets(path), read_offsets(backup_of(path))) == ({QUEUE: 14}, {QUEUE: 12})


def test_damage_without_a_good_copy_is_an_error_in_words(path: Path) -> None:
    """It names both files and what to do; nothing is begun anywhere else meanwhile."""
    write_offsets(path, {QUEUE: 12})
    path.write_bytes(b"{")
    remedy = "put a good copy there, or delete both files"
    with pytest.raises(OffsetFileError, match=remedy) as raised:
        read_offsets(path)
    assert f"{path}: " in str(raised.value)
    path.unlink()
    backup_of(path).write_bytes(b"{")
    with pytest.raises(OffsetFileError, match=remedy):
        read_offsets(path)


def test_nothing_is_stored_where_no_file_was_ever(path: Path) -> None:
    """Nor where a Java client has died before it wrote its first bytes."""
    assert read_offsets(path) == {}
    write_offsets(path, {QUEUE: -1})
    assert read_offsets(path) == {}
    path.unlink()
    path.write_bytes(b"")
    assert read_offsets(path) == {}


def test_a_file_that_cannot_be_used_is_an_error_in_words(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory in its place, a file in that of its directory, and the size of something else."""
    path.mkdir(parents=True)
    with pytest.raises(OffsetFileError, match="cannot be read"):
        read_offsets(path)
    in_the_way = path / "file"
    in_the_way.touch()
    with pytest.raises(OffsetFileError, match="cannot be written"):
        write_offsets(in_the_way / "offsets.json", {QUEUE: 1})
    write_offsets(path / "good", {QUEUE: 1})
    monkeypatch.setattr(offset_file, "_BYTES_MAX", 20)
    with pytest.raises(OffsetFileError, match="more than 20 bytes"):
        read_offsets(path / "good")


@pytest.mark.parametrize("step", range(8))
def test_a_crash_at_any_step_leaves_whole_offsets(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Old or new, but never none: whatever call of the system is the last."""
    write_offsets(path, {QUEUE: 12})
    steps = iter(range(100))

    def dying(call: str) -> None:
        original = getattr(os, call)

        def die_or_go_on(*given: object) -> object:
            if next(steps) >= step:
                raise KeyboardInterrupt  # not an error that anybody would handle
            return original(*given)

        monkeypatch.setattr(os, call, die_or_go_on)

    for call in ("fsync", "replace", "open"):
        dying(call)
    with suppress(KeyboardInterrupt):
        write_offsets(path, {QUEUE: 13})
    monkeypatch.undo()
    assert read_offsets(path)[QUEUE] in (12, 13)
