"""Proves that items of one shape are recognised, and that their records are those of all others."""

import struct
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.crc import encode_crc_property
from roketto.protocol.errors import RecordError
from roketto.protocol.limits import PROPERTIES_BYTES_MAX
from roketto.protocol.record import Record
from roketto.store import batch_records
from roketto.store.batch_records import EncodedBatch, encode_batch_records
from roketto.store.even_batch import EVEN_COUNT_MIN, EvenItems, find_even_items
from roketto.store.store import Store, StoreSettings

HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
ENDS = st.sampled_from([b"", b"\x02", b"#\x02", b"__CRC32#\x010123456789\x02"])


@st.composite
def even_batches(draw: st.DrawFn) -> Record:
    """Bodies of one length and properties of one length, with anything in them."""
    count = draw(st.integers(EVEN_COUNT_MIN, EVEN_COUNT_MIN + 4))
    body_bytes, properties_bytes = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    end = draw(ENDS)
    flag = draw(st.integers(-(2**31), 2**31 - 1))
    items = [
        BatchItem(
            draw(st.binary(min_size=body_bytes, max_size=body_bytes)),
            draw(st.binary(min_size=properties_bytes, max_size=properties_bytes)) + end,
            flag,
        )
        for _ in range(count)
    ]
    return Record(
        draw(st.sampled_from(["T", "T" * 127, "%RETRY%" + "g" * 200])),
        encode_batch(items),
        queue_id=draw(st.integers(0, 2**31 - 1)),
        sys_flag=draw(st.integers(-(2**31), 2**31 - 1)),
        born_host=draw(HOSTS),
        store_host=draw(HOSTS),
    )


def one_by_one(batch: Record, append_crc: bool) -> EncodedBatch:
    """The same records by the way that all others take."""
    shared = batch_records._Shared(batch, append_crc)
    common = batch_records._common_fields(batch, shared.host_bits, 99)
    return batch_records._encode_one_by_one(bytes(batch.body), shared, common, 2**40, 2**50)


@given(even_batches(), st.booleans())
def test_records_of_even_items_are_those_made_one_by_one(batch: Record, append_crc: bool) -> None:
    """Byte for byte, with every head, flag and end of the properties."""
    expected = one_by_one(batch, append_crc)
    encoded = encode_batch_records(batch, 2**40, 2**50, 99, append_crc)
    assert encoded.data == expected.data
    assert encoded.sizes == expected.sizes
    assert encoded.properties.each == expected.properties.each


@pytest.mark.parametrize("count", [63, 64, 65, 128, 129])
def test_many_items_are_taken_apart_a_few_at_a_time(count: int) -> None:
    """None is lost where one call ends and the next begins."""
    items = [BatchItem(b"body %03d" % n, b"KEYS\x01%03d\x02" % n) for n in range(count)]
    batch = Record("T", encode_batch(items))
    expected = one_by_one(batch, append_crc=True)
    encoded = encode_batch_records(batch, 2**40, 2**50, 99, append_crc=True)
    assert encoded.data == expected.data
    assert encoded.properties.each == [item.properties_raw for item in items]


def even(properties: bytes, count: int = EVEN_COUNT_MIN) -> EvenItems:
    found = find_even_items(encode_batch([BatchItem(b"body", properties)] * count))
    assert found is not None
    return found


