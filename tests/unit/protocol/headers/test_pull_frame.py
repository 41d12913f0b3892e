"""The header of a pull is read at once where it is as Java writes it, and left alone where not."""

import msgspec
import pytest

from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.pull import PullMessageRequest
from roketto.protocol.headers.pull_frame import PULL_START, decode_pull, pull_header

FIELDS = {
    "consumerGroup": "G", "topic": "T", "queueId": "1", "queueOffset": "7", "maxMsgNums": "32",
    "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": "0",
}  # fmt: skip


def header(**members: object) -> bytes:
    return msgspec.json.encode({"code": 11, "extFields": FIELDS, "flag": 0, "opaque": 7, **members})


def test_a_header_as_java_writes_it_is_read() -> None:
    """Texts stay texts, what is absent is empty, what is unknown is passed over."""
    text = header(language="JAVA", extFields={**FIELDS, "subscription": "a || b", "n": "b"})
    assert text.startswith(PULL_START)
    found = decode_pull(memoryview(text))
    assert found is not None
    assert (found.code, found.flag, found.opaque) == (11, 0, 7)
    fields = found.extFields
    assert (fields.consumerGroup, fields.topic, fields.queueOffset) == ("G", "T", "7")
    assert (fields.subscription, fields.expressionType, fields.maxMsgBytes) == ("a || b", "", "")


def test_the_fields_mean_what_they_mean_in_a_command() -> None:
    """The same header comes of them, but for texts that are empty and not absent."""
    fields = {**FIELDS, "subscription": "*", "expressionType": "TAG", "maxMsgBytes": "5",
              "requestSource": "-1"}  # fmt: skip
    found = decode_pull(memoryview(header(extFields=fields)))
    assert found is not None
    assert pull_header(found.extFields) == decode_header(PullMessageRequest, fields)


def test_what_a_command_would_be_refused_for_is_refused() -> None:
    """A number that Java would not parse."""
    found = decode_pull(memoryview(header(extFields={**FIELDS, "queueId": "1.0"})))
    assert found is not None
    with pytest.raises(HeaderFieldError, match="queueId"):
        pull_header(found.extFields)


@pytest.mark.parametrize(
    "text",
    [
        header(extFields={**FIELDS, "queueId": 1}),
        header(extFields={"topic": "T"}),
        header(opaque="7"),
        header(opaque=2**31),
        header(extFields=None),
        header()[:-1],
        header().replace(b'"T"', b'"\xff"'),
        PULL_START + b'"extFields":' + b"[" * 100_000,
        b"",
    ],
    ids=range(9),
)
def test_any_other_header_is_left_to_the_command(text: bytes) -> None:
    """Numbers for texts, missing fields, damage: command.py knows what to do with them."""
    assert decode_pull(memoryview(text)) is None
