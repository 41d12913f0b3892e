"""Arrow batches of records hold what decoding each record by itself gives."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.compression import compress
from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import decode_host, encode_host
from roketto.protocol.property_names import CRC32
from roketto.protocol.record import Record, encode_record
from roketto.protocol.sysflags import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZLIB_OLD,
    COMPRESSION_ZSTD,
    UNWRAP_BITS,
)
from roketto.spark import decoder as decoder_module
from roketto.spark.columns import LOG_COLUMNS, Column, all_columns, arrow_schema
from roketto.spark.decoder import BATCH_BYTES_MAX, BATCH_ROWS_MAX, Decoder
from roketto.spark.record_table import walk

COLUMNS = [*all_columns(), *(Column(name, kind) for name, kind in LOG_COLUMNS.items())]
TWO = [Column("queueOffset", pa.int64()), Column("body", pa.binary())]
KINDS = [COMPRESSION_ZLIB_OLD, COMPRESSION_LZ4, COMPRESSION_ZSTD, COMPRESSION_ZLIB]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def make_record(chance: random.Random, number: int) -> Record:
    """Any record that a broker may have stored."""
    hosts = [encode_host("10.1.2.3", 50_000), encode_host("10.1.2.4", 1), encode_host("::1", 9)]
    items = {
        "KEYS": f"order-{number}",
        "UNIQ_KEY": f"{number:032X}",
        "TAGS": chance.choice(["TagA", "TagB", "日本"]),
        "a": "b",
        "attribute": "x" * chance.randrange(1, 30),
    }
    names = chance.sample(sorted(items), chance.randrange(len(items) + 1))
    properties = "".join(f"{name}\x01{items[name]}\x02" for name in names).encode()
    body = chance.randbytes(chance.choice([0, 1, 200]))
    sys_flag = 0
    if chance.random() < 0.3:
        sys_flag = COMPRESSED | chance.choice(KINDS)
        body = compress(body, sys_flag & ~COMPRESSED)
    return Record(
        chance.choice(["Orders", "%RETRY%" + "g" * 150]),
        body,
        properties[: -1 if chance.random() < 0.5 else None],
        queue_id=number % 4,
        flag=chance.choice([0, -1, 77]),
        queue_offset=number,
        log_offset=number * 1_000,
        sys_flag=sys_flag,
        born_time_ms=1_700_000_000_000 + number,
        born_host=chance.choice(hosts),
        store_time_ms=1_700_000_000_500 + number,
        store_host=chance.choice(hosts),
        reconsume_times=number % 3,
    )


def expected_row(record: Record, raw: bytes) -> dict[str, Any]:
    """The row that a record makes, by the code of the client."""
    record.decompress()
    address, port = decode_host(record.born_host)
    properties = [pair for pair in record.properties.items() if pair[0] != CRC32]
    return {
        "topic": record.topic,
        "brokerName": "broker-a",
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "msgId": record.message_id,
        "tags": record.get_property("TAGS"),
        "keys": record.get_property("KEYS"),
        "body": record.body,
        "flag": record.flag,
        "properties": properties,
        "bornTimestamp": EPOCH + timedelta(milliseconds=record.born_time_ms),
        "storeTimestamp": EPOCH + timedelta(milliseconds=record.store_time_ms),
        "bornHost": f"[{address}]:{port}" if ":" in address else f"{address}:{port}",
        "reconsumeTimes": record.reconsume_times,
        "logOffset": record.log_offset,
        "storeSize": len(raw),
        "sysFlag": int.from_bytes(raw[36:40], "big"),
    }


@pytest.mark.parametrize("seed", range(6))
def test_batch_holds_what_each_record_gives_by_itself(seed: int) -> None:
    chance = random.Random(seed)
    records = [make_record(chance, number) for number in range(200)]
    raws = [encode_record(record, append_crc=seed % 2 == 1) for record in records]
    batch = Decoder(COLUMNS, "broker-a").decode(memoryview(b"".join(raws)))
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(COLUMNS))
    expected = [expected_row(record, raw) for record, raw in zip(records, raws, strict=True)]
    assert batch.to_pylist() == expected


def test_only_records_at_the_given_places_come_in_the_given_order() -> None:
    raws = [encode_record(Record("T", b"%d" % n, queue_offset=n)) for n in range(10)]
    buffer = b"gap".join(raws)
    starts = np.cumsum([0, *[len(raw) + 3 for raw in raws[:-1]]])
    batch = Decoder(TWO, "b").decode(buffer, starts[[7, 2, 3]])
    assert batch.column("queueOffset").to_pylist() == [7, 2, 3]
    assert batch.column("body").to_pylist() == [b"7", b"2", b"3"]


def test_two_columns_are_decoded_without_a_look_at_properties(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roketto.spark.record_columns.PropertyTable", None)
    raw = encode_record(Record("T", b"x", b"TAGS\x01a\x02"))
    assert Decoder(TWO, "b").decode(raw).num_rows == 1
    with pytest.raises(TypeError):
        Decoder(all_columns(), "b").decode(raw)


def test_tags_are_compared_themselves_and_not_by_their_hash() -> None:
    texts = ["Aa", "BB", "C", None]  # the first two have the same hash code in Java
    raws = [
        encode_record(Record("T", b"", f"TAGS\x01{text}\x02".encode() if text else b""))
        for text in texts
    ]
    decoder = Decoder([Column("tags", pa.string())], "b", tags={"Aa", "C"})
    assert decoder.decode(b"".join(raws)).column("tags").to_pylist() == ["Aa", "C"]
    assert list(Decoder(TWO, "b", tags={"none"}).batches(b"".join(raws))) == []


def test_topic_and_queue_may_be_told_and_then_records_do_not_count() -> None:
    raw = encode_record(Record("Stored", b"", queue_id=1, queue_offset=5))
    names = ("topic", "brokerName", "queueId", "queueOffset")
    columns = [column for column in all_columns() if column.name in names]
    batch = Decoder(columns, None, topic="Told").decode(raw, queue_id=9, offset_delta=100)
    assert batch.to_pylist() == [
        {"topic": "Told", "brokerName": None, "queueId": 9, "queueOffset": 105}
    ]


def test_body_that_cannot_be_unpacked_comes_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    records = [Record("T", b"no zlib", sys_flag=COMPRESSED), Record("T", b"plain")]
    batch = Decoder(TWO, "b-7").decode(b"".join(map(encode_record, records)))
    assert batch.column("body").to_pylist() == [b"no zlib", b"plain"]
    assert "broker b-7, is given as it is: zlib body" in caplog.text


def test_messages_of_an_inner_batch_are_rows_of_their_own() -> None:
    items = [BatchItem(b"one", b"TAGS\x01a\x02", 5), BatchItem(b"two")]
    inner = Record("T", encode_batch(items), queue_offset=10, sys_flag=UNWRAP_BITS)
    no_batch = Record("T", b"no batch", queue_offset=12, sys_flag=UNWRAP_BITS)
    records = [Record("T", b"zero", queue_offset=9), inner, no_batch]
    batch = Decoder(TWO, "b").decode(b"".join(map(encode_record, records)))
    assert batch.column("queueOffset").to_pylist() == [9, 10, 11, 12]
    assert batch.column("body").to_pylist() == [b"zero", b"one", b"two", b"no batch"]


def test_batches_are_bounded_by_rows_and_by_bytes() -> None:
    small = encode_record(Record("T", b"x")) * (BATCH_ROWS_MAX + 1)
    assert [one.num_rows for one in Decoder(TWO, "b").batches(small)] == [BATCH_ROWS_MAX, 1]
    large = encode_record(Record("T", bytes(3 * 1024 * 1024))) * 5
    counts = [one.num_rows for one in Decoder(TWO, "b").batches(large, walk(large))]
    assert counts == [2, 2, 1]
    huge = encode_record(Record("T", bytes(BATCH_BYTES_MAX))) * 2
    assert [one.num_rows for one in Decoder(TWO, "b").batches(huge)] == [1, 1]
    assert list(Decoder(TWO, "b").batches(b"")) == []


def test_batches_are_bounded_by_what_bodies_unpack_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "UNPACKED_BYTES_MAX", 250_000)
    packed = compress(bytes(100_000), COMPRESSION_ZLIB)
    records = [
        Record("T", packed, queue_offset=n, sys_flag=COMPRESSED | COMPRESSION_ZLIB)
        for n in range(7)
    ]
    batches = list(Decoder(TWO, "b").batches(b"".join(map(encode_record, records))))
    assert max(batch.num_rows for batch in batches) <= 2
    offsets = [value for batch in batches for value in batch.column("queueOffset").to_pylist()]
    assert offsets == list(range(7))
    monkeypatch.setattr(decoder_module, "UNPACKED_BYTES_MAX", 1)
    assert len(list(Decoder(TWO, "b").batches(encode_record(records[0])))) == 1


def test_times_that_no_clock_shows_do_not_wrap_around() -> None:
    columns = [Column("bornTimestamp", pa.timestamp("us", tz="UTC"))]
    records = [Record("T", b"", born_time_ms=time_ms) for time_ms in (2**63 - 1, -1)]
    batch = Decoder(columns, "b").decode(b"".join(map(encode_record, records)))
    micros = batch.column(0).cast(pa.int64()).to_pylist()
    assert micros == [(2**63 - 1) // 1_000 * 1_000, -1_000]


def test_bytes_that_are_no_records_are_refused() -> None:
    raw = encode_record(Record("T", b"x"))
    with pytest.raises(RecordError, match=f"record at byte {len(raw)} is damaged"):
        Decoder(TWO, "b").decode(raw + b"\x00" * 100)
    with pytest.raises(RecordError, match="record at byte 3 is damaged"):
        list(Decoder(TWO, "b").batches(raw, np.array([3])))
    with pytest.raises(RecordError, match="outside the buffer"):
        list(Decoder(TWO, "b").batches(b"\x00", np.array([0])))
