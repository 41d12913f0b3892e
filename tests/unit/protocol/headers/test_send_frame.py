"""The header of a send is read at once where it is as Java writes it, and left alone where not."""

import msgspec
import pytest

from roketto.protocol.headers.send_frame import SEND_V2_START, decode_send_v2

FIELDS = {"a": "G", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "5", "h": "0"}


def header(**members: object) -> bytes:
    return msgspec.json.encode(
        {"code": 310, "extFields": FIELDS, "flag": 0, "opaque": 7, **members}
    )


def test_a_header_as_java_writes_it_is_read() -> None:
    """Texts stay texts, what is absent has its default, what is unknown is passed over."""
    text = header(language="JAVA", extFields={**FIELDS, "i": "TAGS\x01a\x02", "n": "b"})
    assert text.startswith(SEND_V2_START)
    found = decode_send_v2(memoryview(text))
    assert found is not None
    assert (found.code, found.flag, found.opaque) == (310, 0, 7)
    fields = found.extFields
    assert (fields.b, fields.e, fields.i) == ("T", "1", "TAGS\x01a\x02")
    assert (fields.j, fields.l, fields.m) == ("0", None, "false")


@pytest.mark.parametrize(
    "text",
    [
        header(extFields={**FIELDS, "e": 1}),
        header(extFields={"b": "T"}),
        header(opaque="7"),
        header(extFields=None),
        header()[:-1],
        header().replace(b'"T"', b'"\xff"'),
        b'{"code":310,"extFields":' + b"[" * 100_000,
        b"",
    ],
    ids=range(8),
)
def test_any_other_header_is_left_to_the_command(text: bytes) -> None:
    """Numbers for texts, missing fields, damage: command.py knows what to do with them."""
    assert decode_send_v2(memoryview(text)) is None
