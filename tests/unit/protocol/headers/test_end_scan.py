"""Both ways to read the header of a transaction's end find the same, or nothing."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.headers.end_frame import END_START
from roketto.protocol.headers.end_scan import EndHeader

FIELDS = {
    "producerGroup": "G", "bname": "broker-a", "commitLogOffset": "5298", "topic": "T",
    "msgId": "A", "tranStateTableOffset": "70", "commitOrRollback": "8", "transactionId": "A",
    "fromTransactionCheck": "false", "fifteenLettersX": "", "sixteenLettersXY": "",
    "twentyLettersXYZabcd": "", "thirteenLette": "", "fiveX": "",
}  # fmt: skip
MEMBERS = {
    "code": 37, "extFields": FIELDS, "flag": 2, "language": "JAVA", "opaque": 7,
    "serializeTypeCurrentRPC": "JSON", "version": 513, "five6": 6, "four": 4, "sixsix": 6,
}  # fmt: skip


NO_NUMBERS: list[Any] = ["", "-1", "x", "1x", "9" * 19, 5, None, []]


def header(**members: Any) -> bytes:
    return msgspec.json.encode({**MEMBERS, **members})


def fields(**changed: Any) -> bytes:
    return header(extFields={k: v for k, v in (FIELDS | changed).items() if v is not None})


def found(header: EndHeader) -> tuple[object, ...]:
    return (
        header.flag, header.opaque, header.group, header.log_offset, header.offset, header.decision,
    )  # fmt: skip


def scan(text: bytes) -> tuple[object, ...] | None:
    """What is found byte by byte, somewhere in a read."""
    read = EndHeader()
    data = b"xx" + text + b'"}'
    return found(read) if read.scan(data, 2, 2 + len(text)) else None


def decode(text: bytes) -> tuple[object, ...] | None:
    read = EndHeader()
    data = b"xx" + text + b'"}'
    return found(read) if read.decode(data, 2, 2 + len(text)) else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (header(), (2, 7, "G", 5298, 70, 8)),
        (header(flag=0, opaque=2**31 - 1), (0, 2**31 - 1, "G", 5298, 70, 8)),
        (fields(producerGroup="%a b~"), (2, 7, "%a b~", 5298, 70, 8)),
        (fields(commitLogOffset="9" * 18), (2, 7, "G", 10**18 - 1, 70, 8)),
        (fields(commitOrRollback="012"), (2, 7, "G", 5298, 70, 12)),
        (header().replace(b'"flag":2,', b""), (0, 7, "G", 5298, 70, 8)),
    ],
)
def test_a_header_as_java_writes_it_is_read(text: bytes, expected: tuple[object, ...]) -> None:
    """By the way that is taken, and by both of them."""
    assert text.startswith(END_START)
    assert scan(text) == decode(text) == expected
    read = EndHeader()
    assert read.read(text, 0, len(text))
    assert found(read) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(fields(**{name: None}) for name in ("producerGroup", "msgId", "commitLogOffset")),
        *(fields(**{name: None}) for name in ("tranStateTableOffset", "commitOrRollback")),
        *(fields(commitLogOffset=bad) for bad in NO_NUMBERS),
        fields(commitOrRollback="/"), fields(tranStateTableOffset=":"),
        header(opaque="7"), header(opaque=None), header(opaque=-1),
        header(flag=-1), header(extFields=None), header(extFields={}),
        header().replace(b'"opaque":7', b'"opaque":07'),
        header().replace(b'"opaque":7,', b""),
        header().replace(b'"five6":6', b'"code":38'),
        header().replace(b'"G"', b'"\xff"'),
        header().replace(b'"G"', b'"\x01"'),
        header()[:-1], header()[:-1] + b",", header()[:-1] + b"]", header() + b"}",
        END_START, END_START + b"}", END_START + b'"', END_START + b'"a"', END_START + b'"a":',
        END_START + b'"a"x', END_START + b'"a":1;', END_START + b'"a":1', END_START + b'"a',
        END_START + b'"extFields":{', END_START + b'"extFields":{"a"', b'{"code":37,1,}',
        END_START + b'"extFields":{"a":"b"', END_START + b'"extFields":{"a":"b";}}',
        END_START + b'"extFields":{"a":"b}}', END_START + b'"extFields":{"a":"b",}}',
        END_START + b'"extFields":{}}', END_START + b'"a":"b}',
        END_START + b'"extFields":{"a":"b"}', END_START + b'"extFields":{}',
        END_START + b'"extFields":{"a":"b",}',
    ],
)  # fmt: skip
def test_anything_else_is_left_alone(text: bytes) -> None:
    """Whatever is missing, doubled, cut, or no number where one should be."""
    assert scan(text) is None
    assert decode(text) is None or b"extFields" not in text


@pytest.mark.parametrize(
    "text",
    [
        header(opaque=10**18), header(a={}), header(extFields=FIELDS, b=[1]), header(c=True),
        header(c=None),
        fields(producerGroup="ä"), fields(producerGroup='"'), fields(producerGroup=""),
        header().replace(b'"flag":2', b'"flag": 2'),
        header().replace(b'"five6":6', b'"extFields":' + msgspec.json.encode(FIELDS)),
    ],
)  # fmt: skip
def test_what_java_does_not_write_is_not_read_byte_by_byte(text: bytes) -> None:
    """It would be right, and the ordinary way knows it."""
    assert scan(text) is None


@given(st.data())
def test_what_is_read_byte_by_byte_is_what_a_struct_reads(data: st.DataObject) -> None:
    """With any byte changed, taken out or put in."""
    text = bytearray(header())
    at = data.draw(st.integers(len(END_START), len(text) - 1))
    byte = data.draw(st.sampled_from(list(b'",:{}[]\\0129ax \x7f\x00\xff')))
    kind = data.draw(st.integers(0, 2))
    text[at : at + (kind > 0)] = b"" if kind == 2 else bytes([byte])
    read = scan(bytes(text))
    assert read is None or read == decode(bytes(text))
