"""Proves the checksums of a record: the masked CRC-32 and the digits of the CRC property."""

import sys
import types
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from golden.record.vectors import load
from roketto.protocol.crc import (
    CRC_PROPERTY_BYTES,
    decode_crc_property,
    encode_crc_property,
    find_crc32,
    join_with_crcs,
    masked_crc32,
    without_crc,
    write_crc_property,
)


def test_crc_of_every_body_is_the_one_java_stored() -> None:
    for row in load("records")["records"]:
        assert masked_crc32(bytes.fromhex(row["fields"]["body"])) == row["fields"]["bodyCrc"]


def test_top_bit_is_masked() -> None:
    assert masked_crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


def test_isal_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = types.ModuleType("isal")
    installed.isal_zlib = types.SimpleNamespace(crc32=len)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "isal", installed)
    assert find_crc32() is len


def test_zlib_is_taken_where_isal_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    assert find_crc32() is zlib.crc32


@given(st.binary(max_size=2_000))
def test_what_was_taken_is_the_crc_of_zlib(data: bytes) -> None:
    """Of bytes, and of what else records are looked at as."""
    for same in (data, bytearray(data), memoryview(data)):
        assert find_crc32()(same) == zlib.crc32(data)
        assert masked_crc32(same) == zlib.crc32(data) & 0x7FFF_FFFF


def test_digits_are_written_least_significant_first() -> None:
    assert encode_crc_property(1234567890) == b"__CRC32#\x010987654321\x02"
    assert encode_crc_property(42) == b"__CRC32#\x012400000000\x02"
    assert encode_crc_property(0) == b"__CRC32#\x010000000000\x02"


def test_a_property_is_replaced_and_not_doubled() -> None:
    old = encode_crc_property(1)
    assert without_crc(b"") == b""
    assert without_crc(b"A\x01#") == b"A\x01#\x02"
    assert without_crc(b"A\x01b") == b"A\x01b\x02"
    assert without_crc(b"A\x01b\x02" + old) == b"A\x01b\x02"
    assert without_crc(old + b"A\x01b") == b"A\x01b\x02"


@given(st.integers(0, 0x7FFF_FFFF))
def test_a_checksum_survives_both_ways(crc: int) -> None:
    raw = encode_crc_property(crc)
    assert len(raw) == CRC_PROPERTY_BYTES
    assert decode_crc_property(raw) == crc


@given(st.binary(max_size=600))
def test_what_was_written_ends_with_its_property(record: bytes) -> None:
    writer = BytesWriter()
    writer.write(record)
    write_crc_property(writer, writer.getvalue())
    assert writer.getvalue() == record + encode_crc_property(masked_crc32(record))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"__CRC32#\x010987654321",
        b"__CRC32#\x0109876543210\x02",
        b"__CRC33#\x010987654321\x02",
        b"__CRC32#\x020987654321\x02",
        b"__CRC32#\x010987654321\x01",
        b"__CRC32#\x01098765432x\x02",
        b"__CRC32#\x01-987654321\x02",
        b"__CRC32#\x01098 654321\x02",
    ],
)
def test_other_bytes_are_not_the_property(raw: bytes) -> None:
    assert decode_crc_property(raw) is None


@given(st.binary(min_size=CRC_PROPERTY_BYTES, max_size=CRC_PROPERTY_BYTES))
def test_any_bytes_are_nothing_or_the_property_of_what_they_decode_to(raw: bytes) -> None:
    crc = decode_crc_property(raw)
    assert crc is None or encode_crc_property(crc) == raw


def test_records_are_joined_each_with_its_property() -> None:
    """As if each had got it by itself."""
    records = [b"one", b"three", b"", b"123456789"]
    expected = [record + encode_crc_property(masked_crc32(record)) for record in records]
    assert join_with_crcs(records) == b"".join(expected)
    assert join_with_crcs([]) == b""
