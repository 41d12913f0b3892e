"""Members of a JSON object that its type does not know, kept from reading to writing.

A table of a newer RocketMQ may say more than we understand. What it says of a topic stays with the
topic for as long as that has its name, and what it says of the table with the table::

    value = decode_body(TopicConfigSerializeWrapper, text)
    unknown = find_unknown(parse_tree(text), value)
    ...
    encode_table(merge_unknown(value, unknown))
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import astuple

from roketto.protocol.bodies.base import Body, encode_body
from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import Node, parse, quote_integer_keys

__all__ = [
    "Unknown", "find_unknown", "forget_unknown", "inner_unknown", "merge_unknown", "parse_tree",
]  # fmt: skip

Key: TypeAlias = str | int | bytes
"""The wire name of a member, the key of a map, or the text of a list's item."""


class Unknown(NamedTuple):
    """The unknown members of a value, and those of the values in it that have any."""

    members: dict[str, Node]
    inner: "dict[Key, Unknown]"


def parse_tree(text: bytes) -> Node:
    """Text without blanks as plain values, as ``decode_body`` reads it: the fast way if it can."""
    tree: Node
    try:
        try:
            tree = msgspec.json.decode(text)
        except msgspec.DecodeError:
            tree = msgspec.json.decode(quote_integer_keys(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tree = parse(text)
    return tree


def find_unknown(tree: Node, value: Body) -> Unknown | None:
    """What ``tree`` says beyond ``value``, which was read from it; None if it says no more."""
    found = _find(tree, value)
    if found is not None:
        _check_depth(found)
    return found


def forget_unknown(unknown: Unknown | None, *way: Key) -> None:
    """Forget what is unknown about the value at the end of ``way``, by names and keys."""
    *before, last = way
    unknown = inner_unknown(unknown, *before)
    if unknown is not None:
        unknown.inner.pop(last, None)


def inner_unknown(unknown: Unknown | None, *way: Key) -> Unknown | None:
    """What is unknown about the value at the end of ``way``."""
    for key in way:
        unknown = None if unknown is None else unknown.inner.get(key)
    return unknown


def merge_unknown(value: object, unknown: Unknown | None) -> object:
    """``value`` with its unknown members, for ``encode_table``; objects have theirs in order."""
    if unknown is None:
        return value
    if isinstance(value, dict):
        return {key: merge_unknown(item, unknown.inner.get(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [merge_unknown(item, unknown.inner.get(encode_body(item))) for item in value]
    assert isinstance(value, Body)
    known = {
        name: merge_unknown(item, unknown.inner.get(name))
        for name, item in _members(value)
        if item is not None
    }
    return dict(sorted({**unknown.members, **known}.items()))


def _find(node: Any, value: object) -> Unknown | None:
    """Where ``node`` has another form than ``value`` it refers to some other place."""
    if isinstance(value, Body):
        return _find_in_object(node, value)
    if isinstance(value, dict) and isinstance(node, dict):
        # Maps of numbers are most of a large table, and have nothing inside.
        if isinstance(next(iter(value.values()), 0), int):
            return None
        pairs = ((key, node.get(str(key)), item) for key, item in value.items())
    elif isinstance(value, list) and isinstance(node, list):
        parts = [part for part in node if part is not None]
        pairs = ((encode_body(item), part, item) for part, item in zip(parts, value, strict=False))
    else:
        return None
    inner = _inner(pairs)
    return Unknown({}, inner) if inner else None


def _find_in_object(node: Any, value: Body) -> Unknown | None:
    if not isinstance(node, dict) or "$ref" in node:
        return None
    known = dict(_members(value))
    members = {
        name: item for name, item in node.items() if name not in known and isinstance(name, str)
    }
    inner = _inner((name, node.get(name), item) for name, item in known.items())
    return Unknown(members, inner) if members or inner else None


def _inner(pairs: Iterator[tuple[Key, Any, object]]) -> dict[Key, Unknown]:
    found = ((key, _find(node, item)) for key, node, item in pairs)
    return {key: unknown for key, unknown in found if unknown is not None}


def _members(value: Body) -> Iterator[tuple[str, object]]:
    return zip(value.__struct_encode_fields__, astuple(value), strict=True)


def _check_depth(unknown: Unknown) -> None:
    """What could not be written again must not be read."""
    try:
        encode_body(unknown.members)
    except RecursionError:
        names = ", ".join(unknown.members)
        raise BodyError(f"one of {names} nests too deep to be written again") from None
    for inner in unknown.inner.values():
        _check_depth(inner)
