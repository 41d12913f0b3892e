"""Figures have Java's bytes; doubles are written as Java writes them."""

import msgspec
from hypothesis import given

from roketto.protocol.bodies import stats
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.stats import ConsumeStats, TopicStatsTable
from unit.protocol.bodies.families import bodies, check_golden, check_round_trip


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(stats) == 15


@given(bodies(stats))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


def test_rate_that_is_no_number_reads_as_zero() -> None:
    text = encode_body(ConsumeStats(consume_tps=float("nan")))
    assert text == b'{"consumeTps":null,"offsetTable":{}}'
    assert decode_body(ConsumeStats, text).consume_tps == 0.0


def test_table_of_4_9_has_no_put_rate() -> None:
    assert decode_body(TopicStatsTable, b'{"offsetTable":{}}').topic_put_tps == 0.0
