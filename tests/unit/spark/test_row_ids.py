"""Ids of rows: never twice, unless a row is written twice, and readable as a producer's."""

from roketto.protocol.ids import decode_unique_id
from roketto.spark.row_ids import HEX_DIGITS, FreshIds, RepeatedIds


def test_fresh_ids_rise_and_read_as_ids_of_a_producer() -> None:
    ids = FreshIds("10.0.0.7")
    first, second = ids.take(100_000), ids.take(3)
    assert first[-1] < second[0], "though less than a millisecond has passed"
    text = f"{ids.prefix}{int(first[5]):0{HEX_DIGITS}X}"
    assert len(text) == 32
    assert decode_unique_id(text).ip == bytes([10, 0, 0, 7])


def test_tasks_of_one_process_have_ids_of_their_own() -> None:
    assert FreshIds("10.0.0.7").prefix != FreshIds("10.0.0.7").prefix
    assert len(FreshIds("fe80::1").prefix) == len(FreshIds("a-name").prefix) == 20


def test_repeated_ids_are_the_same_for_the_same_rows_only() -> None:
    ids, again = RepeatedIds("sink", 7, 0), RepeatedIds("sink", 7, 0)
    assert ids.prefix == again.prefix
    assert ids.take(4).tolist() == [0, 1, 2, 3]
    assert ids.take(2).tolist() == [4, 5]
    assert again.take(6).tolist() == [0, 1, 2, 3, 4, 5]
    others = [RepeatedIds("sink", 7, 1), RepeatedIds("sink", 8, 0), RepeatedIds("sink-", 7, 0)]
    assert len({ids.prefix, *(other.prefix for other in others)}) == 4
