"""Proves that the records of a batch are those that the record codec makes, one by one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.protocol.batch import BatchItem, decode_batch, encode_batch
from roketto.protocol.crc import CRC_PROPERTY_BYTES
from roketto.protocol.errors import RecordError
from roketto.protocol.limits import PROPERTIES_BYTES_MAX
from roketto.protocol.record import Record, decode_records, encode_record
from roketto.protocol.sysflags import HOST_BITS
from roketto.store.batch_records import encode_batch_records

hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
ints = st.integers(-(2**31), 2**31 - 1)
items = st.builds(
    BatchItem, st.binary(max_size=40), st.sampled_from([b"", b"A\x01B\x02", b"KEYS\x01k"]), ints
)
batches = st.builds(
    Record,
    topic=st.text(max_size=20) | st.just("%RETRY%" + "g" * 200),
    body=st.lists(items, max_size=6).map(encode_batch),
    queue_id=ints,
    sys_flag=ints,
    born_time_ms=st.integers(0, 2**63 - 1),
    born_host=hosts,
    store_host=hosts,
    reconsume_times=ints,
    prepared_log_offset=ints,
)


def one_by_one(batch: Record, append_crc: bool) -> list[bytes]:
    """What the record codec makes of each item."""
    encoded: list[bytes] = []
    log_offset = 1_000
    for index, item in enumerate(decode_batch(batch.body)):
        record = Record(
            batch.topic, item.body, item.properties_raw, batch.queue_id, item.flag, 7 + index,
            log_offset, batch.sys_flag, batch.born_time_ms, batch.born_host, 99, batch.store_host,
            batch.reconsume_times, batch.prepared_log_offset,
        )  # fmt: skip
        encoded.append(encode_record(record, append_crc))
        log_offset += len(encoded[-1])
    return encoded


@given(batches, st.booleans(), st.booleans())
def test_records_are_those_of_the_record_codec(
    batch: Record, as_view: bool, seeks_even: bool
) -> None:
    """Byte for byte, in every layout, whatever host bits the producer claims."""
    expected = one_by_one(batch, append_crc=False)
    properties = [item.properties_raw for item in decode_batch(batch.body)]
    batch.body = memoryview(batch.body) if as_view else batch.body
    encoded = encode_batch_records(batch, 7, 1_000, 99, seeks_even=seeks_even)
    assert encoded.data == b"".join(expected)
    assert encoded.sizes == [len(data) for data in expected]
    assert encoded.properties.each == properties
    for record in decode_records(encoded.data, strict=True):
        assert record.prepared_log_offset == batch.prepared_log_offset
        assert record.sys_flag & ~HOST_BITS == batch.sys_flag & ~HOST_BITS


@given(batches, st.booleans())
def test_records_with_crc_property_are_those_of_the_record_codec(
    batch: Record, seeks_even: bool
) -> None:
    """The slow way gives the same sizes and properties as the fast one."""
    expected = one_by_one(batch, append_crc=True)
    encoded = encode_batch_records(batch, 7, 1_000, 99, append_crc=True, seeks_even=seeks_even)
    assert encoded.data == b"".join(expected)
    assert encoded.sizes == [len(data) for data in expected]
    assert encoded.properties.each == [item.properties_raw for item in decode_batch(batch.body)]


@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_a_batch_of_a_java_producer_is_taken_apart(version: str) -> None:
    """Flags and bodies are those that went in."""
    golden = load("batch", version)
    batch = Record("TopicTest", bytes.fromhex(golden["raw"]))
    records = decode_records(encode_batch_records(batch, 0, 0, 1).data, strict=True)
    assert [(record.flag, bytes(record.body).hex().upper()) for record in records] == [
        (item["flag"], item["body"]) for item in golden["items"]
    ]
    assert [record.properties for record in records] == [
        item["properties"] for item in golden["items"]
    ]


@given(st.binary(max_size=60), st.integers(0, 200), st.binary(max_size=4))
def test_a_damaged_batch_is_refused_as_the_batch_codec_refuses_it(
    noise: bytes, at: int, patch: bytes
) -> None:
    """With the same words, and with no other error."""
    sound = encode_batch([BatchItem(b"one", b"A\x01B\x02"), BatchItem(b"three", b"", 3)] * 2)
    for body in (noise, sound[:at], sound[:at] + patch + sound[at + len(patch) :]):
        expected: RecordError | None = None
        try:
            decode_batch(body)
        except RecordError as error:
            expected = error
        if expected is None:
            encode_batch_records(Record("T", body), 0, 0, 1)
        else:
            with pytest.raises(RecordError, match=f"^{re.escape(str(expected))}$"):
                encode_batch_records(Record("T", body), 0, 0, 1)


def test_lengths_that_contradict_the_size_are_refused() -> None:
    """Each of the ways in which an item can lie about itself."""
    sound = bytearray(encode_batch([BatchItem(b"four", b"A\x01B\x02")]))
    for at, value in ((3, sound[3] - 1), (3, 0), (16, 0xFF), (19, 5), (19, 3), (24, 0x80), (25, 3)):
        data = bytearray(sound)
        data[at] = value
        with pytest.raises(RecordError, match="batch"):
            encode_batch_records(Record("T", bytes(data)), 0, 0, 1)


def test_a_number_that_fits_no_field_is_refused() -> None:
    """It comes from us, but must not end in anything but the documented error."""
    body = encode_batch([BatchItem(b"one")])
    for record, queue_offset in (
        (Record("T", body), 2**63),
        (Record("T", body, queue_id=2**31), 0),
        (Record("T", body, born_time_ms=2**63), 0),
    ):
        with pytest.raises(RecordError, match="does not fit its field"):
            encode_batch_records(record, queue_offset, 0, 1)


def test_properties_that_leave_no_room_for_the_checksum_are_refused() -> None:
    longest = bytes(PROPERTIES_BYTES_MAX - CRC_PROPERTY_BYTES - 1) + b"\x02"
    batch = Record("T", encode_batch([BatchItem(b"one", longest)]))
    assert decode_records(encode_batch_records(batch, 0, 0, 1, True).data, strict=True)
    batch.body = encode_batch([BatchItem(b"one", longest + b"\x02")])
    with pytest.raises(RecordError, match="properties of 32768 bytes with their checksum"):
        encode_batch_records(batch, 0, 0, 1, True)


@pytest.mark.parametrize("which", ["born_host", "store_host"])
def test_a_host_of_any_other_length_is_refused(which: str) -> None:
    """It would be padded, and the record behind it would lie elsewhere."""
    batch = Record("T", encode_batch([BatchItem(b"one")]))
    setattr(batch, which, b"12345")
    for append_crc in (False, True):
        with pytest.raises(RecordError, match="a host of 5 bytes"):
            encode_batch_records(batch, 0, 0, 1, append_crc)


def test_the_poison_of_a_forged_host_bit_has_no_effect() -> None:
    """One such message made Java drop everything behind it at its next start."""
    batch = Record("T", encode_batch([BatchItem(b"one"), BatchItem(b"two")]), sys_flag=HOST_BITS)
    records = decode_records(encode_batch_records(batch, 0, 0, 1).data, strict=True)
    assert [bytes(record.body) for record in records] == [b"one", b"two"]
