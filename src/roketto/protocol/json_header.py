"""The JSON header of a frame: strict and quick first, as lenient as Java when that fails.

FastJSON writes the members in alphabetical order and leaves null ones out:

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,
     "serializeTypeCurrentRPC":"JSON","version":513}

Clients in other languages send numbers and booleans inside ``extFields``, numbers as strings, or
leave members out; all of that is accepted, because Java accepts it.
"""

from typing import Annotated, Any

import msgspec

from roketto.protocol.errors import CommandError
from roketto.protocol.limits import EXT_FIELDS_MAX

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class JsonHeader(msgspec.Struct):
    """The members of a JSON header; ``language`` is an enum's name or its ordinal."""

    code: _Int32
    extFields: dict[str, str] | None = None  # noqa: N815 (the wire's name)
    flag: _Int32 = 0
    language: str | int | None = None
    opaque: _Int32 = 0
    remark: str | None = None
    version: _Int32 = 0


_strict = msgspec.json.Decoder(JsonHeader)
_lenient = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


def decode_json_header(data: memoryview) -> JsonHeader:
    """Return the header in ``data``, or raise CommandError."""
    try:
        header = _strict.decode(data)
    except msgspec.ValidationError:
        header = _decode_lenient(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CommandError(f"header is not JSON: {error}") from error
    if header.extFields is not None and len(header.extFields) > EXT_FIELDS_MAX:
        raise CommandError(
            f"header has {len(header.extFields)} extFields, the limit is {EXT_FIELDS_MAX}"
        )
    return header


def encode_json_text(value: object) -> bytes:
    """Return ``value`` (a string or a map of strings) as compact JSON text."""
    return _encoder.encode(value)


def _decode_lenient(data: memoryview) -> JsonHeader:
    try:
        members = _lenient.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CommandError(f"header is not a JSON object: {error}") from error
    fields = members.get("extFields")
    if fields is not None and not isinstance(fields, dict):
        raise CommandError(f"extFields is {type(fields).__name__}, not an object")
    members["extFields"] = fields and {
        name: _field_text(value) for name, value in fields.items() if value is not None
    }
    for name in ("code", "flag", "opaque", "version"):
        if members.get(name, 0) is None:
            del members[name]
    if not isinstance(members.get("remark"), str | None):
        members["remark"] = _field_text(members["remark"])
    if not isinstance(members.get("language"), str | int | None):
        members["language"] = None
    try:
        return msgspec.convert(members, JsonHeader, strict=False)
    except msgspec.ValidationError as error:
        raise CommandError(f"header has an unusable member: {error}") from error


def _field_text(value: object) -> str:
    """A field's text as Java's String.valueOf would give it."""
    if isinstance(value, str):
        return value
    return _encoder.encode(value).decode()
