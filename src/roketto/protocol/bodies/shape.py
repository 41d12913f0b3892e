"""A parsed tree and a type in, a value of that type out, with the conversions that Java makes.

Numbers may be strings, booleans may be 0 and 1, enums may be names or ordinals, and an unknown
name of an enum reads as None. Unknown members are ignored. A null member leaves the default; nulls
in arrays and maps are dropped. ``{"$ref":"$.path"}`` stands for what the path leads to.
"""

import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from math import isfinite
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

import msgspec

from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import Node, ObjectKey, excerpt, follow, parse, parse_number

__all__ = ["aliases_of", "shape"]


class _Absent:
    """The type of _ABSENT: a null that leaves the default of its member in place."""


_ABSENT: Final = _Absent()


def shape(root: Node, kind: Any) -> Any:
    """Convert ``root`` to ``kind``: a Struct, a list, a dict, an enum or a scalar type."""
    value = _Shaper(root).convert(root, kind, "body")
    if value is _ABSENT:
        raise BodyError(f"JSON body is null; expected {_spec(kind).base.__name__}")
    return value


def aliases_of(kind: Any) -> frozenset[str]:
    """The alternative member names of ``kind`` and of everything it is made of."""
    spec = _spec(kind)
    found = frozenset[str]().union(*map(aliases_of, spec.items))
    if issubclass(spec.base, msgspec.Struct):
        kinds = [field.type for field in msgspec.structs.fields(spec.base)]
        found = found.union(_aliases(spec.base), *map(aliases_of, kinds))
    return found


class _Shaper:
    """One conversion: the root that references start from, and what they have given so far."""

    __slots__ = ("referred", "root")

    def __init__(self, root: Node) -> None:
        self.root = root
        # One object may be referred to thousands of times. Converting it once for each type keeps
        # the cost linear and, as in Java, gives one shared value.
        self.referred: dict[tuple[int, Any], Any] = {}

    def convert(self, node: Node, kind: Any, where: str) -> Any:
        spec = _spec(kind)
        path = _reference(node)
        if path is not None:
            return self.refer(path, kind, where)
        if node is None:
            return None if spec.optional else _ABSENT
        if spec.scalar is not None:
            return spec.scalar(node, spec, where)
        if spec.base is list:
            return self.to_list(node, spec, where)
        if spec.base is dict:
            return self.to_map(node, spec, where)
        return self.to_struct(node, spec.base, where)

    def refer(self, path: str, kind: Any, where: str) -> Any:
        target = follow(self.root, path)
        if _reference(target) is not None:
            target = None  # Java refers to the object itself; a chain could be a circle
        key = (id(target), kind)
        if key not in self.referred:
            self.referred[key] = self.convert(target, kind, where)
        return self.referred[key]

    def to_list(self, node: Node, spec: "_Spec", where: str) -> list[Any]:
        if not isinstance(node, list):
            raise _mismatch(node, "an array", where)
        (item_kind,) = spec.items
        items = [self.convert(item, item_kind, where) for item in node]
        return [item for item in items if item is not _ABSENT]

    def to_map(self, node: Node, spec: "_Spec", where: str) -> dict[Any, Any]:
        if not isinstance(node, dict):
            raise _mismatch(node, "an object", where)
        key_kind, value_kind = spec.items
        entries = {}
        for key, item in node.items():
            name = self.to_key(key, key_kind, where)
            value = self.convert(item, value_kind, where)
            if name is not _ABSENT and value is not _ABSENT:
                entries[name] = value
        return entries

    def to_key(self, key: str | ObjectKey, kind: Any, where: str) -> Any:
        if isinstance(key, ObjectKey):
            return self.convert(key.members, kind, where)
        if issubclass(_spec(kind).base, msgspec.Struct):
            return self.convert(parse(key.encode()), kind, where)
        return self.convert(key, kind, where)

    def to_struct(self, node: Node, cls: type[msgspec.Struct], where: str) -> msgspec.Struct:
        if not isinstance(node, dict):
            raise _mismatch(node, "an object", where)
        members = _members(cls)
        values = {}
        for name, item in node.items():
            member = members.get(name)
            if member is not None:
                value = self.convert(item, member.kind, member.where)
                if value is not _ABSENT:
                    values[member.attribute] = value
        return cls(**values)


