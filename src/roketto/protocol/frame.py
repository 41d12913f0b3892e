"""Length-prefixed framing: feed bytes, get frames, enforce limits.

| offset | size | field                                                     |
|--------|------|-----------------------------------------------------------|
| 0      | 4    | length of what follows: 4 + header length + body length   |
| 4      | 1    | serialisation of the header: 0 JSON, 1 ROCKETMQ (compact) |
| 5      | 3    | header length, unsigned                                   |
| 8      | n    | header                                                    |
| 8 + n  | rest | body; none when nothing is left                           |

Java reads the length as a signed integer, so a negative one is refused like one that is too large.
"""

import struct

from roketto.protocol.errors import FrameError, FrameTooLargeError
from roketto.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX

JSON = 0
COMPACT = 1

LENGTH_BYTES = 4
PREFIX_BYTES = 8

_LENGTH = struct.Struct(">I")
_PREFIX = struct.Struct(">II")


class FrameDecoder:
    """Bytes in, frames out; a frame is a view of everything behind its length field.

    Complete frames are views of the very bytes that were fed: nothing is copied. A frame that
    arrives in pieces is gathered in one growing buffer, however small the pieces are, and handed
    out as a view of it: one copy. Nothing is allocated ahead on the word of a length field.

    ``pending_bytes`` is what is held of an unfinished frame. After an error the decoder is of no
    further use; its owner closes the connection.
    """

    __slots__ = ("_frame_bytes_max", "_pending", "_wanted_bytes", "pending_bytes")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()
        self._wanted_bytes = LENGTH_BYTES
        self.pending_bytes = 0

    def feed(self, received: bytes) -> list[memoryview]:
        """Return every frame that is complete now; raise FrameError at the first bad length."""
        data: bytes | bytearray = received
        if self.pending_bytes:
            data = self._pending
            data += received
            self.pending_bytes = len(data)
            if self.pending_bytes < self._wanted_bytes:
                return []
            self._pending = bytearray()
            self.pending_bytes = 0
        view = memoryview(data)
        frames: list[memoryview] = []
        size = len(data)
        start = 0
        self._wanted_bytes = LENGTH_BYTES
        while size - start >= LENGTH_BYTES:
            wanted = LENGTH_BYTES + _LENGTH.unpack_from(data, start)[0]
            if wanted < PREFIX_BYTES or wanted > self._frame_bytes_max:
                raise self._bad_length(wanted)
            end = start + wanted
            if end > size:
                self._wanted_bytes = wanted
                break
            frames.append(view[start + LENGTH_BYTES : end])
            start = end
        if start < size:
            self._pending = bytearray(view[start:])
            self.pending_bytes = size - start
        return frames

    def _bad_length(self, frame_bytes: int) -> FrameError:
        if frame_bytes < PREFIX_BYTES:
            return FrameError(
                f"frame length {frame_bytes - LENGTH_BYTES} leaves no room for the header length"
            )
        return FrameTooLargeError(
            f"frame of {frame_bytes} bytes exceeds the limit of {self._frame_bytes_max}"
        )


def split_frame(frame: memoryview) -> tuple[int, memoryview, memoryview]:
    """Return serialisation type, header and body of one frame as the decoder yields it."""
    size = len(frame)
    if size < LENGTH_BYTES:
        raise FrameError(f"frame of {size} bytes has no header length (4 bytes)")
    mark = _LENGTH.unpack_from(frame)[0]
    serialization = mark >> 24
    header_bytes = mark & HEADER_BYTES_MAX
    body_start = LENGTH_BYTES + header_bytes
    if body_start > size:
        raise FrameError(f"header of {header_bytes} bytes exceeds its frame of {size} bytes")
    if serialization > COMPACT:
        raise FrameError(f"unknown serialisation type {serialization}; known are 0 and 1")
    return serialization, frame[LENGTH_BYTES:body_start], frame[body_start:]


def whole_frame(frame: memoryview) -> bytes:
    """Return a frame as it travels, with its length field, from what the decoder yields."""
    return _LENGTH.pack(len(frame)) + frame


def frame_prefix(serialization: int, header_bytes: int, body_bytes: int) -> bytes:
    """Return the eight bytes before the header."""
    if header_bytes > HEADER_BYTES_MAX:
        raise FrameError(f"header of {header_bytes} bytes exceeds the limit of {HEADER_BYTES_MAX}")
    return _PREFIX.pack(
        LENGTH_BYTES + header_bytes + body_bytes, serialization << 24 | header_bytes
    )
