"""The JSON header: quick for what Java sends, lenient for what others send, safe for the rest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.errors import CommandError
from roketto.protocol.json_header import JsonHeader, decode_json_header, encode_json_text
from roketto.protocol.limits import EXT_FIELDS_MAX


def decode(text: str | bytes) -> JsonHeader:
    return decode_json_header(memoryview(text if isinstance(text, bytes) else text.encode()))


def test_a_header_of_the_java_client_is_read() -> None:
    """All members, and one that is nobody's business."""
    header = decode(
        '{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":7,'
        '"remark":"r","serializeTypeCurrentRPC":"JSON","version":479}\n'
    )
    assert header == JsonHeader(105, {"topic": "TopicTest"}, 0, "JAVA", 7, "r", 479)


def test_members_may_be_missing() -> None:
    """Only the code is needed; other clients leave out what Java always sends."""
    assert decode('{"code":34}') == JsonHeader(34)


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", "0"), ("-5", "-5"), ("true", "true"), ("1.5", "1.5"), ('{"a":[1]}', '{"a":[1]}')],
)
def test_bare_values_in_fields_become_text(value: str, text: str) -> None:
    """Go and C++ clients send numbers and booleans where Java sends strings."""
    assert decode(f'{{"code":10,"extFields":{{"f":{value}}}}}').extFields == {"f": text}


def test_null_fields_and_members_are_left_out() -> None:
    """A null is the same as an absent member."""
    header = decode(
        '{"code":10,"extFields":{"a":null,"b":"1"},"flag":null,"opaque":null,"version":null,'
        '"language":null,"remark":null}'
    )
    assert header == JsonHeader(10, {"b": "1"})
    assert decode('{"code":10,"extFields":null,"flag":null}') == JsonHeader(10)


def test_odd_types_are_converted_as_java_converts_them() -> None:
    """Numbers as strings, a remark that is none, a language that is neither name nor ordinal."""
    header = decode('{"code":"10","opaque":"7","remark":5,"language":[1],"extFields":{}}')
    assert header == JsonHeader(10, {}, opaque=7, remark="5", language=None)
    assert decode('{"code":10,"language":9}').language == 9


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"code":1,"remark":"\xff"}', "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"remark":"no code"}', "unusable member"),
        (b'{"code":null}', "unusable member"),
        (b'{"code":2147483648}', "unusable member"),
        (b'{"code":1,"opaque":-2147483649}', "unusable member"),
        (b'{"code":"x"}', "unusable member"),
        (b'{"code":1,"extFields":[]}', "extFields is list, not an object"),
        (b'{"code":1,"x":' + b"[" * 100_000, "not JSON"),
        (b'{"code":"1","x":' + b"[" * 500 + b"]" * 500 + b",}", "not a JSON object"),
    ],
)
def test_what_cannot_be_a_header_is_refused(text: bytes, reason: str) -> None:
    """Broken JSON, wrong types, numbers out of range, endless nesting: one kind of error."""
    with pytest.raises(CommandError, match=reason):
        decode(text)


def test_the_number_of_fields_is_bounded() -> None:
    """A header of thousands of tiny fields is refused."""
    fields = {str(number): "v" for number in range(EXT_FIELDS_MAX + 1)}
    with pytest.raises(CommandError, match=f"the limit is {EXT_FIELDS_MAX}"):
        decode(json.dumps({"code": 1, "extFields": fields}))


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["code", "extFields", "flag", "language", "opaque", "remark", "version"]),
        inner, max_size=7),
    max_leaves=12,
))  # fmt: skip
def test_any_json_gives_a_header_or_a_command_error(value: object) -> None:
    """No shape of JSON escapes the documented error."""
    try:
        header = decode(json.dumps(value))
    except CommandError:
        return
    assert header.extFields is None or all(
        isinstance(text, str) for text in header.extFields.values()
    )


def test_text_is_escaped_as_fastjson_does() -> None:
    """The separators of properties are written as unicode escapes, slashes and letters as is."""
    assert encode_json_text('a\x01b\x02"\\/é') == '"a\\u0001b\\u0002\\"\\\\/é"'.encode()
