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
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from roketto.protocol.errors import FrameError, FrameTooLargeError
from roketto.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX

JSON = 0
COMPACT = 1

LENGTH_BYTES: Final = 4
PREFIX_BYTES: Final = 8

_LENGTH = struct.Struct(">I")
_PREFIX = struct.Struct(">II")


class FrameDecoder:
    """Bytes in, frames out; a frame is everything behind its length field.

    at = 0
    if decoder.pending_bytes:
        frame, at = decoder.complete(received)     # None: it is not whole yet
    while end := decoder.end_of_frame(received, at):
        received[at + LENGTH_BYTES : end]          # nothing was copied
        at = end
    decoder.keep(received, at)

    A frame that arrives in pieces is gathered in one growing buffer, however small the pieces are,
    and handed out as a view of it: one copy. Nothing is allocated ahead on the word of a length
    field.

    ``pending_bytes`` is what is held of an unfinished frame. After an error the decoder is of no
    further use; its owner closes the connection.
    """

    __slots__ = ("_frame_bytes_max", "_pending", "pending_bytes")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max: i64 = frame_bytes_max
        self._pending: bytearray = bytearray()
        self.pending_bytes: int = 0

    def feed(self, received: bytes) -> list[memoryview]:
        """Return every frame that is complete now; raise FrameError at the first bad length."""
        frames: list[memoryview] = []
        at = 0
        if self.pending_bytes:
            frame, at = self.complete(received)
            if frame is not None:
                frames.append(frame)
        view = memoryview(received)
        while end := self.end_of_frame(received, at):
            frames.append(view[at + LENGTH_BYTES : end])
            at = end
        self.keep(received, at)
        return frames

    def complete(self, received: bytes) -> tuple[memoryview | None, int]:
        """Add what ``received`` has of the unfinished frame: it, if it is whole now, and the rest.

        The rest is told by where it begins; before a frame is whole there is none.
        """
        pending = self._pending
        taken = 0
        if len(pending) < LENGTH_BYTES:
            taken = min(LENGTH_BYTES - len(pending), len(received))
            pending += received[:taken]
            if len(pending) < LENGTH_BYTES:
                self.pending_bytes = len(pending)
                return None, taken
        wanted = self._checked(_LENGTH.unpack_from(pending)[0])
        stop = min(taken + wanted - len(pending), len(received))
        pending += received[taken:stop]
        if len(pending) < wanted:
            self.pending_bytes = len(pending)
            return None, stop
        self._pending = bytearray()
        self.pending_bytes = 0
        return memoryview(pending)[LENGTH_BYTES:], stop

    def end_of_frame(self, data: bytes, at: i64) -> i64:
        """Where the frame ends that begins at ``at``; 0 if it is not all there."""
        size: i64 = len(data)
        if size - at < LENGTH_BYTES:
            return 0
        end = at + self._checked(i64(read_i32_be(data, at)) & 0xFFFF_FFFF)
        return end if end <= size else 0

    def keep(self, data: bytes, at: int) -> None:
        """Hold what is there of an unfinished frame until the rest of it comes."""
        if at < len(data):
            self._pending = bytearray(data[at:])
            self.pending_bytes = len(data) - at

    def _checked(self, length: i64) -> i64:
        """How many bytes a frame takes with its length field; FrameError if none may."""
        wanted = LENGTH_BYTES + length
        if wanted < PREFIX_BYTES or wanted > self._frame_bytes_max:
            raise self._bad_length(wanted)
        return wanted

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
