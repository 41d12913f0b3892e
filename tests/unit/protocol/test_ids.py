"""Proves that ids of brokers and producers are made and read as in Java."""

import doctest
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol import ids as ids_module
from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import encode_host
from roketto.protocol.ids import (
    UniqueId,
    UniqueIds,
    created_ms,
    decode_offset_id,
    decode_unique_id,
    encode_offset_id,
    encode_offset_ids,
    month_bounds_ms,
    substitute_ip,
)

VECTORS = load("ids")
ZONE = timezone(timedelta(hours=8))  # Asia/Shanghai, where the vectors were made
LONGS = st.integers(-(2**63), 2**63 - 1)


def ms(year: int, month: int, day: int = 1, zone: tzinfo = UTC, **more: int) -> int:
    return int(datetime(year, month, day, tzinfo=zone, **more).timestamp() * 1000)


@pytest.mark.parametrize("row", VECTORS["offset"], ids=lambda row: str(row["id"]))
def test_offset_id_is_the_one_java_makes(row: dict[str, object]) -> None:
    host = encode_host(str(row["ip"]), int(str(row["port"])))
    assert encode_offset_id(host, int(str(row["offset"]))) == row["id"]
    assert decode_offset_id(str(row["id"])) == (host, row["offset"])
    assert decode_offset_id(str(row["id"]).lower()) == (host, row["decodedOffset"])


@pytest.mark.parametrize("row", VECTORS["unique"], ids=lambda row: str(row["id"]))
def test_unique_id_says_what_java_reads_from_it(row: dict[str, object]) -> None:
    parts = decode_unique_id(str(row["id"]))
    assert parts.ip.hex().upper() == row["ip"]
    assert parts.pid == row["pid"]
    assert created_ms(parts, int(str(row["now"])), ZONE) == row["time"]


@pytest.mark.parametrize("row", VECTORS["unique"], ids=lambda row: str(row["id"]))
def test_the_same_parts_make_the_same_unique_id(row: dict[str, object]) -> None:
    parts = decode_unique_id(str(row["id"]))
    start_ms, end_ms = month_bounds_ms(int(str(row["now"])), ZONE)
    if start_ms + parts.month_ms < end_ms:
        ids = UniqueIds(parts.ip, parts.pid, parts.process_hash, ZONE, parts.counter)
        assert ids.next_id(start_ms + parts.month_ms) == row["id"]


@given(st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20), LONGS)
def test_an_offset_id_survives_both_ways(host: bytes, log_offset: int) -> None:
    host = host[:-4] + bytes(2) + host[-2:]
    assert decode_offset_id(encode_offset_id(host, log_offset)) == (host, log_offset)


@given(
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 2**22),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**41),
    st.integers(0, 2**16 - 1),
)
def test_a_unique_id_survives_both_ways(
    ip: bytes, pid: int, process_hash: int, now_ms: int, counter: int
) -> None:
    made = UniqueIds(ip, pid, process_hash, UTC, counter).next_id(now_ms)
    month_ms = now_ms - month_bounds_ms(now_ms, UTC)[0]
    expected = UniqueId(ip, pid & 0xFFFF, process_hash & 0xFFFF_FFFF, month_ms, counter)
    assert decode_unique_id(made) == expected
    assert created_ms(expected, now_ms + 1, UTC) == now_ms


def test_ids_of_one_millisecond_differ_until_the_counter_wraps() -> None:
    ids = UniqueIds(bytes(4), 1, 1, UTC, counter=0xFFFE)
    made = [ids.next_id(0)[-4:] for _ in range(4)]
    assert made == ["FFFE", "FFFF", "0000", "0001"]


def test_a_new_month_begins_at_zero() -> None:
    ids = UniqueIds(bytes(4), 1, 1, UTC)
    end = ms(2024, 3)
    assert decode_unique_id(ids.next_id(end - 1)).month_ms == 29 * 86_400_000 - 1
    assert decode_unique_id(ids.next_id(end)).month_ms == 0


def test_a_clock_set_back_a_little_over_the_start_of_the_month_stands_there() -> None:
    ids = UniqueIds(bytes(4), 1, 1, UTC)
    start = ms(2024, 3)
    ids.next_id(start)
    assert decode_unique_id(ids.next_id(start - 999_999)).month_ms == 0
    assert decode_unique_id(ids.next_id(start - 1_000_000)).month_ms == 2**32 - 1_000_000


@pytest.mark.parametrize("size", [0, 3, 5, 15, 17])
def test_an_address_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(RecordError, match=f"an address of {size} bytes"):
        UniqueIds(bytes(size), 1, 1, UTC)


def test_months_follow_the_zone_through_the_year_and_summer_time() -> None:
    assert month_bounds_ms(ms(2024, 2, 29), UTC) == (ms(2024, 2), ms(2024, 3))
    assert month_bounds_ms(ms(2024, 12, 31), UTC) == (ms(2024, 12), ms(2025, 1))
    assert month_bounds_ms(ms(2024, 1, 31, hour=20), ZONE)[0] == ms(2024, 2, zone=ZONE)
    berlin = ZoneInfo("Europe/Berlin")
    start_ms, end_ms = month_bounds_ms(ms(2024, 3, 31, hour=12), berlin)
    assert end_ms - start_ms == (31 * 24 - 1) * 3_600_000


def test_without_an_address_the_clock_stands_in() -> None:
    assert substitute_ip(0x0000_018B_CFE5_6800).hex() == "cfe56800"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "0" * 31,
        "0" * 33,
        "0" * 34,  # a gRPC client's
        "0" * 55,
        "0" * 57,
        "g" * 32,
        "00 " * 10 + "00",  # 32 characters that fromhex takes for 11 bytes
        " " * 32,
        "0" * 30 + "é0",
        "0" * 100_000,
        "\x00" * 32,
    ],
)
def test_other_texts_are_no_id(text: str) -> None:
    for decode in (decode_offset_id, decode_unique_id):
        with pytest.raises(RecordError, match="message id") as caught:
            decode(text)
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize("log_offset", [2**63, -(2**63) - 1])
def test_a_log_offset_beyond_64_bits_makes_no_id(log_offset: int) -> None:
    with pytest.raises(RecordError, match="is no 64-bit number"):
        encode_offset_id(bytes(8), log_offset)


@pytest.mark.parametrize("port", [0x0001_0000, 0xFFFF_FFFF])
def test_an_offset_id_with_an_impossible_port_is_refused(port: int) -> None:
    with pytest.raises(RecordError, match="names port"):
        decode_offset_id(f"7F000001{port:08X}{0:016X}")


@given(st.text() | st.text(st.sampled_from("0123456789abcdefABCDEF "), min_size=30, max_size=58))
def test_any_text_is_an_id_or_a_record_error(text: str) -> None:
    for decode in (decode_offset_id, decode_unique_id):
        try:
            decode(text)
        except RecordError:
            continue
        assert len(text) in (32, 56)


def test_examples_of_the_documentation_are_true() -> None:
    results = doctest.testmod(ids_module)
    assert results.failed == 0


@given(st.sampled_from([8, 20]).map(bytes), st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_offset_ids_of_many_messages_are_those_of_each(host: bytes, log_offsets: list[int]) -> None:
    expected = ",".join(encode_offset_id(host, log_offset) for log_offset in log_offsets)
    assert encode_offset_ids(host, log_offsets) == expected


def test_a_log_offset_that_is_no_64_bit_number_makes_no_ids() -> None:
    with pytest.raises(RecordError, match="64-bit"):
        encode_offset_ids(bytes(8), [0, 2**63])
