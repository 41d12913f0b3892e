"""Proves that check_record takes exactly what decode_record takes, where it says that it lies."""

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import encode_host
from roketto.protocol.record import Record, decode_record, encode_record
from roketto.protocol.record_layout import HEADS, MAGIC_BLANK, MAGIC_V2
from roketto.store.record_check import BLANK, BLANK_BYTES, RECORD_BYTES_MIN, check_record

SIZE = 1_024
IPV4 = encode_host("10.0.0.9", 10_911)
IPV6 = encode_host("fe80::9", 10_911)
LOG_OFFSET = 5 * SIZE + 100


def record_bytes(
    topic: str = "TopicTest",
    body: bytes = b"Hello",
    properties: bytes = b"TAGS\x01A\x02",
    born: bytes = IPV4,
    store: bytes = IPV4,
    crc: bool = False,
) -> bytes:
    record = Record(
        topic, body, properties, born_host=born, store_host=store, log_offset=LOG_OFFSET
    )
    return encode_record(record, append_crc=crc)


def in_segment(data: bytes, at: int = 100) -> memoryview:
    return memoryview((bytes(at) + data).ljust(SIZE, b"\0"))


def patched(data: bytes, at: int, layout: str, value: int) -> bytes:
    buffer = bytearray(data)
    struct.pack_into(layout, buffer, at, value)
    return bytes(buffer)


@pytest.mark.parametrize("topic", ["", "T", "T" * 127, "%RETRY%" + "g" * 200])
@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("store", [IPV4, IPV6])
def test_a_whole_record_is_good_and_has_its_size(topic: str, born: bytes, store: bytes) -> None:
    """In all layouts."""
    data = record_bytes(topic, born=born, store=store)
    assert check_record(in_segment(data), 100, LOG_OFFSET) == len(data)


def test_the_smallest_record_is_good() -> None:
    """Without body, topic and properties; there is no checksum of nothing."""
    data = record_bytes("", b"", b"")
    assert len(data) == RECORD_BYTES_MIN
    assert check_record(in_segment(patched(data, 8, ">i", 99)), 100, LOG_OFFSET) == len(data)


def test_a_blank_has_size_0() -> None:
    """It says how much of the segment is left; what follows means nothing."""
    for at in (0, 100, SIZE - BLANK_BYTES):
        blank = BLANK.pack(SIZE - at, MAGIC_BLANK)
        assert check_record(in_segment(blank, at), at, LOG_OFFSET) == 0


def test_a_record_must_leave_room_for_the_blank() -> None:
    """The last byte that it may take is the ninth from the end."""
    data = record_bytes()
    last = SIZE - BLANK_BYTES - len(data)
    assert check_record(in_segment(data, last), last, LOG_OFFSET) == len(data)
    with pytest.raises(RecordError, match="can be used"):
        check_record(in_segment(data, last + 1), last + 1, LOG_OFFSET)


GOOD = record_bytes()
BODY_END = HEADS[0].size + 5
BAD = {
    "zeros": (bytes(200), "magic 0x00000000 is unknown"),
    "magic": (patched(GOOD, 4, ">I", 0xDAA320A8), "magic 0xDAA320A8 is unknown"),
    "no blank": (BLANK.pack(10, MAGIC_BLANK), "a blank of 10 bytes, where 924 are left"),
    "small": (patched(GOOD, 0, ">i", RECORD_BYTES_MIN - 1), "size 90"),
    "negative": (patched(GOOD, 0, ">i", -5), "size -5"),
    "large": (patched(GOOD, 0, ">i", 5_000), "size 5000, where 916 bytes can be used"),
    "elsewhere": (patched(GOOD, 28, ">q", 7), "it says that it lies at 7"),
    "hosts": (patched(record_bytes("", b"", b""), 36, ">i", 0x30), "too small for its hosts"),
    "body negative": (patched(GOOD, 84, ">i", -1), "a body of -1 bytes"),
    "body large": (patched(GOOD, 84, ">i", 500), "a body of 500 bytes"),
    "topic large": (patched(GOOD, BODY_END, ">B", 100), "a topic of 100 bytes does not fit"),
    "topic too long": (patched(GOOD, BODY_END, ">B", 200), "needs a V2 record"),
    "topic negative": (
        patched(patched(GOOD, 4, ">I", MAGIC_V2), BODY_END, ">h", -3),
        "a topic of -3 bytes does not fit",
    ),
    "properties": (patched(GOOD, BODY_END + 10, ">h", 3), "properties of 3 bytes do not end it"),
    "body": (patched(GOOD, BODY_END - 1, ">B", 0), "body of 5 bytes does not match its CRC"),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_bad_and_the_reason_is_told(name: str) -> None:
    """A recovery that stops tells the user where and why."""
    data, reason = BAD[name]
    with pytest.raises(RecordError, match=f"at log offset {LOG_OFFSET}: .*{reason}"):
        check_record(in_segment(data), 100, LOG_OFFSET)


def test_the_last_bytes_of_a_segment_hold_nothing() -> None:
    """Too few even for a blank."""
    with pytest.raises(RecordError, match="7 bytes are left"):
        check_record(in_segment(b""), SIZE - 7, LOG_OFFSET)


def test_the_checksum_of_the_body_can_be_left_out() -> None:
    """Java's checkCRCOnRecover."""
    data = BAD["body"][0]
    assert check_record(in_segment(data), 100, LOG_OFFSET, check_body_crc=False) == len(data)


def test_the_crc_property_covers_what_the_body_checksum_does_not() -> None:
    """A flipped bit of the topic is found with it alone; a record without it is bad."""
    data = record_bytes(crc=True)
    segment = in_segment(data)
    assert check_record(segment, 100, LOG_OFFSET, check_crc_property=True) == len(data)
    flipped = in_segment(patched(data, BODY_END + 1, ">B", ord("t")))
    assert check_record(flipped, 100, LOG_OFFSET) == len(data)
    for bad in (flipped, in_segment(GOOD)):
        with pytest.raises(RecordError, match="CRC property is missing or wrong"):
            check_record(bad, 100, LOG_OFFSET, check_crc_property=True)


@settings(max_examples=500)
@given(
    st.sampled_from(
        [GOOD, record_bytes("T" * 200), record_bytes(born=IPV6, store=IPV6), record_bytes(body=b"")]
    ),
    st.lists(st.tuples(st.integers(0, 150), st.integers(0, 255)), min_size=1, max_size=3),
)
@example(GOOD, [(12, 9)])
def test_it_is_of_one_mind_with_decode_record(data: bytes, changes: list[tuple[int, int]]) -> None:
    """Whatever is changed in a record, both take it or neither does."""
    buffer = bytearray(in_segment(data))
    for at, value in changes:
        buffer[100 + at] = value
    segment = memoryview(bytes(buffer))
    try:
        record = decode_record(segment[:-BLANK_BYTES], 100, check_crc=True)
        expected = record.size if record.log_offset == LOG_OFFSET else None
    except RecordError:
        expected = None
    try:
        found: int | None = check_record(segment, 100, LOG_OFFSET)
    except RecordError:
        found = None
    assert found == expected
