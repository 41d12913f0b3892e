"""Pieces of a buffer become arrays in the order that is asked for, with nulls where asked."""

import numpy as np
import pyarrow as pa

from roketto.spark.spans import constant_text, gather, take_spans

BUFFER = pa.py_buffer(b"abcdefghij")


def test_spans_come_in_their_order_wherever_they_lie() -> None:
    begins, ends = np.array([6, 0, 3]), np.array([8, 2, 3])
    found = take_spans(BUFFER, begins, ends, pa.binary())
    assert found.to_pylist() == [b"gh", b"ab", b""]
    assert take_spans(BUFFER, begins[:0], ends[:0], pa.string()).to_pylist() == []


def test_spans_may_be_missing_for_some_rows() -> None:
    is_there = np.array([False, True, False, True])
    found = take_spans(BUFFER, np.array([0, 5]), np.array([1, 7]), pa.string(), is_there)
    found.validate(full=True)
    assert found.to_pylist() == [None, "a", None, "fg"]
    nothing = take_spans(BUFFER, np.array([], np.int64), np.array([], np.int64), pa.string(),
                         np.array([False, False]))  # fmt: skip
    assert nothing.to_pylist() == [None, None]


def test_numbers_are_read_from_places_that_are_not_aligned() -> None:
    data = np.frombuffer(bytes(range(16)), np.uint8)
    assert gather(data, ">u2", np.array([1, 14, 0])).tolist() == [0x0102, 0x0E0F, 0x0001]


def test_constant_text_is_repeated_for_every_row() -> None:
    assert constant_text("日本", 3).to_pylist() == ["日本"] * 3
    assert constant_text("x", 0).to_pylist() == []
