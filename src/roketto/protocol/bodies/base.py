"""What all bodies share: the Struct they are made of, and how to read and write one.

A body is a ``Body``: a msgspec Struct whose attributes are snake_case here and camelCase on the
wire, declared in the order of their wire names because that is how they are written::

    class TopicList(Body):
        broker_addr: str | None = None
        topic_list: list[str] = field(default_factory=list)

    topics = decode_body(TopicList, command.body)
    command.body = encode_body(topics)

Conventions: None means absent and is not written. A Java set travels as an array and is a list
here, in the order of the wire. A map with integer keys is a ``dict[int, ...]``, one with message
queues as keys a ``dict[MessageQueue, ...]``.

Most bodies are plain JSON that fits its Struct, and msgspec reads them in one go. What it refuses
(the dialect of ``fastjson``, or values that only Java's conversions accept) is read again by the
tolerant parser and ``shape``. Both ways give the same value where both give one.
"""

from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

from roketto.protocol.bodies.shape import aliases_of, shape
from roketto.protocol.fastjson import parse, quote_integer_keys
from roketto.protocol.fastjson_write import write

__all__ = ["Body", "Int", "Long", "decode_body", "encode_body"]

T = TypeVar("T")

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A Java int."""

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A Java long."""


class Body(msgspec.Struct, rename="camel"):
    """A JSON object of the wire; see the module for its conventions."""

    ALIASES: ClassVar[dict[str, str]] = {}
    """Other names under which Java reads a member: alias -> wire name."""


def decode_body(cls: type[T], data: bytes | memoryview) -> T:
    """Read a body; BodyError for bytes that Java could not read as ``cls`` either.

    Java reads an empty body and ``null`` as a null reference; here both are errors, so a caller
    that expects an absent body looks at it first.
    """
    kind: Any = cls
    text = bytes(data)
    decoder, suspects = _fast(kind)
    value: T
    if not any(suspect in text for suspect in suspects):
        try:
            try:
                value = decoder.decode(text)
            except msgspec.DecodeError:
                value = decoder.decode(quote_integer_keys(text))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # shape reads more than msgspec does, and explains what it cannot read
        else:
            return value
    value = shape(parse(text), kind)
    return value


def encode_body(value: object, *, standard: bool = False) -> bytes:
    """Write a body compactly: in FastJSON's dialect, or as standard JSON with sorted maps."""
    return write(value, standard=standard)


@cache
def _fast(cls: Any) -> tuple[msgspec.json.Decoder[Any], tuple[bytes, ...]]:
    """A decoder of plain JSON, and texts whose presence means that it may not be used."""
    suspects = ("$ref", *aliases_of(cls))
    decoder = msgspec.json.Decoder(cls, strict=False)
    return decoder, tuple(f'"{suspect}"'.encode() for suspect in suspects)
