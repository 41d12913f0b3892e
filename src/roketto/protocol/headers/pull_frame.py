"""The JSON header of PULL_MESSAGE as one struct: a third of the time that a command takes.

Every field is text, as in a command's map of them, and whoever reads it converts it. What cannot be
read like this (fields that are no strings, an opaque that is one) is left to command.py.
"""

import msgspec

from roketto.protocol.headers.base import I32, decode_header
from roketto.protocol.headers.pull import PullMessageRequest

__all__ = ["PULL_START", "PullFields", "PullFrame", "decode_pull", "pull_header"]

PULL_START = b'{"code":11,'
"""How FastJSON, which sorts members, begins such a header."""


class PullFields(msgspec.Struct, gc=False):
    """What a PullMessageRequest has, under the wire's names; other fields are passed over.

    Empty texts stand for what is absent: the two mean the same to a pull.
    """

    consumerGroup: str  # noqa: N815 (the wire's names)
    topic: str
    queueId: str  # noqa: N815
    queueOffset: str  # noqa: N815
    maxMsgNums: str  # noqa: N815
    sysFlag: str  # noqa: N815
    commitOffset: str  # noqa: N815
    suspendTimeoutMillis: str  # noqa: N815
    subVersion: str  # noqa: N815
    subscription: str = ""
    expressionType: str = ""  # noqa: N815
    maxMsgBytes: str = ""  # noqa: N815
    requestSource: str = ""  # noqa: N815


class PullFrame(msgspec.Struct, gc=False):
    """The members of the header that matter to a pull."""

    code: int
    extFields: PullFields  # noqa: N815 (the wire's name)
    opaque: I32
    flag: int = 0


_decoder = msgspec.json.Decoder(PullFrame)


def decode_pull(header: memoryview) -> PullFrame | None:
    """The header, None if it is not one that can be read like this."""
    try:
        return _decoder.decode(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def pull_header(fields: PullFields) -> PullMessageRequest:
    """What ``decode_header`` makes of these fields; HeaderFieldError if it makes nothing."""
    return decode_header(PullMessageRequest, msgspec.structs.asdict(fields))
