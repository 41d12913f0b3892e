"""What every family of bodies is tested for: Java's own bytes, and random values there and back."""

import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.fastjson import Node, ObjectKey, parse

GOLDEN = Path(__file__).parents[3] / "golden" / "bodies"

ADDED_IN_5 = {
    *("attributes", "consumeMessageOrderly", "consumeTimeoutMinute", "dataVersion"),
    *("enableActingMaster", "forbiddenTable", "groupRetryPolicy", "groupSysFlag"),
    *("heartbeatFingerprint", "mappingDataVersion", "mqPopTable", "onlyThisBroker", "pullOffset"),
    *("stateVersion", "topicPutTps", "topicQueueMappingDetailMap", "topicQueueMappingInfoMap"),
    *("totalInflightDiff", "userConsumerInfo", "withoutSub"),
}
"""Members that 4.9.7 does not write and we do."""


def golden(file: str) -> dict[str, str]:
    """The lines of one file of golden bodies: name -> text."""
    lines = (GOLDEN / file).read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


def structs(module: types.ModuleType) -> dict[str, type[msgspec.Struct]]:
    """The bodies that a module exports."""
    exported = {name: getattr(module, name) for name in module.__all__}
    return {
        name: value
        for name, value in exported.items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    }


def check_golden(module: types.ModuleType) -> int:
    """Every golden body of the module's classes; how many there were."""
    count = 0
    for name, cls in structs(module).items():
        for release in ("5.5.0", "4.9.7"):
            text = golden(f"{release}.tsv").get(name)
            if text is not None:
                count += 1
                value = decode_body(cls, text.encode())
                check_bytes(text.encode(), encode_body(value), release)
                assert decode_body(cls, encode_body(value, standard=True)) == value
    return count


def check_bytes(theirs: bytes, ours: bytes, release: str) -> None:
    """The same bytes as 5.5.0; those of 4.9.7 but for the members that came later."""
    if release == "5.5.0":
        assert ours == theirs
    else:
        extra = set(extra_members(parse(ours), parse(theirs)))
        assert extra <= ADDED_IN_5
        assert (ours == theirs) == (not extra)


def extra_members(ours: Node, theirs: Node) -> Iterator[str]:
    """Names that only ``ours`` has; everything else has to be equal and in the same order."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        yield from (str(key) for key in ours if isinstance(key, str) and key not in theirs)
        common = [key for key in ours if isinstance(key, ObjectKey) or key in theirs]
        for our_key, their_key in zip(common, theirs, strict=True):
            if isinstance(our_key, ObjectKey):
                assert isinstance(their_key, ObjectKey)
                assert our_key.members == their_key.members
            else:
                assert our_key == their_key
            yield from extra_members(ours[our_key], theirs[their_key])
    elif isinstance(theirs, list):
        assert isinstance(ours, list)
        for our_item, their_item in zip(ours, theirs, strict=True):
            yield from extra_members(our_item, their_item)
    else:
        assert ours == theirs


def check_round_trip(value: msgspec.Struct) -> None:
    """A value survives both forms."""
    assert decode_body(type(value), encode_body(value)) == value
    assert decode_body(type(value), encode_body(value, standard=True)) == value


def bodies(module: types.ModuleType) -> st.SearchStrategy[msgspec.Struct]:
    """Random values of the bodies that a module exports."""
    return st.one_of([values(cls) for cls in structs(module).values()])


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Random values of a type as bodies use them."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of([values(part) for part in arguments])
    if origin is Annotated:
        return st.integers(arguments[1].ge, arguments[1].le)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if issubclass(kind, msgspec.Struct):
        fields = {field.name: values(field.type) for field in msgspec.structs.fields(kind)}
        return st.builds(kind, **fields)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    scalars: dict[type, st.SearchStrategy[Any]] = {
        types.NoneType: st.none(),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        # A member of this name makes an object a reference, for Java as for us.
        str: st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter("$ref".__ne__),
    }
    return scalars[kind]
