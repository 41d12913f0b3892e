"""Commands: both serialisations, answers, and what a hostile frame can do (nothing)."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.command import (
    LANGUAGES,
    UNKNOWN_LANGUAGE,
    Command,
    decode_command,
    encode_command,
    encode_head,
)
from roketto.protocol.errors import CommandError, ProtocolError
from roketto.protocol.frame import COMPACT, JSON, frame_prefix
from roketto.protocol.versions import CURRENT_VERSION

int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(min_size=1, max_size=20)
commands = st.builds(
    Command,
    st.integers(-(2**15), 2**15 - 1),
    st.none() | st.dictionaries(text, text, min_size=1, max_size=5),
    st.binary(max_size=50),
    opaque=int32,
    flag=int32,
    remark=st.none() | text,
    language=st.integers(0, len(LANGUAGES) - 1),
    version=st.integers(0, 2**15 - 1),
    serialization=st.sampled_from([JSON, COMPACT]),
)


MEMBERS = (
    "body", "code", "ext", "flag", "language", "opaque", "remark", "serialization", "version",
)  # fmt: skip


def members(command: Command) -> list[object]:
    return [getattr(command, name) for name in MEMBERS]


def frame_of(header: bytes, serialization: int = JSON, body: bytes = b"") -> memoryview:
    return memoryview(frame_prefix(serialization, len(header), len(body)) + header + body)[4:]


@given(commands)
def test_a_command_is_read_as_it_was_written(command: Command) -> None:
    """decode(encode(x)) = x in both serialisations."""
    assert members(decode_command(memoryview(encode_command(command))[4:])) == members(command)


@given(st.binary(max_size=200), st.sampled_from([JSON, COMPACT]))
def test_arbitrary_headers_give_a_command_or_a_protocol_error(header: bytes, kind: int) -> None:
    """Nothing else can come out of decode_command."""
    with contextlib.suppress(ProtocolError):
        decode_command(frame_of(header, kind))


@given(commands, st.data())
def test_mutated_frames_give_a_command_or_a_protocol_error(
    command: Command, data: st.DataObject
) -> None:
    """A flipped byte anywhere is a value or a documented error, never another exception."""
    frame = bytearray(encode_command(command)[4:])
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProtocolError):
        decode_command(memoryview(frame))


def test_the_json_header_is_written_as_fastjson_writes_it() -> None:
    """Members in alphabetical order, absent ones left out."""
    command = Command(105, {"topic": "T"}, b"body", opaque=7, language=0, version=479)
    assert encode_head(command)[8:] == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )


@pytest.mark.parametrize("serialization", [JSON, COMPACT])
def test_an_answer_matches_its_request(serialization: int) -> None:
    """Opaque and serialisation are the request's, language and version are ours."""
    request = Command(105, opaque=42, language=0, version=407, serialization=serialization)
    answer = request.answer(17, {"a": "b"}, b"x", "no route")
    assert (answer.code, answer.ext, answer.body, answer.remark) == (
        17,
        {"a": "b"},
        b"x",
        "no route",
    )
    assert (answer.opaque, answer.serialization, answer.version) == (
        42,
        serialization,
        CURRENT_VERSION,
    )
    assert LANGUAGES[answer.language] == "PYTHON"
    assert answer.is_response
    assert not answer.is_one_way
    assert not request.is_response
    assert Command(1, flag=2).is_one_way


def test_a_command_shows_what_it_is_and_not_what_it_carries() -> None:
    """Bodies and fields may hold secrets; a log line gets the outline."""
    request = Command(105, {"SecretKey": "s"}, b"12345", opaque=9)
    assert repr(request) == "<request code=105 opaque=9 body=5 bytes>"
    assert repr(request.answer()) == "<answer code=0 opaque=9 body=0 bytes>"


@pytest.mark.parametrize(
    ("language", "number"),
    [('"GO"', 9), ("13", 13), ('"COBOL"', UNKNOWN_LANGUAGE), ("14", UNKNOWN_LANGUAGE),
     ("-1", UNKNOWN_LANGUAGE), ("null", UNKNOWN_LANGUAGE)],
)  # fmt: skip
def test_a_language_is_a_name_or_an_ordinal(language: str, number: int) -> None:
    """Unknown ones are kept as unknown, as Java keeps null."""
    header = f'{{"code":1,"language":{language}}}'.encode()
    assert decode_command(frame_of(header)).language == number


@pytest.mark.parametrize("serialization", [JSON, COMPACT])
def test_an_unknown_language_is_written_as_other(serialization: int) -> None:
    """A command that is passed on names a language that every reader knows."""
    command = Command(1, language=UNKNOWN_LANGUAGE, serialization=serialization)
    passed_on = decode_command(memoryview(encode_command(command))[4:])
    assert LANGUAGES[passed_on.language] == "OTHER"


def test_an_unknown_language_byte_is_unknown() -> None:
    """The compact header has room for languages that do not exist."""
    frame = bytearray(encode_command(Command(1, serialization=COMPACT))[4:])
    frame[6] = 200
    assert decode_command(memoryview(frame)).language == UNKNOWN_LANGUAGE


@pytest.mark.parametrize("serialization", [JSON, COMPACT])
def test_an_endless_remark_is_cut(serialization: int) -> None:
    """A stack trace of megabytes does not become a header of megabytes."""
    command = Command(1, remark="x" * 1_000_000, serialization=serialization)
    assert len(encode_head(command)) < 20_000


@pytest.mark.parametrize("serialization", [JSON, COMPACT])
def test_text_that_is_not_unicode_is_refused(serialization: int) -> None:
    """A lone surrogate cannot be written as UTF-8."""
    with pytest.raises(CommandError, match="header of code 1 is not Unicode text"):
        encode_head(Command(1, {"a": "\ud800"}, serialization=serialization))


@pytest.mark.parametrize("serialization", [JSON, COMPACT])
def test_a_body_in_pieces_reads_like_one_in_one_piece(serialization: int) -> None:
    """Views go out one behind the other, and the lengths count them all."""
    request = Command(11, opaque=7, serialization=serialization)
    answer = request.answer(0, body=(memoryview(b"first"), memoryview(b"second")))
    assert answer.body_bytes == 11
    assert "body=11 bytes" in repr(answer)
    assert decode_command(memoryview(encode_command(answer))[4:]).body == b"firstsecond"
