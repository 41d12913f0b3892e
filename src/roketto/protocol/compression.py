"""Compressed message bodies: zlib, LZ4 frames and zstd, with a bound on what they unpack to.

The system flag names the algorithm (see sysflags.py). Java's readers decide what we write: theirs
of LZ4 knows frames of independent blocks only.
"""

import zlib
from typing import Final

import lz4.frame
import zstandard

from roketto.protocol.errors import CompressionError
from roketto.protocol.limits import DECOMPRESSED_BYTES_MAX
from roketto.protocol.sysflags import (
    COMPRESSION_LZ4,
    COMPRESSION_TYPE,
    COMPRESSION_ZLIB,
    COMPRESSION_ZLIB_OLD,
    COMPRESSION_ZSTD,
)

LEVEL_DEFAULT: Final = 5
"""Java's rocketmq.message.compressLevel."""

# The largest window zstd itself unpacks without being told to; level 22 asks for it. Pages of it
# that the output does not reach are never touched.
_ZSTD_WINDOW_BYTES_MAX: Final = 1 << 27

# The library bounds neither the output of one call nor tells what follows the frame when it does
# everything at once. So it is fed in slices: 4 bytes may become a block of 128 KiB, and a slice of
# 512 bytes thus overshoots the bound by 16 MiB at most.
_ZSTD_READ_BYTES: Final = 512
_ZSTD_WRITE_BYTES: Final = 65_536


def compress(body: bytes | memoryview, compression_type: int, level: int = LEVEL_DEFAULT) -> bytes:
    """Pack ``body`` by one of the COMPRESSION values of sysflags; LZ4 has no levels here."""
    try:
        if compression_type in (COMPRESSION_ZLIB, COMPRESSION_ZLIB_OLD):
            return zlib.compress(body, level)
        if compression_type == COMPRESSION_ZSTD:
            return zstandard.ZstdCompressor(level=level).compress(body)
    except (zlib.error, ValueError) as error:
        raise CompressionError(
            f"compression level {level} is not one of the algorithm (flag 0x{compression_type:x});"
            f" zlib has 0..9, zstd has 1..22"
        ) from error
    if compression_type == COMPRESSION_LZ4:
        packed: bytes = lz4.frame.compress(body, block_linked=False, store_size=False)
        return packed
    raise _unknown_type(compression_type)


def decompress(
    packed: bytes | memoryview, sys_flag: int, size_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Unpack a body by the compression type in ``sys_flag``, to at most ``size_max`` bytes.

    A body that is damaged, cut short, followed by other bytes or larger than that is refused, and
    never is more memory used than the bound allows.
    """
    compression_type = sys_flag & COMPRESSION_TYPE
    if compression_type in (COMPRESSION_ZLIB, COMPRESSION_ZLIB_OLD):
        return _decompress_zlib(packed, size_max)
    if compression_type == COMPRESSION_LZ4:
        return _decompress_lz4(packed, size_max)
    if compression_type == COMPRESSION_ZSTD:
        return _decompress_zstd(packed, size_max)
    raise _unknown_type(compression_type)


def _decompress_zlib(packed: bytes | memoryview, size_max: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than allowed: it tells "exactly the bound" from "beyond it".
        body = stream.decompress(packed, size_max + 1)
    except zlib.error as error:
        raise CompressionError(f"zlib body of {len(packed)} bytes is damaged: {error}") from error
    _check_end("zlib", packed, len(body), size_max, stream.eof, len(stream.unused_data))
    return body


def _decompress_lz4(packed: bytes | memoryview, size_max: int) -> bytes:
    stream = lz4.frame.LZ4FrameDecompressor()
    try:
        body: bytes = stream.decompress(packed, max_length=size_max + 1)
    except RuntimeError as error:
        raise CompressionError(f"LZ4 body of {len(packed)} bytes is damaged: {error}") from error
    _check_end("LZ4", packed, len(body), size_max, stream.eof, len(stream.unused_data or b""))
    return body


def _decompress_zstd(packed: bytes | memoryview, size_max: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    stream = decompressor.decompressobj(write_size=_ZSTD_WRITE_BYTES)
    parts: list[bytes] = []
    size = 0
    at = 0
    try:
        while at < len(packed) and not stream.eof and size <= size_max:
            parts.append(stream.decompress(packed[at : at + _ZSTD_READ_BYTES]))
            size += len(parts[-1])
            at += _ZSTD_READ_BYTES
    except zstandard.ZstdError as error:
        raise CompressionError(f"zstd body of {len(packed)} bytes is damaged: {error}") from error
    unused = len(stream.unused_data) + max(0, len(packed) - at)
    _check_end("zstd", packed, size, size_max, stream.eof, unused)
    return b"".join(parts)


def _check_end(
    name: str, packed: bytes | memoryview, size: int, size_max: int, ended: bool, unused: int
) -> None:
    if size > size_max:
        raise CompressionError(
            f"{name} body of {len(packed)} bytes unpacks to more than {size_max} bytes"
        )
    if not ended:
        raise CompressionError(f"{name} body of {len(packed)} bytes is cut short")
    if unused:
        raise CompressionError(
            f"{name} body of {len(packed)} bytes has {unused} bytes after its end"
        )


def _unknown_type(compression_type: int) -> CompressionError:
    return CompressionError(
        f"compression type 0x{compression_type:x} is unknown; LZ4 is 0x{COMPRESSION_LZ4:x},"
        f" zstd 0x{COMPRESSION_ZSTD:x}, zlib 0x{COMPRESSION_ZLIB:x} or 0"
    )
