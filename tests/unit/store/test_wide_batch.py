"""Proves that very many items of one shape are recognised, and become the records of all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.errors import RecordError
from roketto.protocol.record import Record
from roketto.store import batch_records
from roketto.store.batch_records import encode_batch_records
from roketto.store.wide_batch import WIDE_COUNT_MIN, WideItems, find_wide_items
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


@given(batches(WIDE_COUNT_MIN, differing_max=4), st.booleans())
def test_records_of_wide_items_are_those_made_one_by_one(batch: Record, append_crc: bool) -> None:
    """Byte for byte, with every head, flag and end of the properties."""
    check_records(batch, append_crc=append_crc, seeks_even=False)


@pytest.mark.parametrize("append_crc", [False, True])
def test_the_wide_way_is_taken_where_it_can_be(
    append_crc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the test before this one would compare a thing with itself."""
    batch = Record("T", encode_batch([BatchItem(b"body", b"A\x01B\x02")] * WIDE_COUNT_MIN))
    monkeypatch.delattr(batch_records, "_encode_one_by_one")
    monkeypatch.delattr(batch_records, "find_even_items")
    encoded = encode_batch_records(batch, 0, 0, 1, append_crc, seeks_even=False)
    assert len(encoded.sizes) == WIDE_COUNT_MIN


def wide(properties: bytes, body: bytes = b"body") -> WideItems:
    found = find_wide_items(encode_batch([BatchItem(body, properties)] * WIDE_COUNT_MIN))
    assert found is not None
    return found


@pytest.mark.parametrize(("properties", "ending"), ENDINGS)
def test_a_checksum_follows_properties_that_have_none(
    properties: bytes, ending: bytes | None
) -> None:
    """Behind a separator, which clients before 5.0 leave out at the end."""
    assert wide(properties).ending_for_crc() == ending


def test_a_body_that_looks_like_a_checksum_is_left_to_the_other_way() -> None:
    body = b"__CRC32#\x01"
    assert wide(b"A\x01B\x02", body).ending_for_crc() is None
    batch = Record("T", encode_batch([BatchItem(body, b"A\x01B\x02")] * WIDE_COUNT_MIN))
    check_records(batch, append_crc=True)


def test_properties_that_end_in_different_ways_take_the_other_way() -> None:
    batch = ending_differently(WIDE_COUNT_MIN)
    found = find_wide_items(bytes(batch.body))
    assert found is not None
    assert found.ending_for_crc() is None
    check_records(batch, append_crc=True)


@pytest.mark.parametrize("items", unlike(WIDE_COUNT_MIN))
def test_few_items_and_those_of_several_shapes_are_not_wide(items: list[BatchItem]) -> None:
    assert find_wide_items(encode_batch(items)) is None


@pytest.mark.parametrize(("at", "value"), MISPLACED)
def test_a_length_out_of_place_is_not_wide_and_refused(at: int, value: int) -> None:
    data = misplace(WIDE_COUNT_MIN, at, value)
    assert find_wide_items(data) is None
    with pytest.raises(RecordError, match="batch"):
        encode_batch_records(Record("T", data), 0, 0, 1, seeks_even=False)


def test_numbers_and_properties_that_do_not_fit_are_refused() -> None:
    check_refusals(WIDE_COUNT_MIN, seeks_even=False)
