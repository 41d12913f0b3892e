"""Proves that records are byte for byte those of Java, and that damaged ones are never taken."""

import copy
import pickle
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol import property_names
from roketto.protocol.compression import compress
from roketto.protocol.errors import CompressionError, RecordError
from roketto.protocol.hosts import NO_HOST, encode_host
from roketto.protocol.properties import decode_properties, encode_properties
from roketto.protocol.record import (
    Record,
    decode_record,
    decode_records,
    encode_record,
    encode_record_into,
    record_size,
)
from roketto.protocol.record_layout import has_good_crc_property
from roketto.protocol.sysflags import (
    BORN_HOST_IPV6,
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_ZSTD,
    HOST_BITS,
    STORE_HOST_IPV6,
)

ROWS = load("records")["records"]
POISON = bytes.fromhex(load("records")["poison"])
RUNS = load("runs")
STORED = load("stored")
IPV4 = encode_host("192.168.1.2", 54_321)
IPV6 = encode_host("2001:db8::1", 54_321)

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
records = st.builds(
    Record,
    topic=st.text(max_size=40) | st.text(st.sampled_from("aZ9%_-"), min_size=120, max_size=255),
    body=st.binary(),
    properties_raw=st.binary(),
    queue_id=ints,
    flag=ints,
    queue_offset=longs,
    log_offset=longs,
    sys_flag=ints,
    born_time_ms=longs,
    born_host=hosts,
    store_time_ms=longs,
    store_host=hosts,
    reconsume_times=ints,
    prepared_log_offset=longs,
)


def fields_of(record: Record) -> dict[str, object]:
    """What a log keeps of a record, without what encoding computes."""
    return {
        "topic": record.topic,
        "body": bytes(record.body),
        "properties": record.properties_raw,
        "queueId": record.queue_id,
        "flag": record.flag,
        "queueOffset": record.queue_offset,
        "logOffset": record.log_offset,
        "sysFlag": record.sys_flag & ~HOST_BITS,
        "bornTime": record.born_time_ms,
        "bornHost": record.born_host,
        "storeTime": record.store_time_ms,
        "storeHost": record.store_host,
        "reconsumeTimes": record.reconsume_times,
        "preparedOffset": record.prepared_log_offset,
    }


def assert_fields(record: Record, fields: dict[str, Any]) -> None:
    """Compare with what Java's decoder says."""
    born_host = bytes.fromhex(fields["bornIp"]) + fields["bornPort"].to_bytes(4)
    store_host = bytes.fromhex(fields["storeIp"]) + fields["storePort"].to_bytes(4)
    assert fields_of(record) == {
        "topic": fields["topic"],
        "body": bytes.fromhex(fields["body"]),
        "properties": record.properties_raw,
        "queueId": fields["queueId"],
        "flag": fields["flag"],
        "queueOffset": fields["queueOffset"],
        "logOffset": fields["logOffset"],
        "sysFlag": fields["sysFlag"] & ~HOST_BITS,
        "bornTime": fields["bornTime"],
        "bornHost": born_host,
        "storeTime": fields["storeTime"],
        "storeHost": store_host,
        "reconsumeTimes": fields["reconsumeTimes"],
        "preparedOffset": fields["preparedOffset"],
    }
    assert record.sys_flag == fields["sysFlag"]
    assert record.body_crc == fields["bodyCrc"]
    assert record.size == fields["size"]
    assert record.properties == fields["properties"]
    assert record.offset_id == fields["messageId"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["name"]))
def test_records_of_java_decode_to_the_fields_java_reads(row: dict[str, Any]) -> None:
    raw = bytes.fromhex(row["record"])
    assert_fields(decode_record(raw, check_crc=True), row["fields"])
    assert_fields(decode_record(memoryview(b"..." + raw + b"..."), at=3), row["fields"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["name"]))
def test_records_encode_to_the_bytes_of_java(row: dict[str, Any]) -> None:
    raw = bytes.fromhex(row["record"])
    record = decode_record(raw)
    assert encode_record(record) == raw
    assert record_size(record) == len(raw)


@pytest.mark.parametrize("row", STORED, ids=lambda row: str(row["name"]))
def test_crc_property_is_appended_as_a_real_store_does(row: dict[str, Any]) -> None:
    for stored in row["records"]:
        raw = bytes.fromhex(stored["record"])
        record = decode_record(raw, check_crc=True)
        assert_fields(record, stored["fields"])
        assert encode_record(record, append_crc=True) == raw
        if row["given"] is not None:  # the property string before the store added to it
            record.properties_raw = bytes.fromhex(row["given"])
            assert encode_record(record, append_crc=True) == raw
            assert record_size(record, append_crc=True) == len(raw)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run["name"]))
