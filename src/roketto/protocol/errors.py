"""ProtocolError and its kinds: what a decoder may raise, and what the caller does about it.

Two families, after the two things a server can do with bad input:

* ``ProtocolError``: the bytes are not what their layout promises. There is nobody to answer;
  whoever reads a connection closes it, whoever reads a file stops there.
* ``RequestError``: the frame is sound but the request is not acceptable. It carries the response
  code and a reason that names the thing, the value, the bound and the remedy.
"""

# The response codes below stand here as numbers because errors may import nothing of ours;
# tests/unit/protocol/test_errors.py keeps them equal to ResponseCode.
_SYSTEM_ERROR = 1
_NO_PERMISSION = 16
_SUBSCRIPTION_PARSE_FAILED = 23
_INVALID_PARAMETER = 29


class ProtocolError(Exception):
    """The peer broke the wire format; close the connection or stop reading the file."""


class FrameError(ProtocolError):
    """The lengths of a frame contradict each other or its serialisation type is unknown."""


class FrameTooLargeError(FrameError):
    """The length prefix announces more than the limit; raised before anything is allocated."""


class CommandError(ProtocolError):
    """The header bytes of a frame cannot be decoded."""


class RecordError(ProtocolError):
    """Bytes that should be a message record, a batch item or a message id are not."""


class CompressionError(ProtocolError):
    """A compressed body is damaged, of an unknown type, or larger than allowed when unpacked."""


class RequestError(Exception):
    """Answer this request with ``code`` and ``reason``; the connection stays open."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class HeaderFieldError(RequestError):
    """A typed header lacks a required field or a field has an unusable value."""

    def __init__(self, reason: str) -> None:
        super().__init__(_SYSTEM_ERROR, reason)


class BodyError(RequestError):
    """The body of a request or answer cannot be decoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(_SYSTEM_ERROR, reason)


class IllegalNameError(RequestError):
    """A topic, group or other name that may not be used."""

    def __init__(self, reason: str) -> None:
        super().__init__(_INVALID_PARAMETER, reason)


class FilterError(RequestError):
    """A tag or SQL92 expression that does not parse or exceeds its bounds."""

    def __init__(self, reason: str) -> None:
        super().__init__(_SUBSCRIPTION_PARSE_FAILED, reason)


class SignatureError(RequestError):
    """A request whose signature is missing or wrong."""

    def __init__(self, reason: str) -> None:
        super().__init__(_NO_PERMISSION, reason)
