"""Proves that items of one shape are recognised, and that their records are those of all others."""

from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.errors import RecordError
from roketto.protocol.record import Record
from roketto.store import batch_records
from roketto.store.batch_records import encode_batch_records
from roketto.store.even_batch import EVEN_COUNT_MIN, EvenItems, find_even_items
from roketto.store.store import Store, StoreSettings
from unit.store.shapes import (
    ENDINGS,
    MISPLACED,
    batches,
    check_records,
    check_refusals,
    ending_differently,
    misplace,
    unlike,
)


@given(batches(EVEN_COUNT_MIN, differing_max=EVEN_COUNT_MIN + 4), st.booleans())
def test_records_of_even_items_are_those_made_one_by_one(batch: Record, append_crc: bool) -> None:
    """Byte for byte, with every head, flag and end of the properties."""
    check_records(batch, append_crc=append_crc)


@pytest.mark.parametrize("count", [63, 64, 65, 128, 129])
def test_many_items_are_taken_apart_a_few_at_a_time(count: int) -> None:
    """None is lost where one call ends and the next begins."""
    items = [BatchItem(b"body %03d" % n, b"KEYS\x01%03d\x02" % n) for n in range(count)]
    batch = Record("T", encode_batch(items))
    encoded = check_records(batch, append_crc=True)
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


@pytest.mark.parametrize(("properties", "ending"), ENDINGS)
def test_a_checksum_follows_properties_that_have_none(
    properties: bytes, ending: bytes | None
) -> None:
    """Behind a separator, which clients before 5.0 leave out at the end."""
    assert even(properties).ending_for_crc() == ending


def test_properties_that_end_in_different_ways_take_the_other_way() -> None:
    batch = ending_differently(EVEN_COUNT_MIN)
    found = find_even_items(bytes(batch.body))
    assert found is not None
    assert found.ending_for_crc() is None
    check_records(batch, append_crc=True)


@pytest.mark.parametrize("items", unlike(EVEN_COUNT_MIN))
def test_few_items_and_those_of_several_shapes_are_not_even(items: list[BatchItem]) -> None:
    assert find_even_items(encode_batch(items)) is None


@pytest.mark.parametrize(("at", "value"), MISPLACED)
def test_a_length_out_of_place_is_not_even_and_refused(at: int, value: int) -> None:
    data = misplace(EVEN_COUNT_MIN, at, value)
    assert find_even_items(data) is None
    with pytest.raises(RecordError, match="batch"):
        encode_batch_records(Record("T", data), 0, 0, 1)


def test_numbers_and_properties_that_do_not_fit_are_refused() -> None:
    check_refusals(EVEN_COUNT_MIN)


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
