"""Records with flags that lie about their hosts are mended, and nothing else is."""

import struct

import pytest

from roketto.protocol.hosts import decode_host, encode_host
from roketto.protocol.record import Record, decode_record, encode_record
from roketto.store.record_check import BLANK_BYTES, check_record
from roketto.store.record_repair import repair_record

IPV4 = encode_host("127.0.0.1", 10_911)
IPV6 = encode_host("fe80::9", 10_911)
TIME_MS = 1_700_000_000_000
LOG_OFFSET = 4_711


def poisoned(
    bits: int,
    born: bytes = IPV4,
    store: bytes = IPV4,
    topic: str = "T",
    properties: bytes = b"TAGS\x01t\x02",
    body: bytes = b"body",
) -> bytes:
    """A record as Java writes it for a sender that has set ``bits`` of the system flag."""
    record = Record(
        topic, body, properties, 1, queue_offset=5, log_offset=LOG_OFFSET, sys_flag=8,
        born_time_ms=TIME_MS - 5, born_host=born, store_time_ms=TIME_MS, store_host=store,
    )  # fmt: skip
    data = bytearray(encode_record(record))
    (sys_flag,) = struct.unpack_from(">i", data, 36)
    wrong = (bits << 4 | sys_flag) ^ sys_flag
    data += bytes((wrong >> 4).bit_count() * 12)
    struct.pack_into(">i", data, 0, len(data))
    struct.pack_into(">i", data, 36, sys_flag | wrong)
    if wrong & 0x10:
        struct.pack_into(">q", data, 68, TIME_MS + 4)  # written last, to where the flag leads
    return bytes(data)


def in_segment(data: bytes, at: int = 64) -> memoryview:
    return memoryview(bytes(at) + data + bytes(BLANK_BYTES))


@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "g" * 200])
@pytest.mark.parametrize("properties", [b"", b"TAGS\x01t", b"TAGS\x01t\x02"])
@pytest.mark.parametrize("bits", [1, 2, 3])
def test_a_record_over_ipv4_is_mended(bits: int, properties: bytes, topic: str) -> None:
    """It says what was sent, keeps its size, and every reader takes it."""
    data = poisoned(bits, topic=topic, properties=properties)
    mended = repair_record(in_segment(data), 64, LOG_OFFSET)
    assert mended is not None
    assert check_record(in_segment(mended), 64, LOG_OFFSET) == len(data)
    record = decode_record(mended, check_crc=True)
    assert (record.topic, record.body, record.sys_flag) == (topic, b"body", 8)
    assert record.properties == ({"TAGS": "t"} if properties else {})
    assert record.store_time_ms == TIME_MS + (4 if bits & 1 else 0)
    assert record.reconsume_times == 0
    assert decode_host(record.store_host) == ("127.0.0.1", 0 if bits & 1 else 10_911)


@pytest.mark.parametrize(("born", "store"), [(IPV6, IPV4), (IPV4, IPV6)])
def test_a_record_with_one_ipv6_host_is_mended(born: bytes, store: bytes) -> None:
    """One of the two bits is right then."""
    data = poisoned(3, born, store)
    mended = repair_record(in_segment(data), 64, LOG_OFFSET)
    assert mended is not None
    record = decode_record(mended, check_crc=True)
    assert (len(record.born_host), len(record.store_host)) == (len(born), len(store))
    assert record.born_host == born


def test_a_store_time_that_is_none_stays_where_it_is() -> None:
    """Another version may not have written it there."""
    data = bytearray(poisoned(1))
    struct.pack_into(">i", data, 68, 10_911)
    struct.pack_into(">i", data, 72, 3)
    mended = repair_record(in_segment(bytes(data)), 64, LOG_OFFSET)
    assert mended is not None
    record = decode_record(mended)
    assert (record.store_time_ms, record.reconsume_times) == (TIME_MS, 3)
    assert decode_host(record.store_host) == ("127.0.0.1", 10_911)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(200),
        encode_record(Record("T", b"sound", log_offset=LOG_OFFSET)),
        changed(poisoned(1), 0, struct.pack(">i", 4_000)),
        changed(poisoned(1), 0, struct.pack(">i", 50)),
        changed(poisoned(1), 28, struct.pack(">q", 5)),
        changed(poisoned(1), 84, struct.pack(">i", 1 << 30)),
        changed(poisoned(1), 84, struct.pack(">i", -(1 << 30))),
        changed(poisoned(1), 88, b"X"),
        changed(poisoned(2), 94, b"\x7f"),
        changed(poisoned(2), 94, struct.pack(">h", 32_760)),
    ],
)
def test_other_damage_is_left_alone(data: bytes) -> None:
    """Only the flag may be wrong, and every length and checksum must be right."""
    assert repair_record(in_segment(data), 64, LOG_OFFSET) is None
