"""Proves that the bits of a group are those of Java's broker."""

import json
from pathlib import Path

import pytest

from roketto.broker.bloom import BloomFilter

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_bits_are_those_that_the_peer_has_saved(version: str) -> None:
    saved = json.loads((GOLDEN / version / "consumerFilter.json").read_text())
    entry = saved["filterDataByTopic"]["Golden"]["groupFilterData"]["GoldenSql"]
    ours = BloomFilter(20, 32).of_group("Golden", "GoldenSql")
    assert ours.bit_num == entry["bloomFilterData"]["bitNum"]
    assert ours.bit_pos == entry["bloomFilterData"]["bitPos"]


@pytest.mark.parametrize(
    ("error_percent", "groups", "bits", "hashes"),
    [(20, 32, 112, 3), (20, 64, 216, 3), (1, 8, 80, 7)],
)
def test_size_follows_from_the_errors_that_are_allowed(
    error_percent: int, groups: int, bits: int, hashes: int
) -> None:
    bloom = BloomFilter(error_percent, groups)
    positions = bloom.positions("g#t")
    assert bloom.bits == bits
    assert len(positions) == hashes
    assert all(0 <= position < bits for position in positions)


def test_texts_of_every_length_have_bits_of_their_own() -> None:
    bloom = BloomFilter(1, 10_000)
    seen = {tuple(bloom.positions("x" * length)) for length in range(50)}
    assert len(seen) == 50


@pytest.mark.parametrize(("error_percent", "groups"), [(0, 32), (100, 32), (20, 0)])
def test_impossible_sizes_are_refused_by_name(error_percent: int, groups: int) -> None:
    with pytest.raises(ValueError, match="maxErrorRateOfBloomFilter is 1 to 99"):
        BloomFilter(error_percent, groups)
