"""Records are checked before they are used: whatever is damaged is named, and never read."""

import struct
from itertools import accumulate

import numpy as np
import pytest

from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import encode_host
from roketto.protocol.record import Record, encode_record
from roketto.spark.record_table import RecordTable, walk

GOOD = encode_record(Record("Topic", b"body", b"A\x01b\x02", queue_offset=7))


def changed(at: int, layout: str, value: int) -> bytes:
    raw = bytearray(GOOD)
    struct.pack_into(layout, raw, at, value)
    return bytes(raw)


def test_parts_of_every_layout_are_found_where_they_are() -> None:
    hosts = [encode_host("10.0.0.1", 1), encode_host("fe80::1", 2)]
    records = [
        Record(topic, b"x" * size, b"P\x01q\x02", store_time_ms=size, reconsume_times=size,
               born_host=born, store_host=store)
        for topic in ("T", "%RETRY%" + "g" * 200)
        for born in hosts
        for store in hosts
        for size in (0, 5)
    ]  # fmt: skip
    buffer = b"".join(map(encode_record, records))
    table = RecordTable(buffer)
    for row, record in enumerate(records):
        assert table.body_ends[row] - table.body_begins[row] == len(record.body)
        topic = buffer[table.topic_begins[row] : table.topic_ends[row]]
        assert topic.decode() == record.topic
        assert buffer[table.properties_begins[row] : table.ends[row]] == record.properties_raw
        assert table.store_times_ms[row] == record.store_time_ms
        assert table.reconsume_times[row] == record.reconsume_times
    assert list(table.born_hosts()) == [record.born_host for record in records]
    rows = np.arange(len(records))
    assert table.store_hosts(rows) == [record.store_host for record in records]


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        *([5] * count + [6] * 3 for count in range(320, 360)),
        [1, *[5] * 300, 6, *[5] * 300, 7],
        [5] * 5_000,
        [*range(50), *[9] * 1_060, *range(130)],
    ],
)
def test_records_are_found_whether_they_are_of_one_size_or_not(sizes: list[int]) -> None:
    records = [encode_record(Record("T", b"x" * size)) for size in sizes]
    expected = list(accumulate(map(len, records), initial=0))[:-1]
    buffer = b"".join(records)
    assert walk(buffer).tolist() == expected
    assert walk(memoryview(buffer)).tolist() == expected
    if len(records) > 1:
        place = f"record at byte {expected[-1]} is damaged: .* end within it"
        with pytest.raises(RecordError, match=place):
            walk(buffer[:-1])


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (changed(4, ">I", 0xCBD43194), "magic"),
        (changed(0, ">i", len(GOOD) + 1), "size is impossible"),
        (changed(84, ">i", -1), "body does not fit"),
        (changed(84, ">i", 2**31 - 1), "body does not fit"),
        (changed(92, ">B", 200), "topic does not fit"),
        (changed(92, ">B", 4), "do not add up"),
        (changed(36, ">i", 0x30), "has no room|does not fit|do not add up"),
        (GOOD[:90], "outside the buffer"),
    ],
)
def test_damaged_record_is_refused_with_its_place(raw: bytes, told: str) -> None:
    with pytest.raises(RecordError, match=f"record at byte 0 is damaged: .*({told})"):
        RecordTable(raw, np.array([0]))
    behind = np.array([0, len(GOOD)])
    with pytest.raises(RecordError, match=f"record at byte {len(GOOD)} is damaged"):
        RecordTable(GOOD + raw, behind)


def test_walk_needs_whole_records_up_to_the_end() -> None:
    assert walk(GOOD * 3).tolist() == [0, len(GOOD), 2 * len(GOOD)]
    assert walk(b"").tolist() == []
    with pytest.raises(RecordError, match=f"at byte {len(GOOD)} is damaged"):
        walk(GOOD + GOOD[:-1])
    with pytest.raises(RecordError, match="its size is 3"):
        walk(changed(0, ">i", 3))
    with pytest.raises(RecordError, match="at byte 0"):
        walk(GOOD[:10])


def test_place_before_or_behind_the_buffer_is_refused() -> None:
    for start in (-1, len(GOOD), 2**40):
        with pytest.raises(RecordError, match="outside the buffer"):
            RecordTable(GOOD, np.array([start]))
