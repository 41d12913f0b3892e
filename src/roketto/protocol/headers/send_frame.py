"""The JSON header of SEND_MESSAGE_V2 as one struct: a third of the time that a command takes.

SEND_BATCH_MESSAGE has the same. Every field is text, as in a command's map of them, and whoever
reads it converts it. What cannot be read like this (fields that are no strings, an opaque that is
one) is left to command.py.
"""

import msgspec

__all__ = [
    "SEND_BATCH_CODE", "SEND_BATCH_START", "SEND_V2_CODE", "SEND_V2_START", "SendV2Fields",
    "SendV2Frame", "decode_send_v2",
]  # fmt: skip

SEND_V2_CODE = 310
SEND_V2_START = b'{"code":310,'
"""How FastJSON, which sorts members, begins such a header."""
SEND_BATCH_CODE = 320
SEND_BATCH_START = b'{"code":320,'


class SendV2Fields(msgspec.Struct, gc=False):
    """What SendMessageV2Request has, under the wire's names; other fields are passed over."""

    a: str
    b: str
    c: str
    d: str
    e: str
    f: str
    g: str
    h: str
    i: str = ""
    j: str = "0"
    l: str | None = None  # noqa: E741 (the wire's name)
    m: str = "false"


class SendV2Frame(msgspec.Struct, gc=False):
    """The members of the header that matter to a send."""

    code: int
    extFields: SendV2Fields  # noqa: N815 (the wire's name)
    opaque: int
    flag: int = 0


_decoder = msgspec.json.Decoder(SendV2Frame)


def decode_send_v2(header: memoryview) -> SendV2Frame | None:
    """The header, None if it is not one that can be read like this."""
    try:
        return _decoder.decode(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
