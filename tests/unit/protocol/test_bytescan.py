"""Bytes are found where they are first, and told from ASCII, by both ways of looking."""

import pytest

from roketto.protocol import bytescan
from roketto.protocol.bytescan import find_byte, find_in_loop, is_ascii, is_ascii_by_words

DATA = b"a\x02b\x02\xffc"


@pytest.mark.parametrize(
    ("byte", "at", "end", "found"),
    [(2, 0, 6, 1), (2, 1, 6, 1), (2, 2, 6, 3), (2, 4, 6, 6), (2, 2, 3, 3), (0xFF, 0, 6, 4),
     (2, 6, 6, 6), (0x61, 0, 0, 0)],
)  # fmt: skip
def test_a_byte_is_found_between_two_places(byte: int, at: int, end: int, found: int) -> None:
    """Or the end, if it is not there; whether the source runs as it is or was compiled."""
    assert find_byte(DATA, byte, at, end) == found
    assert find_in_loop(DATA, byte, at, end) == found


def test_compiled_code_looks_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is decided by how the module was loaded."""
    assert bytescan.__file__.endswith(".py") != bytescan.IS_COMPILED
    monkeypatch.setattr(bytescan, "IS_COMPILED", True)
    assert find_byte(DATA, 2, 2, 6) == 3
    assert is_ascii(b"a")


@pytest.mark.parametrize("size", range(20))
def test_bytes_above_127_are_noticed_wherever_they_are(size: int) -> None:
    """In whole words, and in what is left of one."""
    plain = bytes(range(108, 108 + size))
    assert is_ascii(plain)
    assert is_ascii_by_words(plain)
    for at in range(size):
        for byte in (0x80, 0xFF):
            other = plain[:at] + bytes((byte,)) + plain[at + 1 :]
            assert not is_ascii(other)
            assert not is_ascii_by_words(other)