def test_a_run_of_records_ends_where_java_ends_it(run: dict[str, Any]) -> None:
    data = bytes.fromhex(run["bytes"])
    found = decode_records(data)
    assert len(found) == run["records"]
    assert len(decode_records(memoryview(data))) == run["records"]
    if sum(record.size for record in found) == len(data):
        assert len(decode_records(data, strict=True)) == run["records"]
    else:
        with pytest.raises(RecordError, match="is damaged"):
            decode_records(data, strict=True)


def test_host_bits_of_a_record_describe_its_own_hosts_whatever_the_sender_says() -> None:
    for claimed in (0, BORN_HOST_IPV6, STORE_HOST_IPV6, HOST_BITS):
        for born_host, store_host, true_bits in (
            (IPV4, IPV4, 0),
            (IPV6, IPV4, BORN_HOST_IPV6),
            (IPV4, IPV6, STORE_HOST_IPV6),
            (IPV6, IPV6, HOST_BITS),
        ):
            record = Record(
                "T", b"body", sys_flag=claimed | 4, born_host=born_host, store_host=store_host
            )
            back = decode_record(encode_record(record), check_crc=True)
            assert back.sys_flag == true_bits | 4
            assert (back.born_host, back.store_host) == (born_host, store_host)


def test_the_poison_record_of_java_is_refused() -> None:
    with pytest.raises(RecordError, match="is damaged"):
        decode_record(POISON)
    good = bytes.fromhex(ROWS[0]["record"])
    assert len(decode_records(good + POISON + good)) == 1


@given(records, st.booleans())
def test_a_record_survives_both_ways(record: Record, append_crc: bool) -> None:
    raw = encode_record(record, append_crc)
    back = decode_record(raw, check_crc=True)
    assert back.size == len(raw) == record_size(record, append_crc)
    if append_crc:
        assert has_good_crc_property(raw)
        assert encode_record(back, append_crc) == raw
        record.properties_raw = back.properties_raw
    assert fields_of(back) == fields_of(record)
    assert encode_record(back) == raw


@given(st.lists(records, max_size=4))
def test_records_one_after_the_other_decode_in_order(several: list[Record]) -> None:
    found = decode_records(b"".join(map(encode_record, several)), strict=True)
    assert [fields_of(record) for record in found] == [fields_of(record) for record in several]


@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytearray(data))])
def test_a_record_is_written_into_a_buffer_at_its_place_and_nowhere_else(kind: Any) -> None:
    record = decode_record(bytes.fromhex(ROWS[0]["record"]))
    record.body = memoryview(b"a view of a frame")
    buffer = kind(b"\xaa" * 600)
    size = encode_record_into(record, buffer, 100)
    assert size == record_size(record)
    assert bytes(buffer[:100]) == b"\xaa" * 100
    assert bytes(buffer[100 : 100 + size]) == encode_record(record)
    assert bytes(buffer[100 + size :]) == b"\xaa" * (500 - size)
    assert len(buffer) == 600


def test_a_record_that_does_not_fit_is_not_begun() -> None:
    record = Record("T", b"body")
    size = record_size(record)
    buffer = bytearray(size + 9)
    assert encode_record_into(record, buffer, 10) == 0
    assert encode_record_into(record, buffer, 1_000) == 0
    assert buffer == bytes(size + 9)
    assert encode_record_into(record, buffer, 9) == size


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue_id", 2**31),
        ("flag", -(2**31) - 1),
        ("queue_offset", 2**63),
        ("log_offset", -(2**63) - 1),
        ("sys_flag", 2**31),
        ("born_time_ms", 2**63),
        ("store_time_ms", 2**63),
        ("reconsume_times", 2**31),
        ("prepared_log_offset", 2**63),
    ],
)
def test_a_number_too_large_for_its_field_is_refused_and_nothing_written(
    name: str, value: int
) -> None:
    record = Record("T", b"body")
    setattr(record, name, value)
    buffer = bytearray(200)
    with pytest.raises(RecordError, match="does not fit its field"):
        encode_record_into(record, buffer)
    assert buffer == bytes(200)


