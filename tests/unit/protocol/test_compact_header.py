"""The compact header: what is written is read, and every lying length is a documented error."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.compact_header import decode_compact_header, encode_compact_header
from roketto.protocol.errors import CommandError
from roketto.protocol.limits import EXT_FIELDS_MAX

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(min_size=1, max_size=20)
ext_fields = st.dictionaries(st.text(max_size=20), st.text(max_size=20), min_size=1)


def fixed(remark_bytes: int = 0, rest: bytes = struct.pack(">i", 0)) -> memoryview:
    return memoryview(struct.pack(">hBhiii", 105, 0, 479, 7, 0, remark_bytes) + rest)


def fields(content: bytes) -> memoryview:
    return fixed(rest=struct.pack(">i", len(content)) + content)


@given(int16, st.integers(0, 255), int16, int32, int32, st.none() | text, st.none() | ext_fields)
def test_a_header_is_read_as_it_was_written(
    code: int,
    language: int,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    ext: dict[str, str] | None,
) -> None:
    """decode(encode(x)) = x for everything Java can express."""
    encoded = encode_compact_header(code, language, version, opaque, flag, remark, ext)
    expected = (code, language, version, opaque, flag, remark, ext)
    assert decode_compact_header(memoryview(encoded)) == expected


@given(st.binary(max_size=120))
def test_arbitrary_bytes_give_a_header_or_a_command_error(data: bytes) -> None:
    """Nothing but CommandError comes out of a bad header."""
    with contextlib.suppress(CommandError):
        decode_compact_header(memoryview(data))


def test_the_example_of_the_protocol_is_written_byte_for_byte() -> None:
    """GET_ROUTEINFO_BY_TOPIC of topic T by a 5.3.3 client."""
    encoded = encode_compact_header(105, 0, 479, 7, 0, None, {"topic": "T"})
    assert encoded.hex() == (
        "0069" "00" "01df" "00000007" "00000000" "00000000" "0000000c" "0005746f706963" "0000000154"
    )  # fmt: skip


def test_an_empty_value_is_kept_and_an_empty_remark_is_none() -> None:
    """Java writes empty values; a command must come out as it went in."""
    encoded = encode_compact_header(105, 0, 479, 7, 0, "", {"a": "", "b": "1"})
    assert decode_compact_header(memoryview(encoded))[5:] == (None, {"a": "", "b": "1"})


def test_the_last_of_equal_keys_wins() -> None:
    """A signed header of Java carries fields twice."""
    entry = b"\0\1k\0\0\0\1"
    assert decode_compact_header(fields(entry + b"1" + entry + b"2"))[6] == {"k": "2"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (memoryview(bytes(20)), "20 bytes is shorter than its fixed part"),
        (fixed(-1), "remark of -1 bytes does not fit"),
        (fixed(1), "remark of 1 bytes does not fit"),
        (fixed(2**31 - 1), "remark of 2147483647 bytes does not fit"),
        (fixed(2, b"\xff\xfe" + bytes(4)), "remark is not UTF-8"),
        (fixed(rest=struct.pack(">i", -1)), "fields of -1 bytes do not fit"),
        (fixed(rest=struct.pack(">i", 1)), "fields of 1 bytes do not fit"),
        (fields(bytes(5)), "5 stray bytes behind the last field"),
        (fields(b"\0\7" + bytes(8)), "key of a field does not fit"),
        (fields(b"\0\1k\0\0\0\2v"), "value of 2 bytes does not fit"),
        (fields(b"\0\1k\xff\xff\xff\xffv"), "value of -1 bytes does not fit"),
        (fields(b"\0\1\xff\0\0\0\1v"), "field of the header is not UTF-8"),
        (fields(b"\0\1k\0\0\0\1\xff"), "field of the header is not UTF-8"),
    ],
)
def test_a_lying_length_is_refused(data: memoryview, reason: str) -> None:
    """Each length is checked against what is there before it is used."""
    with pytest.raises(CommandError, match=reason):
        decode_compact_header(data)


def test_the_number_of_fields_is_bounded() -> None:
    """A header of thousands of tiny fields is refused."""
    ext = {str(number): "v" for number in range(EXT_FIELDS_MAX + 1)}
    encoded = encode_compact_header(105, 0, 479, 7, 0, None, ext)
    with pytest.raises(CommandError, match=f"the limit of {EXT_FIELDS_MAX}"):
        decode_compact_header(memoryview(encoded))


@pytest.mark.parametrize("code", [200050, -32769])
def test_a_code_that_does_not_fit_is_refused(code: int) -> None:
    """POP_MESSAGE would arrive as 3442; JSON must be used for it."""
    with pytest.raises(CommandError, match=f"code {code} does not fit the 16 bits"):
        encode_compact_header(code, 0, 0, 0, 0, None, None)


def test_a_key_that_does_not_fit_is_refused() -> None:
    """A key has two bytes for its length."""
    with pytest.raises(CommandError, match="key of 65536 bytes exceeds the limit of 65535"):
        encode_compact_header(1, 0, 0, 0, 0, None, {"k" * 65536: "v"})
