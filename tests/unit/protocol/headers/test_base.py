"""Proves that header fields are read and written as Java does it, and refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers.base import (
    I32,
    I64,
    BoundaryType,
    Header,
    RpcHeader,
    TopicHeader,
    decode_header,
    encode_header,
)

TEXTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "headers" / "texts.json").read_text()
)


class Required(Header, kw_only=True):
    text: str
    small: I32
    large_number: I64
    flag: bool


class Optional(Header, kw_only=True):
    text: str | None = None
    small: I32 | None = None
    large: I64 = 7
    flag: bool = True
    maybe: bool | None = None
    boundary: BoundaryType | None = None


class OneNumber(Header, kw_only=True):
    number: I32


REQUIRED = {"text": "t", "small": "1", "largeNumber": "2", "flag": "true"}


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: repr(case["text"]))
def test_optional_fields_are_read_as_the_peer_reads_them(case: dict[str, Any]) -> None:
    text = case["text"]
    for name, expected in (("small", case["i32"]), ("large", case["i64"])):
        if expected is None:
            with pytest.raises(HeaderFieldError, match=f"Optional: {name} is "):
                decode_header(Optional, {name: text})
        else:
            assert getattr(decode_header(Optional, {name: text}), name) == expected
    header = decode_header(Optional, {"flag": text, "maybe": text, "boundary": text})
    assert (header.flag, header.maybe) == (case["bool"], case["bool"])
    assert header.boundary is BoundaryType[case["boundary"]]


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: repr(case["text"]))
def test_required_fields_are_read_as_the_peer_reads_them(case: dict[str, Any]) -> None:
    text = case["text"]
    for wire, name, expected in (
        ("small", "small", case["i32"]),
        ("largeNumber", "large_number", case["i64"]),
    ):
        if expected is None:
            with pytest.raises(HeaderFieldError, match=f"Required: {wire} is "):
                decode_header(Required, {**REQUIRED, wire: text})
        else:
            assert getattr(decode_header(Required, {**REQUIRED, wire: text}), name) == expected
    assert decode_header(Required, {**REQUIRED, "flag": text}).flag is case["bool"]


def test_absent_fields_take_their_defaults() -> None:
    assert decode_header(Optional, {}) == decode_header(Optional, None) == Optional()


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_required_field_is_named(name: str) -> None:
    ext = {key: text for key, text in REQUIRED.items() if key != name}
    with pytest.raises(HeaderFieldError) as caught:
        decode_header(Required, ext)
    assert caught.value.reason == f"Required lacks {name}, which is required"
    assert caught.value.code == 1


def test_an_empty_text_is_no_number_but_it_is_a_text_and_false() -> None:
    header = decode_header(Optional, {"small": "", "large": "", "text": "", "flag": ""})
    assert header == Optional(small=None, large=7, text="", flag=False)
    with pytest.raises(HeaderFieldError, match="Required lacks small"):
        decode_header(Required, {**REQUIRED, "small": ""})


def test_an_unusable_number_is_shown_with_what_was_expected() -> None:
    with pytest.raises(HeaderFieldError) as caught:
        decode_header(Required, {**REQUIRED, "small": "2147483648"})
    assert caught.value.reason == (
        "Required: small is '2147483648', expected an integer from -2147483648 to 2147483647"
    )


@pytest.mark.parametrize("text", ["9" * 10_000, "x" * 10_000, "-" + "0" * 10_000])
def test_a_long_value_is_cut_in_the_reason(text: str) -> None:
    with pytest.raises(HeaderFieldError) as caught:
        decode_header(OneNumber, {"number": text})
    assert f"'{text[:64]}'" in caught.value.reason
    assert len(caught.value.reason) < 200


def test_a_text_that_utf_8_cannot_hold_is_refused_as_a_number_and_kept_as_a_text() -> None:
    with pytest.raises(HeaderFieldError, match="expected an integer"):
        decode_header(OneNumber, {"number": "\ud800"})
    assert decode_header(Optional, {"text": "\ud800", "flag": "\ud800"}).text == "\ud800"


def test_a_text_is_never_taken_for_something_else() -> None:
    for text in ("null", "true", "1", "1.0"):
        assert decode_header(Optional, {"text": text}).text == text


def test_negative_numbers_beside_each_other_are_read() -> None:
    header = decode_header(Required, {**REQUIRED, "small": "-1", "largeNumber": "-2"})
    assert (header.small, header.large_number) == (-1, -2)


def test_every_type_is_written_as_java_writes_it_and_none_is_left_out() -> None:
    header = Optional(text="t", small=-5, flag=False, boundary=BoundaryType.UPPER)
    assert encode_header(header) == {
        "text": "t",
        "small": "-5",
        "large": "7",
        "flag": "false",
        "boundary": "UPPER",
    }
    assert encode_header(Optional(maybe=True)) == {"large": "7", "flag": "true", "maybe": "true"}


def test_fields_added_by_clients_of_5_x_have_their_short_names() -> None:
    header = TopicHeader(
        namespace="n",
        is_namespaced=True,
        target_broker_name="b",
        is_one_way=False,
        is_logical=True,
    )
    ext = {"ns": "n", "nsd": "true", "bname": "b", "oway": "false", "lo": "true"}
    assert encode_header(header) == ext
    assert decode_header(TopicHeader, ext) == header
    assert decode_header(RpcHeader, ext).target_broker_name == "b"
