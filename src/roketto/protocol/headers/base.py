"""Typed headers: a command's ext fields as a struct, read as Java reads them and written back.

Ext fields are strings. A header names and types them::

    class GetMinOffsetRequest(TopicHeader, kw_only=True):
        topic: str                 # required: no default
        queue_id: I32              # on the wire: queueId, decimal text

    header = decode_header(GetMinOffsetRequest, command.ext)
    command.ext = encode_header(header)

| type         | text read                                       | text written   |
|--------------|-------------------------------------------------|----------------|
| str          | itself                                          | itself         |
| I32, I64     | [+-]digits within range; "" counts as absent    | decimal        |
| bool         | "true" in any case is true, all else is false   | true, false    |
| BoundaryType | its name in any case, all else is LOWER         | LOWER, UPPER   |

Absent fields take their default; None is left out when writing. Fields a header does not know are
ignored. Java only logs a missing required field and fails later with a null pointer; here it is a
HeaderFieldError at once, and so is a number that Java would not parse.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import itemgetter
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec.structs import astuple

from roketto.protocol.errors import HeaderFieldError

I32_MIN: Final = -(2**31)
I32_MAX: Final = 2**31 - 1
I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1

I32 = Annotated[int, msgspec.Meta(ge=I32_MIN, le=I32_MAX)]
I64 = Annotated[int, msgspec.Meta(ge=I64_MIN, le=I64_MAX)]


class BoundaryType(Enum):
    """Which message a search by time means when none has exactly that time."""

    LOWER = "LOWER"
    UPPER = "UPPER"


class Header(msgspec.Struct, kw_only=True, gc=False, rename="camel"):
    """The base of all typed headers; fields travel under their camelCase names."""


class RpcHeader(Header, kw_only=True):
    """What clients of 5.x may add to a request: namespace and the broker they mean."""

    namespace: str | None = msgspec.field(name="ns", default=None)
    is_namespaced: bool | None = msgspec.field(name="nsd", default=None)
    target_broker_name: str | None = msgspec.field(name="bname", default=None)
    is_one_way: bool | None = msgspec.field(name="oway", default=None)


class TopicHeader(RpcHeader, kw_only=True):
    """A request about a topic; its queues and offsets may be a static topic's logical ones."""

    is_logical: bool | None = msgspec.field(name="lo", default=None)


H = TypeVar("H", bound=Header)


