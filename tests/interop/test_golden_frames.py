"""Proves that the golden frames are what they claim to be, by a reader that is not Roketto's."""

from collections import Counter

import pytest

from interop.peer import VERSIONS
from interop.peer.frames import SERIALIZATIONS, view_frame
from interop.peer.golden import DIRECTORY, FRAME_BYTES_MAX, KEPT_PER_KIND, read_golden


@pytest.mark.parametrize("version", VERSIONS)
def test_every_frame_says_of_itself_what_is_said_of_it(version: str) -> None:
    for golden in read_golden(version):
        view = view_frame(golden.frame)
        assert view.serialization == golden.serialization, golden.name
        assert view.code == golden.code, golden.name
        assert view.is_response == (golden.direction == "response"), golden.name
        if golden.direction == "request":
            assert golden.code == golden.request_code, golden.name


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("serialization", SERIALIZATIONS)
def test_frames_cover_at_least_sixty_kinds_in_either_serialization(
    version: str, serialization: str
) -> None:
    kinds = {
        (golden.direction, golden.request_code)
        for golden in read_golden(version)
        if golden.serialization == serialization
    }
    assert len(kinds) >= 60


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_have_names_of_their_own_and_stay_small(version: str) -> None:
    frames = read_golden(version)
    assert len({golden.name for golden in frames}) == len(frames)
    assert max(len(golden.frame) for golden in frames) <= FRAME_BYTES_MAX
    kept = Counter(golden.name.rpartition(".")[0] for golden in frames)
    assert max(kept.values()) <= KEPT_PER_KIND


def test_all_frames_together_stay_below_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in DIRECTORY.iterdir()) < 1_000_000
