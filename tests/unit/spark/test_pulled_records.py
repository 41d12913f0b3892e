"""Raw records: what a pull gives beyond a range is cut off, batches in them are taken apart."""

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.record import Record, decode_records, encode_record
from roketto.protocol.sysflags import UNWRAP_BITS
from roketto.spark.pulled_records import cut_behind, has_batches, unwrapped
from roketto.spark.record_table import walk


def records(*offsets: int) -> bytes:
    return b"".join(encode_record(Record("T", b"x", queue_offset=one)) for one in offsets)


def offsets_of(data: bytes) -> list[int]:
    return [record.queue_offset for record in decode_records(data)]


def test_records_from_the_end_of_a_range_on_are_cut_off() -> None:
    data = records(3, 4, 5, 6)
    assert offsets_of(cut_behind(data, 5)) == [3, 4]
    assert cut_behind(data, 7) is data
    assert cut_behind(data, 3) == b""


def test_batches_are_taken_apart_within_the_range() -> None:
    body = encode_batch([BatchItem(b"a"), BatchItem(b"b"), BatchItem(b"c")])
    batch = Record("T", body, queue_offset=10, sys_flag=UNWRAP_BITS)
    data = records(9) + encode_record(batch)
    assert has_batches(data, walk(data))
    assert not has_batches(records(9), walk(records(9)))
    apart = unwrapped(data, 9, 12)
    assert not has_batches(apart, walk(apart))
    assert [(one.queue_offset, bytes(one.body)) for one in decode_records(apart)] == [
        (9, b"x"), (10, b"a"), (11, b"b")
    ]  # fmt: skip
