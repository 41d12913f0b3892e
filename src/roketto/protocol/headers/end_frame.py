"""The JSON header of END_TRANSACTION as one struct: a third of the time that a command takes.

As in send_frame.py every field is text, and what cannot be read like this is left to command.py.
"""

import msgspec

__all__ = ["END_CODE", "END_START", "EndFields", "EndFrame", "decode_end"]

END_CODE = 37
END_START = b'{"code":37,'
"""How FastJSON, which sorts members, begins such a header."""


class EndFields(msgspec.Struct, gc=False):
    """What EndTransactionRequest must have, under the wire's names; others are passed over."""

    producerGroup: str  # noqa: N815 (the wire's name)
    commitLogOffset: str  # noqa: N815
    tranStateTableOffset: str  # noqa: N815
    commitOrRollback: str  # noqa: N815
    msgId: str  # noqa: N815


class EndFrame(msgspec.Struct, gc=False):
    """The members of the header that matter to the end of a transaction."""

    code: int
    extFields: EndFields  # noqa: N815
    opaque: int
    flag: int = 0


_decoder = msgspec.json.Decoder(EndFrame)


def decode_end(header: memoryview) -> EndFrame | None:
    """The header, None if it is not one that can be read like this."""
    try:
        return _decoder.decode(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
