"""Properties of many records taken apart at once are what each of them gives by itself."""

import random

import numpy as np
import pyarrow as pa
import pytest

from roketto.protocol.crc import encode_crc_property
from roketto.protocol.properties import decode_properties, remove_property
from roketto.protocol.property_names import CRC32
from roketto.protocol.utf8 import decode_utf8
from roketto.spark.property_table import PropertyTable

MAP = pa.map_(pa.string(), pa.string())
CRC = encode_crc_property(1_234_567_890)

ROWS = [
    b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02",
    b"",
    b"KEYS\x01no end",  # as clients of 4.x leave it
    b"\x02first byte ends an item\x01x\x02",
    b"A\x01\x02\x01B\x02C\x02D\x01d\x02",  # no value, no name, no separator
    b"A\x01one\x01more\x02",
    b"TAGS\x01old\x02X\x01y\x02TAGS\x01new\x02",
    b"TAGS\x01kept\x02TAGS\x01\x02",
    b"A\x01b\x02" + CRC,
    CRC,
    b"A\x01b\x02" + CRC + b"C\x01d\x02",  # a producer's idea of a CRC, not in its place
    "名前\x01値\x02TAGS\x01日本\x02".encode(),
    b"bad\x01\xff\xfe\x02TAGS\x01\xed\xa0\x80\x02",
    b"attribute1\x01a\x02attribute2\x01b\x02attribute1\x01c\x02",
    b"UNIQ_KEY\x017F000001\x02UNIQ_KEYS\x01other\x02UNIQ_KE\x01another\x02",
    b"\x02\x02\x02",
    b"Z\x01z",
]


def table_of(rows: list[bytes]) -> PropertyTable:
    """The rows with other bytes between them, as in a log."""
    buffer = b"#".join([b"", *rows, b""])
    begins = np.cumsum([1, *[len(row) + 1 for row in rows]], dtype=np.int64)
    return PropertyTable(pa.py_buffer(buffer), begins[:-1], begins[1:] - 1)


def check(rows: list[bytes]) -> None:
    expected = [decode_properties(row) for row in rows]
    for properties in expected:
        properties.pop(CRC32, None)
    table = table_of(rows)
    for name in ("TAGS", "KEYS", "UNIQ_KEY", "A"):
        assert table.values_of(name).to_pylist() == [one.get(name) for one in expected]
    texts = [decode_utf8(remove_property(row, CRC32)) for row in rows]
    assert table.as_text().to_pylist() == texts
    made = table.as_map(MAP)
    made.validate(full=True)
    assert [dict(row) for row in made.to_pylist()] == expected
    assert [len(row) for row in made.to_pylist()] == [len(one) for one in expected]


@pytest.mark.parametrize("row", ROWS)
def test_row_by_itself_gives_what_the_protocol_gives(row: bytes) -> None:
    check([row])


def test_all_rows_together_give_what_each_gives() -> None:
    check(ROWS)
    check([])


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_any_bytes_give_what_the_protocol_gives(seed: int) -> None:
    chance = random.Random(seed)
    pieces = [b"\x01", b"\x02", b"A", b"TAGS", b"KEYS\x01", "é".encode(), b"\xc3", b"\xa9", CRC]
    weights = [8, 8, 4, 2, 2, 1, seed % 2, seed % 2, seed % 3]
    check(
        [
            b"".join(chance.choices(pieces, weights, k=chance.randrange(12)))
            for _ in range(chance.randrange(1, 40))
        ]
    )


def test_characters_cut_between_two_rows_are_not_joined() -> None:
    check([b"A\x01\xc3", b"\xa9\x01x\x02"])
