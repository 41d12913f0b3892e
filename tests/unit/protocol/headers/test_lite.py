"""Proves that the headers of lite topics are the peer's."""

from roketto.protocol.headers import lite
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = lite


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_a_client_is_told_of_at_most_a_thousand_topics_unless_it_asks_for_more() -> None:
    assert decode_header(lite.GetLiteClientInfoRequest, None).max_count == 1000
    assert decode_header(lite.GetLiteClientInfoRequest, {"maxCount": "5000"}).max_count == 5000
