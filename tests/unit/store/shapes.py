"""Batches whose items have one shape, and such whose items almost do.

There are two quick ways to their records, for a few items (even_batch.py) and for hundreds
(wide_batch.py); both must come to the records of all other batches, byte for byte.
"""

import struct
from typing import Final

import pytest
from hypothesis import strategies as st

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.crc import encode_crc_property
from roketto.protocol.errors import RecordError
from roketto.protocol.limits import PROPERTIES_BYTES_MAX
from roketto.protocol.record import Record
from roketto.store import batch_records
from roketto.store.batch_records import EncodedBatch, encode_batch_records

ENDINGS: Final[list[tuple[bytes, bytes | None]]] = [
    (b"", b""),
    (b"A\x01B\x02", b""),
    (b"A\x01#\x02", b""),
    (b"A\x01B", b"\x02"),
    (encode_crc_property(5), None),
]
"""Properties, and what has to come between them and a checksum; None if they have one."""

MISPLACED: Final = [
    (0, 0), (0, -1), (0, 7), (0, 29), (16, -1), (16, 2**31 - 1), (16, 5), (16, 3), (24, 2**24),
    (3 * 28, 29), (3 * 28 + 16, 5), (3 * 28 + 24, 2**24),
]  # fmt: skip
"""Places in a batch of items of 28 bytes, the properties' length at 24 of them, and lengths that do
not belong there."""

_HOSTS: Final = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
_ENDS: Final = st.sampled_from([b"", b"\x02", b"#\x02", b"__CRC32#\x010123456789\x02"])


@st.composite
def batches(draw: st.DrawFn, count_least: int, differing_max: int) -> Record:
    """Bodies of one length and properties of one length; so many of them have anything in them, and
    are repeated.
    """
    count = draw(st.integers(count_least, count_least + 4))
    body_bytes, properties_bytes = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    end = draw(_ENDS)
    flag = draw(st.integers(-(2**31), 2**31 - 1))
    some = [
        BatchItem(
            draw(st.binary(min_size=body_bytes, max_size=body_bytes)),
            draw(st.binary(min_size=properties_bytes, max_size=properties_bytes)) + end,
            flag,
        )
        for _ in range(min(count, differing_max))
    ]
    return Record(
        draw(st.sampled_from(["T", "T" * 127, "%RETRY%" + "g" * 200])),
        encode_batch((some * count)[:count]),
        queue_id=draw(st.integers(0, 2**31 - 1)),
        sys_flag=draw(st.integers(-(2**31), 2**31 - 1)),
        born_host=draw(_HOSTS),
        store_host=draw(_HOSTS),
    )


def check_records(batch: Record, *, append_crc: bool, seeks_even: bool = True) -> EncodedBatch:
    """The records of a batch, which are those that are made one by one."""
    shared = batch_records._Shared(batch, append_crc)
    common = batch_records._common_fields(batch, shared.host_bits, 99)
    expected = batch_records._encode_one_by_one(
        bytes(batch.body), shared, common, 2**40, 2**50
    )  # fmt: skip
    encoded = encode_batch_records(batch, 2**40, 2**50, 99, append_crc, seeks_even)
    assert encoded.data == expected.data
    assert encoded.sizes == expected.sizes
    assert encoded.properties.each == expected.properties.each
    return encoded


def unlike(count_least: int) -> list[list[BatchItem]]:
    """Items that are too few, or of several shapes."""
    return [
        [],
        [BatchItem(b"body")] * (count_least - 1),
        [BatchItem(b"body" * 100)] * (count_least - 1),
        [BatchItem(b"body")] * count_least + [BatchItem(b"longer")],
        [BatchItem(b"body", b"ab")] * count_least + [BatchItem(b"bo", b"abcd")],
        [BatchItem(b"body")] * count_least + [BatchItem(b"body", flag=1)],
    ]


def ending_differently(count: int) -> Record:
    """An 02 more in some of the records would make them of two sizes."""
    items = [BatchItem(b"body", b"A\x01B" + end) for end in (b"\x02", b"C")]
    return Record("T", encode_batch(items * count))


def misplace(count: int, at: int, value: int) -> bytes:
    """A batch with one of MISPLACED."""
    data = bytearray(encode_batch([BatchItem(b"body", b"ab")] * count))
    struct.pack_into(">i", data, at, value)
    return bytes(data)


def check_refusals(count: int, *, seeks_even: bool = True) -> None:
    """Numbers and properties that do not fit are refused."""
    batch = Record("T", encode_batch([BatchItem(b"one")] * count))
    with pytest.raises(RecordError, match="does not fit its field"):
        encode_batch_records(batch, 2**63 - 2, 0, 1, seeks_even=seeks_even)
    longest = bytes(PROPERTIES_BYTES_MAX - 1) + b"\x02"
    batch.body = encode_batch([BatchItem(b"one", longest)] * count)
    assert len(encode_batch_records(batch, 0, 0, 1, seeks_even=seeks_even).sizes) == count
    with pytest.raises(RecordError, match="with their checksum"):
        encode_batch_records(batch, 0, 0, 1, append_crc=True, seeks_even=seeks_even)
