"""Headers of plain sends are read by their kind exactly as they would be decoded, or not at all."""

import msgspec
import pytest

from roketto.protocol.headers import send_kinds
from roketto.protocol.headers.send_frame import SEND_BATCH_CODE, SEND_V2_CODE, decode_send_v2
from roketto.protocol.headers.send_kinds import SendKinds

FIELDS = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x01A1\x02WAIT\x01true\x02", "j": "0", "k": "false", "m": "false",
    "n": "broker-a",
}  # fmt: skip


def header_of(change: dict[str, object] | None = None, **members: object) -> bytes:
    """A header as FastJSON writes it: members in the order of their names."""
    return msgspec.json.encode(
        {"code": 310, "extFields": {**FIELDS, **(change or {})}, "flag": 0, "language": "JAVA",
         "opaque": 7, "serializeTypeCurrentRPC": "JSON", "version": 505, **members}
    )  # fmt: skip


def read(kinds: SendKinds, header: bytes) -> dict[str, object] | None:
    """What is read of a header in the midst of others."""
    data = header + header + b"body"
    send = kinds.read(data, len(header), 2 * len(header))
    if send is None:
        return None
    return {
        "b": send.topic, "e": send.queue_id, "f": send.sys_flag, "g": send.born_time_ms,
        "h": send.flag, "i": send.properties.decode(),
        "opaque": int(send.opaque), "is_one_way": send.is_one_way,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "members"),
    [
        ({}, {}),
        ({"e": "12", "f": "1", "g": "1", "h": "99"}, {"opaque": 0}),
        ({"i": ""}, {"opaque": 2**31 - 1}),
        ({"i": "作者\x01李白\x02"}, {}),
        ({}, {"flag": 2}),
    ],
)
def test_a_header_of_a_known_kind_is_read_as_it_would_be_decoded(
    change: dict[str, object], members: dict[str, object]
) -> None:
    """The values of another header teach nothing but what all of them have in common."""
    kinds = SendKinds(SEND_V2_CODE)
    assert read(kinds, header_of(None, **{**members, "opaque": 1})) is None
    header = header_of(change, **members)
    decoded = decode_send_v2(memoryview(header))
    assert decoded is not None
    fields = decoded.extFields
    expected = {
        "b": fields.b, "e": int(fields.e), "f": int(fields.f), "g": int(fields.g),
        "h": int(fields.h), "i": fields.i,
        "opaque": decoded.opaque, "is_one_way": decoded.flag == 2,
    }  # fmt: skip
    assert read(kinds, header) == expected
    assert read(kinds, header) == expected, "also as the kind of the one before"


@pytest.mark.parametrize(
    "header",
    [
        header_of(code=320),
        header_of(flag=1),
        header_of({"j": "1"}),
        header_of({"m": "true"}),
        header_of({"l": "3"}),
        header_of({"d": "x"}),
        header_of({"d": "1234567890"}),
        header_of({"e": ""}),
        header_of({"e": "-1"}),
        header_of({"g": "1e3"}),
        header_of({"h": " 1"}),
        header_of({"e": "\u0661"}),
        header_of({"e": 1}),
        header_of({"g": "9" * 5_000}),
        header_of({"i": 'say "hello"'}),
        header_of({"i": "a\\b"}),
        header_of({"i": "\t"}),
        header_of({"i": "\x03"}),
        header_of({"i": "\x00"}),
        header_of({"i": "\x11"}),
        header_of({"i": "a\x01"}).replace(b"01", b"0"),
        header_of({"g": "9" * 19}),
        header_of({"h": "1"})[: header_of({"h": "1"}).index(b'"h":"1') + 7],
        header_of(opaque=-1),
        header_of(opaque=12345678901),
        header_of().replace(b'"opaque":7', b'"opaque":07'),
        header_of().replace(b'"opaque":7,', b'"opaque":7}'),
        header_of().replace(b',"opaque":7', b""),
        header_of().replace(b'"JAVA"', b'"JA\nVA"'),
        header_of().replace(b'"language"', b'\n"language"'),
        header_of({"i": "?"}).replace(b"?", b"\xff"),
        header_of({"b": 1}),
        header_of()[: header_of().index(b'"opaque":7') + 10],
        b'{"code":310,"extFields":{}}',
        b"",
    ],
)
def test_any_other_header_is_left_to_whoever_decodes_it(header: bytes) -> None:
    """Neither at first sight nor later, whether its kind is not plain or its values are odd."""
    kinds = SendKinds(SEND_V2_CODE)
    read(kinds, header_of())
    assert read(kinds, header_of()) is not None
    assert read(kinds, header) is None
    assert read(kinds, header) is None


def test_values_in_other_places_are_another_kind() -> None:
    """The same bytes stay when they are taken out, but they do not mean the same."""
    kinds = SendKinds(SEND_V2_CODE)
    read(kinds, header_of())
    values = header_of()[header_of().index(b'","e":') : header_of().index(b'","j":')]
    moved = header_of().replace(values, b"").replace(b"JAVA", b"JAVA" + values)
    assert decode_send_v2(memoryview(moved)) is None
    assert read(kinds, moved) is None
    assert read(kinds, moved) is None


def test_kinds_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends ever new ones costs no more than decoding each of them."""
    monkeypatch.setattr(send_kinds, "KINDS_MAX", 3)
    kinds = SendKinds(SEND_V2_CODE)
    for topic in "ABCD":
        assert read(kinds, header_of({"b": topic})) is None
    assert read(kinds, header_of({"b": "D"})) is not None
    assert read(kinds, header_of({"b": "A"})) is None


def test_batches_have_a_code_and_a_mark_of_their_own() -> None:
    """Neither is plain without the other."""
    kinds = SendKinds(SEND_BATCH_CODE)
    batch = header_of({"m": "true"}, code=SEND_BATCH_CODE)
    assert read(kinds, batch) is None
    assert read(kinds, batch) is not None
    for other in (header_of(code=SEND_BATCH_CODE), header_of({"m": "true"}), header_of()):
        assert read(kinds, other) is None
        assert read(kinds, other) is None