@pytest.mark.parametrize(
    ("topic", "properties"), [("t" * 256, b""), ("T", bytes(32_768)), ("T", bytes(32_760))]
)
def test_topics_and_properties_that_are_too_long_are_refused(topic: str, properties: bytes) -> None:
    with pytest.raises(RecordError, match=r"a record takes (255|32767)"):
        encode_record(Record(topic, b"", properties), append_crc=True)


@pytest.mark.parametrize("size", [0, 4, 7, 16, 21])
def test_a_host_of_another_length_is_refused(size: int) -> None:
    for record in (
        Record("T", b"", born_host=bytes(size)),
        Record("T", b"", store_host=bytes(size)),
    ):
        with pytest.raises(RecordError, match=f"a host of {size} bytes"):
            encode_record(record)


@pytest.mark.parametrize("row", [ROWS[0], ROWS[7]], ids=lambda row: str(row["name"]))
def test_a_record_cut_anywhere_is_refused(row: dict[str, Any]) -> None:
    raw = bytes.fromhex(row["record"])
    for cut in range(len(raw)):
        with pytest.raises(RecordError, match="is damaged"):
            decode_record(raw[:cut])
        assert decode_records(raw[:cut]) == []


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (0, b"\x00\x00\x00\x00", "does not fit its size 0"),
        (0, b"\x80\x00\x00\x00", "does not fit its size -2147483648"),
        (0, b"\x00\x00\x00\x60", "does not fit its size 96"),
        (0, b"\x7f\xff\xff\xff", "bytes long, but"),
        (4, b"\xcb\xd4\x31\x94", "magic 0xCBD43194 is unknown"),
        (4, b"\x00\x00\x00\x00", "magic 0x00000000 is unknown"),
        (84, b"\xff\xff\xff\xff", "a body of -1 bytes"),
        (84, b"\x7f\xff\xff\xff", "a body of 2147483647 bytes"),
        (84, b"\x00\x00\x00\x0c", "a topic of 140 bytes"),
        (101, b"\xff", "a topic of 255 bytes needs a V2 record"),
        (101, b"\x7f", "a topic of 127 bytes does not fit"),
        (111, b"\xff\xff", "do not add up"),
        (111, b"\x00\x00", "do not add up"),
    ],
)
def test_a_lie_about_a_length_is_refused(at: int, value: bytes, why: str) -> None:
    raw = bytearray.fromhex(ROWS[0]["record"])
    raw[at : at + len(value)] = value
    with pytest.raises(RecordError, match=why):
        decode_record(bytes(raw))


def test_a_negative_topic_length_of_a_v2_record_is_refused() -> None:
    raw = bytearray.fromhex(ROWS[4]["record"])
    raw[101:103] = b"\xff\xff"
    with pytest.raises(RecordError, match="a topic of -1 bytes"):
        decode_record(bytes(raw))


def test_every_flipped_bit_of_the_body_is_seen_when_asked_for() -> None:
    raw = bytes.fromhex(ROWS[0]["record"])
    for bit in range(88 * 8, 101 * 8):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_record(bytes(damaged)).size == len(raw)
        for read_body in (True, False):
            with pytest.raises(RecordError, match="does not match its CRC"):
                decode_record(bytes(damaged), read_body=read_body, check_crc=True)


def test_an_empty_body_has_no_crc_to_check() -> None:
    raw = bytearray(encode_record(Record("T", b"")))
    raw[8:12] = b"\x01\x02\x03\x04"
    assert decode_record(bytes(raw), check_crc=True).body_crc == 0x01020304


def test_a_record_can_be_decoded_without_its_body() -> None:
    record = decode_record(bytes.fromhex(ROWS[0]["record"]), read_body=False)
    assert record.body == b""
    assert record.get_property("TAGS") == "TagA"


@given(st.data())
def test_mutated_records_are_refused_or_hold_together(data: st.DataObject) -> None:
    raw = bytearray.fromhex(data.draw(st.sampled_from(ROWS[:-1]))["record"])
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(RecordError):
        record = decode_record(bytes(raw))
        assert record.size <= len(raw)
        assert isinstance(record.message_id, str)
        with suppress(CompressionError):
            record.decompress()


@given(st.binary(max_size=300))
def test_any_bytes_are_no_records_or_whole_ones(data: bytes) -> None:
    assert sum(record.size for record in decode_records(data)) <= len(data)
    assert sum(record.size for record in decode_records(memoryview(data))) <= len(data)


