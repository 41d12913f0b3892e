"""Proves that the headers of replication are the peer's."""

from roketto.protocol.headers import replication
from roketto.protocol.headers.base import Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = replication


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_a_question_for_the_master_has_no_field() -> None:
    assert encode_header(replication.ExchangeHaInfoRequest()) == {}
    assert decode_header(replication.ExchangeHaInfoRequest, None).master_ha_address is None
