"""Proves that a segment is named by its offset, and mapped, remapped and unmapped as asked."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.store.errors import StoreError
from roketto.store.files import Files
from roketto.store.segment import Segment, create_segment, parse_segment_name, segment_name

SIZE = 4_096


def test_a_name_is_the_offset_in_20_digits() -> None:
    """The second file of Java's commit log has this name."""
    assert segment_name(1 << 30) == "00000000001073741824"


@given(st.integers(0, 2**63 - 1))
def test_a_name_tells_the_offset_it_was_made_of(start: int) -> None:
    """Reading a name is the inverse of making it."""
    assert parse_segment_name(Path("x") / segment_name(start)) == start


@pytest.mark.parametrize(
    "name", ["", "0", "0" * 19, "0" * 21, "0000000000000000000x", "0" * 20 + ".tmp", "\u0660" * 20]
)
def test_any_other_name_is_refused_and_named(name: str) -> None:
    """A foreign file in a log's directory is the user's to move, not ours to guess about."""
    with pytest.raises(StoreError, match="does not belong here"):
        parse_segment_name(Path("/store") / f"{name}")


def test_a_new_segment_is_zeros_and_writable(tmp_path: Path) -> None:
    """What is written to it is in the file."""
    segment = create_segment(Files(), tmp_path, 2 * SIZE, SIZE)
    assert (segment.start, segment.end) == (2 * SIZE, 3 * SIZE)
    view = segment.map(Files(), writable=True)
    assert bytes(view) == bytes(SIZE)
    view[:3] = b"abc"
    assert (tmp_path / segment_name(2 * SIZE)).read_bytes()[:4] == b"abc\0"
    segment.unmap()


def test_mapping_twice_gives_the_same_map(tmp_path: Path) -> None:
    """A writable map serves readers."""
    files = Files()
    segment = create_segment(files, tmp_path, 0, SIZE)
    mapped = segment.mapped
    assert not segment.map(files, writable=False).readonly
    assert segment.mapped is mapped
    segment.unmap()


def test_a_map_for_reading_is_replaced_when_one_for_writing_is_needed(tmp_path: Path) -> None:
    """A view that a reader holds of the old one stays good."""
    files = Files()
    segment = create_segment(files, tmp_path, 0, SIZE)
    segment.unmap()
    held = segment.map(files, writable=False)[:2]
    assert held.readonly
    view = segment.map(files, writable=True)
    view[:2] = b"ok"
    assert bytes(held) == b"ok"
    segment.unmap()


def test_unmapping_twice_is_harmless(tmp_path: Path) -> None:
    """Closing need not know what is mapped."""
    segment = create_segment(Files(), tmp_path, 0, SIZE)
    segment.unmap()
    segment.unmap()
    assert segment.mapped is None


def test_it_shows_its_file() -> None:
    """Assertions name the segment that they are about."""
    assert repr(Segment(Path("/a/b"), 10, 5)) == "<Segment /a/b to 15>"
