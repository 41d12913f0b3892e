"""#10832: short frames and unknown serialisations raised errors that nobody had expected."""

import pytest

from roketto.protocol.command import decode_command
from roketto.protocol.errors import ProtocolError


@pytest.mark.parametrize(
    "frame",
    [b"", b"\0", b"\0\0\0", b"\0\0\0\x05ab", b"\x02\0\0\0", b"\xff\0\0\x01x", b"\x01\0\0\x03abc"],
)
def test_short_and_strange_frames_are_documented_errors(frame: bytes) -> None:
    """Whoever reads a connection has to expect one kind of error only."""
    with pytest.raises(ProtocolError):
        decode_command(memoryview(frame))
