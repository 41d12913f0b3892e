"""Proves that we read what Java's compressors write, and that no body unpacks without bound."""

import zlib
from contextlib import suppress
from random import Random
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol.compression import compress, decompress
from roketto.protocol.errors import CompressionError
from roketto.protocol.limits import DECOMPRESSED_BYTES_MAX
from roketto.protocol.sysflags import (
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZLIB_OLD,
    COMPRESSION_ZSTD,
)

TYPES = (COMPRESSION_ZLIB_OLD, COMPRESSION_LZ4, COMPRESSION_ZSTD, COMPRESSION_ZLIB)
TEXT = b"RocketMQ message body, " * 40


def zlib_bomb(size: int) -> bytes:
    return zlib.compress(bytes(size), 9)


def lz4_bomb(size: int) -> bytes:
    packed: bytes = lz4.frame.compress(bytes(size), block_linked=False)
    return packed


def zstd_bomb(size: int) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(bytes(size))


@pytest.mark.parametrize(
    "row", load("compression"), ids=lambda row: f"{row['name']}-{row['level']}-{len(row['body'])}"
)
def test_what_java_packed_is_unpacked(row: dict[str, Any]) -> None:
    packed = bytes.fromhex(row["packed"])
    body = bytes.fromhex(row["body"])
    assert decompress(packed, 1 | row["type"]) == body
    assert decompress(memoryview(packed), 1 | row["type"]) == body


@pytest.mark.parametrize("level", [1, 5, 9])
def test_zlib_streams_of_every_level_begin_as_those_of_java(level: int) -> None:
    rows = [row for row in load("compression") if row["name"] == "ZLIB" and row["level"] == level]
    assert rows
    for row in rows:
        packed = compress(bytes.fromhex(row["body"]), COMPRESSION_ZLIB, level)
        assert zlib.decompress(packed) == bytes.fromhex(row["body"])
        assert packed[:2] == bytes.fromhex(row["packed"])[:2]


def test_lz4_blocks_are_independent_because_java_reads_no_others() -> None:
    descriptor = compress(TEXT, COMPRESSION_LZ4)[4]
    assert descriptor & 0b0010_0000


@pytest.mark.parametrize("compression_type", TYPES)
@given(body=st.binary())
def test_a_body_survives_both_ways(compression_type: int, body: bytes) -> None:
    for given_body in (body, memoryview(body)):
        packed = compress(given_body, compression_type)
        assert decompress(packed, compression_type) == body


@pytest.mark.parametrize("compression_type", [0x400, 0x500, 0x600, 0x700])
def test_unknown_types_are_refused(compression_type: int) -> None:
    with pytest.raises(CompressionError, match=f"type 0x{compression_type:x} is unknown"):
        decompress(b"", compression_type | 1)
    with pytest.raises(CompressionError, match=f"type 0x{compression_type:x} is unknown"):
        compress(b"", compression_type)


@pytest.mark.parametrize("compression_type", [COMPRESSION_ZLIB, COMPRESSION_ZSTD])
def test_a_level_the_algorithm_does_not_have_is_refused(compression_type: int) -> None:
    with pytest.raises(CompressionError, match="level 99"):
        compress(TEXT, compression_type, 99)


@pytest.mark.parametrize("compression_type", TYPES)
def test_a_body_of_exactly_the_bound_is_unpacked_and_a_larger_one_refused(
    compression_type: int,
) -> None:
    packed = compress(TEXT, compression_type)
    assert decompress(packed, compression_type, len(TEXT)) == TEXT
    with pytest.raises(CompressionError, match=f"more than {len(TEXT) - 1} bytes"):
        decompress(packed, compression_type, len(TEXT) - 1)


@pytest.mark.parametrize(
    ("bomb", "compression_type"),
    [(zlib_bomb, COMPRESSION_ZLIB), (lz4_bomb, COMPRESSION_LZ4), (zstd_bomb, COMPRESSION_ZSTD)],
)
def test_a_bomb_is_refused(bomb: Any, compression_type: int) -> None:
    packed = bomb(DECOMPRESSED_BYTES_MAX + 1)
    with pytest.raises(CompressionError, match="unpacks to more than 33554432 bytes"):
        decompress(packed, compression_type)


def test_a_frame_that_announces_a_terabyte_allocates_none_of_it() -> None:
    lying: bytes = lz4.frame.LZ4FrameCompressor().begin(1 << 40)
    with pytest.raises(CompressionError, match="cut short"):
        decompress(lying, COMPRESSION_LZ4)
    single_segment = bytes.fromhex("28B52FFD E0") + (1 << 40).to_bytes(8, "little")
    with pytest.raises(CompressionError, match="damaged"):
        decompress(single_segment, COMPRESSION_ZSTD)


@pytest.mark.parametrize("compression_type", TYPES)
def test_a_truncated_body_is_refused_wherever_it_is_cut(compression_type: int) -> None:
    packed = compress(TEXT, compression_type)
    for cut in range(len(packed)):
        with pytest.raises(CompressionError, match=r"cut short|damaged"):
            decompress(packed[:cut], compression_type)


@pytest.mark.parametrize("compression_type", TYPES)
@pytest.mark.parametrize("garbage", [b"\x00", b"garbage", b"x" * 2_000])
def test_bytes_after_the_end_are_refused(compression_type: int, garbage: bytes) -> None:
    packed = compress(TEXT, compression_type)
    with pytest.raises(CompressionError, match=f"{len(garbage)} bytes after its end"):
        decompress(packed + garbage, compression_type)


def test_a_zstd_body_longer_than_a_slice_is_unpacked() -> None:
    noise = bytes((n * n * 7919) >> 5 & 0xFF for n in range(5_000))
    packed = compress(noise, COMPRESSION_ZSTD)
    assert len(packed) > 1_024
    assert decompress(packed, COMPRESSION_ZSTD) == noise


def test_1000_damaged_bodies_under_wrong_flags_stay_within_the_bound() -> None:
    random = Random(14)
    packed = [compress(TEXT, compression_type) for compression_type in TYPES]
    refused = 0
    for _ in range(1_000):
        damaged = bytearray(random.choice(packed))
        for _ in range(random.randint(0, 3)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        del damaged[random.randint(len(damaged) // 2, 2 * len(damaged)) :]
        try:
            body = decompress(bytes(damaged), random.randrange(8) << 8, 100_000)
        except CompressionError:
            refused += 1
        else:
            assert len(body) <= 100_000
    assert 500 < refused < 1_000


@pytest.mark.parametrize("compression_type", TYPES)
@given(data=st.data())
def test_mutated_bodies_give_bytes_or_a_compression_error(
    compression_type: int, data: st.DataObject
) -> None:
    packed = bytearray(compress(TEXT, compression_type))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CompressionError):
        assert len(decompress(bytes(packed), compression_type, 1_000_000)) <= 1_000_000


@given(st.binary(), st.integers(0, 7).map(lambda bits: bits << 8))
def test_any_bytes_give_bytes_or_a_compression_error(packed: bytes, bits: int) -> None:
    with suppress(CompressionError):
        assert len(decompress(packed, bits | 1, 1_000_000)) <= 1_000_000
