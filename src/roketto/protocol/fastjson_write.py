"""Writing FastJSON's dialect of JSON, and the standard form of it, without blanks.

The dialect is what Java peers expect of each other: integer and object keys without quotes, maps
in the order they come. The standard form is what route answers to clients from version 401 on look
like: every key a string, maps sorted. Both leave non-ASCII characters as they are.

Where a type has nothing but strings, integers, booleans and what is made of them, by names, the
dialect is what everybody calls JSON: msgspec writes it in a tenth of the time. A table of topics is
like that, groups with their optional members are not.
"""

import types
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from functools import partial
from json.encoder import encode_basestring
from math import isfinite
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec.inspect import (
    BoolType,
    DictType,
    EnumType,
    IntType,
    ListType,
    StrType,
    StructType,
    Type,
    type_info,
)
from msgspec.structs import astuple

__all__ = ["write"]


def write(value: object, *, standard: bool = False) -> bytes:
    """``value`` without blanks: in FastJSON's dialect, or as JSON with sorted maps.

    Structs are written without the members that are None. Maps of the dialect keep their order.
    Object keys of the standard form are strings that hold the object's text; Java's name server
    never writes such a body, and Java 5.5 does not read it.
    """
    texts = _STANDARD if standard else _DIALECT
    return texts[type(value)](value).encode("utf-8", "replace")


class _Texts(dict[type, Callable[[Any], str]]):
    """One form of writing: for each type the function that gives the text of its values.

    Structs and enums are added when their first value comes along; there are as many as declared.
    """

    def __init__(self) -> None:
        super().__init__()
        self[str] = encode_basestring
        self[int] = int.__repr__
        self[bool] = _bool_text
        self[float] = _double_text
        self[types.NoneType] = _null_text
        self[list] = self.list_text
        self[dict] = self.map_text

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        text: Callable[[Any], str]
        if issubclass(kind, Enum):
            text = self.enum_text
        else:
            assert issubclass(kind, msgspec.Struct), f"{kind.__name__} has no JSON form"
            text = self.writer(kind)
        self[kind] = text
        return text

    def writer(self, kind: type[msgspec.Struct]) -> Callable[[Any], str]:
        """What writes structs of a kind."""
        return partial(self.struct_text, _prefixes(kind))

    def list_text(self, value: list[object]) -> str:
        return "[" + ",".join([self[type(item)](item) for item in value]) + "]"

    def map_text(self, value: dict[Any, object]) -> str:
        return (
            "{"
            + ",".join([f"{self[type(k)](k)}:{self[type(v)](v)}" for k, v in value.items()])
            + "}"
        )

    def enum_text(self, value: Enum) -> str:
        return f'"{value.name}"'

    def struct_text(self, prefixes: tuple[str, ...], value: msgspec.Struct) -> str:
        members = [
            prefix + self[type(item)](item)
            for prefix, item in zip(prefixes, astuple(value), strict=True)
            if item is not None
        ]
        return "{" + ",".join(members) + "}"


class _DialectTexts(_Texts):
    """The dialect, with msgspec for what is plain in it."""

    def writer(self, kind: type[msgspec.Struct]) -> Callable[[Any], str]:
        whole = super().writer(kind)
        if _is_plain(type_info(kind)):
            return partial(self.plain_text, whole)
        plain = [_is_plain_map(field.type) for field in msgspec.structs.fields(kind)]
        return partial(self.mixed_text, _prefixes(kind), plain) if any(plain) else whole

    def plain_text(self, otherwise: Callable[[Any], str], value: object) -> str:
        try:
            return _PLAIN.encode(value).decode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return otherwise(value)

    def mixed_text(
        self, prefixes: tuple[str, ...], plain: list[bool], value: msgspec.Struct
    ) -> str:
        """Of a struct some of whose members are plain maps."""
        members = [
            prefix + (self.plain_text(self.map_text, item) if is_plain else self[type(item)](item))
            for prefix, is_plain, item in zip(prefixes, plain, astuple(value), strict=True)
            if item is not None
        ]
        return "{" + ",".join(members) + "}"


class _StandardTexts(_Texts):
    """The form that any JSON library reads: every key a string, and in order."""

    def map_text(self, value: dict[Any, object]) -> str:
        items = sorted(value.items(), key=itemgetter(0))
        return "{" + ",".join([f"{self.key_text(k)}:{self[type(v)](v)}" for k, v in items]) + "}"

    def key_text(self, key: object) -> str:
        text = self[type(key)](key)
        return text if isinstance(key, str) else encode_basestring(text)


def _prefixes(cls: type[msgspec.Struct]) -> tuple[str, ...]:
    """The members of ``cls`` as they begin on the wire: ``"brokerName":``."""
    names = [field.encode_name for field in msgspec.structs.fields(cls)]
    assert names == sorted(names), f"{cls.__name__} must declare its members in wire order"
    return tuple(f'"{name}":' for name in names)


def _is_plain(info: Type) -> bool:
    """Whether msgspec writes values of a type as the dialect has them."""
    if isinstance(info, StructType):
        return all(_is_plain(field.type) for field in info.fields)
    if isinstance(info, DictType):
        return isinstance(info.key_type, StrType) and _is_plain(info.value_type)
    if isinstance(info, ListType):
        return _is_plain(info.item_type)
    if isinstance(info, EnumType):
        return all(member.name == member.value for member in info.cls)
    return isinstance(info, IntType | StrType | BoolType)


def _is_plain_map(kind: object) -> bool:
    info = type_info(kind)
    return isinstance(info, DictType) and _is_plain(info)


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _null_text(value: None) -> str:
    return "null"


def _double_text(value: float) -> str:
    """As Java's Double.toString writes it; FastJSON turns what is no number into null."""
    if not isfinite(value):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    scientific = f"{text[0]}.{text[1:] or '0'}E{len(text) - 1 + exponent}"
    return f"-{scientific}" if sign else scientific


_PLAIN: Final = msgspec.json.Encoder()
_DIALECT: Final = _DialectTexts()
_STANDARD: Final = _StandardTexts()
