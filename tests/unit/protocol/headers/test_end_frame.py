"""The header of a transaction's end is read at once where it is as Java writes it."""

import msgspec
import pytest

from roketto.protocol.headers.end_frame import END_START, decode_end

FIELDS = {
    "producerGroup": "G", "bname": "broker-a", "commitLogOffset": "5298", "topic": "T",
    "msgId": "A", "tranStateTableOffset": "0", "commitOrRollback": "8", "transactionId": "A",
    "fromTransactionCheck": "false",
}  # fmt: skip


def header(**members: object) -> bytes:
    return msgspec.json.encode({"code": 37, "extFields": FIELDS, "flag": 2, "opaque": 7, **members})


def test_a_header_as_java_writes_it_is_read() -> None:
    """Texts stay texts, and what is unknown is passed over."""
    text = header(language="JAVA")
    assert text.startswith(END_START)
    found = decode_end(memoryview(text))
    assert found is not None
    assert (found.code, found.flag, found.opaque) == (37, 2, 7)
    fields = found.extFields
    assert (fields.producerGroup, fields.commitLogOffset) == ("G", "5298")
    assert (fields.tranStateTableOffset, fields.commitOrRollback, fields.msgId) == ("0", "8", "A")


@pytest.mark.parametrize(
    "text",
    [
        header(extFields={**FIELDS, "commitLogOffset": 1}),
        header(extFields={"producerGroup": "G"}),
        header(opaque="7"),
        header(extFields=None),
        header()[:-1],
        header().replace(b'"G"', b'"\xff"'),
        b'{"code":37,"extFields":' + b"[" * 100_000,
        b"",
    ],
)
def test_anything_else_is_left_alone(text: bytes) -> None:
    assert decode_end(memoryview(text)) is None
