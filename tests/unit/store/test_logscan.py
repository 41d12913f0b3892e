"""Proves that a scan is of one mind with check_record and read_stored, whatever the bytes are."""

from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import NO_HOST, encode_host
from roketto.protocol.record import Record, encode_record
from roketto.protocol.record_layout import MAGIC_BLANK, patch_crc_property, patch_offsets
from roketto.store import logscan
from roketto.store.dispatch import Stored, read_stored
from roketto.store.logscan import LogScan
from roketto.store.record_check import BLANK, check_record

SIZE = 1_024
AT = 100
LOG_OFFSET = 5 * SIZE + AT
IPV6 = encode_host("fe80::9", 10_911)


def record_bytes(topic: str = "TopicTest", body: bytes = b"Hello", *, ipv6: bool = False) -> bytes:
    host = IPV6 if ipv6 else NO_HOST
    record = Record(
        topic, body, b"TAGS\x01A\x02", 3, queue_offset=7, log_offset=LOG_OFFSET,
        store_time_ms=1_700_000_000_000, sys_flag=8, born_host=host, store_host=host,
    )  # fmt: skip
    return encode_record(record, append_crc=True)


RECORDS = [
    record_bytes(), record_bytes("T" * 127), record_bytes("%RETRY%" + "g" * 200),
    record_bytes(body=b""), record_bytes(ipv6=True),
]  # fmt: skip


def in_segment(data: bytes, at: int = AT) -> memoryview:
    return memoryview((bytes(at) + data).ljust(SIZE, b"\0"))


def slowly(segment: memoryview, has_crc: bool) -> Stored | str | None:
    """What the two functions say that it stands for."""
    try:
        if not check_record(segment, AT, LOG_OFFSET, check_crc_property=has_crc):
            return None
    except RecordError as error:
        return str(error)
    return read_stored(segment, AT)


def scanned(segment: memoryview, has_crc: bool) -> Stored | str | None:
    try:
        return LogScan().read(segment, AT, LOG_OFFSET, has_crc)
    except RecordError as error:
        return str(error)


@pytest.mark.parametrize("data", RECORDS)
@pytest.mark.parametrize("has_crc", [True, False])
def test_every_shape_of_record_says_what_it_says(data: bytes, has_crc: bool) -> None:
    """The usual one and the others."""
    found = scanned(in_segment(data), has_crc)
    assert isinstance(found, Stored)
    assert found == slowly(in_segment(data), has_crc)
    assert (found.queue_id, found.queue_offset, found.size) == (3, 7, len(data))


def test_a_blank_is_none_and_the_last_bytes_are_an_error() -> None:
    """As at the end of every segment."""
    scan = LogScan()
    blank = BLANK.pack(SIZE - AT, MAGIC_BLANK)
    assert scan.read(in_segment(blank), AT, LOG_OFFSET, True) is None
    with pytest.raises(RecordError, match="7 bytes are left"):
        scan.read(in_segment(b""), SIZE - 7, LOG_OFFSET, True)


def test_topics_are_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be more of them than are worth it."""
    monkeypatch.setattr(logscan, "_TOPICS_KEPT_MAX", 2)
    scan = LogScan()
    for topic in ("A", "B", "A", "C", "A"):
        stored = scan.read(in_segment(record_bytes(topic)), AT, LOG_OFFSET, True)
        assert stored is not None
        assert stored.topic == topic
    assert len(scan._topics) <= 2


@settings(max_examples=800)
@given(
    st.sampled_from(RECORDS),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3),
    st.booleans(),
)
@example(RECORDS[0], [(93, 200)], False)
@example(RECORDS[0], [(103, 255)], False)
@example(RECORDS[0], [(12, 9)], True)
def test_it_is_of_one_mind_with_check_record(
    data: bytes, changes: list[tuple[int, int]], has_crc: bool
) -> None:
    """Whatever is changed in a record, both take it for the same or refuse it alike."""
    buffer = bytearray(in_segment(data))
    for at, value in changes:
        buffer[AT + at] = value
    segment = memoryview(bytes(buffer))
    assert scanned(segment, has_crc) == slowly(segment, has_crc)


def test_records_are_read_over_the_ends_of_what_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, backwards, where one is longer than that; and anew where the view is."""
    monkeypatch.setattr(logscan, "_CHUNK_BYTES", 150)
    data = [record_bytes(body=bytes(size)) for size in (0, 400, 30)]
    starts = list(accumulate(map(len, data), initial=AT))
    for number, start in enumerate(starts[:-1]):
        moved = bytearray(data[number])
        patch_offsets(memoryview(moved), 0, number, LOG_OFFSET - AT + start)
        patch_crc_property(memoryview(moved), 0)
        data[number] = bytes(moved)
    buffer = bytearray(in_segment(b"".join(data)))
    segment = memoryview(buffer)
    scan = LogScan()
    for number in (0, 1, 2, 0, 2, 1):
        stored = scan.read(segment, starts[number], LOG_OFFSET - AT + starts[number], True)
        assert stored is not None
        assert (stored.queue_offset, stored.size) == (number, len(data[number]))
    buffer[starts[1] + 100] ^= 1
    with pytest.raises(RecordError, match="CRC property"):
        scan.read(segment[:], starts[1], LOG_OFFSET - AT + starts[1], True)
