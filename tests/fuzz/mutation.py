"""Damage frames the way networks, bugs and attackers do; every step comes from a seed."""

import random
import struct
from collections.abc import Callable, Sequence

_LIES = (0, 1, 3, 4, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x0100_0000, 0x00FF_FFFF, 16_777_213)
_TOKENS = (
    b"null", b"true", b"-1", b"1e999", b'"', b"{", b"}", b"[", b"]", b":", b",", b"\\u0000",
    b"\\ud800", b"\x00", b"\xff", b"\xc3", b'"code":', b'"extFields":', b"9" * 40, b'{"a":' * 30,
)  # fmt: skip


class Mutator:
    """Makes damaged frames out of sound ones; equal seeds give equal frames."""

    def __init__(self, corpus: Sequence[bytes], seed: int) -> None:
        self._corpus = corpus
        self._random = random.Random(seed)
        self._ways: tuple[Callable[[bytearray], bytearray], ...] = (
            self._flip_bits, self._set_bytes, self._cut, self._lie, self._insert_token,
            self._repeat, self._splice, self._drop, self._fix_length,
        )  # fmt: skip

    def next(self) -> bytes:
        frame = bytearray(self._random.choice(self._corpus))
        for _ in range(self._random.choice((1, 1, 1, 2, 3, 6))):
            frame = self._random.choice(self._ways)(frame)
        if self._random.random() < 0.7:  # most damage should get past the framing
            frame = self._fix_length(frame)
        return bytes(frame)

    def _at(self, frame: bytearray) -> int:
        return self._random.randrange(len(frame) + 1)

    def _flip_bits(self, frame: bytearray) -> bytearray:
        for _ in range(self._random.randint(1, 8)):
            if frame:
                frame[self._random.randrange(len(frame))] ^= 1 << self._random.randrange(8)
        return frame

    def _set_bytes(self, frame: bytearray) -> bytearray:
        start = self._at(frame)
        count = self._random.randint(1, 8)
        frame[start : start + count] = self._random.randbytes(count)
        return frame

    def _cut(self, frame: bytearray) -> bytearray:
        return frame[: self._at(frame)]

    def _drop(self, frame: bytearray) -> bytearray:
        start = self._at(frame)
        del frame[start : start + self._random.randint(1, 30)]
        return frame

    def _lie(self, frame: bytearray) -> bytearray:
        lie = struct.pack(">I", self._random.choice(_LIES))
        start = self._random.choice((0, 4, 21, self._at(frame)))
        frame[start : start + 4] = lie
        return frame

    def _insert_token(self, frame: bytearray) -> bytearray:
        start = self._at(frame)
        frame[start:start] = self._random.choice(_TOKENS)
        return frame

    def _repeat(self, frame: bytearray) -> bytearray:
        start = self._at(frame)
        piece = frame[start : start + self._random.randint(1, 60)]
        frame[start:start] = piece * self._random.randint(1, 20)
        return frame

    def _splice(self, frame: bytearray) -> bytearray:
        other = self._random.choice(self._corpus)
        return frame[: self._at(frame)] + other[self._random.randrange(len(other)) :]

    def _fix_length(self, frame: bytearray) -> bytearray:
        if len(frame) >= 8:
            frame[:4] = struct.pack(">I", len(frame) - 4)
        return frame
