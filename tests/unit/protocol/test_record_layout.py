"""Proves that looks at single fields of a record agree with Java, and stay inside its bytes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol import record_layout as layout
from roketto.protocol.errors import RecordError
from roketto.protocol.limits import TOPIC_BYTES_MAX
from roketto.protocol.record import Record, encode_record

ROWS = load("records")["records"]
STORED = [record for row in load("stored") for record in row["records"]]
PEEKS: list[Callable[[bytes], object]] = [
    layout.peek_size,
    layout.peek_magic,
    layout.peek_queue_id,
    layout.peek_queue_offset,
    layout.peek_log_offset,
    layout.peek_sys_flag,
    layout.peek_store_time_ms,
    layout.peek_prepared_log_offset,
    layout.peek_body,
    layout.peek_topic,
    layout.peek_properties,
    layout.has_good_crc_property,
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["name"]))
@pytest.mark.parametrize("before", [0, 37])
def test_peeks_give_what_java_decodes(row: dict[str, Any], before: int) -> None:
    fields = row["fields"]
    data = bytes(before) + bytes.fromhex(row["record"])
    assert layout.peek_size(data, before) == fields["size"]
    assert layout.peek_queue_id(data, before) == fields["queueId"]
    assert layout.peek_queue_offset(data, before) == fields["queueOffset"]
    assert layout.peek_log_offset(data, before) == fields["logOffset"]
    assert layout.peek_sys_flag(data, before) == fields["sysFlag"]
    assert layout.peek_store_time_ms(data, before) == fields["storeTime"]
    assert layout.peek_body(data, before).hex().upper() == fields["body"]
    assert bytes(layout.peek_topic(memoryview(data), before)).decode() == fields["topic"]
    assert (
        bytes(layout.peek_properties(memoryview(data), before))
        == (data[len(data) - len(layout.peek_properties(data, before)) :])
    )
    is_v2 = len(fields["topic"]) > TOPIC_BYTES_MAX
    assert layout.peek_magic(data, before) == (layout.MAGIC_V2 if is_v2 else layout.MAGIC_V1)


@pytest.mark.parametrize("born_bytes", [8, 20])
@pytest.mark.parametrize("store_bytes", [8, 20])
def test_what_a_record_is_a_copy_of_is_found_behind_hosts_of_any_length(
    born_bytes: int, store_bytes: int
) -> None:
    record = Record(
        "T", b"body", prepared_log_offset=2**62 + 5, reconsume_times=-1,
        born_host=bytes(born_bytes), store_host=bytes(store_bytes),
    )  # fmt: skip
    data = bytes(37) + encode_record(record)
    assert layout.peek_prepared_log_offset(data, 37) == 2**62 + 5


def test_filler_of_a_log_file_is_told_by_its_magic() -> None:
    filler = bytes.fromhex("00000400 CBD43194")
    assert layout.peek_magic(filler) == layout.MAGIC_BLANK
    assert layout.peek_size(filler) == 1_024


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["name"]))
def test_places_and_time_are_patched_and_nothing_else(row: dict[str, Any]) -> None:
    original = bytes.fromhex(row["record"])
    view = memoryview(bytearray(5) + original)
    layout.patch_offsets(view, 5, 2**62, -1)
    layout.patch_store_time(view, 5, 7)
    assert layout.peek_queue_offset(view, 5) == 2**62
    assert layout.peek_log_offset(view, 5) == -1
    assert layout.peek_store_time_ms(view, 5) == 7
    fields = row["fields"]
    layout.patch_offsets(view, 5, fields["queueOffset"], fields["logOffset"])
    layout.patch_store_time(view, 5, fields["storeTime"])
    assert bytes(view[5:]) == original


@pytest.mark.parametrize("row", STORED, ids=lambda row: str(row["fields"]["logOffset"]))
def test_crc_property_of_a_real_store_is_good_and_written_the_same(row: dict[str, Any]) -> None:
    record = bytes.fromhex(row["record"])
    assert layout.has_good_crc_property(record)
    view = memoryview(bytearray(record))
    view[-20:] = bytes(20)
    assert not layout.has_good_crc_property(view)
    layout.patch_crc_property(view, 0)
    assert bytes(view) == record


def test_every_flipped_bit_is_seen_by_the_crc_property() -> None:
    record = bytes.fromhex(STORED[2]["record"])
    for bit in range(len(record) * 8):
        damaged = bytearray(record)
        damaged[bit // 8] ^= 1 << bit % 8
        with suppress(RecordError):  # the size itself was hit
            assert not layout.has_good_crc_property(bytes(damaged))


def test_a_record_without_the_crc_property_has_no_good_one() -> None:
    assert not layout.has_good_crc_property(bytes.fromhex(ROWS[0]["record"]))


@pytest.mark.parametrize("size", [-1, 0, 19, 107])
def test_a_record_without_room_for_the_crc_property_is_refused(size: int) -> None:
    view = memoryview(bytearray(size.to_bytes(4, signed=True) + bytes(200)))
    with pytest.raises(RecordError, match="no room for a CRC property"):
        layout.patch_crc_property(view, 0)


@pytest.mark.parametrize("row", ROWS[:8], ids=lambda row: str(row["name"]))
def test_peeks_into_a_cut_record_are_right_or_refused(row: dict[str, Any]) -> None:
    record = bytes.fromhex(row["record"])
    for cut in range(len(record)):
        for peek in PEEKS:
            with suppress(RecordError):
                assert peek(record[:cut]) == peek(record)


@pytest.mark.parametrize(
    ("peek", "at", "length"),
    [
        (layout.peek_body, 84, b"\xff\xff\xff\xff"),
        (layout.peek_topic, 84, b"\x7f\xff\xff\xff"),
        (layout.peek_properties, 84, b"\x80\x00\x00\x00"),
        (layout.peek_topic, 88 + 13, b"\x80"),
        (layout.peek_properties, 88 + 13, b"\x7f"),
        (layout.peek_properties, 88 + 13 + 10, b"\xff\xff"),
        (layout.peek_properties, 88 + 13 + 10, b"\x7f\xff"),
    ],
)
def test_lying_lengths_are_refused(peek: Callable[[bytes], object], at: int, length: bytes) -> None:
    record = bytearray.fromhex(ROWS[0]["record"])
    assert record[84:88] == (13).to_bytes(4)
    record[at : at + len(length)] = length
    with pytest.raises(RecordError):
        peek(bytes(record))


@given(st.data())
def test_peeks_into_any_bytes_give_a_value_or_a_record_error(data: st.DataObject) -> None:
    record = bytearray.fromhex(data.draw(st.sampled_from(ROWS))["record"][:1_000])
    for _ in range(data.draw(st.integers(0, 6))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    raw = data.draw(st.binary() | st.just(bytes(record)))
    for peek in PEEKS:
        with suppress(RecordError):
            peek(raw)
