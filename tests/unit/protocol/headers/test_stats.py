"""Proves that the headers of consumption progress are the peer's."""

from roketto.protocol.headers import stats
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = stats


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_the_order_flag_of_broker_statistics_keeps_its_prefix() -> None:
    assert decode_header(stats.GetConsumeStatsInBrokerRequest, {"isOrder": "true"}).is_order
    assert not decode_header(stats.GetConsumeStatsInBrokerRequest, {"order": "true"}).is_order