@pytest.mark.parametrize("append_crc", [False, True])
def test_the_quick_way_is_taken_where_it_can_be(
    append_crc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the test before this one would compare a thing with itself."""
    batch = Record("T", encode_batch([BatchItem(b"body", b"A\x01B\x02")] * EVEN_COUNT_MIN))
    monkeypatch.delattr(batch_records, "_encode_one_by_one")
    assert len(encode_batch_records(batch, 0, 0, 1, append_crc).sizes) == EVEN_COUNT_MIN


@pytest.mark.parametrize(
    ("properties", "ending"),
    [
        (b"", b""),
        (b"A\x01B\x02", b""),
        (b"A\x01#\x02", b""),
        (b"A\x01B", b"\x02"),
        (encode_crc_property(5), None),
    ],
)
def test_a_checksum_follows_properties_that_have_none(
    properties: bytes, ending: bytes | None
) -> None:
    """Behind a separator, which clients before 5.0 leave out at the end."""
    assert even(properties).ending_for_crc() == ending


def test_properties_that_end_in_different_ways_take_the_other_way() -> None:
    """An 02 more in some of the records would make them of two sizes."""
    items = [BatchItem(b"body", b"A\x01B" + end) for end in (b"\x02", b"C")]
    batch = Record("T", encode_batch(items * EVEN_COUNT_MIN))
    found = find_even_items(bytes(batch.body))
    assert found is not None
    assert found.ending_for_crc() is None
    encoded = encode_batch_records(batch, 2**40, 2**50, 99, append_crc=True)
    assert encoded.data == one_by_one(batch, append_crc=True).data


@pytest.mark.parametrize(
    "items",
    [
        [],
        [BatchItem(b"body")] * (EVEN_COUNT_MIN - 1),
        [BatchItem(b"body" * 100)] * (EVEN_COUNT_MIN - 1),
        [BatchItem(b"body")] * EVEN_COUNT_MIN + [BatchItem(b"longer")],
        [BatchItem(b"body", b"ab")] * EVEN_COUNT_MIN + [BatchItem(b"bo", b"abcd")],
        [BatchItem(b"body")] * EVEN_COUNT_MIN + [BatchItem(b"body", flag=1)],
    ],
)
def test_few_items_and_those_of_several_shapes_are_not_even(items: list[BatchItem]) -> None:
    assert find_even_items(encode_batch(items)) is None


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 0), (0, -1), (0, 7), (0, 29), (16, -1), (16, 2**31 - 1), (16, 5), (16, 3), (24, 2**24),
        (3 * 28, 29), (3 * 28 + 16, 5), (3 * 28 + 24, 2**24),
    ],
)  # fmt: skip
def test_a_length_out_of_place_is_not_even_and_refused(at: int, value: int) -> None:
    """Wherever it stands: each item has 28 bytes, the properties' length is at 24 of them."""
    data = bytearray(encode_batch([BatchItem(b"body", b"ab")] * EVEN_COUNT_MIN))
    struct.pack_into(">i", data, at, value)
    assert find_even_items(bytes(data)) is None
    with pytest.raises(RecordError, match="batch"):
        encode_batch_records(Record("T", bytes(data)), 0, 0, 1)


def test_numbers_and_properties_that_do_not_fit_are_refused() -> None:
    batch = Record("T", encode_batch([BatchItem(b"one")] * EVEN_COUNT_MIN))
    with pytest.raises(RecordError, match="does not fit its field"):
        encode_batch_records(batch, 2**63 - 2, 0, 1)
    longest = bytes(PROPERTIES_BYTES_MAX - 1) + b"\x02"
    batch.body = encode_batch([BatchItem(b"one", longest)] * EVEN_COUNT_MIN)
    assert len(encode_batch_records(batch, 0, 0, 1).sizes) == EVEN_COUNT_MIN
    with pytest.raises(RecordError, match="with their checksum"):
        encode_batch_records(batch, 0, 0, 1, append_crc=True)


def files_of(root: Path) -> dict[str, bytes]:
    """What a store has of messages: the log, the units of its queues and the index."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("commitlog", "consumequeue", "index")
        for path in (root / folder).rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("properties", ["TAGS\x01t\x02", ""])
def test_a_batch_leaves_the_files_that_its_messages_would_leave(
    tmp_path: Path, properties: str
) -> None:
    """Byte for byte, and whoever asks in between finds its messages by their keys."""
    settings = StoreSettings(
        segment_bytes=65_536, queue_file_bytes=2_000, index_slots=100, index_entries=1_000
    )
    together, apart = (
        Store(tmp_path / name, settings, clock_ms=lambda: 1_700_000_000_000, zone=UTC)
        for name in ("together", "apart")
    )
    together.open(1)
    apart.open(1)
    for number in range(100, 100 + 3 * EVEN_COUNT_MIN, EVEN_COUNT_MIN):
        items = [
            BatchItem(b"body %d" % n, f"UNIQ_KEY\x01U{n}\x02{properties}KEYS\x01a b\x02".encode())
            for n in range(number, number + EVEN_COUNT_MIN)
        ]
        batch = Record("T", encode_batch(items), queue_id=3)
        log_end = together.append_batch(batch).end
        for item in items:
            end = apart.append(Record("T", item.body, item.properties_raw, queue_id=3)).end
        assert log_end == end
        assert together.query("T", f"U{number + 1}", 1, 0, 1 << 60)
    together.close()
    apart.close()
    assert files_of(tmp_path / "together") == files_of(tmp_path / "apart")
    assert len(files_of(tmp_path / "apart")) > 2
