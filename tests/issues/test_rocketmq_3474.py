"""#3474, #3475: a remark length that lies made the server allocate until nothing else ran."""

import struct

import pytest

from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.errors import CommandError
from roketto.protocol.frame import COMPACT, FrameDecoder


@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31), 10_000])
def test_a_lying_remark_length_is_refused_before_anything_is_allocated(length: int) -> None:
    """The length is compared with what is there, and the connection closed."""
    frame = bytearray(encode_command(Command(105, {"topic": "T"}, serialization=COMPACT)))
    frame[8 + 13 : 8 + 17] = struct.pack(">i", length)
    [view] = FrameDecoder().feed(bytes(frame))
    with pytest.raises(CommandError, match=f"remark of {length} bytes does not fit"):
        decode_command(view)