def test_the_id_shown_is_the_producers_or_else_the_brokers() -> None:
    record = Record("T", b"", log_offset=123_456, store_host=encode_host("192.168.1.2", 10_911))
    assert record.message_id == record.offset_id == "C0A8010200002A9F000000000001E240"
    record.set_property(property_names.UNIQ_KEY, "AC11")
    assert record.message_id == "AC11"


def test_properties_are_kept_byte_for_byte_until_one_is_changed() -> None:
    odd = b"A\x01B\x02A\x01C\x02\x01x\x02D\x01E"
    record = Record("T", b"", odd)
    assert record.get_property("A") == "C"
    assert record.properties == {"A": "C", "D": "E"}
    assert record.get_property("D") == "E"
    assert record.get_property("F") is None
    record.remove_property("absent")
    assert record.properties_raw == odd
    record.set_property("F", "G")
    assert record.properties_raw == b"A\x01C\x02D\x01E\x02F\x01G\x02"
    record.remove_property("A")
    assert record.properties_raw == b"D\x01E\x02F\x01G\x02"
    assert decode_record(encode_record(record)).properties == {"D": "E", "F": "G"}
    record.properties_raw = b"H\x01I\x02"
    assert record.properties == {"H": "I"}


def test_properties_of_a_changed_record_are_encoded_when_it_is_written() -> None:
    record = Record("T", b"")
    record.set_property("名", "値")
    assert decode_properties(record.properties_raw) == {"名": "値"}
    assert record.properties_raw == encode_properties({"名": "値"})


def test_decompressing_unpacks_the_body_once_and_clears_its_flag() -> None:
    packed = compress(b"body " * 50, COMPRESSION_ZSTD)
    record = Record("T", packed, sys_flag=COMPRESSED | COMPRESSION_ZSTD)
    record.decompress()
    assert record.body == b"body " * 50
    assert record.sys_flag == COMPRESSION_ZSTD
    record.decompress()
    assert record.body == b"body " * 50


def test_a_bad_body_costs_neither_its_record_nor_the_ones_behind_it() -> None:
    bad = Record("T", b"not LZ4 at all", sys_flag=COMPRESSED | COMPRESSION_LZ4)
    run = decode_records(encode_record(bad) + encode_record(Record("T", b"next")), strict=True)
    assert [record.body for record in run] == [b"not LZ4 at all", b"next"]
    with pytest.raises(CompressionError):
        run[0].decompress()
    assert run[0].body == b"not LZ4 at all"
    assert run[0].sys_flag & COMPRESSED


def test_a_copied_and_a_pickled_record_are_the_same_record() -> None:
    """Also one whose body is a view of what was read, and whose properties have changed."""
    data = encode_record(Record("T", b"body", b"a\x01b\x02", 3, 7, 8, 9, 0, 10, reconsume_times=2))
    (record,) = decode_records(memoryview(data))
    record.body = memoryview(b"body")
    record.set_property("c", "d")
    for other in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert other is not record
        assert other.body == b"body"
        assert other.properties == {"a": "b", "c": "d"}
        assert repr(other) == repr(record)
        assert (other.size, other.body_crc) == (record.size, record.body_crc)
        assert encode_record(other) == encode_record(record)


def test_a_record_shows_what_it_is() -> None:
    record = Record("Orders", b"body", queue_id=3, queue_offset=7, log_offset=2**64)
    assert repr(record) == (
        "<Record of 'Orders' queue 3 offset 7, body of 4 bytes, at 18446744073709551616>"
    )
    assert record.born_host == record.store_host == NO_HOST


class Traced(bytearray):
    """Keeps what it held after each change."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.held: list[bytes] = []

    def __setitem__(self, at: Any, value: Any) -> None:
        super().__setitem__(at, value)
        self.held.append(bytes(self))


@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "g" * 200])
@pytest.mark.parametrize("append_crc", [False, True])
def test_a_process_that_dies_while_it_writes_leaves_no_record(topic: str, append_crc: bool) -> None:
    """Of all that is there in between, only the last is one."""
    record = Record(topic, b"body", b"TAGS\x01A\x02")
    buffer = Traced(1_000)
    size = encode_record_into(record, buffer, 100, append_crc)
    assert len(buffer.held) > 1
    for held in buffer.held[:-1]:
        with pytest.raises(RecordError, match="magic 0x00"):
            decode_record(held, 100)
    assert buffer.held[-1][100 : 100 + size] == encode_record(record, append_crc)
    assert not buffer[:100].strip(b"\0")
    assert not buffer[100 + size :].strip(b"\0")
