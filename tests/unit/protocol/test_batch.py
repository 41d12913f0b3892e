"""Proves that batches are byte for byte those of Java, and that broken ones are refused."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol.batch import (
    BatchItem,
    check_batch,
    count_batch,
    cut_batch,
    decode_batch,
    encode_batch,
    unwrap_batch,
)
from roketto.protocol.errors import RecordError
from roketto.protocol.properties import decode_properties, encode_properties
from roketto.protocol.record import Record, decode_record
from roketto.protocol.sysflags import INNER_BATCH, NEEDS_UNWRAP, UNWRAP_BITS

UNWRAPPED = load("records")["unwrapped"]
SMALL = bytes.fromhex("0000001C 00000000 00000000 00000000 00000002 6869 0004 41014202")

items_of_any_kind = st.lists(
    st.builds(
        BatchItem,
        body=st.binary(),
        properties_raw=st.binary(),
        flag=st.integers(-(2**31), 2**31 - 1),
    ),
    max_size=5,
)


def parts(item: BatchItem) -> tuple[bytes, bytes, int]:
    return bytes(item.body), item.properties_raw, item.flag


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_a_batch_of_java_decodes_to_its_messages(version: str) -> None:
    vectors = load("batch", version)
    raw = bytes.fromhex(vectors["raw"])
    items = decode_batch(raw)
    assert [item.flag for item in items] == [row["flag"] for row in vectors["items"]]
    assert [item.body for item in items] == [bytes.fromhex(row["body"]) for row in vectors["items"]]
    assert [decode_properties(item.properties_raw) for item in items] == [
        row["properties"] for row in vectors["items"]
    ]
    assert count_batch(raw) == len(vectors["items"])
    assert encode_batch(items) == raw


def test_one_message_takes_the_bytes_java_gives_it() -> None:
    assert bytes.fromhex(load("batch")["small"]) == SMALL
    assert encode_batch([BatchItem(b"hi", encode_properties({"A": "B"}))]) == SMALL


def test_bodies_decoded_from_a_view_are_views_of_it() -> None:
    (item,) = decode_batch(memoryview(SMALL))
    assert isinstance(item.body, memoryview)
    assert item.body.obj is SMALL


@given(items_of_any_kind)
def test_a_batch_survives_both_ways(items: list[BatchItem]) -> None:
    raw = encode_batch(items)
    for data in (raw, memoryview(raw)):
        assert [parts(item) for item in decode_batch(data)] == [parts(item) for item in items]
        assert count_batch(data) == len(items)


def test_what_no_item_can_hold_is_refused() -> None:
    with pytest.raises(RecordError, match="properties of 32768 bytes"):
        encode_batch([BatchItem(b"", bytes(32_768))])
    with pytest.raises(RecordError, match="flag 2147483648"):
        encode_batch([BatchItem(b"", b"", 2**31)])


def test_a_cut_batch_is_refused_except_between_items() -> None:
    raw = SMALL + SMALL
    for cut in range(1, len(raw)):
        if cut != len(SMALL):
            with pytest.raises(RecordError, match="batch"):
                decode_batch(raw[:cut])
            with pytest.raises(RecordError, match="batch"):
                count_batch(raw[:cut])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\x00\x00\x00\x1b"),
        (0, b"\x00\x00\x00\x1d"),
        (0, b"\x00\x00\x00\x00"),
        (0, b"\xff\xff\xff\xff"),
        (16, b"\x00\x00\x00\x01"),
        (16, b"\xff\xff\xff\xff"),
        (16, b"\x7f\xff\xff\xff"),
        (22, b"\x00\x03"),
        (22, b"\xff\xff"),
        (22, b"\x7f\xff"),
    ],
)
def test_lengths_that_contradict_each_other_are_refused(at: int, value: bytes) -> None:
    raw = bytearray(SMALL)
    raw[at : at + len(value)] = value
    with pytest.raises(RecordError, match="batch"):
        decode_batch(bytes(raw))


@pytest.mark.parametrize("size", [-1, 0, 21, 29, 2**31 - 1])
def test_counting_refuses_sizes_that_do_not_lead_to_the_end(size: int) -> None:
    with pytest.raises(RecordError, match="batch"):
        count_batch(size.to_bytes(4, signed=True) + SMALL[4:])


@given(st.data())
def test_mutated_batches_are_refused_or_hold_together(data: st.DataObject) -> None:
    raw = bytearray(SMALL * 3)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    damaged = data.draw(st.binary() | st.just(bytes(raw)))
    with suppress(RecordError):
        assert len(decode_batch(damaged)) == count_batch(damaged)
    with suppress(RecordError):
        assert count_batch(damaged) * 22 <= len(damaged)


def test_an_inner_batch_unwraps_to_the_messages_a_java_consumer_sees() -> None:
    record = decode_record(bytes.fromhex(UNWRAPPED["record"]), check_crc=True)
    messages = unwrap_batch(record)
    assert len(messages) == len(UNWRAPPED["items"]) == 3
    for message, fields in zip(messages, UNWRAPPED["items"], strict=True):
        assert as_java_shows_it(message) == {
            name: fields[name] for name in as_java_shows_it(message)
        }
        assert message.born_host.hex().upper() == f"{fields['bornIp']}{fields['bornPort']:08X}"
        assert message.store_host.hex().upper() == f"{fields['storeIp']}{fields['storePort']:08X}"


def as_java_shows_it(message: Record) -> dict[str, Any]:
    return {
        "size": message.size,
        "bodyCrc": message.body_crc,
        "queueId": message.queue_id,
        "flag": message.flag,
        "queueOffset": message.queue_offset,
        "logOffset": message.log_offset,
        "sysFlag": message.sys_flag,
        "bornTime": message.born_time_ms,
        "storeTime": message.store_time_ms,
        "reconsumeTimes": message.reconsume_times,
        "preparedOffset": message.prepared_log_offset,
        "body": bytes(message.body).hex().upper(),
        "topic": message.topic,
        "properties": message.properties,
        "messageId": message.message_id,
    }


@pytest.mark.parametrize(("given_wait", "shown"), [("false", "false"), ("TRUE", "true")])
def test_messages_of_an_inner_batch_wait_as_the_whole_does(given_wait: str, shown: str) -> None:
    record = Record("T", SMALL, sys_flag=UNWRAP_BITS)
    record.set_property("WAIT", given_wait)
    assert unwrap_batch(record)[0].get_property("WAIT") == shown


@pytest.mark.parametrize("sys_flag", [0, NEEDS_UNWRAP, INNER_BATCH])
def test_other_records_stay_whole(sys_flag: int) -> None:
    record = Record("T", SMALL, sys_flag=sys_flag)
    assert unwrap_batch(record) == [record]


def test_an_inner_batch_whose_body_is_none_is_refused() -> None:
    with pytest.raises(RecordError, match="batch"):
        unwrap_batch(Record("T", b"not a batch", sys_flag=UNWRAP_BITS))


@given(items_of_any_kind, st.integers(0, 3), st.integers(0, 60))
def test_a_check_refuses_what_decoding_refuses_in_the_same_words(
    items: list[BatchItem], cut: int, at: int
) -> None:
    """Of whole batches it says how many items they have; here some are cut or changed."""
    whole = encode_batch(items)
    assert check_batch(whole) == len(items)
    damaged = bytearray(whole[: len(whole) - cut])
    if at < len(damaged):
        damaged[at] ^= 0x10
    try:
        expected: int | str = len(decode_batch(bytes(damaged)))
    except RecordError as error:
        expected = str(error)
    try:
        found: int | str = check_batch(memoryview(damaged))
    except RecordError as error:
        found = str(error)
    assert found == expected


def test_a_check_refuses_a_batch_that_is_cut_at_any_byte() -> None:
    """Also within the head of an item, where nothing can be read."""
    items = [BatchItem(b"one", b"a\x01b\x02"), BatchItem(b"two", b"")]
    whole = encode_batch(items)
    first = len(encode_batch(items[:1]))
    for size in range(1, len(whole)):
        if size != first:
            with pytest.raises(RecordError):
                check_batch(whole[:size])


def test_a_check_bounds_the_properties_of_each_item() -> None:
    batch = encode_batch([BatchItem(b"a", b"x" * 10), BatchItem(b"b", b"x" * 11)])
    assert check_batch(batch, 11) == 2
    with pytest.raises(RecordError, match="has properties of 11 bytes; 10 are taken"):
        check_batch(batch, 10)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 400), st.integers(1, 9))
def test_a_cut_takes_whole_items_as_long_as_there_is_room(
    sizes: list[int], room: int, count_max: int
) -> None:
    """At least one, however large it is; more only within the room, the number and the data."""
    batch = encode_batch([BatchItem(b"x" * size) for size in sizes])
    taken, used = 0, 0
    for size in sizes[:count_max]:
        used += 22 + size + 10
        if taken and used > room:
            break
        taken += 1
    end = sum(22 + size for size in sizes[:taken])
    assert cut_batch(batch, room, 10, count_max) == (end, taken)
    assert cut_batch(batch + b"half of the next item...", 9_999, 10, 99) == (len(batch), len(sizes))
