"""A stretch of the log is copied where several read, and what is cut from it is the log's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.store.files import Files
from roketto.store.segments import OutsideLogError, Segments
from roketto.store.stretch import STRETCH_BYTES, Stretch

SEGMENT_BYTES = 8 * STRETCH_BYTES
CONTENT = bytes(range(251)) * (9 * STRETCH_BYTES // 251)


@pytest.fixture
def segments(tmp_path: Path) -> Iterator[Segments]:
    """One segment and a piece of the next."""
    files = Files()
    segments = Segments(files, tmp_path / "log", SEGMENT_BYTES, 0)
    segments.load()
    segments.roll()
    segments.append_bytes(CONTENT)
    yield segments
    segments.close()
    files.close()


@pytest.fixture
def stretch(segments: Segments) -> Stretch:
    return Stretch(segments)


def is_copied(stretch: Stretch, begin: int, end: int) -> bool:
    piece = stretch.cut(begin, end)
    assert piece == CONTENT[begin:end]
    return isinstance(piece, bytes)


def test_a_second_read_close_by_is_served_from_a_copy(stretch: Stretch) -> None:
    """And so are those that follow, as far as it goes."""
    stretch.follow(1_000, 5_000)
    assert not is_copied(stretch, 1_000, 1_100)
    stretch.follow(1_200, 5_200)
    assert is_copied(stretch, 1_200, 1_300)
    assert is_copied(stretch, 1_200 + STRETCH_BYTES - 10, 1_200 + STRETCH_BYTES)
    assert not is_copied(stretch, 1_199, 1_300)
    assert not is_copied(stretch, 1_200, 1_201 + STRETCH_BYTES)
    stretch.follow(1_300, 5_000)
    assert is_copied(stretch, 1_200, 1_300), "nothing is copied twice"


@pytest.mark.parametrize("second", [1_000 + STRETCH_BYTES, SEGMENT_BYTES - 9_000])
def test_reads_that_are_far_from_each_other_copy_nothing(stretch: Stretch, second: int) -> None:
    """There is nobody to share with."""
    for first in (1_000, second, 1_000, second):
        stretch.follow(first, first + 4_000)
        assert not is_copied(stretch, first, first + 100)


def test_a_read_over_much_of_the_log_copies_nothing(stretch: Stretch) -> None:
    """The next one would be beyond the copy."""
    for first in (0, 100, 200):
        stretch.follow(first, first + STRETCH_BYTES // 2 + 1)
        assert not is_copied(stretch, first, first + 100)


def test_a_copy_ends_with_its_segment_and_with_the_log(
    stretch: Stretch, segments: Segments
) -> None:
    """What comes later is copied later."""
    for end in (SEGMENT_BYTES, segments.written):
        for first in (end - 3_000, end - 2_000):
            stretch.follow(first, first + 500)
        assert is_copied(stretch, end - 2_000, end)
    begin = segments.written
    segments.append_bytes(b"more")
    assert stretch.cut(begin, begin + 4) == b"more"
    stretch.follow(begin - 100, begin + 4)
    assert stretch.cut(begin - 100, begin + 4) == CONTENT[begin - 100 : begin] + b"more"


def test_what_is_not_in_the_log_is_told(stretch: Stretch, segments: Segments) -> None:
    """As by the log itself."""
    for _ in range(2):
        stretch.follow(segments.written - 10, segments.written)
    with pytest.raises(OutsideLogError):
        stretch.cut(segments.written - 10, segments.written + 1)