def decode_header(cls: type[H], ext: Mapping[str, str] | None) -> H:
    """Return the ext fields of a command as a ``cls``; raises HeaderFieldError."""
    if ext is None:
        ext = {}
    layout = _LAYOUTS.get(cls) or _make_layout(cls)
    try:
        header = msgspec.convert(ext, cls, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return _decode_exactly(layout, cls, ext)
    # msgspec reads a header several times faster than a loop over its fields, but it takes 1.0 and
    # 1e3 for integers and 1 for true. Whatever could be one of those is read again, exactly.
    texts = "".join(layout.required_integers(ext))
    for name in layout.optional_integers:
        if name in ext:
            texts += ext[name]
    # isdigit is several times faster on bytes than on text.
    if texts and not (texts.encode().isdigit() or texts.replace("-", "").encode().isdigit()):
        return _decode_exactly(layout, cls, ext)
    for name in layout.booleans:
        if name in ext and ext[name] not in _BOOLEAN_TEXTS:
            return _decode_exactly(layout, cls, ext)
    return header


def encode_header(header: Header) -> dict[str, str]:
    """Return the ext fields of a header as Java writes them: every field that is not None."""
    ext = {}
    for name, value in zip(header.__struct_encode_fields__, astuple(header), strict=True):
        if value is None:
            continue
        kind = type(value)
        if kind is str:
            ext[name] = value
        elif kind is int:
            ext[name] = f"{value}"
        elif kind is bool:
            ext[name] = "true" if value else "false"
        else:
            ext[name] = value.name
    return ext


_BOOLEAN_TEXTS: Final = frozenset({"true", "false"})

_VALUE_SHOWN_CHARS_MAX: Final = 64
"""An error shows enough of a value to recognise it, and no more."""


def _parse_i32(text: str) -> int:
    return _parse_integer(text, I32_MIN, I32_MAX)


def _parse_i64(text: str) -> int:
    return _parse_integer(text, I64_MIN, I64_MAX)


def _parse_integer(text: str, lowest: int, highest: int) -> int:
    """Parse as Java's parseInt and parseLong: a sign and digits of any script, nothing more.

    Python refuses thousands of digits, also where most are zeros; Java would count the zeros.
    """
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not digits.isdecimal():
        raise ValueError("not decimal digits")
    value = int(text)
    if not lowest <= value <= highest:
        raise ValueError("out of range")
    return value


def _parse_boolean(text: str) -> bool:
    return text.lower() == "true"


def _parse_boundary(text: str) -> BoundaryType:
    return BoundaryType.UPPER if text.upper() == "UPPER" else BoundaryType.LOWER


class _Kind(msgspec.Struct, frozen=True):
    """How one type of field is read, and what an error says was expected."""

    parse: Callable[[str], object]
    expectation: str = ""


_TEXT: Final = _Kind(str)
_INTEGER_32: Final = _Kind(_parse_i32, f"an integer from {I32_MIN} to {I32_MAX}")
_INTEGER_64: Final = _Kind(_parse_i64, f"an integer from {I64_MIN} to {I64_MAX}")
_BOOLEAN: Final = _Kind(_parse_boolean)
_BOUNDARY: Final = _Kind(_parse_boundary)

_KIND_OF_TYPE: Final[dict[object, _Kind]] = {
    str: _TEXT,
    str | None: _TEXT,
    I32: _INTEGER_32,
    I32 | None: _INTEGER_32,
    I64: _INTEGER_64,
    I64 | None: _INTEGER_64,
    bool: _BOOLEAN,
    bool | None: _BOOLEAN,
    BoundaryType | None: _BOUNDARY,
}


class _Field(msgspec.Struct, frozen=True):
    name: str
    wire_name: str
    kind: _Kind
    required: bool


class _Layout(msgspec.Struct, frozen=True):
    """The fields of one header class, and the wire names of those that msgspec reads too laxly."""

    fields: tuple[_Field, ...]
    required_integers: Callable[[Mapping[str, str]], Iterable[str]]
    """The texts of those fields; a single one comes as itself, which is as good for joining."""
    optional_integers: tuple[str, ...]
    booleans: tuple[str, ...]


_LAYOUTS: Final[dict[type[Header], _Layout]] = {}


def _make_layout(cls: type[Header]) -> _Layout:
    fields = tuple(
        _Field(info.name, info.encode_name, _KIND_OF_TYPE[info.type], info.required)
        for info in msgspec.structs.fields(cls)
    )
    integers = [f for f in fields if f.kind in (_INTEGER_32, _INTEGER_64)]
    required = [f.wire_name for f in integers if f.required]
    layout = _LAYOUTS[cls] = _Layout(
        fields=fields,
        required_integers=itemgetter(*required) if required else _no_texts,
        optional_integers=tuple(f.wire_name for f in integers if not f.required),
        booleans=tuple(f.wire_name for f in fields if f.kind is _BOOLEAN),
    )
    return layout


def _no_texts(_ext: Mapping[str, str]) -> Iterable[str]:
    return ()


def _decode_exactly(layout: _Layout, cls: type[H], ext: Mapping[str, str]) -> H:
    """Read field by field with Java's rules; names the first field that cannot be read."""
    values: dict[str, object] = {}
    for field in layout.fields:
        text = ext.get(field.wire_name)
        if text is None or (not text and field.kind.expectation):
            if field.required:
                raise HeaderFieldError(f"{cls.__name__} lacks {field.wire_name}, which is required")
            continue
        try:
            values[field.name] = field.kind.parse(text)
        except ValueError:
            shown = repr(text[:_VALUE_SHOWN_CHARS_MAX])
            raise HeaderFieldError(
                f"{cls.__name__}: {field.wire_name} is {shown}, expected {field.kind.expectation}"
            ) from None
    return cls(**values)
