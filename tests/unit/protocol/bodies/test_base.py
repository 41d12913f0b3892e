"""Bodies are read quickly where they are plain JSON, and tolerantly where they are not."""

import importlib
import pkgutil
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roketto.protocol.bodies
from roketto.protocol.bodies.base import Body, Int, Long, decode_body, encode_body
from roketto.protocol.bodies.pop import BatchAck
from roketto.protocol.bodies.shape import shape
from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import parse
from unit.protocol.bodies.families import golden, structs

FAMILIES = [
    importlib.import_module(f"roketto.protocol.bodies.{module.name}")
    for module in pkgutil.iter_modules(roketto.protocol.bodies.__path__)
    if module.name not in ("base", "shape")
]
BODIES = {name: cls for family in FAMILIES for name, cls in structs(family).items()}
GOLDEN = [
    (BODIES[name], text.encode())
    for release in ("5.5.0", "4.9.7")
    for name, text in golden(f"{release}.tsv").items()
]


class Sample(Body):
    big: Long = 0
    names: list[str] = msgspec.field(default_factory=list)
    small: Int = 0
    table: dict[Int, str] = msgspec.field(default_factory=dict)
    text: str | None = None


def test_attributes_are_camel_case_on_the_wire() -> None:
    class TwoWords(Body):
        two_words: int = 0

    assert encode_body(TwoWords(5)) == b'{"twoWords":5}'
    assert decode_body(TwoWords, b'{"twoWords":5}') == TwoWords(5)


@pytest.mark.parametrize(
    "text",
    [
        b'{"small":5,"table":{"0":"a"}}',
        b'{"small":5,"table":{0:"a"}}',
        b'{"small":"5","table":{ 0 : "a"}}',
        b"{'small':5,table:{0:'a'}}",
        b'{"small":5,"table":{"$ref":"$.other"},"other":{"0":"a"}}',
        b'{"big":null,"small":5,"table":{"0":"a"},"unknown":[{}]}',
        b'{"small":5,"table":{"0":"a"},"unknown":' + b"[" * 60 + b"]" * 60 + b"}",
    ],
)
def test_all_ways_to_write_one_body_give_one_value(text: bytes) -> None:
    assert decode_body(Sample, text) == Sample(small=5, table={0: "a"})
    assert decode_body(Sample, memoryview(text)) == Sample(small=5, table={0: "a"})


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert decode_body(Sample, b'{"text":"\xff"}') == Sample(text="\ufffd")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"small":2147483648}',
        b'{"big":9223372036854775808}',
        b'{"names":{}}',
        b'{"unknown":' + b"[" * 100_000,
    ],
)
def test_bodies_that_java_refuses_are_refused(text: bytes) -> None:
    with pytest.raises(BodyError):
        decode_body(Sample, text)


def test_longs_have_64_bits() -> None:
    assert decode_body(Sample, b'{"big":9223372036854775807}').big == 2**63 - 1
    assert decode_body(Sample, b'{"big":"-9223372036854775808"}').big == -(2**63)


def test_standard_form_has_quoted_and_sorted_keys() -> None:
    sample = Sample(table={2: "b", 1: "a"})
    assert encode_body(sample) == b'{"big":0,"names":[],"small":0,"table":{2:"b",1:"a"}}'
    assert encode_body(sample, standard=True) == (
        b'{"big":0,"names":[],"small":0,"table":{"1":"a","2":"b"}}'
    )


def test_alias_is_not_overlooked_in_plain_json() -> None:
    assert decode_body(BatchAck, b'{"popTime":5}') == BatchAck(pop_time_ms=5)


def test_every_golden_class_has_a_body() -> None:
    assert len(GOLDEN) == 108


@pytest.mark.parametrize("cls", BODIES.values(), ids=BODIES.keys())
def test_every_body_has_defaults_for_all_members(cls: type[Any]) -> None:
    assert decode_body(cls, b"{}") == cls()


@given(st.sampled_from(GOLDEN))
def test_quick_and_tolerant_reading_agree(body: tuple[type[Any], bytes]) -> None:
    cls, text = body
    assert decode_body(cls, text) == shape(parse(text), cls)


@given(st.sampled_from(GOLDEN), st.data())
def test_mutated_bodies_give_a_value_or_a_body_error(
    body: tuple[type[Any], bytes], data: st.DataObject
) -> None:
    cls, text = body
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    middle = data.draw(st.binary(max_size=4) | st.sampled_from([b"null", b'"', b"{", b"1e999"]))
    with suppress(BodyError):
        assert isinstance(decode_body(cls, text[:start] + middle + text[end:]), cls)