def _reference(node: Node) -> str | None:
    """The path of ``{"$ref": path}``, None for any other node."""
    path = node.get("$ref") if isinstance(node, dict) and len(node) == 1 else None
    return path if isinstance(path, str) and path.startswith(("$", "@", "..")) else None


def _mismatch(node: Node, expected: str, where: str) -> BodyError:
    if isinstance(node, (dict, list)):
        found = "an object" if isinstance(node, dict) else "an array"
    else:
        found = excerpt(str(node))
    return BodyError(f"{where} in a JSON body is {found}; expected {expected}")


# --- scalars --------------------------------------------------------------------------------------


def _to_int(node: Node, spec: "_Spec", where: str) -> Any:
    number = _to_number(node, where)
    if number is _ABSENT:
        return None if spec.optional else _ABSENT
    low, high = spec.bounds
    if not (isfinite(number) and low <= number <= high):
        raise _mismatch(node, f"an integer of {low}..{high}", where)
    return int(number)


def _to_float(node: Node, spec: "_Spec", where: str) -> Any:
    number = _to_number(node, where)
    if number is _ABSENT:
        return None if spec.optional else _ABSENT
    return float(number)


def _to_number(node: Node, where: str) -> Any:
    if isinstance(node, str):
        text = node.strip()
        if text in ("", "null"):
            return _ABSENT
        number = parse_number(text)
        if number is not None:
            return number
    elif isinstance(node, (int, float)):
        return node
    raise _mismatch(node, "a number", where)


def _to_str(node: Node, spec: "_Spec", where: str) -> str:
    if isinstance(node, str):
        return node
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, (int, float)):
        return str(node)
    raise _mismatch(node, "a string", where)


def _to_bool(node: Node, spec: "_Spec", where: str) -> bool:
    if isinstance(node, str):
        return node.lower() in ("true", "1")
    if isinstance(node, (bool, int, float)):
        return node == 1
    raise _mismatch(node, "true or false", where)


def _to_enum(node: Node, spec: "_Spec", where: str) -> Any:
    members: dict[str, Enum] = spec.base.__members__
    if isinstance(node, str) and not node.isdecimal():
        return members.get(node, None if spec.optional else _ABSENT)
    number = _to_number(node, where)
    if number not in range(len(members)):
        raise _mismatch(node, f"one of {', '.join(members)}, or its ordinal", where)
    return list(members.values())[int(number)]


# --- types ----------------------------------------------------------------------------------------


class _Spec(NamedTuple):
    """One type taken apart: ``Annotated[int, Meta(ge=0, le=9)] | None`` and the like."""

    base: type[Any]
    items: tuple[Any, ...]
    optional: bool
    bounds: tuple[int, int]
    scalar: "Callable[[Node, _Spec, str], Any] | None"


class _Member(NamedTuple):
    """One member of a Struct: the attribute it sets, its type, its name in error texts."""

    attribute: str
    kind: Any
    where: str


_SCALARS: Final[dict[type, Callable[[Node, _Spec, str], Any]]] = {
    int: _to_int,
    float: _to_float,
    str: _to_str,
    bool: _to_bool,
}
_LONG_BOUNDS: Final = (-(2**63), 2**63 - 1)


@cache
def _spec(kind: Any) -> _Spec:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = [part for part in get_args(kind) if part is not types.NoneType]
        return _spec(inner)._replace(optional=True)
    if origin is Annotated:
        inner, meta = get_args(kind)
        return _spec(inner)._replace(bounds=(meta.ge, meta.le))
    base = origin or kind
    scalar = _to_enum if issubclass(base, Enum) else _SCALARS.get(base)
    return _Spec(base, get_args(kind), False, _LONG_BOUNDS, scalar)


@cache
def _members(cls: type[msgspec.Struct]) -> dict[Any, _Member]:
    members = {
        field.encode_name: _Member(field.name, field.type, f"{cls.__name__}.{field.encode_name}")
        for field in msgspec.structs.fields(cls)
    }
    return {**{alias: members[name] for alias, name in _aliases(cls).items()}, **members}


def _aliases(cls: type[msgspec.Struct]) -> dict[str, str]:
    aliases: dict[str, str] = getattr(cls, "ALIASES", {})
    return aliases
